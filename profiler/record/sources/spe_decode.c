/* spe_decode.c - see spe_decode.h. */
#include "profiler/record/sources/spe_decode.h"

#define PADDING       0x00u
#define END           0x01u
#define EXTENDED      0x20u /* of bits 7 to 2 */
#define EXTENDED_MASK 0xfcu
#define SIZED         0x40u /* from here on headers have a length in them */
#define TIMESTAMP     0x71u

/* Headers without the length, bits 5 and 4, and without an index. */
#define EVENTS  0x42u
#define SOURCE  0x43u
#define CONTEXT 0x44u
#define OP      0x48u
#define ADDRESS 0x80u
#define COUNTER 0x88u

enum { PC = 0, TARGET = 1, VA = 2, PA = 3 };
enum { TOTAL = 0, ISSUE = 1, TRANSLATE = 2 };

#define ADDRESS_BITS 56

static uint64_t address_of(uint64_t payload) {
    return (uint64_t)((int64_t)(payload << (64 - ADDRESS_BITS)) >> (64 - ADDRESS_BITS));
}

static void take_address(na_spe_record_t *r, uint32_t index, uint64_t payload) {
    switch (index) {
    case PC:
        r->pc = address_of(payload);
        r->level = payload >> 61 & 3;
        r->has |= NA_SPE_HAS_PC;
        break;
    case TARGET:
        r->target = address_of(payload);
        r->has |= NA_SPE_HAS_TARGET;
        break;
    case VA:
        r->va = address_of(payload);
        r->tag = (uint8_t)(payload >> ADDRESS_BITS);
        r->has |= NA_SPE_HAS_VA;
        break;
    case PA: /* above it are the world that it is of, and the tag */
        r->pa = payload & ((UINT64_C(1) << ADDRESS_BITS) - 1);
        r->has |= NA_SPE_HAS_PA;
        break;
    default: /* the target of the branch before */
        break;
    }
}

static void take_counter(na_spe_record_t *r, uint32_t index, uint64_t payload) {
    uint16_t cycles = payload > UINT16_MAX ? UINT16_MAX : (uint16_t)payload;
    switch (index) {
    case TOTAL:
        r->total = cycles;
        r->has |= NA_SPE_HAS_TOTAL;
        break;
    case ISSUE:
        r->issue = cycles;
        r->has |= NA_SPE_HAS_ISSUE;
        break;
    case TRANSLATE:
        r->translate = cycles;
        r->has |= NA_SPE_HAS_TRANSLATE;
        break;
    default:
        break;
    }
}

/* A packet with a payload; `upper`: of its index. False: it ends the record. */
static bool take_packet(na_spe_record_t *r, uint8_t header, uint32_t upper, uint64_t payload) {
    if (header == TIMESTAMP && upper == 0) {
        r->time = payload;
        r->has |= NA_SPE_HAS_TIME;
        return false;
    }
    uint8_t kind = header & 0xcf;
    uint32_t index = upper << 3 | (header & 7);
    if ((kind & 0xf8) == ADDRESS) {
        take_address(r, index, payload);
    } else if ((kind & 0xf8) == COUNTER) {
        take_counter(r, index, payload);
    } else if (upper != 0) { /* others have no index */
    } else if (kind == EVENTS) {
        r->events = payload;
        r->has |= NA_SPE_HAS_EVENTS;
    } else if (kind == SOURCE) {
        r->source = payload;
        r->has |= NA_SPE_HAS_SOURCE;
    } else if ((kind & 0xfc) == CONTEXT) {
        r->context = (uint32_t)payload;
        r->has |= NA_SPE_HAS_CONTEXT;
    } else if ((kind & 0xfc) == OP) {
        r->op_class = header & 3;
        r->op = (uint8_t)payload;
        r->has |= NA_SPE_HAS_OP;
    }
    return true;
}

/* Bytes of a packet that begins so, as far as they say; 0: it makes no sense. */
static uint32_t length_of(const uint8_t *packet, uint32_t count) {
    uint8_t header = packet[0];
    uint32_t length = 1;
    if (header == PADDING || header == END) return 1;
    if ((header & EXTENDED_MASK) == EXTENDED) {
        if (count == 1) return 2;
        header = packet[1];
        length = 2;
        if (header == 0) return 2; /* alignment */
    }
    return header < SIZED ? 0 : length + (1u << (header >> 4 & 3));
}

static void forget_record(na_spe_decoder_t *d) {
    d->record = (na_spe_record_t){0};
    d->begun = false;
}

void na_spe_begin(na_spe_decoder_t *d, uint64_t at) {
    forget_record(d);
    d->at = at;
    d->skip = 0;
    d->count = 0;
    d->lost = false;
}

/* The packet is whole. */
static void end_packet(na_spe_decoder_t *d, na_spe_record_fn_t each, void *argument) {
    const uint8_t *p = d->packet;
    uint32_t length = d->count, headers = 1, upper = 0;
    d->count = 0;
    if (p[0] == PADDING) return;
    bool more = false;
    if (p[0] != END) {
        if ((p[0] & EXTENDED_MASK) == EXTENDED) {
            headers = 2;
            upper = p[0] & 3;
            if (p[1] == 0) {
                uint64_t to = UINT64_C(2) << (p[0] & 15);
                d->skip = -d->at & (to - 1);
                return;
            }
        }
        uint64_t payload = 0;
        for (uint32_t i = length; i-- > headers;)
            payload = payload << 8 | p[i];
        d->begun = true;
        more = take_packet(&d->record, p[headers - 1], upper, payload);
    }
    if (more) return;
    if (d->begun) {
        d->records++;
        each(argument, &d->record);
    }
    forget_record(d);
}

void na_spe_feed(na_spe_decoder_t *d, const uint8_t *bytes, size_t count, na_spe_record_fn_t each,
                 void *argument) {
    for (size_t i = 0; i < count && !d->lost;) {
        if (d->skip != 0) {
            uint64_t n = count - i < d->skip ? count - i : d->skip;
            d->skip -= n;
            d->at += n;
            i += n;
            continue;
        }
        d->packet[d->count++] = bytes[i++];
        d->at++;
        uint32_t length = length_of(d->packet, d->count);
        d->lost = length == 0;
        if (length == d->count) end_packet(d, each, argument);
    }
}

void na_spe_end(na_spe_decoder_t *d) {
    if (d->begun || d->lost || d->count != 0) d->broken++;
    forget_record(d);
    d->count = 0;
    d->skip = 0;
}
