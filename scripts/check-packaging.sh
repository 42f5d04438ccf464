#!/usr/bin/env bash
# check-packaging.sh BUILD_DIR - the recipes of packaging/: of the version that the header has, and read by
# the languages that they are written in; the Rust crates built, tested and their example run, by rustc, and
# where there is one by cargo; the PKGBUILD's functions with an installed tree in place of a build; that
# every C function that the crate names is exported, with structures of the sizes that C has.
set -euo pipefail
export LC_ALL=C.UTF-8
[[ $# -eq 1 && -f $1/libnumalloc.so ]] || {
    echo "usage: $0 BUILD_DIR (a built tree such as build/release)" >&2
    exit 2
}
built=$(cd "$1" && pwd)
cd "$(dirname "$0")/../packaging"
fail() {
    echo "check-packaging: $*" >&2
    exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

version=$(sed -n 's/^#define NUMALLOC_VERSION_[A-Z]* //p' ../include/numalloc/numalloc.h | paste -sd.)
has() { # FILE TEXT
    grep -qF -- "$2" "$1" || fail "$1 does not have: $2 (the version of include/numalloc/numalloc.h)"
}
has spack/numalloc/package.py "version(\"$version\")"
has spack/numalloc/package.py "numalloc-$version.tar.gz"
has vcpkg/numalloc/vcpkg.json "\"version\": \"$version\""
has nix/default.nix "version = \"$version\";"
has aur/PKGBUILD "pkgver=$version"
has rust/numalloc-sys/Cargo.toml "version = \"$version\""
has rust/numalloc/Cargo.toml "version = \"$version\""
has rust/numalloc/Cargo.toml "numalloc-sys = { version = \"$version\","

python3 - <<'PYTHON' || fail "a recipe is not read"
import ast, json
ast.parse(open("spack/numalloc/package.py").read())
json.load(open("vcpkg/numalloc/vcpkg.json"))
PYTHON
# Options that recipes give are options of CMakeLists.txt.
grep -ohE 'NUMALLOC_(TESTS|DUMP|NUMA)\b' spack/numalloc/package.py vcpkg/numalloc/portfile.cmake nix/default.nix aur/PKGBUILD |
    sort -u | while read -r option; do grep -qE "(option|set)\\($option\\b" ../CMakeLists.txt || fail "no option $option"; done

# The PKGBUILD's functions; cmake here says only what it is asked.
(
    set +u
    # shellcheck disable=SC2034 # read by package()
    srcdir=$work pkgdir=$work/pkg
    cmake() { echo "$DESTDIR: $*" >>"$work/asked"; }
    # shellcheck source=/dev/null
    . aur/PKGBUILD
    cd "$work"
    mkdir "numalloc-$version"
    cp "$OLDPWD/../LICENSE" "numalloc-$version/"
    build && package
) || fail "the PKGBUILD's functions fail"
grep -qx "$work/pkg: --install build" "$work/asked" && [[ -f $work/pkg/usr/share/licenses/numalloc/LICENSE ]] ||
    fail "the PKGBUILD installs nothing: $(cat "$work/asked")"

command -v rustc >/dev/null || {
    echo "check-packaging: skipped: rustc is missing" >&2
    exit 77
}
export LD_LIBRARY_PATH=$built
sys=rust/numalloc-sys/src/lib.rs
sed -n 's/^    pub fn \(numalloc_[a-z_]*\)(.*/\1/p' $sys | sort >"$work/named"
[[ -s $work/named ]] && sort ../tests/conform/exports.txt | comm -23 "$work/named" - >"$work/missing"
[[ ! -s $work/missing ]] || fail "numalloc-sys names what the library has not: $(xargs <"$work/missing")"
rust() { # CRATE_TYPE NAME SOURCE [OPTION...]
    rustc --edition 2021 --crate-type "$1" --crate-name "$2" "$3" --out-dir "$work" -L "$work" -L "native=$built" "${@:4}"
}
rust rlib numalloc_sys $sys -l dylib=numalloc
rust rlib numalloc rust/numalloc/src/lib.rs --extern numalloc_sys
rust bin server rust/numalloc/examples/server.rs --extern numalloc
rust bin all rust/numalloc/tests/all.rs --test --extern numalloc
"$work/server" >"$work/said" || fail "the example: status $?"
grep -qx "numalloc $version: [0-9]* bytes of profile" "$work/said" || fail "the example says $(cat "$work/said")"
TMPDIR=$work "$work/all" >"$work/said" 2>&1 || fail "the crate's tests: $(tail -n 30 "$work/said")"
grep -q '^test result: ok. 5 passed' "$work/said" || fail "the crate's tests: $(tail -n 5 "$work/said")"

# Sizes of structures, as C has them.
names=$(sed -n 's/^pub struct \(numalloc_[a-z_]*_t\) {/\1/p' $sys | grep -v heap_t)
{
    echo 'fn main() {'
    for name in $names; do echo "println!(\"{}\", std::mem::size_of::<numalloc_sys::$name>());"; done
    echo '}'
} >"$work/sizes.rs"
{
    echo '#include <numalloc/numalloc.h>'
    echo '#include <stdio.h>'
    echo 'int main(void) {'
    for name in $names; do echo "printf(\"%zu\\n\", sizeof($name));"; done
    echo '}'
} >"$work/sizes.c"
rust bin sizes_rust "$work/sizes.rs" --extern numalloc_sys
cc -I../include "$work/sizes.c" -o "$work/sizes_c"
cmp <("$work/sizes_rust") <("$work/sizes_c") || fail "a structure of $names has another size than in C"

if command -v cargo >/dev/null; then
    cp -r rust "$work/rust"
    LIBNUMALLOC_DIR=$built CARGO_TARGET_DIR=$work/target CARGO_HOME=$work/home cargo test --offline --quiet \
        --manifest-path "$work/rust/Cargo.toml" >"$work/said" 2>&1 || fail "cargo test: $(tail -n 30 "$work/said")"
fi
