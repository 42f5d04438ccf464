#!/bin/bash
# dump_languages.sh - profiles of programs in Rust (both manglings), Ada and Fortran have the names
# that their authors wrote, with debug information and without; and functions of the languages' own
# libraries are not where a program allocates. Languages without a compiler here are left out; names
# in symbol tables are read of a made program in any case.
set -euo pipefail
# Often in the user's home only, beside what it needs there.
rust=$(command -v rustc || ls ~/.cargo/bin/rustc 2>/dev/null || true) given_home=$HOME
rustc() { HOME=$given_home "$rust" "$@"; }
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/profile_lib.sh"
need gcc gcc strip binutils
cd "$work"
"$dump" --version >/dev/null

# has NAME BYTES FUNCTION...: each function allocates at least that much at the peak, itself.
has() {
    local name=$1 least=$2
    shift 2
    "$dump" functions --csv --top 0 "$name.nprof" >"$name.csv" || fail "$name: functions: status $?"
    /usr/bin/python3 - "$name.csv" "$least" "$@" <<'END' || fail "$name: $(tail -n 1 err) in $(head -n 4 "$name.csv")"
import csv, sys
rows = {r["function"]: float(r["peak_bytes"]) for r in csv.DictReader(open(sys.argv[1]))}
for name in sys.argv[3:]:
    if rows.get(name, 0) < float(sys.argv[2]):
        sys.exit(f"{name} has {rows.get(name)} bytes")
END
}
profile() { # NAME: a profile of ./NAME
    NUMALLOC_PROFILE=sites NUMALLOC_PROFILE_FILE=$work/$1.nprof LD_PRELOAD=$lib "./$1" >out 2>err || fail "$1: status $?: $(tail -n 1 err)"
}

# ---- names in a symbol table, of any language ----

cat >made.c <<'END'
#include <stdlib.h>
char *volatile kept;
#define F(number, label)                                                                           \
    void f##number(void) __asm__(label);                                                           \
    __attribute__((noinline)) void f##number(void) {                                               \
        kept = malloc(10000);                                                                      \
        __asm__ volatile("" ::: "memory");                                                         \
    }
F(1, "_RNvNtCs123_4main5inner4keep")
F(2, "_ZN4main5older4keep17h0123456789abcdefE")
F(3, "_D4demo5store4keepFiZv")
F(4, "__stuff_MOD_fill")
F(5, "_ZN3cxx4keepEi")
int main(void) { f1(); f2(); f3(); f4(); f5(); return 0; }
END
gcc -O1 -fno-optimize-sibling-calls made.c -o made
profile made
has made 10000 main::inner::keep main::older::keep 'demo.store.keep(int)' stuff::fill 'cxx::keep(int)'
say "made: Rust in both manglings, D, Fortran, C++"

# ---- programs ----

if [ -n "$rust" ] && rustc --version >/dev/null 2>&1; then
    cat >shapes.rs <<'END'
struct Shape { points: Vec<u64> }
trait Grow { fn grow(&mut self, n: usize); }
impl Grow for Shape {
    #[inline(never)]
    fn grow(&mut self, n: usize) { for i in 0..n { self.points.push(i as u64); } }
}
mod inner {
    #[inline(never)]
    pub fn keep<T: Clone>(x: T, n: usize) -> Vec<T> { vec![x; n] }
}
fn main() {
    let mut s = Shape { points: Vec::new() };
    s.grow(100000);
    let k = inner::keep(7u8, 300000);
    println!("{} {}", s.points.len(), k.len());
}
END
    for way in legacy v0; do
        # The older mangling has become one for the compiler's developers alone.
        options=(-O -C symbol-mangling-version=$way)
        [ $way = v0 ] || rustc "${options[@]}" shapes.rs -o $way >err 2>&1 || options=(-O)
        rustc "${options[@]}" shapes.rs -o $way >err 2>&1 || fail "rustc: $(tail -n 1 err)"
        profile $way
        has $way 300000 '<shapes::Shape as shapes::Grow>::grow'
        grep -q 'shapes::inner::keep' $way.csv || fail "$way: no inner::keep"
    done
    say "Rust: functions of the program, in both manglings; none of alloc and core"
fi

if command -v gnatmake >/dev/null; then
    cat >depot.adb <<'END'
procedure Depot is
   package Store is
      type Block is array (1 .. 5000) of Integer;
      type Ref is access Block;
      procedure Keep (N : Integer);
      Last : Ref;
      pragma Volatile (Last);
   end Store;
   package body Store is
      procedure Keep (N : Integer) is
      begin
         for I in 1 .. N loop
            Last := new Block;
         end loop;
      end Keep;
   end Store;
begin
   Store.Keep (50);
end Depot;
END
    gnatmake -g depot.adb -o ada_debug >out 2>err || fail "gnatmake: $(tail -n 1 err)"
    strip -g -o ada_plain ada_debug
    for way in ada_debug ada_plain; do
        profile $way
        has $way 900000 depot.store.keep
    done
    say "Ada: functions of packages, by debug information and by symbol"
fi

if command -v gfortran >/dev/null; then
    cat >fill.f90 <<'END'
module stuff
contains
subroutine fill(n, total)
  integer, intent(in) :: n
  real, intent(out) :: total
  real, allocatable :: a(:)
  allocate(a(n)); a = 1.0; total = sum(a)
end subroutine
end module
program fills
  use stuff
  real :: t
  call fill(200000, t)
  print *, t
end program
END
    gfortran -g fill.f90 -o fortran || fail "gfortran: status $?"
    profile fortran
    has fortran 800000 stuff::fill
    say "Fortran: procedures of modules"
fi
