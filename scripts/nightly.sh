#!/usr/bin/env bash
# nightly.sh - what ./test.sh leaves out because it takes hours: each night, and before a release.
# docs/development.md says what each step proves. The last line is 'N passed, N failed', of steps; the
# exit status is 0 only if none failed.
set -uo pipefail

steps=(release asan tsan tidy programs fuzz truths module debug installs packages trixie)

usage() {
    cat <<EOF
usage: scripts/nightly.sh [STEP...]

  release, asan, tsan   builds that preset and runs its tests of the label nightly (20 minutes in
                        all; with machines of 64-bit ARM, scripts/setup.sh arm64, half an hour more)
  tidy                  clang-tidy, scripts/lint.sh tidy (10 minutes)
  programs              large programs under each mode, tests/programs/large_programs.sh (15
                        minutes)
  fuzz                  every fuzzer for ten minutes, scripts/fuzz.sh 10
  truths                every verdict on every pattern, tests/lab/truths (2 hours)
  packages              the Debian packages built, installed, used and purged in a new Debian,
                        scripts/check-chroot.sh (10 minutes)
  trixie                demo.sh, test.sh and a build with clang in a new Debian 13,
                        scripts/check-trixie.sh (an hour)
  module                the kernel module's fuzzer for ten minutes, tests/lab/kmod_fuzz.sh 10
  debug                 the module's tests under a kernel with lockdep and KASAN, which is built first,
                        tests/lab/kernel_debug.sh
  installs              the kernel module installed as its page says, in machines with Debian 12 and
                        13, tests/lab/kmod_install.sh (40 minutes)
  (none named)          all of them

What each said is in build/nightly/STEP.log.
EOF
}

for step in "$@"; do
    if [[ $step == -h || $step == --help ]]; then
        usage
        exit 0
    fi
    if [[ " ${steps[*]} " != *" $step "* ]]; then
        echo "nightly.sh: there is no step '$step'; see scripts/nightly.sh --help" >&2
        exit 2
    fi
done
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
wanted=("$@")
[[ ${#wanted[@]} -gt 0 ]] || wanted=("${steps[@]}")
mkdir -p build/nightly

built() { scripts/configure.sh "$1" -DNUMALLOC_TESTS=ON -DNUMALLOC_NIGHTLY=ON -DNUMALLOC_WERROR=ON && cmake --build --preset "$1" -j "$(nproc)"; }

tests() {
    local run=()
    # Without address-space randomisation, as in test.sh.
    if [[ $1 != release ]] && setarch -R true 2>/dev/null; then run=(setarch -R); fi
    built "$1" && "${run[@]+"${run[@]}"}" ctest --preset "$1" -C nightly -L nightly -j "$(nproc)"
}

# What moves blocks runs on machines with several nodes only.
mover() {
    tests/lab/run --env NUMALLOC_POLICY_MOVE=50 --env NUMALLOC_PROFILE=sites \
        --env NUMALLOC_PROFILE_FILE=/tmp/moved.nprof --file "$1"/tests/libconform-policy-lib.so \
        2nodes -- "$1"/tests/conform-policy_threads 40 move
}

library=$PWD/build/release/libnumalloc.so
step() {
    case $1 in
    release | asan) tests "$1" ;;
    tsan) tests tsan && mover "$PWD/build/tsan" ;;
    tidy) built release && scripts/lint.sh tidy ;;
    programs) built release && tests/programs/large_programs.sh "$library" build/release/numalloc-dump ;;
    fuzz) built asan && scripts/fuzz.sh 10 ;;
    truths) built release && tests/lab/truths ;;
    packages) scripts/check-chroot.sh ;;
    trixie) scripts/check-trixie.sh ;;
    installs) tests/lab/kmod_install.sh ;;
    module) built release && tests/lab/kmod_fuzz.sh 10 ;;
    debug) built release && tests/lab/kernel_debug.sh ;;
    esac
}

passed=0 failed=0
for name in "${wanted[@]}"; do
    printf '== %s\n' "$name"
    started=$SECONDS
    if step "$name" >"build/nightly/$name.log" 2>&1; then
        passed=$((passed + 1))
        printf 'passed (%d s)\n' $((SECONDS - started))
    else
        failed=$((failed + 1))
        tail -n 40 "build/nightly/$name.log"
        printf 'failed (%d s): build/nightly/%s.log\n' $((SECONDS - started)) "$name"
    fi
done
echo "$passed passed, $failed failed"
[[ $failed -eq 0 && $passed -gt 0 ]]
