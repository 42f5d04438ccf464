#!/usr/bin/env bash
# test.sh - everything a change must pass: builds the release, runs all tests, builds with
# AddressSanitizer + UBSan and with ThreadSanitizer and runs the tests that can run there. (What takes
# longer: scripts/nightly.sh.)
# The last line is 'N passed, N failed'; the exit status is 0 only if none failed.
set -uo pipefail

quick='lint package unit conform quick'

usage() {
    cat <<EOF
usage: ./test.sh [--quick|--ibs] [--jobs N] [--no-setup]

Sets up missing packages, builds and tests the presets release, asan and tsan in build/<preset>/.

  --quick      the release preset only, and of its tests the labels $quick
  --ibs        the release preset only, and of its tests those on processors with AMD's
               instruction-based sampling; builds the emulator that has them first, which takes
               a quarter of an hour once (tests/lab/ibs)
  --jobs N     N build jobs at a time (default: the number of processors), and twice as many
               tests, since many wait
  --no-setup   install nothing, even if packages are missing
EOF
}

presets=(release asan tsan)
only=()
jobs=$(nproc)
setup=1
packages=test
while [[ $# -gt 0 ]]; do
    case $1 in
    --quick)
        presets=(release)
        only=(-L "^(${quick// /|})\$")
        ;;
    --ibs)
        presets=(release)
        packages=ibs
        only=(-C nightly -R '^lab\.(ibs|blind|zen[23]|lines(_zen2)?|kinds)\.')
        ;;
    --no-setup) setup=0 ;;
    --jobs)
        jobs=${2:-}
        if ! [[ $jobs =~ ^[1-9][0-9]*$ ]]; then
            echo "test.sh: --jobs needs a number of 1 or more, not '$jobs'" >&2
            exit 2
        fi
        shift
        ;;
    -h | --help)
        usage
        exit 0
        ;;
    *)
        echo "test.sh: unknown argument '$1'; see ./test.sh --help" >&2
        exit 2
        ;;
    esac
    shift
done

cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
started=$SECONDS
passed=0 failed=0 skipped=0
notes=()

say() { printf '\n== %s (%d s)\n' "$*" $((SECONDS - started)); }

finish() {
    say "summary"
    local note
    for note in "${notes[@]+"${notes[@]}"}"; do echo "$note"; done
    [[ $skipped -eq 0 ]] || echo "$skipped skipped (a test says why in build/<preset>/Testing)"
    echo "$passed passed, $failed failed"
    [[ $failed -eq 0 && $passed -gt 0 ]]
    exit
}

# Adds up a JUnit file of ctest. It is missing or empty if ctest itself did not get through.
count() {
    local preset=$1 file=$2 head tests failures skips disabled
    head=$(tr '\n\t' '  ' <"$file" 2>/dev/null | grep -o '<testsuite [^>]*>')
    number() { sed -n "s/.* $1=\"\([0-9]*\)\".*/\1/p" <<<"$head"; }
    tests=$(number tests) failures=$(number failures)
    skips=$(number skipped) disabled=$(number disabled)
    if [[ -z $tests || -z $failures || $tests -eq 0 ]]; then
        failed=$((failed + 1))
        notes+=("$preset: ctest gave no result (counted as one failure)")
        return
    fi
    skips=$((${skips:-0} + ${disabled:-0}))
    passed=$((passed + tests - failures - skips))
    failed=$((failed + failures))
    skipped=$((skipped + skips))
    notes+=("$preset: $((tests - failures - skips)) passed, $failures failed, $skips skipped")
}

# build PRESET [TESTS]: its output is build/PRESET/build.log, its status build/PRESET/build.status.
build() {
    local preset=$1 tests=${2:-ON} rc=0
    mkdir -p "build/$preset"
    rm -f "build/$preset/build.status"
    { scripts/configure.sh "$preset" "-DNUMALLOC_TESTS=$tests" -DNUMALLOC_NIGHTLY=OFF -DNUMALLOC_WERROR=ON &&
        cmake --build --preset "$preset" -j "$jobs"; } >"build/$preset/build.log" 2>&1 || rc=$?
    echo "$rc" >"build/$preset/build.status"
}

# behind COMMAND...: runs it beside what follows, in the time that this leaves; `wait "$later"`.
later=
behind() {
    set -m # a process group of its own
    (
        renice -n 19 "$BASHPID" >/dev/null 2>&1
        "$@"
    ) &
    later=$!
    set +m
}
trap '[[ -z $later ]] || kill -- "-$later" 2>/dev/null' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if [[ $setup -eq 1 ]]; then
    say "setup"
    set_up() {
        scripts/setup.sh "$1" || {
            failed=1
            notes+=("setup failed (counted as one failure)")
            finish
        }
    }
    # Most packages are for the tests: what users get is built while those are installed.
    if ! scripts/setup.sh $packages --check 2>/dev/null; then
        set_up build
        behind build release OFF
    fi
    set_up $packages
    [[ -z $later ]] || wait "$later"
    later=
fi

if [[ $packages == ibs ]]; then
    say "the emulator with IBS"
    tests/lab/ibs/build.sh || {
        failed=1
        notes+=("the emulator was not built (counted as one failure)")
        finish
    }
fi

# The later presets are built while the first is tested.
for preset in "${presets[@]}"; do
    say "$preset: configure and build"
    if [[ $preset == release ]]; then
        build release
        later_presets() { for preset in "${presets[@]:1}"; do build "$preset"; done; }
        [[ ${#presets[@]} -eq 1 ]] || behind later_presets
    elif [[ -n $later ]]; then
        wait "$later"
        later=
    fi
    if [[ $(cat "build/$preset/build.status") != 0 ]]; then
        tail -n 60 "build/$preset/build.log"
        failed=$((failed + 1))
        notes+=("$preset: the build failed (counted as one failure); see build/$preset/build.log")
        continue
    fi
    tail -n 1 "build/$preset/build.log"

    say "$preset: tests"
    junit=$PWD/build/$preset/tests.xml
    rm -f "$junit"
    # Without address-space randomisation: the sanitizers' shadow layouts do not fit every kernel's.
    run=()
    if [[ $preset != release ]] && setarch -R true 2>/dev/null; then
        run=(setarch -R)
    fi
    "${run[@]+"${run[@]}"}" ctest --preset "$preset" "${only[@]+"${only[@]}"}" -j $((2 * jobs)) \
        --output-junit "$junit"
    count "$preset" "$junit"
done
finish
