"""cases_others.py - programs in other languages than C++, in the form of cases_cxx.py: in the text of a program
@N is the size that a function asks for, DEF in a comment marks the line where it is defined. `functions`:
(regular expression of the name, how many blocks), by their numbers in the text."""

C = r"""
#include <stdlib.h>
static void *volatile kept[1000]; static int kept_count;
#define NOINLINE __attribute__((noinline))
#define ASK(n) (kept[kept_count++] = malloc(n))
NOINLINE void plain(void) { for (int i = 0; i < 3; i++) ASK(@1); } /*DEF1*/
static NOINLINE void quiet(void) { for (int i = 0; i < 4; i++) ASK(@2); } /*DEF2*/
static inline __attribute__((always_inline)) void taken(void) { for (int i = 0; i < 5; i++) ASK(@3); } /*DEF3*/
NOINLINE void takes(void) { taken(); for (int i = 0; i < 3; i++) ASK(@4); } /*DEF4*/
static NOINLINE int clone_me(int a, int b) { for (int i = 0; i < 3; i++) ASK(@5); return a + b; } /*DEF5*/
NOINLINE void *via_calloc(void) { return kept[kept_count++] = calloc(1, @6); } /*DEF6*/
NOINLINE void again(int n) { if (n > 0) { again(n - 1); ASK(@7); } else ASK(@7); } /*DEF7*/
int main(void) {
    plain(); quiet(); takes(); kept[999] = (void *)(long)clone_me(1, 2); via_calloc(); again(3);
    return 0;
}
"""
C_A = r"""
#include <stdlib.h>
extern void *volatile kept[1000]; extern int kept_count;
static __attribute__((noinline)) void init(void) { for (int i = 0; i < 3; i++) kept[kept_count++] = malloc(@%d); } /*DEF%d*/
void run_%s(void) { init(); __asm__ volatile(""); }
"""
C_MAIN = r"""
void *volatile kept[1000]; int kept_count;
void run_a(void); void run_b(void); void run_c(void);
int main(void) { run_a(); run_b(); run_c(); return 0; }
"""

RUST = r"""
use std::hint::black_box;
mod store { #[inline(never)] pub fn keep() { for _ in 0..3 { std::mem::forget(std::hint::black_box(vec![1u8; @1])); } } } //DEF1
struct Shape;
impl Shape { #[inline(never)] fn grow(&self) { for _ in 0..4 { std::mem::forget(black_box(vec![1u8; @2])); } } } //DEF2
trait Make { fn make(&self); }
impl Make for Shape { #[inline(never)] fn make(&self) { for _ in 0..5 { std::mem::forget(black_box(vec![1u8; @3])); } } } //DEF3
#[inline(never)] fn generic<T: Copy>(t: T) { black_box(t); for _ in 0..3 { std::mem::forget(black_box(vec![1u8; @4])); } } //DEF4
#[inline(never)] fn boxed() { for _ in 0..3 { std::mem::forget(black_box(Box::new([1u8; @5]))); } } //DEF5
#[inline(never)] fn string() { for _ in 0..3 { std::mem::forget(black_box(String::with_capacity(@6))); } } //DEF6
fn main() { store::keep(); Shape.grow(); Shape.make(); generic(1u32); boxed(); string();
    let f = || { for _ in 0..3 { std::mem::forget(black_box(vec![1u8; @7])); } }; call(black_box(&f)); } //DEF7
#[inline(never)] fn call(f: &dyn Fn()) { f(); }
"""

D = r"""
import core.stdc.stdlib;
__gshared void*[1000] kept; __gshared int kept_count;
pragma(inline, false) void plain() { foreach (i; 0 .. 3) kept[kept_count++] = malloc(@1); } //DEF1
class Thing {
    pragma(inline, false) void grow() { foreach (i; 0 .. 4) kept[kept_count++] = malloc(@2); } //DEF2
    pragma(inline, false) static void fixed(int n) { foreach (i; 0 .. n) kept[kept_count++] = malloc(@3); } //DEF3
}
pragma(inline, false) void templated(T)(T n) { foreach (i; 0 .. 3) kept[kept_count++] = malloc(@4); } //DEF4
struct Pair { pragma(inline, false) int opBinary(string op)(int n) if (op == "<<") { foreach (i; 0 .. 3) kept[kept_count++] = malloc(@5); return n; } } //DEF5
void main() { plain(); new Thing().grow(); Thing.fixed(5); templated(1); Pair p; kept[999] = cast(void*)(p << 1); }
"""

FORTRAN = r"""
module stuff
  type box
    real(1 * 4), pointer :: p(:)
  end type
  type(box) :: kept(100)
  integer :: n = 0
contains
subroutine fill() !DEF1
  integer :: i
  do i = 1, 3
    n = n + 1
    allocate(kept(n)%p(@1 / 4))
  end do
end subroutine
end module
subroutine alone() !DEF2
  use stuff
  integer :: i
  do i = 1, 4
    n = n + 1
    allocate(kept(n)%p(@2 / 4))
  end do
end subroutine
program fills
  use stuff
  call fill()
  call alone()
  call inner()
contains
subroutine inner() !DEF3
  integer :: i
  do i = 1, 5
    n = n + 1
    allocate(kept(n)%p(@3 / 4))
  end do
end subroutine
end program
"""

ADA = r"""
procedure Truth is
   package Store is
      type Block_1 is array (1 .. @1) of Character;
      type Ref_1 is access Block_1;
      type Block_2 is array (1 .. @2) of Character;
      type Ref_2 is access Block_2;
      procedure Keep (N : Integer);
      procedure Keep_More (N : Integer);
      pragma No_Inline (Keep); pragma No_Inline (Keep_More);
      Last_1 : Ref_1; Last_2 : Ref_2;
      pragma Volatile (Last_1); pragma Volatile (Last_2);
   end Store;
   package body Store is
      procedure Keep (N : Integer) is --DEF1
      begin
         for I in 1 .. N loop
            Last_1 := new Block_1;
         end loop;
      end Keep;
      procedure Keep_More (N : Integer) is --DEF2
      begin
         for I in 1 .. N loop
            Last_2 := new Block_2;
         end loop;
      end Keep_More;
   end Store;
begin
   Store.Keep (3);
   Store.Keep_More (4);
end Truth;
"""

OBJC = r"""
#include <objc/objc.h>
#include <stdlib.h>
static void *volatile kept[1000]; static int kept_count;
@interface Thing { Class isa; }
+ (void) fixed: (int) n;
+ (void) fixed: (int) n and: (int) m;
@end
@implementation Thing
+ (void) fixed: (int) n { for (int i = 0; i < n; i++) kept[kept_count++] = malloc(@1); } //DEF1
+ (void) fixed: (int) n and: (int) m { for (int i = 0; i < n + m; i++) kept[kept_count++] = malloc(@2); } //DEF2
@end
@interface Other { Class isa; }
+ (void) fixed: (int) n;
@end
@implementation Other
+ (void) fixed: (int) n { for (int i = 0; i < n; i++) kept[kept_count++] = malloc(@3); } //DEF3
@end
static __attribute__((noinline)) void plain(void) { for (int i = 0; i < 3; i++) kept[kept_count++] = malloc(@4); } //DEF4
int main(void) { [Thing fixed: 3]; [Thing fixed: 1 and: 3]; [Other fixed: 5]; plain(); return 0; }
"""

GO = r"""
package main

// #include <stdlib.h>
// static void *volatile kept[1000]; static int kept_count;
// __attribute__((noinline)) static void grow(void) { for (int i = 0; i < 3; i++) kept[kept_count++] = malloc(@1); } /*DEF1*/
// __attribute__((noinline)) void other(int n) { for (int i = 0; i < n; i++) kept[kept_count++] = malloc(@2); } /*DEF2*/
import "C"

//go:noinline
func fill() { C.grow(); C.other(4) }

func main() { fill() }
"""


def one(command):
    return lambda cell: [command.format(compiler=cell.compiler, flags=cell.flags)]


# GCC merges what is left of several into one; where it must not, the functions have other bodies.
LANGUAGES = {
    "C": {"compiler": "gcc", "files": {"truth.c": C}, "build": one("{compiler} -w {flags} truth.c -o truth"), "levels": ("-O0", "-O2", "-O3", "-O2 -flto"),
          "functions": [("plain", 3), ("quiet", 4), ("taken", 5, "takes"), ("takes", 3), ("clone_me", 3), ("via_calloc", 1), ("again", 4)]},
    "C, clang": {"compiler": "clang", "files": {"truth.c": C}, "build": one("{compiler} -w {flags} truth.c -o truth"), "levels": ("-O0", "-O2", "-O3"),
                 "functions": [("plain", 3), ("quiet", 4), ("taken", 5, "takes"), ("takes", 3), ("clone_me", 3), ("via_calloc", 1), ("again", 4)]},
    "C, several files": {"compiler": "gcc", "files": {"main.c": C_MAIN, "a/init.c": C_A % (1, 1, "a"), "b/init.c": C_A % (2, 2, "b"), "other.c": C_A % (3, 3, "c")},
                         "build": one("{compiler} -w {flags} main.c a/init.c b/init.c other.c -o truth"), "levels": ("-O0", "-O2", "-O2 -flto"),
                         "functions": [("init", 3), ("init", 3), ("init", 3)]},
    "Rust": {"compiler": "rustc", "files": {"truth.rs": RUST}, "levels": ("-O0", "-O2"),
             "build": lambda cell: [f"rustc {'-O' if '-O2' in cell.flags else ''} {'-g' if '-g' in cell.flags else ''} truth.rs -o truth"],
             "functions": [("truth::store::keep", 3), ("<?truth::Shape>?::grow|truth::Shape::grow", 4), ("<truth::Shape as truth::Make>::make", 5),
                           ("truth::generic", 3), ("truth::boxed", 3), ("truth::string", 3), (r"truth::main::\{\{?closure.*\}", 3)]},
    "D": {"compiler": "gdc", "files": {"truth.d": D}, "build": one("{compiler} -w {flags} truth.d -o truth"),
          "functions": [("truth.plain", 3), ("truth.Thing.grow", 4), ("truth.Thing.fixed", 5), ("truth.templated.*", 3), ("truth.Pair.opBinary.*", 3)]},
    "Fortran": {"compiler": "gfortran", "files": {"truth.f90": FORTRAN}, "build": one("{compiler} -w {flags} -fno-inline truth.f90 -o truth"),
                "functions": [("stuff::fill", 3), ("alone_?", 4), (r"(fills::|MAIN__::)?inner(\.\d+)?", 5)]},
    "Ada": {"compiler": "gnatmake", "files": {"truth.adb": ADA}, "build": one("{compiler} {flags} truth.adb -o truth"),
            "functions": [("truth.store.keep", 3), ("truth.store.keep_more", 4)]},
    "Objective-C": {"compiler": "gcc", "files": {"truth.m": OBJC}, "build": one("{compiler} -std=gnu11 -w {flags} truth.m -o truth -lobjc"),
                    "functions": [(r"\+\[Thing fixed:\]|_c_Thing__fixed_", 3), (r"\+\[Thing fixed:and:\]|_c_Thing__fixed_and_", 4),
                                  (r"\+\[Other fixed:\]|_c_Other__fixed_", 5), ("plain", 3)]},
    "Go": {"compiler": "go", "files": {"truth.go": GO, "go.mod": "module truth\n\ngo 1.18\n"}, "levels": ("-O2",),
           "build": lambda cell: [f"CGO_CFLAGS='-O2 {'-g' if '-g' in cell.flags else '-g0'}' GOFLAGS=-mod=mod GOCACHE=$PWD/cache go build -o truth ."],
           "functions": [("grow", 3), ("other", 4)]},
}
