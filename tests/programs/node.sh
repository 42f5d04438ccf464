#!/bin/bash
# node.sh - node with worker threads, Buffers, JSON, zlib, crypto and streams does the same with the
# library as without.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
need node nodejs

export SCRIPT=$test_source/node_load.js

node_story() {
    node "$SCRIPT" "$SCALE"
    node -e 'process.on("exit", c => console.log("exit", c)); setImmediate(() => { throw new Error("as asked"); })' 2>/dev/null ||
        echo "node says $?"
    # npm-like start-up: many small programs one after the other.
    for i in 1 2 3; do node -p "Buffer.alloc($i * 100000, 'ab').toString('base64').length"; done
}

both node node_story
proved node node_story node
