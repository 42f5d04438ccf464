# shellcheck shell=bash
# python_lib.sh - which CPythons the tests of Python frames run with: /usr/bin/python3, or those that
# PYTHONS names (divided by blanks), and how they are held against these. Sourced by them, after
# lib.sh and profile_lib.sh.

python_versions='3.9 3.10 3.11 3.12 3.13 3.14 3.15'
python_known='CPython 3.9 to 3.15'
read -ra pythons <<<"${PYTHONS:-/usr/bin/python3}"

# is_known VERSION: frames of 3.11 or 3.11.2 are read.
is_known() {
    local version
    version=$(cut -d. -f1,2 <<<"$1")
    case " $python_versions " in *" $version "*) ;; *) return 1 ;; esac
}

# version_of PYTHON: 3.11; fails where its frames are not read.
version_of() {
    local version gil
    read -r version gil < <("$1" -c 'import sys
print("%d.%d" % sys.version_info[:2], getattr(sys, "_is_gil_enabled", lambda: True)())') || return 1
    [ "$gil" = True ] && is_known "$version" && echo "$version"
}
