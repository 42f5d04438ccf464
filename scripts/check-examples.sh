#!/usr/bin/env bash
# check-examples.sh BUILD_DIR | --prefix DIR [NAME...] - does what docs/examples/README.md tells a
# reader to do, against an install tree as scripts/check-install.sh takes it. NAME: only these
# directories; without: all but fetchcontent, which builds the project anew. Status 77 if a program that one of them needs is missing; the others have passed then.
set -euo pipefail

usage() {
    echo "usage: $0 BUILD_DIR | --prefix DIR [NAME...]" \
        "(a built tree such as build/release, or an installed one)" >&2
    exit 2
}
source=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d)
server=
trap '[[ -z $server ]] || kill "$server" 2>/dev/null; rm -rf "$scratch"' EXIT

if [[ $# -ge 2 && $1 == --prefix && -d $2/include/numalloc ]]; then
    prefix=$(cd "$2" && pwd)
    shift 2
elif [[ $# -ge 1 && -f $1/CMakeCache.txt ]]; then
    prefix=$scratch/prefix
    cmake --install "$1" --prefix "$prefix" >"$scratch/install.log"
    shift
else
    usage
fi
names=("$@")
[[ ${#names[@]} -gt 0 ]] || names=(cmake meson heap static rust container systemd)

pc=$(find "$prefix" -name numalloc.pc)
libdir=$(dirname "$(dirname "$pc")")
unset LD_PRELOAD
# Debian's compilers. Where an installed library lies, linker and loader know by themselves.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PKG_CONFIG_PATH=${pc%/*} CMAKE_PREFIX_PATH=$prefix LIBRARY_PATH=$libdir LD_LIBRARY_PATH=$libdir

skipped=0
skip() {
    echo "$1: skipped: $2"
    skipped=1
}
fail() {
    echo "check-examples.sh: FAILED: $*" >&2
    exit 1
}

# The indented lines under "## NAME", which are what a reader types.
commands() { sed -n "/^## $1\$/,/^## /s/^    //p" "$source/docs/examples/README.md"; }

run() { # NAME PROGRAM...: the programs that it needs, each with its package where that differs
    local name=$1 program
    shift
    for program in "$@"; do
        command -v "${program%%:*}" >/dev/null || {
            skip "$name" "${program%%:*} is missing; install the package ${program#*:}"
            return
        }
    done
    cp -r "$source/docs/examples/$name" "$scratch/$name"
    commands "$name" >"$scratch/$name.sh"
    [[ -s $scratch/$name.sh ]] || fail "docs/examples/README.md has no commands for $name"
    (cd "$scratch/$name" && bash -euo pipefail "$scratch/$name.sh") >"$scratch/$name.log" 2>&1 || {
        tail -n 30 "$scratch/$name.log" >&2
        fail "$name"
    }
    grep '^numalloc [0-9]' "$scratch/$name.log" | sed "s/^/$name: /" || fail "$name said nothing"
}

# A repository with the files of this checkout, changed ones too.
repository() {
    mkdir "$scratch/repository"
    (cd "$source" && git ls-files -z --cached --others --exclude-standard |
        while IFS= read -r -d '' file; do [[ -e $file ]] && printf '%s\0' "$file"; done |
        tar -cf - --null --no-recursion -T -) | tar -xf - -C "$scratch/repository"
    export GIT_CONFIG_GLOBAL=/dev/null
    git -C "$scratch/repository" init -q -b main
    git -C "$scratch/repository" add -A
    git -C "$scratch/repository" -c user.name=test -c user.email=test@test.invalid commit -q -m test
    echo "$scratch/repository"
}

# The image itself needs a container engine; scripts/check-chroot.sh follows the same lines in a chroot.
container() {
    local words
    words=$(awk '{ print $1 }' "$source/docs/examples/container/Dockerfile" | tr '\n' ' ')
    [[ $words == "FROM COPY RUN ENV " ]] || fail "container: the Dockerfile is not FROM COPY RUN ENV"
    # shellcheck disable=SC2046 # one variable
    env $(sed -n 's/^ENV //p' "$source/docs/examples/container/Dockerfile") NUMALLOC_STATS=1 \
        ls / 2>&1 >/dev/null | grep '^numalloc statistics' >/dev/null || fail "container: ENV preloads nothing"
    echo "container: the environment of the Dockerfile"
}

# What systemd makes of a unit's value, for the specifiers that the examples have.
expand() { sed "s|%%|\\x01|g; s|%S|$scratch/state|g; s|%N|$1|g; s|%t|$scratch/run|g; s|\\x01|%|g"; }

# Starts the server as the unit FILE of the service NAME says, uses and ends it.
serve() { # NAME FILE DIRECTORY SIGNAL
    local name=$1 file=$2 directory=$scratch/state/$3 signal=$4 environment command i
    mkdir -p "$directory" "$scratch/run/app"
    mapfile -t environment < <(sed -n 's/^Environment=//p' "$file" | expand "$name")
    command=$(sed -n 's/^ExecStart=//p' "$source/docs/examples/systemd/app.service" | expand app)
    # shellcheck disable=SC2086 # the words of ExecStart
    env "${environment[@]}" $command >"$scratch/server.log" 2>&1 &
    server=$!
    for ((i = 0; i < 1500; i++)); do
        redis-cli -s "$scratch/run/app/app.sock" ping 2>/dev/null | grep PONG >/dev/null && break
        sleep 0.1
    done
    redis-cli -s "$scratch/run/app/app.sock" eval \
        'for i = 1, 20000 do redis.call("set", "key:" .. i, string.rep("x", 500)) end' 0 >/dev/null
    if [[ -n $signal ]]; then
        kill -s "$signal" "$server"
        for ((i = 0; i < 1500; i++)); do
            [[ -e $(echo "$directory"/*.nprof.1) ]] && break
            redis-cli -s "$scratch/run/app/app.sock" set key value >/dev/null
            sleep 0.1
        done
        [[ $i -lt 1500 ]] || fail "systemd: $signal copied no profile to $directory"
    fi
    kill "$server"
    wait "$server" || fail "systemd: the server ended badly: $(tail -n 3 "$scratch/server.log")"
    server=
    for profile in "$directory"/*.nprof*; do
        "$prefix/bin/numalloc-dump" "$profile" >"$scratch/summary" || fail "systemd: cannot read $profile"
        grep -q '^peak ' "$scratch/summary" || fail "systemd: $profile has no peak"
    done
    echo "systemd: $name: $(sed -n 's/^peak */peak /p' "$scratch/summary" | head -n 1)"
}

systemd() {
    local program
    for program in systemd-analyze:systemd redis-server redis-cli:redis-tools; do
        command -v "${program%%:*}" >/dev/null || {
            skip systemd "${program%%:*} is missing; install the package ${program#*:}"
            return
        }
    done
    [[ -x $prefix/bin/numalloc-dump ]] || {
        skip systemd "the tree has no numalloc-dump"
        return
    }
    # The unit alone, and with the drop-in; a word that systemd does not know must be noticed.
    local units=$scratch/units
    mkdir -p "$units/app.service.d"
    cp "$source/docs/examples/systemd/app.service" "$units"
    for file in /dev/null "$source/docs/examples/systemd/numalloc.conf"; do
        cat "$file" >"$units/app.service.d/numalloc.conf"
        SYSTEMD_UNIT_PATH=$units: systemd-analyze verify "$units/app.service" >"$scratch/verify" 2>&1 ||
            fail "systemd: $(cat "$scratch/verify")"
        [[ ! -s $scratch/verify ]] || fail "systemd: $(cat "$scratch/verify")"
    done
    echo 'StateDirectry=x' >>"$units/app.service.d/numalloc.conf"
    SYSTEMD_UNIT_PATH=$units: systemd-analyze verify "$units/app.service" 2>&1 | grep StateDirectry >/dev/null ||
        fail "systemd: systemd-analyze does not read the drop-in"

    serve app "$source/docs/examples/systemd/app.service" app ''
    serve redis-server "$source/docs/examples/systemd/numalloc.conf" numalloc/redis-server URG
}

for name in "${names[@]}"; do
    case $name in
    cmake) run cmake cmake cc:gcc make ;;
    fetchcontent)
        if [[ -e $source/.git ]]; then
            REPOSITORY=$(repository)
            export REPOSITORY
            # What is optimised takes three times as long to build: by the nightly script.
            [[ ${TEST_SCALE:-} == full ]] || export CMAKE_BUILD_TYPE=Debug
            run fetchcontent cmake git cc:gcc make
            unset CMAKE_BUILD_TYPE
        else
            skip fetchcontent "this is not a git checkout"
        fi
        ;;
    meson) run meson meson ninja:ninja-build cc:gcc pkg-config ;;
    heap) run heap cc:gcc pkg-config ;;
    static) run static g++ pkg-config ;;
    rust) run rust rustc ;;
    container) container ;;
    systemd) systemd ;;
    *) fail "there is no example '$name'" ;;
    esac
done
[[ $skipped -eq 0 ]] || exit 77
echo "ok"
