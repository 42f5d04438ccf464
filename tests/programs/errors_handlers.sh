#!/bin/bash
# errors_handlers.sh - runtimes that have handlers for SIGSEGV of their own, beside NUMALLOC_GUARD=1: Python's
# faulthandler; Java, which makes exceptions of such faults; Go, which does the same in its own code and hands on those of
# C code. Each runs as without the library, and an error in a guarded block is reported before the runtime's own word.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
need python3 python3
cd "$work"

# One report comes, as the first thing that is said, and behind it the runtime's own words.
reported_first() { # NAME WORDS FILE
    [[ $(head -n 1 "$3") == "numalloc: use after free: read of "* ]] || fail "$1: the first line is $(head -n 1 "$3")"
    [[ $(grep -c '^numalloc: use after free' "$3") -eq 1 ]] || fail "$1: not one report: $(cat "$3")"
    has '^numalloc: allocated by malloc' "$3" || fail "$1: no allocation: $(cat "$3")"
    has -- "$2" "$3" || fail "$1: '$2' is missing: $(cat "$3")"
}
guarded() { NUMALLOC_GUARD=1 NUMALLOC_GUARD_EACH=$1 NUMALLOC_GUARD_FILE=$work/errors.%p LD_PRELOAD="$lib" "${@:2}"; }

cat >stale.py <<'END_PY'
import ctypes, faulthandler, sys
c = ctypes.CDLL(None)
c.malloc.restype = ctypes.c_void_p
c.malloc.argtypes = [ctypes.c_size_t]
c.free.argtypes = [ctypes.c_void_p]
c.malloc_usable_size.argtypes = [ctypes.c_void_p]
faulthandler.enable()
def reads_stale():
    kept = []
    for i in range(3000):
        p = c.malloc(4000)
        if c.malloc_usable_size(p) == 4000 and (p + 4000) % 4096 == 0:
            break
        c.free(p)
    c.free(p)
    print(ctypes.string_at(p, 1))
reads_stale()
END_PY
status=0
guarded 50 python3 stale.py >out 2>&1 || status=$?
[[ $status -eq 139 ]] || fail "Python ends with status $status: $(cat out)"
reported_first Python '^Fatal Python error: Segmentation fault' out
has 'line [0-9]* in reads_stale' out || fail "Python's own stack is missing: $(cat out)"
say "Python: the report, then faulthandler's own, with its stack"

if command -v javac >/dev/null; then
    cat >Faults.java <<'END_JAVA'
import java.lang.reflect.Field;
import sun.misc.Unsafe;
public class Faults {
    static int deep(int n) { return n < 0 ? 0 : deep(n + 1) + 1; }
    static int length(String s) { return s.length(); }
    public static void main(String[] args) throws Exception {
        int nulls = 0, overflows = 0;
        for (int i = 0; i < 200000; i++) {
            try { nulls += length(i % 100 == 0 ? null : "abc") > 5 ? 1 : 0; } catch (NullPointerException e) { nulls++; }
        }
        for (int i = 0; i < 20; i++) {
            try { deep(0); } catch (StackOverflowError e) { overflows++; }
        }
        System.out.println(nulls + " " + overflows);
        if (args.length == 0) return;
        Field field = Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        Unsafe unsafe = (Unsafe) field.get(null);
        // One of these is guarded: so many a second are, of all the process's blocks.
        for (long end = System.nanoTime() + 180000000000L; System.nanoTime() < end;) {
            long at = unsafe.allocateMemory(3000);
            unsafe.freeMemory(at);
            unsafe.getByte(at + 16);
        }
    }
}
END_JAVA
    javac -nowarn Faults.java 2>javac.out || fail "javac: $(cat javac.out)"
    java=(java -Xmx128m -XX:+UseSerialGC -XX:-CreateCoredumpOnCrash "-XX:ErrorFile=$work/hs_err" Faults)
    plain=$("${java[@]}")
    guarded 20 "${java[@]}" >out 2>err || fail "Java ends with status $?: $(cat out err)"
    [[ $(cat out) == "$plain" && ! -s err ]] || fail "Java said $(cat out err), and without the library $plain"
    say "Java: its own faults are as without the library ($plain)"
    status=0
    guarded 0 "${java[@]}" wrong >out 2>&1 || status=$?
    [[ $status -eq 1 ]] || fail "Java ends with status $status: $(cat out)"
    sed -i '/^[0-9]* [0-9]*$/d' out
    reported_first Java 'fatal error has been detected by the Java Runtime' out
    say "Java: the report, then the runtime's own"
fi

go=${GO:-$(command -v go || true)}
if [[ -n $go && ($TEST_SCALE == full || -n ${GO_TOO:-}) ]]; then
    mkdir faults
    cat >faults/main.go <<'END_GO'
package main

// #include <malloc.h>
// #include <stdlib.h>
// __attribute__((noinline)) static int reads(const volatile char *at) { return *at; }
// static char *guarded(void) {
//     for (int i = 0; i < 2000; i++) {
//         char *p = malloc(4000);
//         if (malloc_usable_size(p) == 4000 && ((unsigned long)p + 4000) % 4096 == 0) return p;
//         free(p);
//     }
//     return NULL;
// }
import "C"

import (
	"fmt"
	"os"
	"unsafe"
)

type record struct{ value int }

func null(r *record) (result string) {
	defer func() {
		if e := recover(); e != nil {
			result = fmt.Sprint(e)
		}
	}()
	return fmt.Sprint(r.value)
}

func main() {
	for i := 0; i < 1000; i++ {
		null(nil)
	}
	fmt.Println(null(nil))
	if len(os.Args) < 2 {
		return
	}
	p := C.guarded()
	if p == nil {
		os.Exit(3)
	}
	C.free(unsafe.Pointer(p))
	if os.Args[1] == "c" {
		fmt.Println(C.reads(p))
	} else {
		fmt.Println(*(*byte)(unsafe.Pointer(p)))
	}
}
END_GO
    (cd faults && HOME=$work GOFLAGS=-mod=mod GO111MODULE=off CGO_ENABLED=1 GOCACHE=$work/cache "$go" build -o ../go_faults main.go) >go.out 2>&1 || fail "go build: $(cat go.out)"
    plain=$(./go_faults)
    guarded 5 ./go_faults >out 2>err || fail "Go ends with status $?: $(cat out err)"
    [[ $(cat out) == "$plain" && ! -s err ]] || fail "Go said $(cat out err), and without the library $plain"
    say "Go: its own faults are as without the library"
    # The fault is in C code: Go hands it on to who was there before it.
    status=0
    guarded 5 ./go_faults c >out 2>err || status=$?
    reported_first "Go, in C code" '^numalloc: freed by free' err
    say "Go: an error in C code is reported (status $status)"
    # In Go code it is Go's own: a panic, as without the library.
    status=0
    guarded 5 ./go_faults go >out 2>err || status=$?
    [[ $status -eq 2 ]] && has 'unexpected fault address' err || fail "Go ends with status $status: $(cat err)"
    say "Go: an error in Go code is Go's own to report"
fi
