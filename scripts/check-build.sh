#!/usr/bin/env bash
# check-build.sh - what a build without the tests' packages does: CMake leaves the tests out and says
# so, or fails where they were asked for; and the script that joins the HTML page refuses what it does
# not understand.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

die() {
    echo "check-build: $*" >&2
    exit 1
}

echo "== CMake without what tests need"
mkdir "$scratch/pc"
# What pkg-config may find: that of the group [build] of scripts/packages.
for module in libdw libelf zlib liblzma libzstd; do
    file=$(pkg-config --path "$module" 2>/dev/null) || continue
    cp "$file" "$scratch/pc/"
done
configure() { # TESTS [OPTION]: the output in $scratch/log
    rm -rf "$scratch/build"
    env -u PKG_CONFIG_PATH PKG_CONFIG_LIBDIR="$scratch/pc" cmake -G Ninja -S "$source" -B "$scratch/build" \
        -DCMAKE_BUILD_TYPE=RelWithDebInfo -DNUMALLOC_TESTS="$1" "${@:2}" -DNUMALLOC_KMOD=OFF >"$scratch/log" 2>&1
}
configure AUTO || die "it fails: $(cat "$scratch/log")"
grep -qF "The tests are left out: criterion not found (scripts/setup.sh installs it)" "$scratch/log" ||
    die "it does not say that tests are left out: $(cat "$scratch/log")"
[[ ! -e $scratch/build/tests ]] || die "there are tests"
grep -q "^build libnumalloc.so: \|^build numalloc-dump: " "$scratch/build/build.ninja" || die "there is no numalloc-dump"
configure OFF -DCMAKE_INSTALL_LIBDIR=/opt/numalloc/lib || die "NUMALLOC_TESTS=OFF fails: $(cat "$scratch/log")"
libdir=$(PKG_CONFIG_PATH=$scratch/build pkg-config --variable=libdir numalloc)
[[ $libdir == /opt/numalloc/lib ]] || die "numalloc.pc has the libraries in '$libdir', not in /opt/numalloc/lib"
! grep -q "tests are left out" "$scratch/log" || die "NUMALLOC_TESTS=OFF says what nobody asked"
! configure ON || die "NUMALLOC_TESTS=ON goes on without Criterion"
grep -qi criterion "$scratch/log" || die "NUMALLOC_TESTS=ON does not name Criterion: $(cat "$scratch/log")"

# Of one that only one test wants that test is left out, by name.
for folder in $(pkg-config --variable=pc_path pkg-config | tr : ' '); do cp -n "$folder"/*.pc "$scratch/pc/" 2>/dev/null || true; done
rm -f "$scratch"/pc/libunwind*.pc
if PKG_CONFIG_LIBDIR="$scratch/pc" pkg-config --exists criterion; then
    configure ON || die "NUMALLOC_TESTS=ON fails without libunwind: $(cat "$scratch/log")"
    ctest --test-dir "$scratch/build" -R '^unit.test_unwind$' -V >"$scratch/log" || die "without libunwind: $(cat "$scratch/log")"
    grep -q "skipped: libunwind.h is missing; install the package libunwind-dev" "$scratch/log" || die "who needs libunwind? $(cat "$scratch/log")"
fi

echo "== the page's script"
bundle() { cmake -DSOURCES="$scratch/report" -DOUTPUT="$scratch/page.html" -P "$source/profiler/report/bundle.cmake" >"$scratch/log" 2>&1; }
fresh() {
    rm -rf "$scratch/report" "$scratch/page.html"
    mkdir -p "$scratch/report/src/pages"
    cp "$source/profiler/report/page.html" "$scratch/report/"
    echo 'body { margin: 0; }' >"$scratch/report/src/style.css"
    printf "import { twice } from './pages/twice.js';\n\nconsole.log(twice(21), [1, 2, 3], 'a;b');\n" >"$scratch/report/src/main.js"
    printf "// Doubles.\nimport { sum } from '../sum.js';\n\nconst local = 2;\nexport function twice(x) {\n  return sum(x, x) * local / 2;\n}\n" >"$scratch/report/src/pages/twice.js"
    printf "export const sum = (a, b) => (local ? a + b : 0);\nconst local = 'its own';\n" >"$scratch/report/src/sum.js"
}
refused() { # TEXT: bundle fails, and says so
    ! bundle || die "it takes: $1"
    tr -s ' \n' ' ' <"$scratch/log" | grep -F "$1" >/dev/null || die "instead of '$1': $(cat "$scratch/log")"
    [[ ! -e $scratch/page.html ]] || die "there is a page all the same: $1"
}
fresh
bundle || die "it refuses: $(cat "$scratch/log")"
if command -v node >/dev/null; then
    awk '/<script>/ { on = 1; sub(/.*<script>/, "") } /<\/script>/ && on { exit } on' "$scratch/page.html" >"$scratch/script.js"
    said=$(node "$scratch/script.js")
    [[ $said == "42 [ 1, 2, 3 ] a;b" ]] || die "the joined script says: $said"
fi
fresh
echo "import all from './sum.js';" >>"$scratch/report/src/main.js"
refused "does not know this form: import all from './sum.js';"
fresh
echo "export default 1;" >>"$scratch/report/src/sum.js"
refused "does not know this form: export default 1;"
fresh
sed -i 's/{ twice }/{ twice, thrice }/' "$scratch/report/src/main.js"
refused "imports 'thrice', which"
fresh
sed -i "1i import { twice } from './pages/twice.js';" "$scratch/report/src/sum.js"
refused "imports itself through others"
fresh
echo "console.log('</script>');" >>"$scratch/report/src/main.js"
refused "hold a closing tag"
echo "check-build: ok"
