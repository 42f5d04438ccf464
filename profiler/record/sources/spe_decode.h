/* spe_decode.h - sample records of Arm's Statistical Profiling Extension (SPE), from the bytes that
 * the processor writes. They are specified in the Arm Architecture Reference Manual for A-profile,
 * chapter "Statistical Profiling Extension Sample Record Specification". It was not at hand when
 * this was written: the layout is held against perf's decoder (access.spe_perf), whose mistakes it
 * may share. Nothing here depends on the processor that it runs on.
 *
 * A record is a run of packets in any order, the last of which is a timestamp or an end packet. A
 * packet is a header of one byte, or two, and a payload of 1, 2, 4 or 8 bytes, little endian:
 *
 *   00000000            padding
 *   00000001            end of a record that has no timestamp
 *   001000ii  1.......  an index of five bits: the upper two, then a header as below
 *   001000nn  00000000  alignment: the next packet begins at a multiple of 2^(n+1)
 *   01zz0010            events, a bit each
 *   01zz0011            data source: what answered, in the processor's own numbers
 *   01zz10cc            type of operation, of class c
 *   01zz01ii            context: the software's number of the thread, where it sets one
 *   01110001            timestamp: the system counter
 *   10zz1iii            counter i: cycles
 *   10zz0iii            address i
 *
 * zz is the binary logarithm of the payload's bytes in all headers from 01000000 on, so that
 * packets which are not known are passed over. Other headers are an error. What follows cannot be
 * told apart any more: all up to the end of the chunk is left out. (A chunk is what the processor
 * wrote between two starts, and begins with a record. The last record of one may be cut off.)
 *
 * No function here allocates, locks or calls the system; any bytes are safe. */
#ifndef NUMALLOC_PROFILER_RECORD_SOURCES_SPE_DECODE_H
#define NUMALLOC_PROFILER_RECORD_SOURCES_SPE_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* record.has: packets that it had. */
#define NA_SPE_HAS_PC        1u
#define NA_SPE_HAS_TARGET    2u
#define NA_SPE_HAS_VA        4u
#define NA_SPE_HAS_PA        8u
#define NA_SPE_HAS_EVENTS    16u
#define NA_SPE_HAS_SOURCE    32u
#define NA_SPE_HAS_OP        64u
#define NA_SPE_HAS_CONTEXT   128u
#define NA_SPE_HAS_TIME      256u
#define NA_SPE_HAS_TOTAL     512u
#define NA_SPE_HAS_ISSUE     1024u
#define NA_SPE_HAS_TRANSLATE 2048u

/* record.events */
#define NA_SPE_EVENT_EXCEPTION UINT64_C(0x1) /* it raised one */
#define NA_SPE_EVENT_RETIRED   UINT64_C(0x2) /* else it was begun ahead of time, in vain */
#define NA_SPE_EVENT_L1        UINT64_C(0x4) /* looked into the first cache of data */
#define NA_SPE_EVENT_L1_MISS   UINT64_C(0x8)
#define NA_SPE_EVENT_TLB       UINT64_C(0x10)
#define NA_SPE_EVENT_TLB_WALK  UINT64_C(0x20)
#define NA_SPE_EVENT_LLC       UINT64_C(0x100) /* looked into the last cache */
#define NA_SPE_EVENT_LLC_MISS  UINT64_C(0x200)
#define NA_SPE_EVENT_REMOTE    UINT64_C(0x400) /* answered by another socket */
#define NA_SPE_EVENT_L2        UINT64_C(0x80000)
#define NA_SPE_EVENT_L2_MISS   UINT64_C(0x100000)

/* record.op_class */
#define NA_SPE_CLASS_OTHER  0u
#define NA_SPE_CLASS_MEMORY 1u /* loads, stores, atomic operations */
#define NA_SPE_CLASS_BRANCH 2u

/* record.op of class MEMORY. Bit 0 says store. With (op & MASK) == EXTENDED the other bits have
 * their meaning. */
#define NA_SPE_OP_STORE         0x01u
#define NA_SPE_OP_EXTENDED_MASK 0xe2u
#define NA_SPE_OP_EXTENDED      0x02u
#define NA_SPE_OP_ATOMIC        0x04u /* reads and writes at once */
#define NA_SPE_OP_EXCLUSIVE     0x08u /* one half of a pair that does */
/* Of memory tags, and of system registers that lie in memory: no data of the program's. */
#define NA_SPE_OP_TAG    0x14u
#define NA_SPE_OP_SYSREG 0x30u

typedef struct na_spe_record {
    uint32_t has;  /* NA_SPE_HAS_*; of what it has not the field is 0 */
    uint8_t level; /* of privilege, 0 to 3: the program's is 0 */
    uint8_t op_class, op;
    uint8_t tag;                      /* the top byte of va, which is no part of the address */
    uint16_t total, issue, translate; /* cycles; the processor's highest number: or more */
    uint32_t context;
    uint64_t pc, target, va; /* 56 bits, the highest of which is repeated above */
    uint64_t pa;
    uint64_t events;
    uint64_t source;
    uint64_t time;
} na_spe_record_t;

typedef void (*na_spe_record_fn_t)(void *argument, const na_spe_record_t *record);

typedef struct na_spe_decoder {
    na_spe_record_t record; /* that is being read */
    uint64_t at;            /* place in the processor's buffer of the next byte */
    uint64_t skip;          /* bytes of an alignment that are left */
    uint8_t packet[10];     /* what there is of the next one */
    uint8_t count;          /* bytes of it */
    bool begun;             /* the record has a packet */
    bool lost;              /* a header made no sense; the rest is left out */
    uint64_t records;       /* read, of all chunks since the object was zeroed */
    uint64_t broken;        /* records that were cut off or made no sense: one for each chunk */
} na_spe_decoder_t;

/* A chunk begins at this place of the processor's buffer, which begins at a page. */
void na_spe_begin(na_spe_decoder_t *decoder, uint64_t at);
/* Its bytes, in pieces of any size: calls `each` with every record that is whole. */
void na_spe_feed(na_spe_decoder_t *decoder, const uint8_t *bytes, size_t count,
                 na_spe_record_fn_t each, void *argument);
/* It ends. */
void na_spe_end(na_spe_decoder_t *decoder);

#endif
