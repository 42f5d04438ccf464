/* test_demangle.c - names of every language that is read: readable form, short form, and which
 * functions are the language's own. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/dump/symbols/names/demangle.h"

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
        /* Return types are no part of a name; signs in them and in parameters are no brackets. */
        {"_Z7greaterILi4EENSt9enable_ifIXgtT_Li3EEvE4typeEv", "greater<4>()", "greater<4>", false},
        {"_Z4lessILi4EENSt9enable_ifIXltT_Li9EEvE4typeEv", "less<4>()", "less<4>", false},
        {"_ZN3tpl5arrowISt6vectorIiSaIiEEEEDTclptfp_4sizeEEPT_",
         "tpl::arrow<std::vector<int, std::allocator<int> > >(std::vector<int, std::allocator<int> "
         ">*)",
         "tpl::arrow<...>", false},
        {"_Z11function_ofIiEPFiT_ES0_", "function_of<int>(int)", "function_of<int>", false},
        {"_Z6takingILi4EEvNSt9enable_ifIXgtT_Li3EEiE4typeE",
         "taking<4>(std::enable_if<((4)>(3)), int>::type)", "taking<4>", false},
        {"_ZZ9returningILi4EENSt9enable_ifIXgtT_Li3EEvE4typeEvENKUlvE_clEv",
         "returning<4>()::{lambda()#1}::operator()() const",
         "returning<4>()::{lambda()#1}::operator()", false},
        /* Clones and parts are their function. */
        {"_ZL4initv.part.0", "init()", "init", false},
        {"_ZL4initv.constprop.0.isra.0", "init()", "init", false},
        {"init.cold", "init", "init", false},
        {"init.lto_priv.3", "init", "init", false},
        {"main.part", "main", "main", false},
        {"main.partly", "main.partly", "main.partly", false},
        {"_Z", "_Z", "_Z", false},
        {"_R", "_R", "_R", false},
        {"_D", "_D", "_D", false},
        {"__", "__", "__", false},
        {"", "", "", false},
    };
    EXPECT(known, false);
}

static void expect_plain(const char *name, const char *plain) {
    size_t length;
    const char *begin = na_demangle_plain(name, &length);
    cr_expect(strlen(plain) == length && strncmp(begin, plain, length) == 0, "%s: %.*s", name,
              (int)length, begin);
}

Test(demangle, parts_of_coroutines_are_theirs) {
    static const known_t known[] = {
        {"_ZN2co4bodyEPZNS_4bodyEiE19_ZN2co4bodyEi.Frame.actor", "co::body(int)", "co::body",
         false},
        {"_ZN2co4bodyEPZNS_4bodyEiE19_ZN2co4bodyEi.Frame.actor.cold", "co::body(int)", "co::body",
         false},
        {"_Z4workPZ4workiE14_Z4worki.Frame.destroy", "work(int)", "work", false},
        {"_ZN2co4bodyEi.resume", "co::body(int)", "co::body", false},
    };
    EXPECT(known, false);
    expect_plain("_ZN2co4bodyEPZNS_4bodyEiE19_ZN2co4bodyEi.Frame.actor", "_ZN2co4bodyEi");
    expect_plain("_ZN7VirtualC2Ev.specialized.1", "_ZN7VirtualC2Ev");
    expect_plain("_ZN3app5.Frame", "_ZN3app5");
    expect_plain("x.Frame", "x.Frame");
}

/* Demanglers younger than that spell the constraint out, too. */
Test(demangle, constraints_do_not_hide_a_name) {
    static const char *const known[][2] = {
        {"_ZN3con11constrainedIiQgtstT_Li2EEEvS1_", "con::constrained<"},
        {"_ZN3con5afterIiEEvT_QltstS1_Li200E", "con::after<int>"},
        {"_ZN6Quoted5QueueILi200EE4pushIiQgtstT_Li2EEEvS2_", "Quoted::Queue<200>::push<"},
        {"_Z4onlyIiQ8IntegralIT_EEvv", "only<"},
        /* Template parameters that are declared: a type, a constrained one, a value, a template. */
        {"_ZN2c11aITkNS_3BigEiEEvT_", "c1::a<"},
        {"_ZN2c14CtorC2ITkNS_3BigEiEET_", "c1::Ctor::Ctor<"},
        {"_ZN1s3defILi5ETnNSt9enable_ifIXgtT_Li3EEiE4typeELi0EEEvv", "s::def<5, "},
        {"_ZN1n2ttITtTpTyESt6vectorEEvv", "n::tt<"},
        {"_ZNK2c11JeqITkNS_3BigEiEEbT_", "c1::J::operator==<"},
        {"_ZZN2c11fEvENKUlTkNS_3BigET_E_clIiEEDaS0_", "c1::f()::{lambda("},
        {"_ZZN2c11fITkNS_3BigEiEEvT_ENKUlvE_clEv", "c1::f<"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        char brief[256], *readable = na_demangle(known[i][0], false);
        na_demangle_short(readable, 100, brief, sizeof brief);
        cr_expect(strncmp(brief, known[i][1], strlen(known[i][1])) == 0, "%s: %s", known[i][0],
                  brief);
        free(readable);
    }
}

Test(demangle, whose_function_is_in_all_files) {
    static const struct {
        const char *name;
        bool external;
    } known[] = {
        {"_ZN7VirtualC2Ev", true},
        {"_ZL5quietv", false},
        {"_ZN3redL4makeEv", false},
        {"_ZN12_GLOBAL__N_13Foo4initEv", false},
        {"_ZN3lam3$_0clEv", false},
        {"_ZN3lamUlvE_clEv", false},
        {"init", false},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        cr_expect_eq(na_demangle_is_external(known[i].name, strlen(known[i].name)),
                     known[i].external, "%s", known[i].name);
}

Test(demangle, own_name_is_kept) {
    static const struct {
        const char *name, *brief; /* of at most 60 characters */
    } known[] = {
        {"std::map<std::string, std::vector<int> >::insert(int)", "std::map<...>::insert"},
        {"void app::run<app::Long>(app::Long const&)::{lambda(int)#1}::operator()(int) const",
         "app::run<...>(...)::{lambda(...)#1}::operator()"},
        {"one(int)::Local::two()", "one(int)::Local::two"},
        {"app::operator<< <std::char_traits<char>, std::string>(std::ostream&)", "app::operator<<"},
        {"(anonymous namespace)::table<int, std::allocator<int>, std::hash<int> >::grow(long)",
         "(anonymous namespace)::table<...>::grow"},
        {"aaaaaaaaaaaaaaaaaaaaa::bbbbbbbbbbbbbbbbbbbbbbbbb::ccccccccccccccccccccccc::own_name(int)",
         "aaaaaaaaaaaaaaaaaaaaa::bbbbbbbbbbbbbbbbbbbbbbbbb:...own_name"},
        {"aaaaaaaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbbbbbbbbbbcccccccccccccccccccccccddddddddd",
         "aaaaaaaaaaaaaaaaaaaaabbbbbbbb...cccccccccccccccccccddddddddd"},
        /* Between characters, of two bytes each. */
        {"x\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4"
         "\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4"
         "\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4"
         "\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4",
         "x\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4"
         "\u00e4\u00e4\u00e4\u00e4..."
         "\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4"
         "\u00e4\u00e4\u00e4\u00e4"},
        {"aaaaaaaaaaaaaaaaaaaaaa::bbbbbbbbbbbbbbbbbbbbbbbbb::ccccccccccccccccccccccc::fold::<u8>",
         "aaaaaaaaaaaaaaaaaaaaaa::bbbbbbbbbbbbbbbbbbbbbb...fold::<...>"},
        /* Where return types are still there. */
        {"std::enable_if<(4)<(9), void>::type greater<4>()", "greater<4>"},
        {"std::enable_if<((4)>(3)), void>::type f<4>()::{lambda()#1}::operator()() const",
         "f<4>()::{lambda()#1}::operator()"},
        {"std::enable_if<(sizeof (int))>=(4), int>::type at_least<int>(int)", "at_least<int>"},
        {"std::enable_if<(((4)>>(1))<(9))&&((((4)<<(1))>(2))), void>::type shifted<4>()",
         "shifted<4>"},
        {"decltype (({parm#1}->size)()) arrow<std::vector<int> >(std::vector<int>*)",
         "arrow<std::vector<int> >"},
        {"int (*function_of<int>(int))(int)", "function_of<int>"},
        {"int (tpl::M::*tpl::member_of<tpl::M>(tpl::M))(int)", "tpl::member_of<tpl::M>"},
        {"void by_pointer<&ops::operator<>()", "by_pointer<&ops::operator<>"},
        {"a(int)::{lambda()#1}::b() const::{lambda(int)#2}::get(int) const",
         "a(...)::{lambda()#1}::b() const::{lambda(...)#2}::get"},
        {"A::operator<(A const&)", "A::operator<"},
        {"A::operator-><int>() const", "A::operator-><int>"},
        {"A::operator std::vector<int>() const", "A::operator std::vector<int>"},
        {"operator\"\" _kb(unsigned long long)", "operator\"\" _kb"},
        {"operatorial(int)", "operatorial"},
        {"f(", "f"},
        {"f(((", "f"},
        {"<<<<", "<<<<"},
        {"operator", "operator"},
        {"operator<", "operator<"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        char brief[61];
        na_demangle_short(known[i].name, 40, brief, sizeof brief);
        cr_expect_str_eq(brief, known[i].brief, "%s: short %s", known[i].name, brief);
    }
}

Test(demangle, is_of) {
    static const struct {
        const char *name, *plain;
        bool is;
    } known[] = {
        {"(anonymous namespace)::Foo::init()", "init", true},
        {"(anonymous namespace)::Foo::initial()", "init", false},
        {"a::Baz<int>::create(int)", "create", true},
        {"a::make<int>(int)", "make<int>", true},
        {"main::{lambda()#1}::operator()() const", "operator()", true},
        {"A::operator<(A const&)", "operator<", true},
        {"A::operator<<(A const&)", "operator<=", false},
        {"init", "init", true},
        {"operator\"\" _x(int)", "operator\"\"_x", true},
        {"operator\"\" _xy(int)", "operator\"\"_x", false},
        {"init", "", false},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        cr_expect_eq(na_demangle_is_of(known[i].name, known[i].plain), known[i].is, "%s, %s",
                     known[i].name, known[i].plain);
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

/* Long names are read, hostile ones given up: nested without end, or doubled at each step. */
Test(demangle, long_names) {
    char name[20000] = "_Z1fI";
    for (int i = 0; i < 900; i++)
        strcat(name, "Li1E");
    strcat(name, "Evv");
    char *readable = na_demangle(name, false);
    cr_expect(strncmp(readable, "f<1, 1, ", 8) == 0, "%.40s", readable);
    free(readable);
    strcpy(name, "_Z1f");
    memset(name + 4, 'P', 16000);
    strcpy(name + 16004, "i");
    readable = na_demangle(name, false);
    cr_expect(strncmp(readable, "_Z1fPP", 6) == 0 || strncmp(readable, "f(int**", 7) == 0);
    free(readable);
    strcpy(name, "_Z1f1AIiiE");
    for (char c = '0'; c <= 'Z'; c = c == '9' ? 'A' : (char)(c + 1))
        snprintf(name + strlen(name), 16, "S_IS%c_S%c_E", c, c);
    readable = na_demangle(name, false);
    cr_expect(strlen(readable) < 70000);
    free(readable);
}

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
