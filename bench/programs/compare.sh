#!/bin/sh
# compare.sh - makes the inputs and compares allocators over the real programs.
set -u
here=$(cd "$(dirname "$0")" && pwd)
bench=$here/../../build/release/numalloc-bench
inputs='' size='' only='' list=''

usage() {
    cat <<END
usage: bench/programs/compare.sh [options] [options of numalloc-bench compare]

Compares allocators over real programs: gcc, python, python-malloc (every object by malloc), sqlite,
redis, redis-half (memory after the half of the keys was deleted), document and node.

  --bench PATH     the numalloc-bench to use (default: build/release/numalloc-bench)
  --inputs DIR     keep the inputs there, and take them from there when they are there already;
                   without it they go into a temporary directory
  --only a,b       these programs
  --small          small inputs: whether all works, not how fast
  --list           run nothing; print each program's name and command, a line each
END
}

die() {
    echo "compare.sh: $*" >&2
    exit 2
}

while [ $# -gt 0 ]; do
    case $1 in
    --bench | --inputs | --only)
        [ $# -gt 1 ] || die "$1 needs a value; see --help"
        case $1 in
        --bench) bench=$2 ;;
        --inputs) inputs=$2 ;;
        --only) only=$2 ;;
        esac
        shift
        ;;
    --small) size=--small ;;
    --list) list=1 ;;
    -h | --help)
        usage
        exit 0
        ;;
    *) break ;;
    esac
    shift
done
for word; do
    # What compare refuses by itself comes after minutes of work otherwise.
    case $word in --bench | --inputs | --only | --small) die "$word goes before the options of compare" ;; esac
done
[ -x "$bench" ] || [ -n "$list" ] || die "no program '$bench'; build it, or name it with --bench"

if [ -n "$list" ]; then
    inputs=${inputs:-INPUTS}
elif [ -z "$inputs" ]; then
    inputs=$(mktemp -d "${TMPDIR:-/tmp}/numalloc-programs.XXXXXX") || exit 1
    trap 'rm -rf "$inputs"' EXIT
    trap 'exit 143' TERM
    trap 'exit 130' INT
else
    mkdir -p "$inputs" || die "cannot make the directory '$inputs'"
    inputs=$(cd "$inputs" && pwd) || exit 2
fi
case $inputs$here in *"	"*) die "a directory's name has a tab in it, which compare cannot take" ;; esac

# quoted TEXT: as one word of a shell.
quoted() { printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")"; }

# offer NAME PROGRAM PACKAGE COMMAND...: one more program to compare, if it is wanted and installed.
chosen=
offer() {
    name=$1 program=$2 package=$3
    shift 3
    [ -z "$only" ] || case ,$only, in *,"$name",*) ;; *) return ;; esac
    chosen=$chosen,$name,
    if ! command -v "$program" >/dev/null; then
        echo "compare.sh: $name is left out: no program '$program'; install the package '$package'" >&2
        return
    fi
    command=$1
    shift
    command="exec $(quoted "$here/$command") $(quoted "$inputs") $*"
    if [ -n "$list" ]; then
        printf '%s\t%s\n' "$name" "$command"
    else
        options="$options --program $(quoted "$name=$command")"
    fi
}

options=
offer gcc g++ g++ gcc.sh
offer python /usr/bin/python3 python3 python.sh
offer python-malloc /usr/bin/python3 python3 python.sh malloc
offer sqlite sqlite3 sqlite3 sqlite.sh
offer redis redis-server redis-server redis.sh benchmark
offer redis-half redis-server redis-server redis.sh half
offer document mutool mupdf-tools document.sh
offer node node nodejs node.sh
for name in $(echo "$only" | tr , ' '); do
    case $chosen in *,"$name",*) ;; *) die "there is no program '$name'; see --help" ;; esac
done
[ -z "$list" ] || exit 0
[ -n "$options" ] || die "none of the programs is installed"

wanted=full
[ -z "$size" ] || wanted=small
if [ ! -e "$inputs/size" ]; then
    "$here/inputs.py" "$inputs" $size || exit 1
elif [ "$(cat "$inputs/size")" != "$wanted" ]; then
    die "'$inputs' has $(cat "$inputs/size") inputs, and $wanted ones are asked for; name another directory"
fi
eval "\"\$bench\" compare $options \"\$@\""
