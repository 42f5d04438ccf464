/* test_watch_lines.c - access_watch_lines.c: which lines the recorder looks at word by word, and in
 * which order, until it knows whose they are; and where the operands of instructions lie. */
#include <criterion/criterion.h>

#include "profiler/record/sources/watch/access_watch_lines.h"
#include "profiler/record/sources/watch/access_watch_scout.h"

TestSuite(watch_lines, .timeout = 300);

#define LINE  ((uintptr_t)0x10000)
#define OTHER ((uintptr_t)0x20000)
#define MS    UINT64_C(1000000)

/* What threads do: of each word the one that writes it, 0: nobody does, 9: two of them. */
static uint32_t owner[8];
static uint32_t probes, halves, conflicts;

static na_line_seen_t seen_of(const na_line_range_t *r, uintptr_t line) {
    if (r->address / 64 * 64 != line) return (na_line_seen_t){0};
    uint32_t thread = owner[r->address % 64 / 8];
    return (na_line_seen_t){thread == 9 ? 2 : thread != 0, thread, thread != 0};
}

/* Rounds of 20 ms until then; what is probed of this line. */
static uint64_t run(uint64_t now, uint64_t until, uintptr_t line) {
    for (; now < until; now += 20 * MS) {
        na_line_range_t range[2];
        if (!na_lines_next(now, range)) continue;
        cr_assert_eq(range[0].address / 64, range[1].address / 64);
        cr_assert_neq(range[0].address, range[1].address);
        cr_assert(range[0].length == range[1].length &&
                  (range[0].length == 8 || range[0].length == 4));
        na_line_seen_t seen[2] = {seen_of(&range[0], line), seen_of(&range[1], line)};
        if (range[0].address / 64 * 64 == line) {
            probes++;
            halves += range[0].length == 4;
            conflicts +=
                seen[0].threads == 1 && seen[1].threads == 1 && seen[0].thread != seen[1].thread;
        }
        na_lines_learn(seen);
    }
    return now;
}

static void reset(void) {
    for (int i = 0; i < 8; i++)
        owner[i] = 0;
    probes = halves = conflicts = 0;
    na_lines_start();
}

static const na_line_seen_t writer = {1, 1, true};

/* Four counters: decided within a second, and looked at now and then afterwards. */
Test(watch_lines, shared_falsely) {
    reset();
    for (uint32_t i = 0; i < 4; i++)
        owner[i] = i + 1;
    na_lines_met(LINE + 8, &writer, 0, 100, 0);
    uint64_t now = run(0, 1000 * MS, LINE);
    cr_expect_geq(conflicts, 9, "%u conflicts", conflicts);
    cr_expect_eq(halves, 0);
    uint32_t before = probes;
    run(now, now + 8000 * MS, LINE);
    cr_expect_gt(probes, before);
    cr_expect_lt(probes, before + 60);
}

/* Of a line that threads are known to share, their words come first, until it is decided; then the
 * others, where a third one counts. */
Test(watch_lines, what_is_known_first) {
    reset();
    owner[0] = 1;
    owner[1] = 2;
    owner[5] = 3;
    na_lines_met(LINE, &writer, 3, 100, 0);
    cr_expect_not(na_lines_open());
    uint64_t now = run(0, 4 * 20 * MS, LINE);
    cr_expect_eq(conflicts, 4, "%u conflicts in %u probes", conflicts, probes);
    cr_expect(na_lines_open());
    bool third = false;
    for (; !third && now < 1000 * MS; now += 20 * MS) {
        na_line_range_t range[2];
        if (!na_lines_next(now, range)) continue;
        third = range[0].address == LINE + 40 || range[1].address == LINE + 40;
        na_line_seen_t seen[2] = {seen_of(&range[0], LINE), seen_of(&range[1], LINE)};
        na_lines_learn(seen);
    }
    cr_expect(third);
    run(now, now + 400 * MS, LINE);
    cr_expect_not(na_lines_open());
}

/* A line of one thread's own is looked at less and less. */
Test(watch_lines, private) {
    reset();
    owner[3] = owner[4] = 1;
    na_lines_met(LINE + 24, &writer, 0, 100, 0);
    uint64_t now = run(0, 1000 * MS, LINE);
    cr_expect(probes >= 7 && probes <= 20, "%u", probes);
    uint32_t before = probes;
    run(now, now + 10000 * MS, LINE);
    cr_expect_lt(probes, before + 45, "%u", probes);
}

/* What is read, or seldom written, is no reason to look. */
Test(watch_lines, no_reason) {
    reset();
    const na_line_seen_t reader = {1, 1, false};
    na_lines_met(LINE, &reader, 0, 100, 0);
    na_lines_met(LINE, &writer, 0, 5e6, 0);
    run(0, 1000 * MS, LINE);
    cr_expect_eq(probes, 0);
}

/* A word of several threads is looked at by its halves. */
Test(watch_lines, by_halves) {
    reset();
    owner[2] = 9;
    const na_line_seen_t two = {2, 1, true};
    na_lines_met(LINE + 16, &two, 0, 100, 0);
    run(0, 2000 * MS, LINE);
    cr_expect_geq(halves, 3);
}

/* Of an array of locks of four bytes each word is two threads': all are taken apart at once. */
Test(watch_lines, all_by_halves) {
    reset();
    for (uint32_t i = 0; i < 8; i++)
        owner[i] = 9;
    const na_line_seen_t two = {2, 1, true};
    na_lines_met(LINE + 16, &two, 0xff, 100, 0);
    run(0, 16 * 20 * MS, LINE);
    cr_expect_geq(halves, 8, "%u of %u", halves, probes);
}

/* Two counters of four bytes on a machine that is full: each look meets one of their threads, by
 * chance. Looks that meet the one and then the other soon after are what tells them apart. */
Test(watch_lines, halves_on_a_full_machine) {
    reset();
    const na_line_seen_t two = {2, 1, true};
    na_lines_met(LINE, &two, 0, 100, 0);
    uint32_t random = 1, turns = 0, last = 0;
    uint64_t last_at = 0;
    for (uint64_t now = 0; now < 10000 * MS; now += 60 * MS) {
        na_line_range_t range[2];
        if (!na_lines_next(now, range)) continue;
        random = random * 1664525 + 1013904223;
        uint32_t thread = 1 + (random >> 31);
        na_line_seen_t seen[2] = {{0}, {0}};
        for (uint32_t i = 0; i < 2; i++)
            if (range[i].length == 8 ? range[i].address == LINE
                                     : range[i].address == LINE + 4 * (thread - 1))
                seen[i] = (na_line_seen_t){1, thread, true};
        na_lines_learn(seen);
        if (range[0].length != 4) continue;
        turns += last != 0 && last != thread && now - last_at <= 300 * MS;
        last = thread;
        last_at = now;
    }
    cr_expect_geq(turns, 20, "%u", turns);
}

/* What threads do share comes before lines of which nothing is known, however many there are. */
Test(watch_lines, many) {
    reset();
    owner[0] = 1;
    owner[1] = 2;
    na_lines_met(LINE, &writer, 3, 100, 0);
    for (uint32_t i = 0; i < 500; i++)
        na_lines_met(OTHER + 64 * i, &writer, 0, 100, 0);
    run(0, 10000 * MS, LINE);
    cr_expect_geq(conflicts, 3, "%u", conflicts);
}

/* ---- operands ---- */

#define IP UINT64_C(0x401000)

static const uint64_t registers[16] = {
    0x1000, 0x2000, 0x3000, 0x4000, 0x5000, 0x6000, 0x7000, 0x8000,
    0x9000, 0xa000, 0xb000, 0xc000, 0xd000, 0xe000, 0xf000, 0x10000,
};

/* As an assembler wrote them. */
static const struct {
    const char *text;
    uint8_t code[15];
    uint32_t length;
    uint64_t address; /* 0: none */
} table[] = {
    {"mov (%rax),%rax", {0x48, 0x8b, 0x00}, 3, 0x1000},
    {"mov %rax,(%rdx)", {0x48, 0x89, 0x02}, 3, 0x3000},
    {"addq $1,(%rdi)", {0x48, 0x83, 0x07, 0x01}, 4, 0x8000},
    {"addq $1,0x10(%rbp)", {0x48, 0x83, 0x45, 0x10, 0x01}, 5, 0x6010},
    {"mov -8(%rsp),%ecx", {0x8b, 0x4c, 0x24, 0xf8}, 4, 0x4ff8},
    {"incl (%rax,%rcx,4)", {0xff, 0x04, 0x88}, 3, 0x9000},
    {"mov %r9,0x100(%r12,%r13,8)", {0x4f, 0x89, 0x8c, 0xec, 0x00, 0x01, 0x00, 0x00}, 8, 0x7d100},
    {"mov %eax,0x8(,%rbx,8)", {0x89, 0x04, 0xdd, 0x08, 0x00, 0x00, 0x00}, 7, 0x20008},
    {"mov 0x100(%rip),%eax", {0x8b, 0x05, 0x00, 0x01, 0x00, 0x00}, 6, IP + 6 + 0x100},
    {"addq $5,0x20(%rip)", {0x48, 0x83, 0x05, 0x20, 0x00, 0x00, 0x00, 0x05}, 8, IP + 8 + 0x20},
    {"movl $7,0x20(%rip)",
     {0xc7, 0x05, 0x20, 0x00, 0x00, 0x00, 0x07, 0x00, 0x00, 0x00},
     10,
     IP + 10 + 0x20},
    {"movw $7,(%rax)", {0x66, 0xc7, 0x00, 0x07, 0x00}, 5, 0x1000},
    {"lock xadd %rax,(%rsi)", {0xf0, 0x48, 0x0f, 0xc1, 0x06}, 5, 0x7000},
    {"lock cmpxchg %ecx,(%rbx)", {0xf0, 0x0f, 0xb1, 0x0b}, 4, 0x4000},
    {"movzbl (%rax),%eax", {0x0f, 0xb6, 0x00}, 3, 0x1000},
    {"testb $1,(%rax)", {0xf6, 0x00, 0x01}, 3, 0x1000},
    {"negq (%rax)", {0x48, 0xf7, 0x18}, 3, 0x1000},
    {"movsd %xmm0,(%r8)", {0xf2, 0x41, 0x0f, 0x11, 0x00}, 5, 0x9000},
    {"vmovups (%rdx),%ymm1", {0xc5, 0xfc, 0x10, 0x0a}, 4, 0x3000},
    {"vmovdqu (%r10),%xmm8", {0xc4, 0x41, 0x7a, 0x6f, 0x02}, 5, 0xb000},
    {"pshufb (%rcx),%xmm0", {0x66, 0x0f, 0x38, 0x00, 0x01}, 5, 0x2000},
    {"lea (%rax),%rax", {0x48, 0x8d, 0x00}, 3, 0},
    {"nopw (%rax)", {0x0f, 0x1f, 0x00}, 3, 0},
    {"prefetcht0 (%rax)", {0x0f, 0x18, 0x08}, 3, 0},
    {"add %rax,%rbx", {0x48, 0x01, 0xc3}, 3, 0},
    {"mov %fs:(%rax),%rax", {0x64, 0x48, 0x8b, 0x00}, 4, 0},
    {"test %eax,%eax", {0x85, 0xc0}, 2, 0},
    {"push %rbx", {0x53}, 1, 0},
    {"cmp $5,%al", {0x3c, 0x05}, 2, 0},
    {"mov $1,%eax", {0xb8, 0x01, 0x00, 0x00, 0x00}, 5, 0},
};

Test(watch_lines, operands) {
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        uint64_t next;
        uint64_t at = na_scout_operand(table[i].code, 15, IP, registers, &next);
        cr_expect_eq(at, table[i].address, "%s: %lx", table[i].text, at);
        cr_expect_eq(next, IP + table[i].length, "%s is %ld long", table[i].text,
                     (long)(next - IP));
        /* Cut short: nothing is made of it. */
        at = na_scout_operand(table[i].code, table[i].length - 1, IP, registers, &next);
        cr_expect_eq(at, 0, "%s, cut: %lx", table[i].text, at);
    }
}

Test(watch_lines, branches) {
    static const struct {
        uint8_t code[15];
        uint64_t next;
    } of[] = {
        {{0x74, 0xec}, IP + 2 - 20},                          /* je back */
        {{0x74, 0x10}, IP + 2},                               /* je ahead: not taken */
        {{0xeb, 0x10}, IP + 2 + 16},                          /* jmp */
        {{0x0f, 0x85, 0x00, 0xff, 0xff, 0xff}, IP + 6 - 256}, /* jne far back */
        {{0xc3}, 0},                                          /* ret */
        {{0xff, 0xd0}, 0},                                    /* call *%rax */
        {{0x06}, 0},                                          /* none */
    };
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        uint64_t next;
        cr_expect_eq(na_scout_operand(of[i].code, 15, IP, registers, &next), 0);
        cr_expect_eq(next, of[i].next, "%zu: %lx", i, next);
    }
}

/* What only reads: a line that nobody writes is no reason to look. */
Test(watch_lines, writes) {
    static const struct {
        const char *text;
        uint8_t code[15];
        bool writes;
    } of[] = {
        {"add %rax,(%rdx)", {0x48, 0x01, 0x02}, true},
        {"add (%rdx),%rax", {0x48, 0x03, 0x02}, false},
        {"cmp %rax,(%rdx)", {0x48, 0x39, 0x02}, false},
        {"addq $1,(%rdx)", {0x48, 0x83, 0x02, 0x01}, true},
        {"cmpq $1,(%rdx)", {0x48, 0x83, 0x3a, 0x01}, false},
        {"mov %rax,(%rdx)", {0x48, 0x89, 0x02}, true},
        {"mov (%rdx),%rax", {0x48, 0x8b, 0x02}, false},
        {"movq $1,(%rdx)", {0x48, 0xc7, 0x02, 0x01}, true},
        {"movslq (%rdx),%rax", {0x48, 0x63, 0x02}, false},
        {"xchg %rax,(%rdx)", {0x48, 0x87, 0x02}, true},
        {"testb $1,(%rdx)", {0xf6, 0x02, 0x01}, false},
        {"negq (%rdx)", {0x48, 0xf7, 0x1a}, true},
        {"incq (%rdx)", {0x48, 0xff, 0x02}, true},
        {"push (%rdx)", {0xff, 0x32}, false},
        {"lock xadd %rax,(%rsi)", {0xf0, 0x48, 0x0f, 0xc1, 0x06}, true},
        {"lock cmpxchg %ecx,(%rbx)", {0xf0, 0x0f, 0xb1, 0x0b}, true},
        {"movzbl (%rax),%eax", {0x0f, 0xb6, 0x00}, false},
        {"sete (%rax)", {0x0f, 0x94, 0x00}, true},
        {"btsl $3,(%rax)", {0x0f, 0xba, 0x28, 0x03}, true},
        {"movsd %xmm0,(%r8)", {0xf2, 0x41, 0x0f, 0x11, 0x00}, true},
        {"movsd (%r8),%xmm0", {0xf2, 0x41, 0x0f, 0x10, 0x00}, false},
        {"addsd (%rax),%xmm0", {0xf2, 0x0f, 0x58, 0x00}, false},
        {"movups %xmm0,(%rax)", {0x0f, 0x11, 0x00}, true},
        {"vmovups (%rdx),%ymm1", {0xc5, 0xfc, 0x10, 0x0a}, false},
        {"vmovups %ymm1,(%rdx)", {0xc5, 0xfc, 0x11, 0x0a}, true},
        {"vmovdqu (%r10),%xmm8", {0xc4, 0x41, 0x7a, 0x6f, 0x02}, false},
        {"faddl (%rax)", {0xdc, 0x00}, true}, /* not known */
    };
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++)
        cr_expect_eq(na_scout_may_write(of[i].code), of[i].writes, "%s", of[i].text);
}

/* Whatever bytes there are. */
Test(watch_lines, any_bytes) {
    uint64_t random = 88172645463325252u;
    for (uint32_t i = 0; i < 2000000; i++) {
        uint8_t code[16];
        for (uint32_t k = 0; k < 16; k += 8) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            __builtin_memcpy(code + k, &random, 8);
        }
        uint64_t next;
        (void)na_scout_operand(code, i % 16, IP, registers, &next);
        (void)na_scout_may_write(code);
    }
}

/* Two threads that count in one line, interrupted at the beginning of their loop always, where the
 * pointer to the counter is read: the counters' line is found, and that it is written. */
Test(watch_lines, operands_further_on) {
    static const uint8_t loop[] = {
        0x48, 0x8b, 0x34, 0xfb, /* mov (%rbx,%rdi,8),%rsi */
        0x48, 0x8b, 0x16,       /* mov (%rsi),%rdx */
        0x48, 0x83, 0xc2, 0x01, /* add $1,%rdx */
        0x48, 0x89, 0x16,       /* mov %rdx,(%rsi) */
        0xeb, 0xf0,             /* jmp to the beginning */
    };
    static const uint64_t counters = 0x7f0000001000, pointers = 0x7f0000002000;
    na_scout_start();
    uint32_t written = 0, others = 0;
    for (uint32_t i = 0; i < 64; i++) {
        /* The kernel's order: ax, bx, cx, dx, si, di, bp, sp, ip, r8 to r15. */
        uint64_t thread = i / 4 % 2, words[18] = {2};
        words[2] = pointers;
        words[5] = counters + thread * 8;
        words[6] = thread;
        na_scout_word_t found = na_scout_take((uintptr_t)loop, 100 + (uint32_t)thread, words, 18);
        bool counter = found.address == counters + thread * 8;
        written += counter && found.shared && found.written;
        others += !counter && found.address != pointers + thread * 8;
    }
    cr_assert_eq(others, 0);
    cr_assert_geq(written, 16);
}
