/* nprof.h - the profile file as it lies on disk, version 2. docs/profile-format.md is the text.
 *
 * Little-endian; every field is naturally aligned and every structure has a fixed size. The file is
 *
 *     page 0        na_nprof_header_t: a constant part guarded by a crc, then a mutable part
 *     then          chunks, each page-aligned and a multiple of NA_NPROF_PAGE long, each beginning
 *                   with a na_nprof_chunk_t; entries follow the chunk header at once
 *     then          zeros, if more was preallocated than was used
 *
 * A running process maps the file MAP_SHARED and changes it in place, so the file is complete at
 * every instruction: the page cache keeps what a killed process had stored. The rules that make
 * this hold:
 *
 *   - An aligned word of at most 8 bytes is never torn. Anything wider may be half updated.
 *   - "release" below: an atomic store with release order after the stores that it publishes. A
 *     reader that sees the published value sees what it publishes.
 *   - Who writes: "creator" = the thread that made the chunk, before the magic is stored (release);
 *     "owner" = the one thread named by chunk.thread; "any" = any thread, atomically.
 *
 * Growth without a new version: a reader must accept a larger entry_size than it knows (fields are
 * only ever appended), must skip chunk types that it does not know and say so, and must ignore
 * bytes called reserved (a writer writes zero). Anything else needs a new NA_NPROF_VERSION.
 *
 * Units: bytes, milliseconds since the start of the profile ("ms"), or as the name says. Lifetimes
 * are in units of 2^header.age_shift ticks of header.clock_kind's clock ("ages"). Counts
 * called "scaled" are multiplied by header.count_scale (1 in mode sites), so that the unbiased
 * estimates of mode sample need no rounding to whole blocks. */
#ifndef NUMALLOC_PROFILER_FORMAT_NPROF_H
#define NUMALLOC_PROFILER_FORMAT_NPROF_H

#include <stddef.h>
#include <stdint.h>

#define NA_NPROF_VERSION 2u
#define NA_NPROF_PAGE    4096u

/* "\x89NPROF\r\n": not text, and damaged visibly by a transfer that converts line ends. */
#define NA_NPROF_MAGIC       UINT64_C(0x0a0d464f52504e89)
#define NA_NPROF_CHUNK_MAGIC 0x4b48434eu /* "NCHK" */

/* Behind the name of a copy that is not whole yet. */
#define NA_NPROF_PART ".part"

/* A file beside profiles, to which processes that cannot make one add a line, where it is there:
 * "PID ERRNO". */
#define NA_NPROF_MISSING "missing"

#define NA_NPROF_MAX_NODES 64u /* dense node indexes are below this */

/* header.state; anything else is a damaged file. */
#define NA_NPROF_RUNNING 1u /* running, or killed before it could close the file */
#define NA_NPROF_CLOSED  2u /* the process ended normally and everything is in the file */

/* header.mode. SITES: every event, summed. SAMPLE: blocks drawn with probability
 * 1 - exp(-size / sample_interval). TRACE: every event by itself. */
#define NA_NPROF_MODE_SITES  1u
#define NA_NPROF_MODE_SAMPLE 2u
#define NA_NPROF_MODE_TRACE  3u

/* header.clock_kind: what start_ticks, last_ticks and ticks_hz count. */
#define NA_NPROF_CLOCK_TSC       1u
#define NA_NPROF_CLOCK_MONOTONIC 2u /* CLOCK_MONOTONIC; ticks_hz is 1000000000 */

/* Strings are NUL-terminated inside their field and cut where they do not fit. */
typedef struct na_nprof_header {
    /* Constant part: written once by the creator before `magic` (release); guarded by const_crc. */
    uint64_t magic;
    uint32_t version;
    uint32_t header_size; /* NA_NPROF_PAGE; offset of the first chunk */
    uint32_t mode;
    uint32_t clock_kind;
    uint32_t page_size;       /* of the machine, bytes */
    uint32_t count_scale;     /* >= 1, see "scaled" above */
    uint64_t sample_interval; /* mean bytes between samples; 0 in mode sites */
    uint64_t publish_quantum; /* bytes a thread may hold back from the global live count */
    int32_t pid; /* 0: many processes, put together by a tool; peaks are sums of their own */
    int32_t ppid;
    int32_t inherited_pid; /* forked child: pid of the profile that it comes from; else 0 */
    int32_t mpi_rank;      /* -1: not part of an MPI job */
    uint64_t inherited_start_unix_ns; /* start_unix_ns of that profile; 0: none */
    uint64_t start_unix_ns;           /* CLOCK_REALTIME at the start of the profile */
    uint64_t start_mono_ns;           /* CLOCK_MONOTONIC at the same moment */
    uint64_t start_ticks;             /* clock_kind's clock at the same moment */
    uint64_t ticks_hz;   /* best known at the start; start/last pairs give a better one */
    uint32_t node_count; /* memory nodes known, 1..NA_NPROF_MAX_NODES */
    uint32_t mpi_size;   /* processes of the job; 0: not known */
    uint16_t node_ids[NA_NPROF_MAX_NODES]; /* dense index -> the kernel's node number */
    char writer[32];                       /* "numalloc 0.1.0" */
    char host[64];
    char program[512];      /* path of the executable */
    char command[1536];     /* argv, arguments separated by one space */
    uint64_t own_limit;     /* bytes that the profiler may use for what it records; 0: no limit */
    uint32_t age_shift;     /* at most 32 */
    char job[60];           /* of the batch system or MPI launcher; empty: none known */
    char other_malloc[256]; /* module whose malloc the program calls; empty: the writer's */
    uint32_t checks;        /* NA_NPROF_CHECK_*: what tells damage while the file is not finished */
    uint32_t locked;        /* 1: who writes the file has it locked (flock) as long as it does */
    char boot[40];          /* of the kernel, random/boot_id, where locks hold; empty: not known */
    uint8_t reserved0[304];
    uint32_t const_crc_pad; /* zero */
    uint32_t const_crc;     /* crc32 of all bytes before this field, magic included */

    /* Mutable part, from byte NA_NPROF_MUTABLE. Every field is written by "any" with atomic stores
     * or additions; together they are only as consistent as the notes say. */
    uint32_t state;        /* NA_NPROF_CLOSED is stored (release) after everything else */
    uint32_t peak_epoch;   /* 1 at the start; plus one at each new global peak, BEFORE the three
                            * fields below are stored, so that cells decide the peak (see cell) */
    int64_t peak_bytes;    /* requested bytes live at the peak, as the publishing thread saw it */
    int64_t peak_count;    /* scaled; blocks live then */
    uint64_t peak_ms;      /* when */
    uint64_t used;         /* bytes of the file handed out to header and chunks; raised BEFORE a
                            * chunk's header is written. A shorter file has been truncated. */
    uint64_t last_ms;      /* time of the last publication: the run lasted at least this long */
    uint64_t last_mono_ns; /* last_mono_ns and last_ticks: taken together, when closing only */
    uint64_t last_ticks;
    uint64_t
        own_bytes; /* taken by the profiler now, touched or not, this file's mapping included */

    /* What is missing from the profile (plain counts, never scaled; all 0: nothing is). */
    uint64_t lost_events;      /* events that found no cell */
    uint64_t lost_stacks;      /* walks that found no room for a new node: the stack's outer part
                                * stands for it, the root at worst */
    uint64_t truncated_stacks; /* events whose stack walk stopped early: node flag TRUNCATED */
    uint64_t lost_threads;     /* threads that found no THREADS entry */
    uint64_t lost_modules;     /* modules that found no MODULES entry */
    uint64_t before_frees;     /* frees of blocks from before the profile began (or a fork) */
    uint64_t dropped_events;   /* mode trace: left out by the limit on size (oldest first) */
    uint64_t packed;           /* where the PACKED chunk is; 0: none. Then `used` is what the file
                                * is as it was before, and there is nothing else in it */
    uint32_t disk_full;        /* NA_NPROF_FULL_*: the file could not grow, and why */
    uint32_t own_full;         /* a set of NA_NPROF_OWN_* */
    uint64_t merged_events;    /* charged to an outer part of their stack (the root at worst),
                                * because there was no room for one more stack or cell */
    uint64_t site_quantum;     /* bytes a cell may hold back from its site's share, now */
    uint32_t threads_most;     /* threads of the program that called malloc or free and ran at one
                                * time; 0: not known */
    /* Of a finished file, written with everything else of this part in one go: */
    uint32_t mutable_crc; /* na_nprof_mutable_crc */
    uint64_t finished;    /* NA_NPROF_FINISHED: mutable_crc holds; 0: the file is not finished, or
                           * is of before this was there */
    uint64_t sums;        /* where the SUMS chunk is; 0: none */
    uint64_t peak_check;  /* na_nprof_peak_check, see NA_NPROF_CHECK_ONCE */
    uint64_t missing;     /* na_nprof_missing once more, see NA_NPROF_CHECK_LOST */
    uint64_t together_ms; /* how long all processes ran, added up; 0: one did, for last_ms */
    uint64_t processes;   /* of that; 0: one */
    uint8_t reserved1[808];
} na_nprof_header_t;

/* header.disk_full: the disk, a quota, RLIMIT_FSIZE or the program that closed the file; or the
 * system mapped no more memory. */
#define NA_NPROF_FULL_DISK     1u
#define NA_NPROF_FULL_MAPPINGS 2u
/* header.own_full: own_limit was reached; the system refused memory to the profiler. */
#define NA_NPROF_OWN_LIMIT   1u
#define NA_NPROF_OWN_REFUSED 2u

/* header.checks. STACKS and MODULES entries have a checksum each. What THREADS, CELLS, SIZES and
 * LIVES count are the same events, and nothing of them is missing but what lost_* says: their sums
 * agree, but for one event of each thread. What is there once and changes seldom has a checksum
 * that is opened and sealed again (nprof_check.h): the peak, who threads were and when, the
 * timeline, and all entries of accesses. SERIES have one behind each entry. What is missing is
 * counted once by its kind, and once more in all. */
#define NA_NPROF_CHECK_ENTRIES 1u
#define NA_NPROF_CHECK_TWICE   2u
#define NA_NPROF_CHECK_ONCE    4u
#define NA_NPROF_CHECK_SERIES  8u
#define NA_NPROF_CHECK_LOST    16u
#define NA_NPROF_CHECK_FREES   32u /* THREADS say whose blocks a thread freed */

#define NA_NPROF_MUTABLE  3072u
#define NA_NPROF_FINISHED UINT64_C(0x64656873696e6966) /* "finished" */

_Static_assert(sizeof(na_nprof_header_t) == NA_NPROF_PAGE, "the header is page 0");
_Static_assert(offsetof(na_nprof_header_t, state) == NA_NPROF_MUTABLE, "mutable part");
_Static_assert(offsetof(na_nprof_header_t, const_crc) == NA_NPROF_MUTABLE - 4, "end of constants");
_Static_assert(offsetof(na_nprof_header_t, node_ids) % 8 == 0, "no padding");
_Static_assert(offsetof(na_nprof_header_t, disk_full) % 8 == 0, "no padding");

/* chunk.type */
#define NA_NPROF_STACKS      1u
#define NA_NPROF_CELLS       2u
#define NA_NPROF_THREADS     3u
#define NA_NPROF_MODULES     4u
#define NA_NPROF_TIMELINE    5u
#define NA_NPROF_ENVIRONMENT 6u
#define NA_NPROF_SHARES      7u
#define NA_NPROF_SERIES      8u
#define NA_NPROF_LIVES       9u
#define NA_NPROF_SIZES       10u
#define NA_NPROF_MAPS        11u
#define NA_NPROF_SPANS       12u
#define NA_NPROF_SPAN_SITES  13u
#define NA_NPROF_PACKED      48u /* words: the chunks of a small file; see section 3 of the text */
#define NA_NPROF_PACKED_FILE (1u << 20)  /* bytes of a file that may be packed, at most */
#define NA_NPROF_PACKED_MOST (64u << 10) /* bytes of such a chunk, at most */
#define NA_NPROF_SUMS        49u
/* From 64 on: added to a finished file by tools, not written by recorders. */
#define NA_NPROF_SYMBOLS 64u

/* ENVIRONMENT has NUMALLOC_PROFILE_LABELS first, if it is set: key=value,... of less than so many
 * characters. Readers ignore what is longer, or no list of labels. */
#define NA_NPROF_LABELS 512u

/* chunk.flags: exactly one of LIVE and SEALED. */
#define NA_NPROF_LIVE   1u /* changed in place; data_crc is 0 */
#define NA_NPROF_SEALED 2u /* written once; data_crc is valid */
#define NA_NPROF_ZLIB   4u /* with SEALED: the payload is a zlib stream of raw_length bytes */

/* Largest payload of a sealed chunk, so that a reader can bound its work. */
#define NA_NPROF_MAX_RAW (UINT64_C(64) << 20)

/* A chunk whose magic is still 0 was being born when the process died: nothing in it counts. Its
 * length is not known, so a reader looks for the next header at each following page; header_crc
 * and self_offset keep it from taking data for a header. */
typedef struct na_nprof_chunk {
    uint32_t magic; /* creator, release, last of all */
    uint16_t type;
    uint16_t flags;
    uint64_t length;      /* of the chunk with this header and its padding; multiple of a page */
    uint64_t self_offset; /* of this header in the file */
    uint64_t raw_length;  /* sealed: payload bytes without padding, before compression; at most
                             NA_NPROF_MAX_RAW; live: 0 */
    uint32_t thread;      /* the owner's thread index; 0: no owner, written by any */
    uint32_t sequence;    /* order of chunks of one (type, thread), from 0 */
    uint32_t
        entry_size;    /* bytes; multiple of 8, but 1 for ENVIRONMENT and SYMBOLS; at most 1 MiB */
    uint32_t capacity; /* entries that fit */
    uint32_t first_id; /* id of entry 0 where entries have ids (STACKS, THREADS, MODULES) */
    uint32_t count;    /* entries begun; release, after the entry is written where the chunk has
                        * an owner, after its slot is taken where it has none */
    /* Sealed: crc32 of every byte from the end of this header to the end of the chunk, padding
     * (zeros) included. Live: 0. */
    uint32_t data_crc;
    uint32_t header_crc; /* crc32 of this header with magic as stored, count, data_crc and
                          * header_crc taken as 0 */
} na_nprof_chunk_t;

_Static_assert(sizeof(na_nprof_chunk_t) == 64, "one cache line");

/* STACKS: the tree of call stacks. No owner; entry i is node first_id + i. Ids are dense over the
 * file: chunks in order of first_id leave no gap. Id 0 is "none" and has no entry that counts; id 1
 * is the root (no frame). A child of the root is an outermost frame (a thread's start); a site is
 * the node of the innermost frame, the caller of malloc. parent < id always.
 * Two-step birth: the slot is taken (chunk.count raised), pc and parent are stored, then flags with
 * NA_NPROF_STACK_VALID (release). Entries without VALID do not exist. Never changed afterwards. */
#define NA_NPROF_NO_STACK        0u
#define NA_NPROF_ROOT            1u
#define NA_NPROF_STACK_VALID     1u
#define NA_NPROF_STACK_TRUNCATED 2u /* the walk stopped below this frame: outer frames unknown */
#define NA_NPROF_STACK_EXACT     4u /* pc is the very instruction (signal frame), no return address */
#define NA_NPROF_STACK_MODULE(f) ((f) >> 8) /* module id of the pc, 0: look it up by address */
#define NA_NPROF_STACK_CHECK     0xf8u      /* na_nprof_stack_check; 0: the entry has none */

typedef struct na_nprof_stack {
    uint32_t parent;
    uint32_t flags; /* bits 0..2 above, bits 3..7 checksum; bits 8..31: module id */
    uint64_t pc;    /* return address (the call is at pc - 1) unless EXACT; 0 for the root */
} na_nprof_stack_t;

_Static_assert(sizeof(na_nprof_stack_t) == 16, "");

/* CELLS: what one thread did to the blocks of one site. One writer at a time per chunk: the thread
 * named by the chunk or, after its end, one that took over its place. A place has at most one cell
 * of a site. site is stored last when a cell is born; site 0: does not exist.
 *
 * A free is counted in the FREEING thread's cell of the ALLOCATION site, so live figures of one
 * cell may be negative and only sums over threads mean anything. A realloc counts as a free of the
 * old block at its site and an allocation at the caller's site, moved or not; realloc_count says
 * how many of alloc_count came so. Invariants, after summing over threads (within torn updates):
 *     live blocks = alloc_count - free_count; live bytes = alloc_bytes - free_bytes.
 *
 * Peak. Before its counters change, a cell whose peak_epoch differs from header.peak_epoch copies
 * its live figures to peak_bytes and peak_count and THEN stores peak_epoch (release). Hence
 *     live at the peak = peak_epoch == header.peak_epoch ? peak_* : current live,
 * also after a kill at any point.
 *
 * Local peak: the most bytes of the site that were ever live. A site with one cell has it in
 * local_peak_bytes. A site with several: in its SHARES entry, exact within cells x
 * header.site_quantum; without such an entry no cell ever held more than that quantum, and the sum
 * of the cells' local peaks bounds it from above.
 *
 * Torn updates: a process killed inside an event leaves, per thread, at most one event whose stores
 * are only partly there: any counter of at most two cells (a realloc has two) may lack that event,
 * no more. */
typedef struct na_nprof_cell {
    uint32_t site;
    uint32_t peak_epoch;
    uint64_t alloc_count;  /* scaled */
    uint64_t alloc_bytes;  /* requested */
    uint64_t alloc_usable; /* as handed out: requested + slack */
    uint64_t free_count;   /* scaled */
    uint64_t free_bytes;   /* requested size of the freed blocks */
    uint64_t free_usable;
    int64_t local_peak_bytes; /* largest alloc_bytes - free_bytes of this cell so far */

    int64_t peak_bytes;      /* alloc_bytes - free_bytes at the peak, see above */
    int64_t peak_count;      /* scaled; alloc_count - free_count at the peak */
    int64_t published_bytes; /* of alloc_bytes - free_bytes, what the site's share knows */
    uint64_t size_min;       /* requested, of allocations seen; UINT64_MAX before the first */
    uint64_t size_max;
    uint64_t lifetime_sum; /* ages, scaled; over blocks freed; live ones are censored */
    uint64_t lifetime_min; /* ages; UINT64_MAX before the first free */
    uint64_t lifetime_max;

    uint32_t lives;           /* file offset / 16 of the cell's LIVES entry; 0: none; 1: no room */
    uint32_t share;           /* file offset / 32 of the site's SHARES entry; 0: none */
    uint64_t temporary_count; /* scaled; freed by its thread before that allocated again */
    uint64_t cross_thread_free_count; /* scaled; freed by this thread, allocated by another */
    uint64_t cross_node_free_count;   /* scaled; allocated on another node than the freeing cpu's */
    uint64_t realloc_count;           /* scaled; allocations by realloc of a block, moved or not */
    uint64_t realloc_grow_bytes;      /* sum of what they were larger than before, by request */
    uint64_t realloc_shrink_bytes;    /* sum of what they were smaller */
    uint64_t realloc_copy_bytes;      /* bytes that moved: the smaller of both sizes */

    union {
        struct {                    /* mode sites: growth by copying without realloc: this thread
                                     * allocated a larger block here, and its next event was to free
                                     * the block that it had allocated here before that */
            uint64_t growth_count;  /* such frees */
            uint64_t growth_bytes;  /* sum of what the new blocks were larger */
            uint64_t growth_copied; /* sum of the sizes of the freed blocks */
            uint32_t last_block;    /* address / 16, cut to 32 bits, of the block allocated last
                                     * here, */
            uint32_t before_block;  /* and of the one before it; 0: it is gone, or none */
        };
        struct { /* mode sample: variances of the estimates, sums over blocks drawn of
                  * (1 - p) / p^2, and of this times the square of the requested bytes */
            double var_alloc_count, var_alloc_bytes;
            double var_free_count, var_free_bytes; /* the part that was freed again */
        };
    };
    uint64_t freed_here_count; /* scaled; frees CALLED here (option), of blocks from any site */
    uint64_t freed_here_bytes;
    uint32_t aligned_count; /* allocations that asked for an alignment; saturating, not scaled */
    uint32_t align_mask;    /* bit n: 2^n was asked; and NA_NPROF_ALIGN_API */
    uint32_t raw_allocs; /* mode sample: samples behind the estimates; saturating; mode sites: 0 */
    uint32_t raw_frees;
} na_nprof_cell_t;

/* Bit 0 of align_mask: a call of numalloc.h that names the place made some of them. */
#define NA_NPROF_ALIGN_API 1u

_Static_assert(sizeof(na_nprof_cell_t) == 256, "four cache lines");
_Static_assert(offsetof(na_nprof_cell_t, peak_bytes) == 64, "");
_Static_assert(offsetof(na_nprof_cell_t, lives) == 128, "");
_Static_assert(offsetof(na_nprof_cell_t, growth_count) == 192, "");

/* LIVES: how long the blocks freed in one cell had lived. Owner as for cells. A cell has one from
 * its third free on; two lifetimes are told by lifetime_min and lifetime_max. site is stored last.
 * Bucket 0: less than one age; n: 2^(n-1) ages up to, but not, 2^n; the last one has no end. */
#define NA_NPROF_AGE_BUCKETS 40u

typedef struct na_nprof_lives {
    uint32_t site; /* 0: does not exist */
    uint32_t reserved;
    uint32_t count[NA_NPROF_AGE_BUCKETS]; /* of frees, not scaled; plus carry << 32 */
    uint8_t carry[NA_NPROF_AGE_BUCKETS];
} na_nprof_lives_t;

_Static_assert(sizeof(na_nprof_lives_t) == 208, "a multiple of 16");

/* SHARES: what is live of one site in all threads, as far as they have published it. No owner; any
 * thread, atomically. site is stored last (release). */
typedef struct na_nprof_share {
    uint32_t site;      /* 0: does not exist */
    uint32_t series;    /* its row in the series of sites, plus 1; 0: none */
    int64_t live_bytes; /* requested */
    int64_t peak_bytes; /* the largest live_bytes */
    uint64_t peak_ms;
} na_nprof_share_t;

_Static_assert(sizeof(na_nprof_share_t) == 32, "two a cache line");

/* SIZES: events by size, of one place for threads (see CELLS; one writer at a time). A size's
 * bucket is its number of binary digits: 0: zero; n: 2^(n-1) up to, but not, 2^n; the last one has
 * no end. Scaled. */
#define NA_NPROF_SIZE_BUCKETS 48u

typedef struct na_nprof_sizes {
    uint64_t allocs[NA_NPROF_SIZE_BUCKETS];                      /* by requested size */
    uint64_t grown[NA_NPROF_SIZE_BUCKETS];                       /* reallocs by how much larger */
    uint64_t shrunk[NA_NPROF_SIZE_BUCKETS];                      /* ... smaller; [0]: same size */
    uint64_t lives[NA_NPROF_SIZE_BUCKETS][NA_NPROF_AGE_BUCKETS]; /* frees by size and lifetime */
} na_nprof_sizes_t;

_Static_assert(sizeof(na_nprof_sizes_t) == 8 * 48 * (3 + 40), "no padding");

/* MAPS: memory that the program mapped itself, by call and site. No owner; any thread, under the
 * profiler's own lock. site is stored last (release). */
#define NA_NPROF_MAP_MMAP   1u
#define NA_NPROF_MAP_MUNMAP 2u
#define NA_NPROF_MAP_MREMAP 3u /* bytes: of the new size */
#define NA_NPROF_MAP_BRK    4u /* brk and sbrk that raise the break; bytes: by how much */
#define NA_NPROF_MAP_UNBRK  5u /* that lower it */

typedef struct na_nprof_map {
    uint32_t site; /* 0: does not exist */
    uint32_t call; /* NA_NPROF_MAP_* */
    uint64_t count, bytes, min, max;
} na_nprof_map_t;

_Static_assert(sizeof(na_nprof_map_t) == 40, "");

/* SPANS and SPAN_SITES: what the allocator's spans (runs of pages that hold blocks of one size)
 * held when they were last walked: when a profile or a copy of it was completed. Not in mode
 * sample. Only spans that a block of this profile ever was in, and only blocks of this profile:
 * what is from before counts as not there. No owner; written by whoever completes. A later walk
 * that does not fit makes a new chunk and leaves the old one without entries.
 *
 * One SPANS entry for each node, class and occupancy. Large blocks (class 0) are one to a span. */
#define NA_NPROF_SPANS_UNSEEN 255u /* class of spans for which there was no time */

typedef struct na_nprof_span_sum {
    uint32_t block_size; /* of the class; 0: large blocks */
    uint16_t node;       /* dense, at most 255; not below header.node_count: bound to none */
    uint8_t cls;
    uint8_t eighths;    /* live blocks of all that fit, in eighths, rounded down: 8: full */
    uint64_t spans;     /* of these */
    uint64_t capacity;  /* blocks that fit in them */
    uint64_t blocks;    /* live */
    uint64_t bytes;     /* of the spans */
    uint64_t resident;  /* of those, in memory (mincore) */
    uint64_t requested; /* bytes of the live blocks, as asked for */
    uint64_t usable;    /* the same, as handed out */
} na_nprof_span_sum_t;

_Static_assert(sizeof(na_nprof_span_sum_t) == 64, "");

/* What the live blocks of one site hold. A span's resident bytes are divided equally among its live
 * blocks. Sparse: less than NA_NPROF_SPARSE eighths of a small span's blocks live. */
#define NA_NPROF_SPARSE 2u

typedef struct na_nprof_span_site {
    uint32_t site;
    uint32_t reserved;
    uint64_t blocks;
    uint64_t requested;
    uint64_t resident;
    uint64_t spans;         /* that hold a block of the site */
    uint64_t alone;         /* of those, that hold no other's */
    uint64_t sparse_spans;  /* of `spans`, sparse ones, */
    uint64_t sparse_blocks; /* the site's blocks in them, */
    uint64_t sparse_kept;   /* its part of their resident bytes that lie in no live block, */
    uint64_t sparse_ages;   /* and the sum of those blocks' ages at the walk */
} na_nprof_span_site_t;

_Static_assert(sizeof(na_nprof_span_site_t) == 80, "");

/* SUMS: checksums of what the process changed in place, written when the file is finished. In order
 * of offset, none overlaps another: the pages of all that is no sealed chunk, from the header page
 * to this chunk, and the headers of the sealed ones. */
#define NA_NPROF_SUM_BYTES (UINT32_C(64) << 10) /* of one part, at most */

typedef struct na_nprof_sum {
    uint64_t offset; /* in the file */
    uint32_t bytes;
    uint32_t crc; /* crc32 of those */
} na_nprof_sum_t;

_Static_assert(sizeof(na_nprof_sum_t) == 16, "");

/* THREADS: no owner; entry i is thread first_id + i, ids from 1 (0: not known). `tid` is stored
 * last (release) and is never 0 in an entry that exists. Afterwards the thread itself is the
 * writer. Counts are scaled. */
#define NA_NPROF_ENTRY_MALLOC    0u
#define NA_NPROF_ENTRY_CALLOC    1u
#define NA_NPROF_ENTRY_REALLOC   2u
#define NA_NPROF_ENTRY_ALIGNED   3u
#define NA_NPROF_ENTRY_NEW       4u
#define NA_NPROF_ENTRY_NEW_ARRAY 5u
#define NA_NPROF_ENTRY_FREE      6u
#define NA_NPROF_ENTRY_DELETE    7u /* and delete[] */
#define NA_NPROF_ENTRIES         8u

typedef struct na_nprof_thread {
    uint32_t tid;  /* the kernel's */
    uint32_t more; /* threads that the entry stands for, one after the other, besides the one that
                    * is named here, the last */
    char name[16];
    uint64_t start_ms; /* of the first */
    uint64_t end_ms;   /* UINT64_MAX: was running when last seen */
    uint64_t alloc_count;
    uint64_t free_count;
    uint64_t alloc_bytes; /* requested */

    uint64_t free_bytes;
    uint64_t stack_resident; /* largest seen of the thread's stack; 0: never looked */
    uint64_t stack_ms;       /* when */
    uint64_t check;          /* na_nprof_thread_check; stored after tid */
    /* Modes sites and sample, if header.checks has NA_NPROF_CHECK_FREES: as in cells. */
    uint64_t cross_thread_free_count;
    uint64_t cross_node_free_count;
    uint64_t realloc_count;
    uint64_t reserved;

    /* By NA_NPROF_ENTRY_*; a realloc is one call. Modes sites and trace: each call is drawn to be
     * timed with the same probability, those for large blocks are always timed. Ticks are the
     * allocator's without the profiler's. The estimate of what all calls took is
     *     always_ticks + (calls - always) * ticks / timed. Counts of timed calls are not scaled. */
    uint64_t calls[NA_NPROF_ENTRIES];
    uint64_t timed[NA_NPROF_ENTRIES]; /* drawn */
    uint64_t ticks[NA_NPROF_ENTRIES]; /* spent in those */
    /* Not in entries of 320 bytes: */
    double squares[NA_NPROF_ENTRIES];        /* sum of the squares of each one's ticks */
    uint64_t always[NA_NPROF_ENTRIES];       /* calls always timed */
    uint64_t always_ticks[NA_NPROF_ENTRIES]; /* spent in those */
} na_nprof_thread_t;

/* So many threads have an entry of their own. Later ones share one, each after another had its
 * place, so that the file grows with the threads at one time. */
#define NA_NPROF_THREADS_OWN 0xefffu

#define NA_NPROF_THREAD_LEAST 320u /* entry_size of files of before squares was there */

_Static_assert(sizeof(na_nprof_thread_t) == 512, "whole cache lines: threads do not share");
_Static_assert(offsetof(na_nprof_thread_t, squares) == NA_NPROF_THREAD_LEAST, "");

/* MODULES: mapped ELF files, with history. No owner; entry i is module first_id + i, ids from 1.
 * flags with VALID is stored last (release); only unload_ms changes afterwards. Two modules may
 * overlap in addresses if their times do not. */
#define NA_NPROF_MODULE_VALID   1u
#define NA_NPROF_MODULE_MAIN    2u  /* the executable */
#define NA_NPROF_MODULE_CUT     4u  /* the path did not fit */
#define NA_NPROF_MODULE_VDSO    8u  /* no file */
#define NA_NPROF_MODULE_SELF    16u /* this allocator's own library: its frames are skipped */
#define NA_NPROF_MODULE_INSIDE  32u /* (merge) native frames inside of a Python one lie here */
#define NA_NPROF_MODULE_CHECK   0xffffff00u /* na_nprof_module_check; 0: the entry has none */
#define NA_NPROF_MODULE_STILL   UINT64_MAX  /* unload_ms of a module still loaded */
#define NA_NPROF_BUILD_ID_BYTES 32u

typedef struct na_nprof_module {
    uint32_t flags;
    uint32_t build_id_size; /* 0: none; at most NA_NPROF_BUILD_ID_BYTES */
    uint64_t start;         /* first mapped address */
    uint64_t end;           /* one past the last */
    uint64_t bias;          /* address in memory - p_vaddr in the file */
    uint64_t load_ms;
    uint64_t unload_ms;
    uint8_t build_id[NA_NPROF_BUILD_ID_BYTES];
    char path[432];
} na_nprof_module_t;

_Static_assert(sizeof(na_nprof_module_t) == 512, "eight a page");

/* TIMELINE: one entry (capacity 1). Points keep the extremes of their interval. When a buffer is
 * full, the writer (any, under the profiler's own lock) merges pairs into the OTHER buffer, sets
 * its interval_ms (twice as long) and count, and then stores `active` (release): a kill in between
 * leaves the old buffer valid. count is stored (release) after the point; the last point may still
 * change. Point i covers [i * interval_ms, (i + 1) * interval_ms). */
#define NA_NPROF_POINTS        512u
#define NA_NPROF_POINT_SAMPLED 1u /* physical .. own were measured inside the interval */

typedef struct na_nprof_point {
    int64_t requested_max; /* requested bytes live; counted, not sampled */
    int64_t requested_min;
    int64_t blocks_max; /* scaled */
    uint64_t physical;  /* largest RSS less `own`, of the same moment if it was sampled; else, if
                         * the kernel says that there was more, of the end of the interval */
    uint64_t virtual_bytes; /* largest virtual size sampled */
    uint64_t mapped;        /* largest memory committed by the allocator for blocks */
    uint64_t own;           /* the profiler's own resident memory */
    uint64_t alloc_count;   /* scaled; in this interval */
    uint64_t alloc_bytes;   /* requested; in this interval */
    uint32_t flags;         /* 0: nothing was published in this interval: repeat the one before;
                             * from bit 2 on: na_nprof_point_flags */
    uint32_t threads;       /* largest number of threads of the process sampled */
} na_nprof_point_t;

#define NA_NPROF_POINT_COUNTED     2u /* requested_* and blocks_max hold something */
#define NA_NPROF_POINT_KINDS       3u
#define NA_NPROF_POINT_CHECK_SHIFT 2u

typedef struct na_nprof_timeline {
    uint32_t active;         /* 0 or 1 */
    uint32_t check;          /* na_nprof_timeline_check */
    uint32_t interval_ms[2]; /* 1 or more in the active buffer */
    uint32_t count[2];       /* points, at most NA_NPROF_POINTS */
    na_nprof_point_t points[2][NA_NPROF_POINTS];
} na_nprof_timeline_t;

_Static_assert(sizeof(na_nprof_point_t) == 80, "");
_Static_assert(sizeof(na_nprof_timeline_t) == 24 + 2 * 512 * 80, "");

/* SERIES: figures over time, a row for each thing; one entry (capacity 1) that begins with this and
 * goes on with the rows' heads and two buffers of values, values[buffer][row][point]. The buffers
 * are used and rescaled as those of TIMELINE; merged points keep the larger value (sites, nodes) or
 * the sum (sizes). Written under the profiler's own lock. */
#define NA_NPROF_SERIES_SITES  1u /* requested bytes live plus 1, 0: not known; id: site */
#define NA_NPROF_SERIES_NODES  2u /* the same; id: dense node */
#define NA_NPROF_SERIES_MAPPED 3u /* bytes committed by the allocator for blocks; the same */
#define NA_NPROF_SERIES_SIZES  4u /* allocations (scaled); id: bucket as in SIZES; value: count */
/* Bytes of the process in memory, as the kernel tells it now and then (/proc/self/numa_maps), less
 * the profiler's own; as NODES. On machines with several nodes, not in mode sample. */
#define NA_NPROF_SERIES_RESIDENT 5u

typedef struct na_nprof_series {
    uint32_t kind;
    uint32_t rows;
    uint32_t points; /* room in a buffer */
    uint32_t active; /* 0 or 1 */
    uint32_t interval_ms[2];
    uint32_t count[2]; /* points begun, at most `points` */
} na_nprof_series_t;

/* Levels (sites, nodes) are noted when they change; points in between get the level between. What
 * comes after a row's last note is 0; its level is the row's `last`.
 *
 * A row of SITES that a larger site has taken over starts anew: id 0, values 0, then the id. Since
 * a row always goes to a site that has more live than the row's site ever had, the rows end up with
 * the sites of the largest local peaks, and what a row does not show, before since_ms, was less
 * than the smallest `most` of the rows. */
typedef struct na_nprof_series_row {
    uint32_t id;
    uint32_t used; /* 1: the row counts */
    uint64_t since_ms;
    int64_t most; /* sites, nodes: largest level so far; sizes: all allocations */
    int64_t last; /* sites, nodes: level after the last note */
} na_nprof_series_row_t;

_Static_assert(sizeof(na_nprof_series_t) == 32 && sizeof(na_nprof_series_row_t) == 32, "");

/* Without the u64 check that follows (na_nprof_series_check, where header.checks says so). */
static inline uint64_t na_nprof_series_size(uint32_t rows, uint32_t points) {
    return sizeof(na_nprof_series_t) + (uint64_t)rows * sizeof(na_nprof_series_row_t) +
           (uint64_t)rows * points * 16;
}

/* ENVIRONMENT: entry_size 1; NUL-terminated "NAME=value" strings one after the other. Only
 * variables that steer the allocator, the preload or the job's rank belong here. */

/* SYMBOLS: entry_size 1, sealed; text that numalloc-dump bundle adds, docs/profile-format.md. */

/* Bytes of a chunk that holds `capacity` entries. */
static inline uint64_t na_nprof_chunk_length(uint64_t capacity, uint32_t entry_size) {
    uint64_t bytes = sizeof(na_nprof_chunk_t) + capacity * entry_size;
    return (bytes + NA_NPROF_PAGE - 1) & ~(uint64_t)(NA_NPROF_PAGE - 1);
}

/* Entries that fit in a chunk of `length` bytes. */
static inline uint32_t na_nprof_chunk_capacity(uint64_t length, uint32_t entry_size) {
    uint64_t n = (length - sizeof(na_nprof_chunk_t)) / entry_size;
    return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

/* The crc32 of zlib, gzip and PNG. Half a byte at a time: for headers, not for bulk data. */
static inline uint32_t na_nprof_crc32(const void *data, size_t size) {
    static const uint32_t half[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
                                      0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
                                      0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                      0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    const uint8_t *p = (const uint8_t *)data;
    uint32_t crc = ~0u;
    for (size_t i = 0; i < size; i++) {
        crc ^= p[i];
        crc = crc >> 4 ^ half[crc & 15];
        crc = crc >> 4 ^ half[crc & 15];
    }
    return ~crc;
}

static inline uint32_t na_nprof_header_crc(const na_nprof_header_t *h) {
    return na_nprof_crc32(h, offsetof(na_nprof_header_t, const_crc));
}

static inline uint64_t na_nprof_together_ms(const na_nprof_header_t *h) {
    return h->processes != 0 ? h->together_ms : h->last_ms;
}

/* Of the header's second part. `packed` does not belong to it: it is what it should be where a
 * chunk of that kind is. By value, as below. */
static inline uint32_t na_nprof_mutable_crc(na_nprof_header_t h) {
    h.packed = 0;
    h.mutable_crc = 0;
    return na_nprof_crc32((const uint8_t *)&h + NA_NPROF_MUTABLE, sizeof h - NA_NPROF_MUTABLE);
}

/* The bits NA_NPROF_STACK_CHECK of an entry's flags: a residue by 31, which no power of two is a
 * multiple of, so that no single bit of the entry changes unseen. Never 0. */
static inline uint32_t na_nprof_stack_check(na_nprof_stack_t s) {
    uint32_t rest = s.flags & ~NA_NPROF_STACK_CHECK;
    return (((uint32_t)(s.pc % 31) + s.parent % 31 * 2 + rest % 31 * 3) % 31 + 1) << 3;
}

/* The same of a module with these flags, for all that is written once: its path up to its end. */
static inline uint32_t na_nprof_module_check(const na_nprof_module_t *m, uint32_t flags) {
    na_nprof_module_t copy = *m;
    copy.flags = flags & ~NA_NPROF_MODULE_CHECK;
    copy.unload_ms = 0;
    size_t path = 0;
    while (path < sizeof copy.path && copy.path[path] != 0)
        path++;
    uint32_t crc = na_nprof_crc32(&copy, offsetof(na_nprof_module_t, path) + path);
    return crc >> 8 == 0 ? 256u : crc & NA_NPROF_MODULE_CHECK;
}

/* By value: the three fields that do not belong to the crc are cleared in the copy, and the magic
 * is set, so that a creator may compute it before it stores the magic. */
static inline uint32_t na_nprof_chunk_crc(na_nprof_chunk_t chunk) {
    chunk.magic = NA_NPROF_CHUNK_MAGIC;
    chunk.count = 0;
    chunk.data_crc = 0;
    chunk.header_crc = 0;
    return na_nprof_crc32(&chunk, sizeof chunk);
}

/* 1: this, which lies at `offset` of the file, is the head of a chunk that ends at `end` at most.
 */
static inline int na_nprof_is_chunk(const na_nprof_chunk_t *c, uint64_t offset, uint64_t end) {
    return c->magic == NA_NPROF_CHUNK_MAGIC && c->self_offset == offset &&
           c->length >= NA_NPROF_PAGE && c->length % NA_NPROF_PAGE == 0 &&
           c->length <= end - offset && c->header_crc == na_nprof_chunk_crc(*c);
}

#endif
