/* guard_file.h - what the guards know, as it lies in memory and in a file (.errors).
 *
 * One piece: a head, then sections, each an array of equal entries; the head says where each
 * begins. In the process it is a mapping of its own; where NUMALLOC_GUARD_FILE names a file, each
 * change is written to that as well, so a process that was killed leaves it as it was. Numbers are
 * little-endian, times milliseconds since the process's guards began. Written under the guards'
 * lock; a reader of a file that is still written may find the newest record half there.
 *
 *   MODULES   what code addresses belong to
 *   NODES     a tree of call stacks in two halves: a node is a return address and its caller's
 * node. When a half is full the other one is emptied and used: a stack's number has the count of
 * such turns in its upper 16 bits, its place in the half below; it holds as long as its half does
 * (na_gf_stack_half). 0: no stack. SITES     call stacks that blocks were drawn from, with the
 * chance that one is guarded RECORDS   the last guarded blocks, live and freed, a ring, and behind
 * them blocks between canaries ERRORS what was found, each complete in itself */
#ifndef NUMALLOC_PROFILER_FORMAT_GUARD_FILE_H
#define NUMALLOC_PROFILER_FORMAT_GUARD_FILE_H

#include <stdint.h>

#define NA_GF_MAGIC   "NAerror\n"
#define NA_GF_VERSION 2u

typedef enum na_gf_part {
    NA_GF_MODULES,
    NA_GF_NODES,
    NA_GF_SITES,
    NA_GF_RECORDS,
    NA_GF_ERRORS,
    NA_GF_PARTS
} na_gf_part_t;

typedef struct na_gf_section {
    uint64_t offset; /* in the file */
    uint32_t entry;  /* bytes */
    uint32_t count;  /* entries that are there; those never used are all zero */
} na_gf_section_t;

#define NA_GF_NAME   256u
#define NA_GF_FRAMES 48u

typedef struct na_gf_head {
    char magic[8];
    uint32_t version, bytes; /* of the head */
    uint32_t pid, page;      /* the system's page, bytes */
    uint32_t parent;         /* the process that it was forked from, guards and all; 0: none */
    uint32_t recovers;       /* the program goes on after an error */
    uint64_t start_unix_ns;
    uint64_t area, area_bytes; /* addresses that are the guards' */
    uint32_t turns;            /* of NODES; the half in use is turns & 1 */
    uint32_t errors;           /* ever found; the first ones are kept */
    /* Blocks: drawn, guarded, guarded and freed; drawn, but the site had its share, or there was no
     * room. Estimated: how many allocations the drawn ones stand for. */
    uint64_t drawn, guarded, freed, passed_over, no_room;
    uint64_t canaries; /* blocks between canaries, that were drawn and are not guarded */
    uint64_t now_ms;   /* when last written to */
    char program[NA_GF_NAME];
    na_gf_section_t parts[NA_GF_PARTS];
} na_gf_head_t;

typedef struct na_gf_module {
    uint64_t start, end;
    uint64_t bias; /* address in memory - address in the file's own count */
    uint32_t build_id_bytes;
    uint8_t build_id[20];
    char name[NA_GF_NAME];
} na_gf_module_t;

typedef struct na_gf_node {
    uint64_t pc;
    uint32_t parent; /* place in the same half, 0: outermost */
    uint32_t next;   /* of the same hash */
} na_gf_node_t;

static inline uint32_t na_gf_stack_turn(uint32_t stack) {
    return stack >> 16;
}
static inline uint32_t na_gf_stack_place(uint32_t stack) {
    return stack & 0xffff;
}

typedef struct na_gf_site {
    uint64_t hash;  /* of its stack; 0: free */
    uint32_t stack; /* as last seen */
    uint32_t drawn, guarded, live, freed;
    uint32_t hits; /* errors */
    uint32_t canaries,
        canaries_live; /* blocks between canaries: ever, and live; `freed` has both */
    uint32_t known;    /* an earlier run found an error (NUMALLOC_GUARD_SITES) */
    uint32_t reserved;
    double estimated; /* allocations that the drawn ones stand for */
    double life_ms;   /* of its freed blocks, all together */
} na_gf_site_t;

typedef enum na_gf_state {
    NA_GF_NEVER,
    NA_GF_LIVE,
    NA_GF_LEAVING, /* being freed; not in a file */
    NA_GF_FREED,
    NA_GF_LEFT, /* its free is left to the holder of the guards' lock; not in a file */
} na_gf_state_t;

#define NA_GF_REPORTED 1u /* flags: an access was reported */
#define NA_GF_OPENED   2u /* and its pages were made accessible (recover) */
#define NA_GF_CANARIES 4u /* it lies between canaries, on accessible pages */

typedef struct na_gf_record {
    uint64_t address;
    uint32_t size;
    uint32_t alloc_stack, free_stack;
    uint32_t alloc_thread, free_thread; /* the system's thread ids */
    uint32_t alloc_ms, free_ms;
    uint8_t state;          /* na_gf_state_t */
    uint8_t entry, release; /* na_entry_t, na_release_t (alloc/core/track/hooks.h) */
    uint8_t flags;
} na_gf_record_t;
_Static_assert(sizeof(na_gf_record_t) == 40, "5120 of them in 200 KiB");

typedef enum na_gf_kind {
    NA_GF_USE_AFTER_FREE = 1,
    NA_GF_OVERFLOW,
    NA_GF_UNDERFLOW,
    NA_GF_DOUBLE_FREE,
    NA_GF_INTERIOR_FREE, /* free of an address in the middle */
    NA_GF_OVERWRITTEN,   /* what lies behind the block had changed when it was freed */
    NA_GF_UNDERWRITTEN,  /* what lies before it */
    NA_GF_REALLOC_FREED, /* realloc of a freed block */
    NA_GF_WILD,          /* the address is of no block that is still known */
    NA_GF_WRITTEN_FREED, /* a block between canaries was written to after it was freed: from
                          * `address` on, over `distance` bytes */
    NA_GF_KINDS
} na_gf_kind_t;

enum { NA_GF_READ = 1, NA_GF_WRITE = 2 }; /* of an access; 0: not known */
enum { NA_GF_ACCESS, NA_GF_FREE, NA_GF_ALLOC, NA_GF_STACKS };

typedef struct na_gf_error {
    uint32_t kind, access;
    uint64_t address; /* accessed, or given to free */
    int64_t distance; /* bytes beyond the block's end, before its start, into it: by kind */
    uint32_t thread, ms;
    uint64_t unix_ns;
    uint32_t has_block, reserved;
    na_gf_record_t block; /* if has_block */
    char thread_name[16];
    uint32_t frames[NA_GF_STACKS]; /* how many; the first of an access is the instruction's */
    uint32_t truncated;            /* a bit a stack */
    uint64_t pcs[NA_GF_STACKS][NA_GF_FRAMES];
} na_gf_error_t;

#endif
