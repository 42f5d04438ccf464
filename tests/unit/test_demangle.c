/* test_demangle.c - names of every language that is read: readable form, short form, and which
 * functions are the language's own. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/dump/symbols/demangle.h"

typedef struct known {
    const char *name, *readable, *brief; /* brief: with a limit of 40 */
    bool runtime;
} known_t;

static void expect(const known_t *known, size_t count, bool ada) {
    for (size_t i = 0; i < count; i++) {
        char brief[256];
        char *readable = na_demangle(known[i].name, ada);
        cr_assert(readable != NULL);
        cr_expect_str_eq(readable, known[i].readable, "%s: %s", known[i].name, readable);
        na_demangle_short(readable, 40, brief, sizeof brief);
        cr_expect_str_eq(brief, known[i].brief, "%s: short %s", known[i].name, brief);
        cr_expect_eq(na_demangle_is_runtime(readable), known[i].runtime, "%s", readable);
        free(readable);
    }
}
#define EXPECT(known, ada) expect(known, sizeof(known) / sizeof(known)[0], ada)

Test(demangle, cxx_and_c) {
    static const known_t known[] = {
        {"malloc", "malloc", "malloc", false},
        {"my__name", "my__name", "my__name", false},
        {"_ZN1a1bEv", "a::b()", "a::b", false},
        {"_Znwm", "operator new(unsigned long)", "operator new", true},
        {"_ZNSt6vectorIiSaIiEE9push_backERKi",
         "std::vector<int, std::allocator<int> >::push_back(int const&)",
         "std::vector<...>::push_back", true},
        /* A program's own namespaces, which are Rust's crates elsewhere. */
        {"_ZN4core4loadEi", "core::load(int)", "core::load", false},
        {"_ZN5alloc4growEv", "alloc::grow()", "alloc::grow", false},
        {"_Z", "_Z", "_Z", false},
        {"_R", "_R", "_R", false},
        {"_D", "_D", "_D", false},
        {"__", "__", "__", false},
        {"", "", "", false},
    };
    EXPECT(known, false);
}

Test(demangle, fortran) {
    static const known_t known[] = {
        {"__stuff_MOD_fill", "stuff::fill", "stuff::fill", false},
        {"___MOD_", "___MOD_", "___MOD_", false},
        {"__x_MOD_", "__x_MOD_", "__x_MOD_", false},
    };
    EXPECT(known, false);
}

#ifdef NA_HAVE_LIBIBERTY

Test(demangle, rust) {
    static const known_t known[] = {
        {"_RNvNtCsdPYcsKcgahe_4main5inner4keep", "main::inner::keep", "main::inner::keep", false},
        {"_RINvNtCs123_4main5inner4keepdEB4_", "main::inner::keep::<f64>",
         "main::inner::keep::<f64>", false},
        {"_ZN4main5inner4keep17h0123456789abcdefE", "main::inner::keep", "main::inner::keep",
         false},
        {"_ZN42_$LT$main..Shape$u20$as$u20$main..Grow$GT$4grow17h0123456789abcdefE",
         "<main::Shape as main::Grow>::grow", "<main::Shape as main::Grow>::grow", false},
        {"_ZN5alloc7raw_vec19RawVec$LT$T$C$A$GT$8grow_one17h0123456789abcdefE",
         "alloc::raw_vec::RawVec<T,A>::grow_one", "alloc::raw_vec::RawVec<T,A>::grow_one", true},
        {"_ZN4core3ops8function6FnOnce9call_once17h0123456789abcdefE",
         "core::ops::function::FnOnce::call_once", "core::ops::function::FnOnce::call_once", true},
    };
    EXPECT(known, false);
    static const struct {
        const char *name, *brief;
        bool runtime;
    } made[] = {
        {"<alloc::vec::Vec<T> as core::clone::Clone>::clone",
         "<alloc::vec::Vec<...> as core::clone::Clone>::clone", true},
        {"<alloc::vec::Vec<u8>>::push", "<alloc::vec::Vec<u8>>::push", true},
        {"<alloc::vec::Vec<T> as mine::Trait>::f", "<alloc::vec::Vec<T> as mine::Trait>::f", false},
        {"<mine::Thing as core::clone::Clone>::clone", "<mine::Thing as core::clone::Clone>::clone",
         false},
        {"<T as alloc::string::ToString>::to_string", "<T as alloc::string::ToString>::to_string",
         true},
        {"<&[u8] as core::fmt::Debug>::fmt", "<&[u8] as core::fmt::Debug>::fmt", true},
        {"<core::iter::Map<I, fn(u8) -> u8> as core::iter::Iterator>::fold::<u8>",
         "<core::iter::Map<...> as core::iter::Iterator>::fold::<...>", true},
    };
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        char brief[256];
        na_demangle_short(made[i].name, 40, brief, sizeof brief);
        cr_expect_str_eq(brief, made[i].brief, "%s: short %s", made[i].name, brief);
        cr_expect_eq(na_demangle_is_runtime(made[i].name), made[i].runtime, "%s", made[i].name);
    }
}

Test(demangle, d) {
    static const known_t known[] = {
        {"_D4demo5store4keepFiZv", "demo.store.keep(int)", "demo.store.keep", false},
        {"_Dmain", "D main", "D main", false},
    };
    EXPECT(known, false);
}

Test(demangle, ada) {
    static const known_t known[] = {
        {"demo__store__keep", "demo.store.keep", "demo.store.keep", false},
        {"_ada_demo", "demo", "demo", false},
        {"Mixed_Case", "Mixed_Case", "Mixed_Case", false},
        {"__gnat_malloc", "__gnat_malloc", "__gnat_malloc", true},
    };
    EXPECT(known, true);
    cr_expect(na_demangle_is_gnat("__gnat_malloc") && na_demangle_is_gnat("_ada_demo"));
    cr_expect_not(na_demangle_is_gnat("demo__store__keep"));
}

#endif
