#!/bin/bash
# profile_trace_kill.sh LIBRARY TRACE_KILL ROUNDS - SIGKILL at random moments while three threads
# allocate: each trace reads, and holds all that its victim had done (trace_kill.c).
set -euo pipefail
. "$(dirname "$0")/lib.sh"
program=$2 rounds=${3:-200}
said=$("$program" "$lib" "$work" "$rounds" 2>&1) || fail "$said"
say "$said"
