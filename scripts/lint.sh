#!/usr/bin/env bash
# lint.sh - the form and the common mistakes of the C sources: clang-format and clang-tidy.
set -euo pipefail

usage() {
    cat <<EOF
usage: scripts/lint.sh [format|tidy] [BUILD_DIR]

  format      every C and C++ file of the repository is as .clang-format wants it
  tidy        clang-tidy (.clang-tidy) over the library and the tools, with BUILD_DIR's compile
              commands (default: build/release; a preset that clang can read)
  (neither)   both
EOF
}

what=both
case ${1:-} in
format | tidy)
    what=$1
    shift
    ;;
-h | --help)
    usage
    exit 0
    ;;
esac
start=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
build=$root/build/release
if [[ $# -gt 0 ]]; then
    build=$(cd "$start" && cd "$1" 2>/dev/null && pwd) || {
        echo "lint: no directory '$1'; see scripts/lint.sh --help" >&2
        exit 2
    }
fi

need() {
    command -v "$1" >/dev/null || {
        echo "lint: skipped: $1 is missing; scripts/setup.sh installs it" >&2
        exit 77
    }
}

failed=0
if [[ $what != tidy ]]; then
    need clang-format
    # Each version has a form of its own in some places.
    [[ $(clang-format --version) == *" version 14."* ]] || {
        echo "lint: skipped: the form is that of clang-format 14, and this is $(clang-format --version)" >&2
        exit 77
    }
    find alloc pagemap profiler bench include kmod-ibs tests docs -name '*.[ch]' -o -name '*.cpp' | sort |
        xargs -P "$(nproc)" -n 16 clang-format --dry-run -Werror || {
        echo "lint: mend the format with 'clang-format -i FILE...'" >&2
        failed=1
    }
fi
if [[ $what != format ]]; then
    need clang-tidy
    commands=$build/compile_commands.json
    [[ -r $commands ]] || {
        echo "lint: no $commands; run 'cmake --preset release' first" >&2
        exit 1
    }
    # Only files that are compiled have a command; options that clang does not know are gcc's.
    grep -o '"file": "[^"]*"' "$commands" | cut -d'"' -f4 |
        grep -E "^$root/(alloc|pagemap|profiler|bench)/.*\.c$" | sort -u |
        xargs -P "$(nproc)" -n 4 clang-tidy --quiet -p "$build" \
            --extra-arg=-Wno-unknown-warning-option 2> >(grep -v 'warnings generated' >&2) || failed=1
fi
[[ $failed -eq 0 ]] && echo "lint: ok"
exit $failed
