#!/bin/sh
# local_accesses.sh COMMAND... - runs numalloc-bench numa, as COMMAND says, and fails unless all of its
# accesses, each of which it has asked the kernel about, were to the worker's own node.
output=$("$@" --tsv) || exit 1
echo "$output"
figure() {
    echo "$output" | awk -F'\t' -v metric="$1" '$1 == "metric" && $2 == metric { print $NF }'
}
if [ "$(figure "local accesses")" != 100 ] || [ "$(figure "accesses of unknown place")" != 0 ]; then
    echo "not all accesses were local" >&2
    exit 1
fi
