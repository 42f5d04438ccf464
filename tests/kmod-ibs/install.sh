#!/usr/bin/env bash
# install.sh DIRECTORY HEADERS MAKE - `make install` of the module that was built in DIRECTORY, into a directory
# of our own: depmod is asked for the kernel whose directory has the module.
set -euo pipefail
directory=$1 headers=$2 make=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
printf '#!/bin/sh\necho "$*" >%s\n' "$work/asked" >"$work/bin/depmod"
chmod +x "$work/bin/depmod"
env -u MAKEFLAGS -u MAKELEVEL PATH="$work/bin:$PATH" "$make" -C "$directory" KDIR="$headers" INSTALL_MOD_PATH="$work" install \
    >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
installed=$(find "$work/lib/modules" -name 'numalloc_ibs.ko*')
release=${installed#"$work/lib/modules/"}
release=${release%%/*}
echo "installed for $release; depmod $(cat "$work/asked")"
[[ -n $release && $(cat "$work/asked") == "-b $work $release" ]]
