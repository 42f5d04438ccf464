/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/* numalloc_ibs.h - what the kernel module numalloc_ibs and its readers share: the ioctls of
 * /dev/numalloc_ibs, the rings, the records.
 *
 * A session belongs to the process that opened the device, and only that process is ever sampled:
 *
 *     fd = open("/dev/numalloc_ibs", O_RDWR | O_CLOEXEC);
 *     ioctl(fd, NA_IBS_INFO, &info);      what this machine can do, and why not more
 *     ioctl(fd, NA_IBS_SETUP, &setup);    says how large a ring is
 *     mmap(..., fd, NA_IBS_RING_OFFSET(cpu)) makes and maps the ring of a CPU that is online
 *     ioctl(fd, NA_IBS_START, &start);    from here on records arrive
 *     poll(fd), read the rings            (reader's side: see struct na_ibs_ring)
 *     ioctl(fd, NA_IBS_STOP);             may be started again, with another source
 *
 * Sampling lasts no longer than the mappings: when the last ring of a session is unmapped, by
 * munmap, exec or the end of the process, the session ends for good (poll says POLLHUP), whoever
 * still holds the descriptor. Rings are not inherited by forked children, and every call but
 * NA_IBS_INFO is refused to them (EPERM). Threads are sampled, those that exist at START and those
 * that come later. Samples on a CPU whose ring was not mapped are counted, and lost.
 *
 * Rings are locked memory of the user: so much for each CPU that is online (the module's parameter
 * mlock_kb), then what RLIMIT_MEMLOCK allows, together with perf's buffers; more wants CAP_IPC_LOCK
 * (mmap: EPERM). All rings together may take an eighth of the memory that is available (ENOMEM).
 *
 * All structures that are passed begin with their size, which must be the one below (EINVAL). Words
 * that are reserved must be 0. Little-endian, 64-bit only. */
#ifndef NUMALLOC_KMOD_IBS_UAPI_NUMALLOC_IBS_H
#define NUMALLOC_KMOD_IBS_UAPI_NUMALLOC_IBS_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define NA_IBS_ABI  2
#define NA_IBS_PATH "/dev/numalloc_ibs"

/* Where samples come from. */
enum na_ibs_source {
    NA_IBS_SOURCE_IBS = 1,     /* ibs_op of the CPU, through perf */
    NA_IBS_SOURCE_SWFAULT = 2, /* page faults: exact addresses, on any machine */
    NA_IBS_SOURCE_HWBP = 3,    /* a hardware watchpoint on one address */
    NA_IBS_SOURCE_SIM = 4,     /* made-up IBS registers at the ticks of a clock; tests only */
    NA_IBS_SOURCE_INJECT = 5,  /* what NA_IBS_INJECT is given; tests only */
    NA_IBS_SOURCES
};

/* ---- Records ----------------------------------------------------------------------------------
 */

enum na_ibs_op {
    NA_IBS_OP_UNKNOWN = 0, /* an access; the source does not say which */
    NA_IBS_OP_READ = 1,
    NA_IBS_OP_WRITE = 2,
    NA_IBS_OP_UPDATE = 3, /* one operation that loads and stores */
};

/* What answered the access. */
enum na_ibs_level {
    NA_IBS_LEVEL_UNKNOWN = 0,
    NA_IBS_LEVEL_L1 = 1,
    NA_IBS_LEVEL_L2 = 2,
    NA_IBS_LEVEL_L3 = 3,
    NA_IBS_LEVEL_LFB = 4,   /* the line was already on its way (fill buffer, MAB) */
    NA_IBS_LEVEL_CACHE = 5, /* another core's cache; NA_IBS_F_REMOTE says whether of this node */
    NA_IBS_LEVEL_DRAM = 6,
    NA_IBS_LEVEL_PMEM = 7,
    NA_IBS_LEVEL_CXL = 8,       /* memory of an extension card */
    NA_IBS_LEVEL_PEER = 9,      /* memory of a peer agent, such as a GPU's */
    NA_IBS_LEVEL_IO = 10,       /* device memory */
    NA_IBS_LEVEL_UNCACHED = 11, /* uncacheable memory */
    NA_IBS_LEVELS
};

/* Flags of a record. */
#define NA_IBS_F_SIM (1U << 0) /* made up (sim, inject): never evidence */
#define NA_IBS_F_KERNEL                                                                            \
    (1U << 1) /* the kernel's access to the process's memory; ip is the process's */
#define NA_IBS_F_IP_INVALID (1U << 2)  /* ip may be some instructions late */
#define NA_IBS_F_REMOTE     (1U << 3)  /* answered by another node */
#define NA_IBS_F_LOCAL      (1U << 4)  /* answered by this node; neither flag: not known */
#define NA_IBS_F_LATENCY    (1U << 5)  /* latency is valid */
#define NA_IBS_F_TLB_L1MISS (1U << 6)  /* missed the first data TLB */
#define NA_IBS_F_TLB_L2MISS (1U << 7)  /* missed both: the page tables were walked */
#define NA_IBS_F_TLB_KNOWN  (1U << 8)  /* the two flags above, and tlb_latency, mean something */
#define NA_IBS_F_LOCKED     (1U << 9)  /* a locked operation */
#define NA_IBS_F_PREFETCH   (1U << 10) /* a software prefetch */
#define NA_IBS_F_MISALIGNED (1U << 11)
#define NA_IBS_F_HITM       (1U << 12) /* the other cache held the line modified */
#define NA_IBS_F_HOME_WALK  (1U << 13) /* home_node is from the page table, not from the sample */
#define NA_IBS_F_NMI        (1U << 14) /* taken in a non-maskable interrupt */

#define NA_IBS_NO_NODE (-1)

struct na_ibs_record {
    __u64 time;        /* na_ibs_start.clock */
    __u64 ip;          /* of the process; 0: not known */
    __u64 addr;        /* of the process */
    __u64 data_src;    /* perf's encoding (PERF_MEM_*); 0: the source does not give it */
    __u32 tid;         /* in the PID namespace of whoever opened the device */
    __u32 weight;      /* events that this sample stands for: the period */
    __u32 seq;         /* low 32 bits of its place in the ring, counted from 0 */
    __u32 flags;       /* NA_IBS_F_* */
    __u16 cpu;         /* that made the access */
    __s16 cpu_node;    /* of that CPU */
    __s16 home_node;   /* of the page; NA_IBS_NO_NODE: not known */
    __u16 latency;     /* cycles of the cache miss (loads), 65535: or more */
    __u16 retire;      /* cycles from tag to retirement, 0: not known */
    __u16 tlb_latency; /* cycles of the TLB refill */
    __u8 op;           /* enum na_ibs_op */
    __u8 level;        /* enum na_ibs_level */
    __u8 width;        /* bytes; 0: not known */
    __u8 source;       /* enum na_ibs_source */
};

/* ---- Rings ------------------------------------------------------------------------------------
 */

/* Every sample that reaches a session is counted in `sampled` and in exactly one of the next six.
 */
enum na_ibs_counter {
    NA_IBS_SAMPLED = 0,
    NA_IBS_STORED = 1,   /* became a record */
    NA_IBS_LOST = 2,     /* the ring was full */
    NA_IBS_NESTED = 3,   /* came while a sample was being stored on this CPU */
    NA_IBS_FILTERED = 4, /* no load or store, or no address of the process */
    NA_IBS_GATED = 5,    /* outside of the ranges asked for */
    NA_IBS_STOPPED = 6,  /* came after the session stopped */
    NA_IBS_THROTTLED =
        7, /* times that perf paused the counter until the next clock tick: not samples */
    NA_IBS_HOSTILE = 8, /* of the lost: `tail` was impossible */
    NA_IBS_COUNTERS
};

#define NA_IBS_MAGIC       0x53424941u /* "AIBS" */
#define NA_IBS_HEADER_SIZE 4096u
#define NA_IBS_MIN_RECORDS 64u
#define NA_IBS_MAX_RECORDS 65536u
/* Where mmap finds the ring of a CPU. */
#define NA_IBS_RING_OFFSET(cpu) ((__u64)(cpu) << 32)
/* Bytes of one ring: the length that mmap wants, exactly, with MAP_SHARED. */
#define NA_IBS_RING_SIZE(records)                                                                  \
    (NA_IBS_HEADER_SIZE + (__u64)(records) * sizeof(struct na_ibs_record))

enum na_ibs_state {
    NA_IBS_IDLE = 0,
    NA_IBS_RUNNING = 1,
    NA_IBS_ENDED = 2, /* for good: the rings were unmapped */
};

/* The first page of a ring; the records follow at NA_IBS_HEADER_SIZE.
 *
 * Reader:  head = load-acquire(&ring->head); read records tail .. head - 1 (place: index modulo
 * records); store-release(&ring->tail, their end). One reader a ring. `head` and `tail` only grow
 * and do not wrap.
 *
 * Only `tail` is ever read by the kernel, and nothing but the reader's own samples depends on it: a
 * tail that is ahead of the head, or more than `records` behind it, loses samples, which are
 * counted. The kernel keeps head, size and counters to itself and writes copies here. */
struct na_ibs_ring {
    __u32 magic;
    __u16 abi;
    __u16 record_size;
    __u32 records; /* a power of two */
    __u32 cpu;
    __s32 node;   /* where the ring lies, and the node of its CPU */
    __u32 state;  /* enum na_ibs_state */
    __u32 source; /* of the current or last start */
    __u32 weight; /* period, as started */
    __u8 pad0[32];
    __u64 head; /* kernel */
    __u8 pad1[56];
    __u64 tail; /* reader */
    __u8 pad2[56];
    __u64 counter[NA_IBS_COUNTERS]; /* kernel; copies of what NA_IBS_STATS says */
    __u8 pad3[NA_IBS_HEADER_SIZE - 192 - 8 * NA_IBS_COUNTERS];
};

/* ---- Calls ------------------------------------------------------------------------------------
 */

struct na_ibs_info {
    __u32 size;
    __u32 abi;
    __u32 sources;  /* bit 1 << enum na_ibs_source: can be started here, by this caller */
    __u32 cpus;     /* CPUs are numbered below this; some numbers may have none */
    __u32 ibs_caps; /* CPUID 8000_001B EAX as the kernel masks it; 0: no IBS */
    __u32 family;   /* of the CPU, as displayed */
    __u32 model;
    __u32 ibs_per_task; /* 1: this kernel can count ibs_op per thread; 0: whole CPUs only */
    __u64 tick_ns;      /* a throttled counter rests at most this long */
    __u32 sessions;     /* open now, in all processes */
    __u32 events;       /* perf events that the module holds now */
    __u32 online;       /* CPUs that are: rings to be had */
    __u32 reserved;
    char why[128];     /* why IBS cannot be used; empty: it can */
    char refused[128]; /* why the last call of this session was refused that was; else empty */
};

struct na_ibs_setup {
    __u32 size;
    __u32 records;   /* a ring's, a power of two */
    __u32 watermark; /* poll returns when a ring holds this many; 1 .. records */
    __u32 reserved;
};

struct na_ibs_range {
    __u64 start;
    __u64 end; /* first address that is not of it */
};

#define NA_IBS_MAX_RANGES 16u

/* Flags of a start. */
#define NA_IBS_START_WHOLE_CPU                                                                     \
    (1U << 0)                      /* count all of each CPU and pick this process's samples        \
                                    */
#define NA_IBS_START_RAW (1U << 1) /* ibs: decode the registers here instead of by perf */
#define NA_IBS_START_NMI (1U << 2) /* sim: take the samples in non-maskable interrupts */

enum na_ibs_clock {
    NA_IBS_CLOCK_MONOTONIC = 0, /* CLOCK_MONOTONIC, ns */
    NA_IBS_CLOCK_TSC = 1,       /* the time stamp counter, raw */
};

struct na_ibs_start {
    __u32 size;
    __u32 source;
    __u32 flags;
    __u32 clock;
    __u64 period;  /* in: events between samples (sim: ns); out: in force (IBS: see START) */
    __u32 type;    /* ibs: /sys/bus/event_source/devices/ibs_op/type */
    __u32 ranges;  /* number of them; 0: all addresses */
    __u64 config;  /* ibs: bit 19 count ops instead of cycles, bit 16 misses of the L3 only */
    __u64 config1; /* ibs: bits 11:0 least load latency, where the kernel has it */
    __u64 addr;    /* hwbp: what to watch */
    __u32 length;  /* hwbp: 1, 2, 4, 8, or more where the CPU can */
    __u32 write;   /* hwbp: 1 writes only, 0 reads and writes */
    __u64 range;   /* address of struct na_ibs_range[ranges], ascending, disjoint */
};

struct na_ibs_stats {
    __u32 size;
    __s32 cpu; /* in: ring, -1: sum of all */
    __u64 counter[NA_IBS_COUNTERS];
    /* Of the shared counters of whole CPUs, for all sessions, since the module was loaded: samples
     * of other processes, and pauses by perf while another process ran (not in NA_IBS_THROTTLED).
     */
    __u64 foreign;
    __u64 foreign_throttled;
    __u64 enabled; /* ns that the session's counters were enabled, summed (cpu -1 only) */
    __u64 running; /* and ns that they counted: less where perf had to share the hardware */
    __u64 unarmed; /* CPUs that could not be given a counter (whole CPUs only) */
    __u64 no_ring; /* samples on CPUs without a ring, in no other account (cpu -1 only) */
};

/* Tests only: the module wants to be loaded with test_sources=1, the caller needs CAP_SYS_ADMIN. */
enum na_ibs_inject_form {
    NA_IBS_INJECT_RAW = 0,     /* regs through the decoder of numalloc_ibs_decode.h */
    NA_IBS_INJECT_DECODED = 1, /* as perf decodes them */
    NA_IBS_INJECT_FOREIGN = 2, /* as a sample of another process */
};

#define NA_IBS_INJECT_REGS 9u

struct na_ibs_inject {
    __u32 size;
    __u32 form;
    __u32 family; /* of the CPU that the sample is from */
    __u32 model;
    __u32 caps;
    __u32 repeat;                  /* 1 .. 65536 */
    __u64 reg[NA_IBS_INJECT_REGS]; /* OP_CTL RIP DATA DATA2 DATA3 DC_LINAD DC_PHYSAD BR_TARGET DATA4
                                    */
    __u64 sample_flags;            /* decoded: PERF_SAMPLE_* that are present */
    __u64 data_src, addr, phys_addr; /* decoded */
    __u32 weight, retire;            /* decoded: latency, tag to retirement */
    __u64 ip;                        /* decoded */
    __u64 ticks_min, ticks_max;      /* out: time stamp counter around the handler */
};

#define NA_IBS_IOC    0xEC
#define NA_IBS_INFO   _IOWR(NA_IBS_IOC, 0, struct na_ibs_info)
#define NA_IBS_SETUP  _IOW(NA_IBS_IOC, 1, struct na_ibs_setup)
#define NA_IBS_START  _IOWR(NA_IBS_IOC, 2, struct na_ibs_start)
#define NA_IBS_STOP   _IO(NA_IBS_IOC, 3)
#define NA_IBS_STATS  _IOWR(NA_IBS_IOC, 4, struct na_ibs_stats)
#define NA_IBS_INJECT _IOWR(NA_IBS_IOC, 5, struct na_ibs_inject)

#endif
