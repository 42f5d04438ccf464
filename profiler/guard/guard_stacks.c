/* guard_stacks.c - call stacks as a tree, in two halves that take turns; and the modules they lie
 * in. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <link.h>
#include <string.h>
#include <sys/syscall.h>

#include "profiler/containers/hash.h"
#include "profiler/guard/guard_state.h"
#include "profiler/record/unwind/elf_note.h"
#include "profiler/record/unwind/umodules.h"
#include "profiler/record/unwind/unwind.h"

#define BUCKETS 4096u

static uint16_t buckets[2][BUCKETS]; /* hash of (parent, pc) -> first node */
static uint32_t nodes_used[2];       /* nodes, from 1 */
static uint32_t guard_module_count;

void na_guard_capture(na_guard_stack_t *stack) {
    bool truncated;
    uint32_t learnt = na_unwind_learnt();
    stack->count = (uint32_t)na_unwind(stack->pc, NA_GF_FRAMES, &truncated);
    stack->truncated = truncated;
    na_guard_learnt(na_unwind_learnt() - learnt);
}

uint64_t na_guard_stack_hash(const na_guard_stack_t *stack) {
    uint64_t h = 1;
    for (uint32_t i = 0; i < stack->count; i++)
        h = na_hash_number(h, stack->pc[i]);
    return h != 0 ? h : 1;
}

/* --- modules --- */

const na_gf_module_t *na_guard_module_of(uint64_t pc) {
    uint32_t count = __atomic_load_n(&guard_module_count, __ATOMIC_ACQUIRE);
    for (uint32_t i = count; i > 0; i--) { /* the newest first: it may have taken another's place */
        const na_gf_module_t *m = &na_guards.t->modules[i - 1];
        if (pc - m->start < m->end - m->start) return m;
    }
    return NULL;
}

static void copy_name(char *to, const char *from) {
    size_t i = 0;
    for (; i < NA_GF_NAME - 1 && from[i] != 0; i++)
        to[i] = from[i];
    to[i] = 0;
}

static void copy_build_id(na_gf_module_t *m) {
    na_build_id_t id = na_elf_build_id_of(m->start, m->end, 1);
    if (id.length > sizeof m->build_id) return;
    m->build_id_bytes = (uint32_t)id.length;
    if (id.length != 0) memcpy(m->build_id, id.bytes, id.length);
}

/* One thread at a time; an error's report comes without the lock. */
static atomic_flag meeting = ATOMIC_FLAG_INIT;

void na_guard_stacks_after_fork(void) {
    atomic_flag_clear(&meeting);
}

static void meet(uintptr_t pc) {
    na_unwind_module_t found;
    if (guard_module_count == NA_GUARD_MODULES || na_umodule_find(pc, &found) == NA_UMODULE_NONE)
        return;
    na_gf_module_t *m = &na_guards.t->modules[guard_module_count];
    m->start = found.start;
    m->end = found.end;
    const struct link_map *map = found.link_map;
    m->build_id_bytes = 0;
    m->bias = map != NULL ? map->l_addr : 0;
    if (map != NULL && map->l_name != NULL && map->l_name[0] != 0)
        copy_name(m->name, map->l_name);
    else
        copy_name(m->name, na_guards.t->head.program);
    copy_build_id(m);
    na_guard_file_put(m, sizeof *m);
    __atomic_store_n(&guard_module_count, guard_module_count + 1, __ATOMIC_RELEASE);
}

void na_guard_meet_module(uintptr_t pc) {
    if (na_guard_module_of(pc) != NULL || atomic_flag_test_and_set(&meeting)) return;
    meet(pc);
    atomic_flag_clear(&meeting);
}

/* --- the tree --- */

static uint32_t find_stack(uint32_t half, uint32_t parent, uint64_t pc, uint32_t *bucket) {
    *bucket = (uint32_t)(na_hash_number(na_hash_number(2, parent), pc) >> 40) % BUCKETS;
    const na_gf_node_t *nodes = na_guards.t->nodes[half];
    uint32_t i = buckets[half][*bucket];
    while (i != 0 && (nodes[i].pc != pc || nodes[i].parent != parent))
        i = nodes[i].next;
    return i;
}

/* The other half is emptied. (Who reads a stack of it meanwhile sees that `turns` has changed.) */
static void turn_half(void) {
    na_gf_head_t *head = &na_guards.t->head;
    __atomic_store_n(&head->turns, head->turns + 1, __ATOMIC_SEQ_CST);
    uint32_t half = head->turns & 1;
    na_guard_put_counts();
    memset(buckets[half], 0, sizeof buckets[half]);
    nodes_used[half] = 0;
}

uint32_t na_guard_keep_stack(const na_guard_stack_t *stack) {
    if (stack->count == 0) return 0;
    na_gf_head_t *head = &na_guards.t->head;
    uint32_t half = head->turns & 1;
    if (nodes_used[half] + 1 + stack->count > NA_GUARD_NODES) {
        turn_half();
        half = head->turns & 1;
    }
    uint32_t place = 0;
    for (uint32_t i = stack->count; i > 0; i--) {
        uint64_t pc = stack->pc[i - 1];
        uint32_t bucket, found = find_stack(half, place, pc, &bucket);
        if (found == 0) {
            na_guard_meet_module((uintptr_t)pc - 1);
            found = ++nodes_used[half];
            na_guards.t->nodes[half][found] =
                (na_gf_node_t){.pc = pc, .parent = place, .next = buckets[half][bucket]};
            buckets[half][bucket] = (uint16_t)found;
            na_guard_file_put(&na_guards.t->nodes[half][found], sizeof(na_gf_node_t));
        }
        place = found;
    }
    return (head->turns & 0xffff) << 16 | place;
}

uint32_t na_guard_read_stack(uint32_t stack, uint64_t *pcs, uint32_t most) {
    const na_gf_head_t *head = &na_guards.t->head;
    uint32_t place = na_gf_stack_place(stack), turn_of = na_gf_stack_turn(stack), n = 0;
    uint32_t now = __atomic_load_n(&head->turns, __ATOMIC_SEQ_CST) & 0xffff;
    if (place == 0 || (turn_of != now && ((turn_of + 1) & 0xffff) != now)) return 0;
    while (place != 0 && place < NA_GUARD_NODES && n < most) {
        const na_gf_node_t *node = &na_guards.t->nodes[turn_of & 1][place];
        pcs[n++] = node->pc;
        place = node->parent;
    }
    uint32_t after = __atomic_load_n(&head->turns, __ATOMIC_SEQ_CST) & 0xffff;
    return turn_of == after || ((turn_of + 1) & 0xffff) == after ? n : 0;
}
