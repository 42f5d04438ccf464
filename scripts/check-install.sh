#!/usr/bin/env bash
# check-install.sh BUILD_DIR | --prefix DIR - builds and runs programs against an install tree in
# every documented way: pkg-config (shared and static), the CMake package, and LD_PRELOAD. The tree
# is a finished build's, installed into a scratch directory and moved, or what lies in DIR (of
# unpacked packages, their usr).
set -euo pipefail

usage() {
    echo "usage: $0 BUILD_DIR | --prefix DIR (a built tree such as build/release, or an installed one)" >&2
    exit 2
}
source=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

if [[ $# -eq 2 && $1 == --prefix && -d $2/include/numalloc ]]; then
    prefix=$(cd "$2" && pwd)
elif [[ $# -eq 1 && -f $1/CMakeCache.txt ]]; then
    # Moved after the install: nothing in the tree may depend on the prefix.
    cmake --install "$1" --prefix "$scratch/first" >"$scratch/install.log"
    grep -rqx "ExecStart=$scratch/first/bin/numalloc-ship .*" "$scratch/first/lib/systemd" ||
        { echo "the unit does not start $scratch/first/bin/numalloc-ship" >&2 && exit 1; }
    mv "$scratch/first" "$scratch/moved"
    prefix=$scratch/moved
else
    usage
fi
pc=$(find "$prefix" -name numalloc.pc)
libdir=$(dirname "$(dirname "$pc")")
export PKG_CONFIG_PATH=${pc%/*}

cat >"$scratch/user.c" <<'EOF'
#include <numalloc/numalloc.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    void *block = malloc(100000);
    numalloc_stats_t stats = {0};
    numalloc_read_stats(&stats, sizeof stats);
    int ours = block != NULL && stats.reserved > 0 && numalloc_node_of(block) >= 0;
    printf("numalloc %s %s\n", numalloc_version(), ours ? "serves malloc" : "does NOT serve malloc");
    free(block);
    return !ours;
}
EOF

served() { NUMALLOC_STATS=1 "$1" 2>&1 | grep '^numalloc statistics'; }

cd "$scratch"
echo "== shared, by pkg-config"
# shellcheck disable=SC2046 # flags are meant to be split
cc user.c -o shared $(pkg-config --cflags --libs numalloc)
LD_LIBRARY_PATH=$libdir ./shared

# Neither calls malloc itself.
printf '#include <string.h>\nint main(int n, char **v) { return n == 0 || strdup(v[0]) == 0; }\n' >strdup.c
printf 'int *volatile p;\nint main() { p = new int[1000]; return 0; }\n' >new.cpp
compilers=('cc strdup.c') links=('' '-Wl,--as-needed')
! command -v mold >/dev/null || links+=(-fuse-ld=mold)
! command -v g++ >/dev/null || compilers+=('g++ new.cpp')
for compile in "${compilers[@]}"; do
    for flags in "${links[@]}"; do
        # shellcheck disable=SC2046,SC2086
        $compile $flags -o indirect $(pkg-config --cflags --libs numalloc)
        LD_LIBRARY_PATH=$libdir served ./indirect
    done
done

echo "== static, by pkg-config"
# shellcheck disable=SC2046
cc user.c -o static $(pkg-config --cflags --libs numalloc-static)
./static
# A program that allocates nothing itself, and knows nothing of numalloc: a library behind it does.
cat >quiet.c <<'EOF2'
void *library_block(void);
int main(void) { return library_block() == 0; }
EOF2
cat >library.c <<'EOF2'
#include <stdlib.h>
void *library_block(void) { return malloc(1000); }
EOF2
cc -c library.c
ar rc liblibrary.a library.o
for static in '' -static; do
    # shellcheck disable=SC2046,SC2086
    cc $static quiet.c -o quiet $(pkg-config --libs numalloc-static) liblibrary.a
    served ./quiet
done

echo "== profiles, by pkg-config"
cat >reads.c <<'EOF2'
#include <numalloc/profile.h>
#include <stdio.h>

int main(void) {
    char why[256];
    int refused = numalloc_profile_open("/nonexistent", why, sizeof why) == NULL;
    puts(why);
    return !refused;
}
EOF2
# shellcheck disable=SC2046
cc reads.c -o reads $(pkg-config --cflags --libs numalloc-profile)
LD_LIBRARY_PATH=$libdir ./reads
# The static library with what pkg-config says that it needs, and the examples of docs/.
private=$(pkg-config --static --libs numalloc-profile | sed 's/-lnumalloc-profile//')
# shellcheck disable=SC2046,SC2086
cc reads.c -o reads_static $(pkg-config --cflags numalloc-profile) "$libdir/libnumalloc-profile.a" $private
./reads_static
for example in "$source"/docs/examples/*.c; do
    # shellcheck disable=SC2046
    cc -std=c17 -Wall -Wextra -Werror "$example" -o example $(pkg-config --cflags --libs numalloc-profile)
done
# shellcheck disable=SC2046
cc -std=gnu17 -Wall -Wextra -Werror -pthread "$source/docs/examples/records/records.c" -o records $(pkg-config --cflags --libs numalloc)

echo "== CMake package"
mkdir project
cp user.c quiet.c library.c strdup.c new.cpp project/
cat >project/CMakeLists.txt <<'EOF'
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C)
find_package(numalloc REQUIRED)
foreach(library IN ITEMS numalloc numalloc_static)
    add_executable(with_${library} user.c)
    target_link_libraries(with_${library} PRIVATE numalloc::${library})
endforeach()
add_library(library STATIC library.c)
add_executable(quiet quiet.c)
target_link_libraries(quiet PRIVATE numalloc::numalloc_static library)
# As on systems whose linker has --as-needed as its default.
add_link_options(-Wl,--as-needed)
add_executable(by_strdup strdup.c)
target_link_libraries(by_strdup PRIVATE numalloc::numalloc)
find_package(PkgConfig REQUIRED)
pkg_check_modules(NUMALLOC REQUIRED IMPORTED_TARGET numalloc)
add_executable(by_pkgconfig strdup.c)
target_link_libraries(by_pkgconfig PRIVATE PkgConfig::NUMALLOC)
include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER)
    enable_language(CXX)
    add_executable(by_new new.cpp)
    target_link_libraries(by_new PRIVATE numalloc::numalloc)
endif()
EOF
cmake -S project -B project/build -G Ninja -DCMAKE_PREFIX_PATH="$prefix" >project.log
cmake --build project/build >>project.log || {
    cat project.log
    exit 1
}
project/build/with_numalloc
project/build/with_numalloc_static
served project/build/by_strdup
served project/build/by_pkgconfig
[[ ! -e project/build/by_new ]] || served project/build/by_new
served project/build/quiet

if command -v meson >/dev/null; then
    echo "== CMake package, by Meson"
    mkdir by_meson
    cp user.c by_meson/
    printf '%s\n' "project('user', 'c')" "executable('user', 'user.c'," \
        "    dependencies: dependency('numalloc', method: 'cmake', modules: ['numalloc::numalloc']))" >by_meson/meson.build
    { meson setup by_meson/build by_meson --cmake-prefix-path "$prefix" && ninja -C by_meson/build; } >meson.log || {
        cat meson.log
        exit 1
    }
    LD_LIBRARY_PATH=$libdir by_meson/build/user
fi

echo "== preloaded"
printf '#include <stdlib.h>\nint main(void) { void *volatile p = malloc(1 << 20); return p == NULL; }\n' >with_malloc.c
cc with_malloc.c -o with_malloc
LD_PRELOAD=$libdir/libnumalloc.so /bin/ls "$prefix/bin"
for program in "$prefix"/bin/numalloc-*; do
    tool=${program##*/}
    "$program" --help >/dev/null
    # zsh: Debian's packages have vendor-completions; a manual page of a package is compressed.
    for file in "man/man1/$tool.1*" "bash-completion/completions/$tool" "zsh/*/_$tool" \
        "fish/vendor_completions.d/$tool.fish"; do
        # shellcheck disable=SC2086 # a pattern
        [[ -s $(echo "$prefix"/share/$file) ]] || { echo "not installed: share/$file" >&2; exit 1; }
    done
done
# It finds the library and numalloc-dump where they were moved to.
"$prefix/bin/numalloc-run" --profile -o ran.nprof -- ./with_malloc 2>ran.err || { cat ran.err; exit 1; }
grep -F "$prefix/bin/numalloc-dump ran.nprof" ran.err || { cat ran.err; exit 1; }
PATH=$prefix/bin:$PATH numalloc-run --profile -o ran.nprof -- ./with_malloc 2>ran.err
grep -x '  next  *numalloc-dump ran.nprof' ran.err || { cat ran.err; exit 1; }
echo "ok"
