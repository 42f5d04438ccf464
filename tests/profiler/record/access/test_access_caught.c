/* test_access_caught.c - what a thread that frees notes of samples that wait in its processor's
 * ring. The ring, the clock and the blocks that live are the test's. */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kmod-ibs/uapi/numalloc_ibs.h"
#include "profiler/record/access/access_priv.h"

TestSuite(access_caught, .timeout = 300);

/* ---- the recorder's surroundings ---- */

_Atomic(uint8_t) na_profile_epoch = 1;
static uint64_t now = 1000; /* in ages */
static unsigned hurries;
static uintptr_t living; /* the one block that lives; 0: none */

uint64_t na_rec_ticks(void) {
    return now << NA_AGE_SHIFT;
}

void na_access_hurry(void) {
    hurries++;
}

enum { SIZE = 64, RECORDS = 64, CPUS = 1024 };

bool na_access_resolve_living(uintptr_t address, uint64_t moment, na_resolved_t *to) {
    (void)moment;
    if (living == 0 || address - living >= SIZE) return false;
    to->life = (na_life_t){
        .base = living, .usable = SIZE, .death = NA_LIFE_LASTS, .record = {.site = 9, .epoch = 1}};
    return true;
}

/* ---- */

static struct na_ibs_ring *ring;
static unsigned cpu;

static void start(void) {
    cpu_set_t set;
    cr_assert_eq(sched_getaffinity(0, sizeof set, &set), 0);
    for (cpu = 0; !CPU_ISSET(cpu, &set); cpu++) {
    }
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    cr_assert_eq(sched_setaffinity(0, sizeof set, &set), 0);
    na_os_page = 4096;
    ring = calloc(1, NA_IBS_RING_SIZE(RECORDS));
    na_caught_ring(cpu, CPUS, ring, RECORDS);
}

/* A sample at an address, as the kernel stores it. Returns its number. */
static uint32_t sample(uintptr_t address) {
    struct na_ibs_record *records = (struct na_ibs_record *)((char *)ring + NA_IBS_HEADER_SIZE);
    uint32_t seq = (uint32_t)ring->head;
    records[seq % RECORDS] = (struct na_ibs_record){.addr = address, .seq = seq};
    __atomic_store_n(&ring->head, ring->head + 1, __ATOMIC_RELEASE);
    return seq;
}

static void free_block(uintptr_t base, uint32_t site) {
    na_record_t record = {.site = site, .birth = now & NA_RECORD_TIME_MASK, .epoch = 1};
    na_caught_look((void *)base, SIZE, &record); /* NOLINT: an address, not a block */
}

Test(access_caught, each_turn_of_an_address_is_told_from_the_others) {
    start();
    for (uint32_t i = 0; i < 1000; i++) {
        na_life_t life;
        uint32_t seq = sample(0x10008);
        now += 10;
        free_block(0x10000, 100 + i % 2);
        cr_assert(na_caught_find(cpu, seq, &life), "sample %u", i);
        cr_assert_eq(life.record.site, 100 + i % 2);
        cr_assert_eq(life.base, 0x10000);
        cr_assert_eq(life.death, now);
        ring->tail = ring->head;
    }
    cr_assert_eq(hurries, 0);
}

Test(access_caught, blocks_that_live_are_noted_and_others_are_not) {
    start();
    living = 0x20000;
    na_life_t life;
    uint32_t in = sample(0x20010), out = sample(0x30000);
    free_block(0x10000, 5);
    cr_assert(na_caught_find(cpu, in, &life));
    cr_assert_eq(life.record.site, 9);
    cr_assert_eq(life.death, NA_LIFE_LASTS);
    cr_assert_not(na_caught_find(cpu, out, &life));
    cr_assert_not(na_caught_find(cpu, out + 1, &life));
    cr_assert_not(na_caught_find(cpu + 1, in, &life));
    cr_assert_not(na_caught_find(CPUS, in, &life));
    /* What was looked at is not looked at again, though the ring be shown again. */
    living = 0;
    na_caught_ring(cpu, CPUS, ring, RECORDS);
    free_block(0x20000, 6);
    cr_assert(na_caught_find(cpu, in, &life));
    cr_assert_eq(life.record.site, 9);
    /* Nor is it known in another profile. */
    na_profile_epoch = 2;
    cr_assert_not(na_caught_find(cpu, in, &life));
}

Test(access_caught, a_ring_that_fills_asks_for_the_access_thread) {
    start();
    for (int i = 0; i < RECORDS / 2; i++)
        sample(0x10008);
    free_block(0x10000, 5);
    cr_assert_eq(hurries, 1);
    /* More than it holds: what is left is known. */
    uint32_t last = 0;
    na_life_t life;
    for (int i = 0; i < 10 * RECORDS; i++)
        last = sample(0x10008);
    free_block(0x10000, 6);
    cr_assert(na_caught_find(cpu, last, &life));
    cr_assert(na_caught_find(cpu, last - RECORDS + 2, &life));
    cr_assert_not(na_caught_find(cpu, last - RECORDS, &life));
}

Test(access_caught, nothing_is_read_after_the_end_or_in_a_child) {
    start();
    pid_t child = fork();
    if (child == 0) { /* as where the rings are not mapped, and nobody said so */
        ring->head = 1;
        free_block(0x10000, 5);
        na_life_t life;
        _exit(na_caught_find(cpu, 0, &life) ? 1 : 0);
    }
    int status = -1;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0);
    na_caught_end();
    na_life_t life;
    uint32_t seq = sample(0x10008);
    free_block(0x10000, 5);
    cr_assert_not(na_caught_find(cpu, seq, &life));
}
