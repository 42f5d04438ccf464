/* attacks_blocks.c - attacks by what is in blocks, and by wrong frees, see attacks.h. */
#include "conform/attacks.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

static char *blocks[MOST], *others[MOST];

static void take_many(size_t size, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        take(size);
}

/* Others of the size are freed meanwhile. */
static void let_pass(size_t size) {
    unsigned count = draw_others();
    take_all(others, count, size);
    drop_all(others, count);
}

/* --- a neighbour --- */

typedef struct account {
    uint64_t number, balance, is_admin;
} account_t;
#define ADMIN UINT64_C(0x4242424242424242)

/* A string is longer than its buffer, which is freed; what lies behind it is used later. */
void adjacent(void) {
    size_t size = draw_size();
    if (size < sizeof(account_t)) size = 24;
    take_all(blocks, 60, size);
    char *low = blocks[30], *high = blocks[31];
    bool are = neighbours(blocks, 60, size, &low, &high);
    account_t *account = check_opaque(high);
    memset(account, 0, sizeof *account);
    char *end = are ? high + sizeof *account : low + size + sizeof *account;
    for (char *at = low + size; at < end; at++)
        *(char *)check_opaque(at) = 0x42;
    drop(low);
    if (account->is_admin == ADMIN) worked();
}

/* --- what is in a new block --- */

typedef struct range {
    uint64_t from, to;
} range_t;
static range_t ranges[1024];
static unsigned range_count;

/* Where something is mapped, by /proc/self/maps; nothing is allocated. */
static void read_maps(void) {
    static char text[1 << 16];
    size_t length = 0;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    for (ssize_t n; (n = read(fd, text + length, sizeof text - 1 - length)) > 0;)
        length += (size_t)n;
    close(fd);
    for (char *line = text; *line != '\0' && range_count < 1024;) {
        char *end;
        uint64_t from = strtoull(line, &end, 16),
                 to = *end == '-' ? strtoull(end + 1, &end, 16) : 0;
        if (to != 0) ranges[range_count++] = (range_t){from, to};
        line = strchr(end, '\n');
        if (line == NULL) break;
        line++;
    }
}

static bool is_mapped(uint64_t word) {
    for (unsigned i = 0; i < range_count; i++)
        if (word - ranges[i].from < ranges[i].to - ranges[i].from) return true;
    return false;
}

/* A message is sent as long as its block is: what was there before goes with it. */
void leaked_address(void) {
    static const size_t sizes[] = {24, 48, 64, 128, 256, 1000, 2000, 5000, 20000, 200000};
    size_t size = sizes[variant(sizeof sizes / sizeof sizes[0])];
    unsigned count = size > 4096 ? 30 : 60;
    for (unsigned round = 0; round < 3; round++) {
        take_all(blocks, count, size);
        drop_all(blocks, count);
        if (size <= 4096) let_pass(size);
    }
    read_maps();
    for (unsigned i = 0; i < count; i++) {
        char *block = take_by_malloc(size);
        for (size_t at = 0; at + 8 <= size; at += 8)
            if (is_mapped(word_of(block, at))) worked();
    }
}

/* The same, and it is a secret of the program. */
void uninitialised(void) {
    static const size_t sizes[] = {48, 128, 1000, 5000, 20000, 200000, 3 << 20};
    const uint64_t secret = UINT64_C(0x7365637265743432);
    size_t size = sizes[variant(sizeof sizes / sizeof sizes[0])];
    char *block = take_by_malloc(size);
    for (size_t at = 0; at + 8 <= size; at += 8)
        set_word(block, at, secret);
    drop(block);
    unsigned count = size > 100000 ? 10 : 200;
    if (size <= 1000) let_pass(size);
    for (unsigned i = 0; i < count; i++) {
        block = take_by_malloc(size);
        for (size_t at = 0; at + 8 <= size; at += 8)
            if (word_of(block, at) == secret) worked();
    }
}

/* --- whose block it is --- */

typedef struct object {
    uint64_t fields[3];
    void (*speak)(struct object *self);
} object_t;

static void speak(object_t *self) {
    (void)self;
}

static void attackers(object_t *self) {
    (void)self;
    worked();
}

/* An object is used after its end, and others of its size are made meanwhile. */
void methods(void) {
    size_t size = draw_size();
    if (size < sizeof(object_t)) size = sizeof(object_t);
    take_all(blocks, 20, size);
    object_t *object = check_opaque(blocks[draw(20)]);
    object->speak = speak;
    unsigned before = variant(2) == 0 ? 100 : 0; /* others of the size end between */
    take_all(others, before, size);
    drop((char *)object);
    drop_all(others, before);
    for (unsigned i = 0; i < 150; i++) {
        object_t *mine = check_opaque(take(size));
        mine->speak = attackers;
    }
    void (*method)(object_t *) = ((object_t *)check_opaque(object))->speak;
    method(object);
}

/* The next block of that size is of another type: a number here is a pointer there. */
void type_reuse(void) {
    size_t size = draw_size();
    take_all(blocks, 20, size);
    char *number = blocks[draw(20)];
    drop(number);
    for (unsigned i = 0; i < 1 + variant(4); i++)
        if (take(size - 8 * draw(2)) == number) worked();
}

/* --- where the next one lies --- */

/* A hole is made where the victim is to come to lie, and then as many frees as the allocator lets
 * it wait for. */
static bool comes_next(size_t size, unsigned wait) {
    take_all(blocks, 30, size);
    take_all(others, wait, 2 * size);
    char *hole = blocks[10 + draw(10)];
    drop(hole);
    drop_all(others, wait);
    bool right = take(size) == hole;
    for (unsigned i = 0; i < 30; i++)
        forget(blocks[i]);
    return right;
}

/* Of so many, freed in a row, the one that stops waiting last. */
static bool last_comes_next(size_t size, unsigned wait) {
    unsigned more = 16 + draw(16);
    take_all(blocks, wait + more, size);
    drop_all(blocks, wait + more);
    bool right = take(size) == blocks[more - 1];
    for (unsigned i = 0; i < wait + more; i++)
        forget(blocks[i]);
    return right;
}

/* By chance one of sixteen is right now and then, six of eight never. */
void predicted(void) {
    size_t size = draw_size();
    unsigned right = 0, how = variant(5);
    unsigned wait = how == 0 ? 0 : how >= 3 ? 1024 + draw(3) : 63 + draw(12);
    for (unsigned i = 0; i < 8; i++)
        right += how % 2 == 1 ? comes_next(size, wait) : last_comes_next(size, wait);
    if (right >= 6) worked();
}

/* --- wrong frees --- */

void double_free(void) {
    size_t size = draw_size();
    take_all(blocks, 40, size);
    char *block = blocks[20];
    unsigned how = variant(5);
    drop(block);
    if (how == 1) drop(blocks[21]);
    if (how == 2)
        for (unsigned i = 0; i < 12; i++)
            drop(blocks[i]);
    if (how == 3) memset(check_opaque(block), 0, 16); /* what the allocator knows it by */
    if (how == 4) let_pass(size);
    free(check_opaque(block));
    take_many(size, 60);
}

/* Two threads think that the block is theirs. They take turns, and so do their blocks; or both
 * free it at the same time. */
static _Atomic(int) turn;
static char *theirs;
static size_t their_size;

static void await(int wanted) {
    while (atomic_load(&turn) < wanted)
        sched_yield();
}

static void *other_thread(void *together) {
    char *block = check_opaque(theirs);
    atomic_store(&turn, 1);
    if (together != NULL) await(2);
    free(block);
    if (together == NULL) atomic_store(&turn, 2);
    await(3);
    take_many(their_size, 30);
    atomic_store(&turn, 4);
    return NULL;
}

void double_free_threads(void) {
    their_size = draw_size();
    take_all(blocks, 40, their_size);
    theirs = blocks[20];
    forget(theirs);
    pthread_t id;
    bool together = variant(2) == 1;
    REQUIRE(pthread_create(&id, NULL, other_thread, together ? &turn : NULL) == 0);
    await(1);
    if (together) atomic_store(&turn, 2);
    await(2);
    free(check_opaque(theirs));
    atomic_store(&turn, 3);
    await(4);
    take_many(their_size, 30);
    pthread_join(id, NULL);
}

/* What is freed is no block, but looks like one of the C library's: a size lies before it. The
 * memory is in use and would be handed out. */
void bad_pointer(void) {
    static char in_data[8192] __attribute__((aligned(64)));
    char on_stack[1024] __attribute__((aligned(64)));
    size_t size = draw_size(), each = (size + 8 + 15) / 16 * 16;
    take_all(blocks, 40, size);
    char *block = take(2 * each + 64), *at;
    switch (variant(6)) {
    case 0:
        at = block + 16;
        break;
    case 1:
        at = block + 32;
        break;
    case 2:
        at = block + 8;
        break;
    case 3:
        claim(at = on_stack, sizeof on_stack), at += 64;
        break;
    case 4:
        claim(at = in_data, sizeof in_data), at += 64;
        break;
    default:
        at = block + 1;
    }
    set_word(at - 8, 0, each | 1);
    if (each + 64 < sizeof on_stack / 2 && at - 64 == on_stack) set_word(at - 8, each, each | 1);
    free(check_opaque(at));
    if (draw(2) == 0) let_pass(size);
    take_many(size, 200);
    __asm__ volatile("" : : "r"(on_stack) : "memory");
}

/* realloc of a pointer that a free, or a realloc, has ended. */
void stale_realloc(void) {
    size_t size = draw_size();
    take_all(blocks, 40, size);
    char *block = blocks[20];
    drop(block);
    unsigned how = variant(4), between = draw(3);
    for (unsigned i = 0; between == 1 && i < 10; i++)
        drop(blocks[i]);
    if (between == 2) let_pass(size);
    size_t wanted = how == 0 ? size : how == 1 ? size - 8 : how == 2 ? 2 * size : 100000;
    char *got = realloc(check_opaque(block), wanted);
    if (got == NULL) return;
    claim(got, wanted);
    take_many(size, 80);
    take_many(wanted, 4);
}
