"""cases_cxx.py - a C++ program whose every allocation is known: the functions of one kind each.

A case is text of C++ in which ASK marks where its function allocates, and DEF the line where it is defined
(a comment, so that the source stays what was compiled). `call` is what main does once. `name` is a regular
expression that the function's name must match, less what is between its outermost template brackets and its
parameters. `within`: the case that has its bytes where inlined calls can't be known.
"""

CASES = []


def case(name, text, call="", within=None, standard=17, needs=None, also=None):
    CASES.append({"name": name, "text": text.strip("\n"), "call": call, "within": within, "standard": standard,
                  "needs": needs, "also": also})


# ---- scopes --------------------------------------------------------------------------------------

case(r"plain", "NOINLINE void plain() { ASK } //DEF", "plain();")
case(r"quiet", "static NOINLINE void quiet() { ASK } //DEF", "quiet();")
case(r"one::same", "namespace one { NOINLINE void same() { ASK } } //DEF", "one::same();")
case(r"two::same", "namespace two { NOINLINE void same() { ASK } } //DEF", "two::same();")
case(r"red::make", "namespace red { static NOINLINE void make() { ASK } } //DEF", "red::make();")
case(r"blue::make", "namespace blue { static NOINLINE void make() { ASK } } //DEF", "blue::make();")
case(r"outer::inner::deep", "namespace outer::inner { NOINLINE void deep() { ASK } } //DEF", "outer::inner::deep();")
case(r"api::(v1::)?current", "namespace api { inline namespace v1 { NOINLINE void current() { ASK } } } //DEF",
     "api::current();")
case(r"\(anonymous namespace\)::hidden", "namespace { NOINLINE void hidden() { ASK } } //DEF", "hidden();")
case(r"\(anonymous namespace\)::Foo::init", "namespace { struct Foo { NOINLINE void init() { ASK } }; } //DEF", "Foo().init();")
case(r"\(anonymous namespace\)::Bar::init", "namespace { struct Bar { NOINLINE void init() { ASK } }; } //DEF", "Bar().init();")
case(r"app::\(anonymous namespace\)::Foo::init",
     "namespace app { namespace { struct Foo { NOINLINE void init() { ASK } }; } static void use_foo() { Foo().init(); } } //DEF",
     "app::use_foo();")
case(r"\(anonymous namespace\)::Baz<.*>::create",
     "namespace { template <class T> struct Baz { NOINLINE static void create() {} };\n"
     "template <> NOINLINE void Baz<int>::create() { ASK } } //DEF", "Baz<int>::create();")
case(r"\(anonymous namespace\)::Baz<.*>::create",
     "namespace { template <> NOINLINE void Baz<long>::create() { ASK } } //DEF", "Baz<long>::create();")
case(r"Shape::grow", "struct Shape { int x = 0; void grow(); };\nNOINLINE void Shape::grow() { x++; ASK } //DEF", "Shape().grow();")
case(r"Shape2::Nested::grow", "struct Shape2 { struct Nested { NOINLINE void grow() { ASK } }; }; //DEF", "Shape2::Nested().grow();")
case(r"Shape3::fixed", "struct Shape3 { NOINLINE static void fixed() { ASK } }; //DEF", "Shape3::fixed();")
case(r"host(\(\))?::Local::init",
     "NOINLINE void host() { struct Local { NOINLINE void init() { ASK } }; Local().init(); } //DEF", "host();")
case(r"host2(\(.*\))?::Local::init",
     "NOINLINE void host2(int) { struct Local { NOINLINE void init() { ASK } }; Local().init(); } //DEF", "host2(1);")
case(r"Derived::virtually",
     "struct Base { virtual ~Base() {} virtual void virtually() {} };\n"
     "struct Derived : Base { NOINLINE void virtually() override { ASK } }; //DEF",
     "{ Base *b = new Derived; b->virtually(); delete b; }")
case(r"over", "NOINLINE void over(int) { ASK } //DEF", "over(1);")
case(r"over", "NOINLINE void over(long) { ASK } //DEF", "over(1L);")
case(r"statically", "static NOINLINE void statically(int) { ASK } //DEF", "statically(1);")
case(r"statically", "static NOINLINE void statically(const char *) { ASK } //DEF", 'statically("");')

# ---- operators, constructors ---------------------------------------------------------------------

case(r"ops::operator<", "namespace ops { struct A {}; NOINLINE bool operator<(A, A) { ASK return true; } } //DEF",
     "(void)(ops::A() < ops::A());")
case(r"ops::operator>>", "namespace ops { NOINLINE int operator>>(A, A) { ASK return 1; } } //DEF", "(void)(ops::A() >> ops::A());")
case(r"ops::operator<<", "namespace ops { template <class T> NOINLINE int operator<<(A, T) { ASK return 1; } } //DEF",
     "(void)(ops::A() << 1);")
case(r"ops::B::operator\(\)", "namespace ops { struct B { NOINLINE void operator()(int) { ASK } }; } //DEF", "ops::B()(1);")
case(r"ops::C::operator\[\]", "namespace ops { struct C { NOINLINE int operator[](int) { ASK return 1; } }; } //DEF", "(void)ops::C()[1];")
case(r"ops::D::operator->", "namespace ops { struct D { int v; NOINLINE D *operator->() { ASK return this; } }; } //DEF",
     "{ ops::D d; d->v = 1; }")
case(r"ops::E::operator int", "namespace ops { struct E { NOINLINE operator int() { ASK return 1; } }; } //DEF", "(void)(int)ops::E();")
case(r"ops::F::operator (std::vector<.*>|char const\*|const char ?\*)",
     "namespace ops { struct F { NOINLINE operator const char *() { ASK return nullptr; } }; } //DEF", "(void)(const char *)ops::F();")
case(r"ops::G::operator bool", "namespace ops { struct G { NOINLINE explicit operator bool() { ASK return true; } }; } //DEF",
     "(void)(bool)ops::G();")
case(r'operator""_ask|operator"" _ask', 'NOINLINE int operator""_ask(unsigned long long) { ASK return 1; } //DEF', "(void)1_ask;")
case(r"Owner::operator new",
     "struct Owner { int v[4]; NOINLINE static void *operator new(std::size_t) { ASK return last; } static void operator delete(void *) {} }; //DEF",
     "(void)new Owner;")
case(r"Made::Made", "struct Made { int v; NOINLINE Made(int n) : v(n) { ASK } }; //DEF", "{ Made m(1); use(&m); }")
case(r"Ended::~Ended", "struct Ended { int v = 0; NOINLINE ~Ended() { ASK } }; //DEF", "{ Ended e; use(&e); }")
case(r"Virtual::Virtual",
     "struct Root { int r = 0; virtual ~Root() {} }; struct Virtual : virtual Root { NOINLINE Virtual() { ASK } }; //DEF\n"
     "struct Most : Virtual { int m = 0; };", "{ Virtual v; Most m; use(&v); use(&m); }", also=2)
case(r"Gone::~Gone",
     "struct Gone { int v = 0; virtual ~Gone(); }; NOINLINE Gone::~Gone() { ASK } //DEF\nstruct Further : Gone { int w = 0; };",
     "{ Gone *g = new Gone; use(g); delete g; Further f; use(&f); }", also=2)

# ---- templates and signatures --------------------------------------------------------------------

case(r"tpl::greater", "namespace tpl { template <int N> NOINLINE std::enable_if_t<(N > 3)> greater() { ASK } } //DEF", "tpl::greater<4>();")
case(r"tpl::less", "namespace tpl { template <int N> NOINLINE std::enable_if_t<(N < 9)> less() { ASK } } //DEF", "tpl::less<4>();")
case(r"tpl::shifted", "namespace tpl { template <int N> NOINLINE std::enable_if_t<((N >> 1) < 9) && (N << 1 > 2)> shifted() { ASK } } //DEF",
     "tpl::shifted<4>();")
case(r"tpl::at_least", "namespace tpl { template <class T> NOINLINE std::enable_if_t<(sizeof(T) >= 4), T> at_least(T t) { ASK return t; } } //DEF",
     "tpl::at_least(5);")
case(r"tpl::pick", "namespace tpl { template <class T> NOINLINE std::conditional_t<(sizeof(T) > 2), long, int> pick(T t) { ASK return t; } } //DEF",
     "tpl::pick(6);")
case(r"tpl::arrow", "namespace tpl { template <class T> NOINLINE auto arrow(T *t) -> decltype(t->size()) { ASK return t->size(); } } //DEF",
     "{ std::vector<int> v; tpl::arrow(&v); }")
case(r"tpl::pointed", "namespace tpl { template <class T> NOINLINE T *pointed(T *t) { ASK return t; } } //DEF", "{ int i; tpl::pointed(&i); }")
case(r"tpl::function_of", "namespace tpl { typedef int (*fn)(int); template <class T> NOINLINE int (*function_of(T))(T) { ASK return nullptr; } } //DEF",
     "tpl::function_of(1);")
case(r"tpl::array_of", "namespace tpl { static int arr[3]; template <class T> NOINLINE T (&array_of(T))[3] { ASK return arr; } } //DEF", "tpl::array_of(1);")
case(r"tpl::member_of", "namespace tpl { struct M { int f(int) { return 1; } };\ntemplate <class T> NOINLINE int (T::*member_of(T))(int) { ASK return nullptr; } } //DEF",
     "tpl::member_of(tpl::M());")
case(r"tpl::compared<.*>::run", "namespace tpl { template <bool B> struct compared { NOINLINE void run() { ASK } }; } //DEF", "tpl::compared<(4 > 3)>().run();")
case(r"tpl::taking", "namespace tpl { template <int N> NOINLINE void taking(std::enable_if_t<(N > 3), int>) { ASK } } //DEF", "tpl::taking<4>(1);")
case(r"tpl::valued", "namespace tpl { enum class Hue { red, blue }; template <Hue H> NOINLINE void valued() { ASK } } //DEF", "tpl::valued<tpl::Hue::blue>();")
case(r"tpl::letter", "namespace tpl { template <char C> NOINLINE void letter() { ASK } } //DEF", "tpl::letter<'<'>();")
case(r"tpl::by_pointer", "namespace tpl { template <bool (*F)(ops::A, ops::A)> NOINLINE void by_pointer() { ASK } } //DEF",
     "tpl::by_pointer<&ops::operator< >();")
case(r"tpl::packed", "namespace tpl { template <class... T> NOINLINE auto packed(T... t) -> decltype((t + ...)) { ASK return (t + ...); } } //DEF",
     "tpl::packed(1, 2L, 3u);")
case(r"tpl::deep", "namespace tpl { template <class T> NOINLINE void deep(T *) { ASK } } //DEF",
     "{ std::map<std::string, std::vector<std::pair<int, std::map<long, std::string>>>> m; tpl::deep(&m); }")
case(r"lng::the_long_one",
     "namespace lng { template <int N> struct a_rather_long_name_of_a_type_that_is_nested { struct in { }; };\n"
     "template <class... T> NOINLINE void the_long_one() { ASK } } //DEF",
     "lng::the_long_one<" + ", ".join(f"lng::a_rather_long_name_of_a_type_that_is_nested<{i}>" for i in range(80)) + ", "
     + ", ".join(f"std::integral_constant<long, {1000000007 * i}>" for i in range(60)) + ">();")
case(r"con::constrained", "namespace con { template <class T> requires (sizeof(T) > 2) NOINLINE void constrained(T) { ASK } } //DEF",
     "con::constrained(1);", standard=20)
case(r"con::after", "namespace con { template <class T> NOINLINE void after(T) requires (sizeof(T) < 200) { ASK } } //DEF", "con::after(1);", standard=20)
case(r"con::shortly", "namespace con { NOINLINE void shortly(auto) { ASK } } //DEF", "con::shortly(1);", standard=20)
case(r"sig::le", "namespace sig { template <int A, int B> NOINLINE std::enable_if_t<(A <= B)> le() { ASK } } //DEF", "sig::le<1, 2>();")
case(r"sig::both", "namespace sig { template <int A, int B> NOINLINE std::enable_if_t<(A < B && B > A)> both() { ASK } } //DEF", "sig::both<1, 2>();")
case(r"sig::tern", "namespace sig { template <int A> NOINLINE std::integral_constant<int, (A > 2 ? A : 2)> tern() { ASK return {}; } } //DEF", "sig::tern<3>();")
case(r"sig::dcl2", "namespace sig { template <class T> NOINLINE auto dcl2(T a, T b) -> decltype((a > b) ? a : b) { ASK return a; } } //DEF", "sig::dcl2(1, 2);")
case(r"sig::A2::operator<", "namespace sig { struct A2 { template <class T> NOINLINE std::enable_if_t<(sizeof(T) < 9), bool> operator<(T) const { ASK return true; } }; } //DEF", "(void)(sig::A2() < 1);")
case(r"ptr::getff", "namespace ptr { NOINLINE int (*(*getff(long))(char))(int) { ASK return nullptr; } } //DEF", "ptr::getff(1);")
case(r"ptr::tgetff", "namespace ptr { template <class T> NOINLINE int (*(*tgetff(T))(char))(T) { ASK return nullptr; } } //DEF", "ptr::tgetff(1);")
case(r"ptr::memm", "namespace ptr { struct M3 { int d; }; template <class T> NOINLINE int (T::*(*memm(T))(int))(long) { ASK return nullptr; } } //DEF", "ptr::memm(ptr::M3());")
case(r"sig::dautos", "namespace sig { static NOINLINE decltype(auto) dautos(int i) { ASK return i; } } //DEF", "sig::dautos(1);")
case(r"val::mp", "namespace val { struct Z { int operator>(int) { return 1; } }; template <int (Z::*F)(int)> NOINLINE void mp() { ASK } } //DEF", "val::mp<&val::Z::operator> >();")
case(r"val::chr", "namespace val { template <char... C> NOINLINE void chr() { ASK } } //DEF", "val::chr<'(', '>', ')', '{', ' ', '\"'>();")
case(r"val::locarg", "namespace val { template <class T> NOINLINE void locarg(T) { ASK } NOINLINE void locuse() { struct L {}; locarg(L()); } } //DEF", "val::locuse();")
case(r"val::Td<.*>::~Td", "namespace val { template <class T> struct Td { T a; NOINLINE ~Td() { ASK } }; } //DEF", "{ val::Td<std::pair<int, int>> c{}; use(&c); }")
case(r"lng::n" + "x" * 1500, "namespace lng { NOINLINE void n" + "x" * 1500 + "() { ASK } } //DEF", "lng::n" + "x" * 1500 + "();")
case(r"lng::t1", "namespace lng { template <class A, class B> struct P {}; template <int N> struct G { typedef P<typename G<N-1>::t, typename G<N-1>::t> t; }; template <> struct G<0> { typedef int t; };\n template <class T> NOINLINE void t1(T) { ASK } } //DEF", "lng::t1(lng::G<9>::t());")
case(r"con::a", "namespace con { template <class T> concept Big = sizeof(T) > 2; template <Big T> NOINLINE void a(T) { ASK } } //DEF", "con::a(1);", standard=20)
case(r"con::c", "namespace con { template <class T> requires Big<T> && (sizeof(T) < 100) NOINLINE std::enable_if_t<(sizeof(T) > 1)> c(T) { ASK } } //DEF", "con::c(1);", standard=20)
case(r"con::E<.*>::e", "namespace con { template <Big T> struct E { NOINLINE void e() requires (sizeof(T) > 3) { ASK } }; } //DEF", "con::E<int>().e();", standard=20)
case(r"con::nt", "namespace con { struct Lit { int a; char s[4]; }; template <Lit L> NOINLINE void nt() { ASK } } //DEF", "con::nt<con::Lit{3, \"a>(\"}>();", standard=20)
case(r"con::lamt", "namespace con { template <auto F> NOINLINE void lamt() { ASK } } //DEF", "con::lamt<[](int) { return 1; }>();", standard=20)
case(r"con::ctor::ctor", "namespace con { struct ctor { int q = 1; template <Big T> NOINLINE ctor(T) { ASK } }; } //DEF", "{ con::ctor c(1); use(&c); }", standard=20)

# ---- lambdas -------------------------------------------------------------------------------------

LAMBDA = r".*(lambda|\$_\d|operator\(\)).*"
case(r"lam::holder.*" + LAMBDA, "namespace lam { NOINLINE void holder() { auto f = []() NOINLINE { ASK }; f(); //DEF\n}}", "lam::holder();")
case(r"lam::pair.*" + LAMBDA,
     "namespace lam { NOINLINE void pair() { auto f = []() NOINLINE { ASK }; //DEF\n"
     " auto g = []() NOINLINE { ASK2 }; f(); g(); } }", "lam::pair();", also="second")
case(r"lam::nest.*" + LAMBDA,
     "namespace lam { NOINLINE void nest(int n) { auto f = [n]() NOINLINE { auto g = [n]() NOINLINE { //DEF\n ASK }; g(); }; f(); } }",
     "lam::nest(1);")
case(r"lam::handler.*" + LAMBDA,
     "namespace lam { template <class F> void each(F f) { f(1); }\n"
     "NOINLINE void handler(const std::string &, int) { each([](int) NOINLINE { ASK }); } } //DEF", 'lam::handler("", 1);')
case(r"lam::generic.*" + LAMBDA,
     "namespace lam { NOINLINE void generic() { auto f = [](auto) NOINLINE { ASK }; f(1); } } //DEF", "lam::generic();")
case(r"lam::returning.*" + LAMBDA,
     "namespace lam { template <int N> NOINLINE std::enable_if_t<(N > 3)> returning() { auto f = []() NOINLINE { ASK }; f(); } } //DEF",
     "lam::returning<4>();")
case(r".*(at_start|lambda|\$_\d|operator\(\)).*", "namespace lam { static auto at_start = []() NOINLINE { ASK return 1; }; } //DEF", "lam::at_start();")
case(r"lam::kept.*" + LAMBDA,
     "namespace lam { NOINLINE void kept() { std::function<void()> f = []() NOINLINE { ASK }; f(); } } //DEF", "lam::kept();")
case(r"lam::outer2.*::Loc::go.*" + LAMBDA, "namespace lam { NOINLINE void outer2(int n) { struct Loc { NOINLINE void go(int k) { auto f = [k](auto x) NOINLINE { ASK use((void *)(long)k); }; f(1L); } }; Loc().go(n); } } //DEF", "lam::outer2(1);")
case(r"lam::lamcls.*::In::put", "namespace lam { NOINLINE void lamcls() { auto f = []() NOINLINE { struct In { NOINLINE void put() { ASK } }; In().put(); }; f(); } } //DEF", "lam::lamcls();")
case(r"lam::Dm.*" + LAMBDA, "namespace lam { struct Dm { int a = []() NOINLINE { ASK return 1; }(); }; } //DEF", "{ lam::Dm m; use(&m); }")

# ---- calls ---------------------------------------------------------------------------------------

case(r"calls::rec", "namespace calls { NOINLINE int rec(int n) { if (n > 0) return rec(n - 1) + 1; ASK return 0; } } //DEF", "calls::rec(20);")
case(r"calls::leaf", "namespace calls { NOINLINE int leaf(int n) { ASK return n; } //DEF\nNOINLINE int tail(int n) { return leaf(n + 1); } }",
     "calls::tail(1);")
case(r"calls::first", "namespace calls { static INLINE void first() { ASK } } //DEF", "", within=r"calls::chain")
case(r"calls::third", "namespace calls { static INLINE void third() { first(); ASK } } //DEF", "", within=r"calls::chain")
case(r"calls::chain", "namespace calls { NOINLINE void chain() { third(); ASK } } //DEF", "calls::chain();")
case(r"\(anonymous namespace\)::In1::init", "namespace { struct In1 { INLINE void init() { ASK } }; } //DEF", "", within=r"calls::both")
case(r"\(anonymous namespace\)::In2::init", "namespace { struct In2 { INLINE void init() { ASK } }; } //DEF", "", within=r"calls::both")
case(r"calls::both", "namespace calls { NOINLINE void both() { In1().init(); In2().init(); ASK } } //DEF", "calls::both();")
case(r"calls::inside.*" + LAMBDA, "namespace calls { NOINLINE void inside() { auto f = []() __attribute__((always_inline)) { ASK }; //DEF\n f(); } }", "",
     within=r"nobody's")
case(r"calls::inside2", "namespace calls { NOINLINE void inside2() { inside(); ASK } } //DEF", "calls::inside2();")
case(r"calls::seldom",
     "namespace calls { [[noreturn]] NOINLINE void thrower(int n) { throw n; }\n"
     "NOINLINE void seldom(int n) { if (__builtin_expect(n == 77, 0)) { ASK thrower(n); } use(&n); } } //DEF",
     "try { calls::seldom(77); } catch (int) {}")
case(r"calls::caught",
     "namespace calls { NOINLINE void caught() { try { thrower(2); } catch (int) { ASK } } } //DEF", "calls::caught();")
case(r"calls::cloned",
     "namespace calls { static __attribute__((noinline)) int cloned(int a, int b) { ASK return a + b; } } //DEF",
     "use((void *)(long)calls::cloned(1, 7)); use((void *)(long)calls::cloned(2, 7));", also=2)
case(r"calls::by_alias",
     'namespace calls { extern "C" { NOINLINE void by_alias_real() { ASK } //DEF\nvoid by_alias(void) __attribute__((alias("by_alias_real"))); } }',
     "calls::by_alias();")
CASES[-1]["name"] = r"(calls::)?by_alias(_real)?"
case(r"(calls::)?chosen_impl",
     'extern "C" { NOINLINE void chosen_impl(void) { ASK } //DEF\nvoid (*choose(void))(void) { return chosen_impl; }\n'
     'void chosen(void) __attribute__((ifunc("choose"))); }', "chosen();", needs="ifunc")

# ---- the library ---------------------------------------------------------------------------------

case(r"lib::fills", "namespace lib { NOINLINE void fills() { for (int i = 0; i < BLOCKS; i++) { std::vector<char> v; v.reserve(SIZE); keep_vector(std::move(v)); } } } //DEF",
     "lib::fills();")
case(r"lib::news", "namespace lib { NOINLINE void news() { for (int i = 0; i < BLOCKS; i++) keep(new char[SIZE]); } } //DEF", "lib::news();")
case(r"lib::uniques",
     "namespace lib { struct Big { char b[SIZE]; };\nNOINLINE void uniques() { for (int i = 0; i < BLOCKS; i++) keep(std::make_unique<Big>().release()); } } //DEF",
     "lib::uniques();")
case(r"lib::strings", "namespace lib { NOINLINE void strings() { for (int i = 0; i < BLOCKS; i++) { std::string s; s.reserve(SIZE - 1); keep_string(std::move(s)); } } } //DEF",
     "lib::strings();", needs="libstdc++")  # libc++ rounds what is reserved
case(r"lib::headers_", '#include "vendor/include/c++/headers.hpp"', "lib::headers();")
case(r"std::(__1::)?hash<.*>::operator\(\)",
     "struct Key { int k; };\nnamespace std { template <> struct hash<Key> { NOINLINE size_t operator()(Key) const { ASK return 1; } }; } //DEF",
     "std::hash<Key>()(Key());")
case(r"lib::Alloc<.*>::allocate", "namespace lib { template <class T> struct Alloc { typedef T value_type; Alloc() {} template <class U> Alloc(const Alloc<U> &) {} NOINLINE T *allocate(std::size_t) { ASK return (T *)last; } void deallocate(T *, std::size_t) {} template <class U> bool operator==(const Alloc<U> &) const { return true; } template <class U> bool operator!=(const Alloc<U> &) const { return false; } }; } //DEF", "{ std::vector<char, lib::Alloc<char>> v; v.reserve(10); use(&v); }")
case(r"lib::std::grow", "namespace lib { namespace std { NOINLINE void grow() { for (int i = 0; i < BLOCKS; i++) keep(::malloc(SIZE)); } } } //DEF", "lib::std::grow();")
case(r"stdx::grow", "namespace stdx { NOINLINE void grow() { ASK } } //DEF", "stdx::grow();")
case(r"core::load", "namespace core { static NOINLINE void load() { ASK } } //DEF", "core::load();")
case(r"alloc::grow", "namespace alloc { NOINLINE void grow() { ASK } } //DEF", "alloc::grow();")
case(r"co::body",
     "namespace co { struct Task { struct promise_type { Task get_return_object() { return {}; } std::suspend_never initial_suspend() { return {}; }\n"
     "std::suspend_never final_suspend() noexcept { return {}; } void return_void() {} void unhandled_exception() {}\n"
     "static void *operator new(std::size_t n) { static char frames[4096]; return n > sizeof frames ? nullptr : frames; }\n"
     "static void operator delete(void *) {} }; };\n"
     "NOINLINE Task body(int n) { ASK use(&n); co_return; } } //DEF", "co::body(1);", standard=20, needs="coroutine")

# A header-only library of the user's, below a directory with the name of the compiler's own.
HEADER = "namespace lib { template <class T> NOINLINE void headers_(T n) { ASK use(&n); } //DEF\n" \
         "NOINLINE inline void headers() { headers_(1); } }\n"
