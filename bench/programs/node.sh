#!/bin/sh
# node.sh - node bundles a tree of modules and serves records from it.
#   node.sh INPUTS
exec node "$(dirname "$0")/node_load.js" "$1"
