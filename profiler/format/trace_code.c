/* trace_code.c - the model of a program's events, and both directions through it.
 *
 * Encoder and decoder are two readings of one text: each step of the model is a function that both
 * call with the same arguments, in the same order. Whatever a damaged chunk says, the decoder stays
 * inside its tables: every index is masked or compared. */
#include "profiler/format/trace_code.h"

#define COLUMNS NA_NPROF_TRACE_COLUMNS
enum {
    OPS = NA_NPROF_TRACE_OPS,
    TIMES = NA_NPROF_TRACE_TIMES,
    STACKS,
    NODES,
    SIZES,
    SLACKS,
    BLOCKS,
    AGES,
    OLD,
    CLASSES,
    EXTRA
};

/* How the block of an allocation is named (bits 6 and 7 of its op). */
enum { LAST_FREED, NEXT_TO_LAST, BY_ADDRESS, BY_DEPTH };
/* How the block of a free is named (bits 4 to 6; of a RESIZE bits 6 and 7, the first four). */
enum { OLD_BLOCK, BY_AGE, NEWEST, NEXT_NEWER, NEXT_OLDER, AS_AFTER_STACK, SAME_AGE };

#define HOW(n)          ((unsigned)(n) << 4)
#define STACK_FORESEEN  HOW(1)
#define SIZE_FORESEEN   HOW(2)
#define BLOCK_HOW(n)    HOW((n) << 2)
#define MOVED_ELSEWHERE HOW(8)

#define PAIRS        8192u  /* stacks by the two before */
#define FOLLOW       4096u  /* stacks by the one before */
#define NUMBERS      16384u /* stacks numbered in a chunk, at most */
#define KNOWN        32768u /* slots of their table */
#define ASKED        8192u  /* what a stack asked for last */
#define SLACKS_KNOWN 1024u
#define PAGES        8192u
#define LISTS        64u  /* sizes with a list of free blocks */
#define DEPTH        512u /* blocks that a list remembers */
#define SEARCH       15u  /* depth that is looked at */
#define AFTER        4096u

typedef struct asked {
    uint64_t size;
    uint32_t slack;
} asked_t;

typedef struct page {
    uint64_t number;
    uint32_t class16;
} page_t;

typedef struct list {
    uint64_t last; /* address handed out last */
    uint32_t top;  /* blocks pushed less blocks popped, modulo DEPTH an index */
    uint32_t count;
    uint64_t blocks[DEPTH];
} list_t;

/* Slots of the table of addresses: an ordinal + 1 (0: empty), and above it bits of the address's
 * hash, so that few other blocks are looked at. */
#define ORDINAL_BITS 20
#define ORDINAL_MASK ((1u << ORDINAL_BITS) - 1)
_Static_assert(NA_NPROF_TRACE_UNITS / 2 + 1 < ORDINAL_MASK, "ordinals fit");

/* A chunk begins with zeros in all but `numbers` and `lists`: these have counts. */
struct na_trace_coder {
    uint32_t number_count;
    uint32_t stack, stack_before; /* the last two */
    uint32_t node;                /* the last new one */
    uint32_t list_count;
    uint64_t last_large, last_old;
    uint32_t ordinals;   /* allocations so far */
    uint32_t freed;      /* ordinal freed last */
    uint32_t age;        /* its age */
    uint64_t last_block; /* allocated last */
    uint64_t ticks;
    /* What these point to lies behind all else; its size depends on the number of units. */
    uint32_t slot_mask;
    uint32_t room; /* ordinals */
    uint64_t *addresses;
    uint16_t *classes;     /* usable / 16 by ordinal */
    uint32_t *slots;       /* the encoder's: address -> ordinal */
    uint8_t list_of[2049]; /* number + 1 by usable size / 16 */
    uint32_t pairs[PAIRS], follow[FOLLOW];
    uint32_t after[AFTER]; /* age that a free had after a stack */
    asked_t asked[ASKED];
    asked_t slacks[SLACKS_KNOWN];
    page_t pages[PAGES];
    uint32_t known[KNOWN]; /* number + 1; the encoder's */
    uint32_t numbers[NUMBERS];
    list_t lists[LISTS];
};

static uint32_t slots_for(uint32_t units) {
    uint32_t n = 1024;
    while (n < units)
        n *= 2;
    return n;
}

/* Blocks by ordinal: 8 bytes of address and 2 of class. */
uint64_t na_trace_decoder_bytes(uint32_t units) {
    return sizeof(na_trace_coder_t) + (units / 2 + UINT64_C(1)) * 10;
}

uint64_t na_trace_coder_bytes(uint32_t units) {
    return na_trace_decoder_bytes(units) + 64 + slots_for(units) * sizeof(uint32_t);
}

static void begin_coder(na_trace_coder_t *m, uint32_t units, bool encodes) {
    __builtin_memset(m, 0, offsetof(na_trace_coder_t, known));
    m->room = units / 2 + 1;
    m->addresses = (uint64_t *)(m + 1);
    uint64_t *after = m->addresses + m->room;
    if (encodes) {
        __builtin_memset(m->known, 0, sizeof m->known);
        m->slots = (uint32_t *)after;
        m->slot_mask = slots_for(units) - 1;
        __builtin_memset(m->slots, 0, (m->slot_mask + UINT64_C(1)) * sizeof *m->slots);
        after = (uint64_t *)(m->slots + m->slot_mask + 1);
    }
    m->classes = (uint16_t *)after;
}

/* ---- hashes ---- */

static uint32_t mix_hash(uint64_t v) {
    return (uint32_t)(v * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

static uint32_t *pair_slot(na_trace_coder_t *m) {
    return &m->pairs[mix_hash(m->stack | (uint64_t)m->stack_before << 32) % PAIRS];
}

static uint32_t *follow_slot(na_trace_coder_t *m) {
    return &m->follow[mix_hash(m->stack) % FOLLOW];
}

static asked_t *asked_slot(na_trace_coder_t *m, uint32_t stack) {
    return &m->asked[mix_hash(stack) % ASKED];
}

static asked_t *slack_slot(na_trace_coder_t *m, uint64_t size) {
    return &m->slacks[mix_hash(size) % SLACKS_KNOWN];
}

static page_t *page_slot(na_trace_coder_t *m, uint64_t address) {
    return &m->pages[mix_hash(address >> 13) % PAGES];
}

static uint32_t *after_slot(na_trace_coder_t *m) {
    return &m->after[mix_hash(m->stack | (uint64_t)m->age << 32) % AFTER];
}

static void saw_stack(na_trace_coder_t *m, uint32_t stack) {
    *pair_slot(m) = stack;
    *follow_slot(m) = stack;
    m->stack_before = m->stack;
    m->stack = stack;
}

/* ---- lists of free blocks ---- */

static uint32_t usable_class(uint64_t usable) {
    return usable <= 32768 ? (uint32_t)(usable / 16) : 0;
}

/* NULL: no such list, sizes above 32 KiB for example. */
static list_t *class_list(na_trace_coder_t *m, uint32_t class16) {
    if (class16 == 0 || class16 > 2048) return NULL;
    if (m->list_of[class16] == 0) {
        if (m->list_count == LISTS) return NULL;
        list_t *l = &m->lists[m->list_count];
        l->last = 0;
        l->top = l->count = 0;
        m->list_of[class16] = (uint8_t)++m->list_count;
    }
    return &m->lists[m->list_of[class16] - 1];
}

static uint64_t list_at(const list_t *l, uint32_t depth) {
    return l->blocks[(l->top - 1 - depth) % DEPTH];
}

static void list_push(list_t *l, uint64_t block) {
    l->blocks[l->top++ % DEPTH] = block;
    if (l->count < DEPTH) l->count++;
}

static void list_drop(list_t *l, uint32_t n) {
    l->top -= n;
    l->count -= n;
}

/* ---- blocks of these units ---- */

/* The address's slot: `*ordinal` of it, UINT32_MAX if it is empty. */
static inline uint32_t *find_ordinal(na_trace_coder_t *m, uint64_t address, uint32_t *ordinal,
                                     uint32_t *tag) {
    uint32_t hash = mix_hash(address >> 4), i = hash & m->slot_mask;
    /* The lowest bits of the slot's place are the hash's: its highest say more. */
    *tag = hash & ~ORDINAL_MASK;
    for (;; i = (i + 1) & m->slot_mask) {
        uint32_t slot = m->slots[i];
        *ordinal = (slot & ORDINAL_MASK) - 1;
        if (slot == 0 || ((slot & ~ORDINAL_MASK) == *tag && m->addresses[*ordinal] == address))
            return &m->slots[i];
    }
}

static void allocated(na_trace_coder_t *m, uint64_t address, uint32_t class16) {
    m->last_block = address;
    if (m->ordinals == m->room) return; /* damaged: more allocations than units */
    m->addresses[m->ordinals] = address;
    m->classes[m->ordinals] = (uint16_t)class16;
    m->ordinals++;
}

/* The block was freed; `ordinal` >= m->ordinals: it is older than these units. */
static void freed(na_trace_coder_t *m, uint64_t address, uint32_t class16, uint32_t ordinal) {
    list_t *l = class_list(m, class16);
    if (l != NULL) list_push(l, address);
    if (ordinal >= m->ordinals) {
        m->last_old = address;
        return;
    }
    *after_slot(m) = m->ordinals - 1 - ordinal;
    m->age = m->ordinals - 1 - ordinal;
    m->freed = ordinal;
}

/* The ordinal that a way of naming foresees; >= m->ordinals: none. */
static uint32_t foreseen(na_trace_coder_t *m, unsigned how) {
    switch (how) {
    case NEWEST:
        return m->ordinals - 1;
    case NEXT_NEWER:
        return m->freed + 1;
    case NEXT_OLDER:
        return m->freed - 1;
    case AS_AFTER_STACK:
        return m->ordinals - 1 - *after_slot(m);
    case SAME_AGE:
        return m->ordinals - 1 - m->age;
    default:
        return UINT32_MAX;
    }
}

/* ---- numbers ---- */

static uint64_t zigzag(uint64_t v) {
    return v << 1 ^ (0 - (v >> 63));
}

static uint64_t unzigzag(uint64_t v) {
    return v >> 1 ^ (0 - (v & 1));
}

/* Addresses are multiples of 16 nearly always. */
static uint64_t difference(uint64_t address, uint64_t base) {
    uint64_t d = address - base;
    return d % 16 == 0 ? zigzag((uint64_t)((int64_t)d / 16)) << 1 : zigzag(d) << 1 | 1;
}

static uint64_t undo_difference(uint64_t v, uint64_t base) {
    uint64_t d = unzigzag(v >> 1);
    return base + ((v & 1) != 0 ? d : d * 16);
}

/* ---- encoder ---- */

typedef struct sink {
    uint8_t *start[COLUMNS], *at[COLUMNS];
} sink_t;

static inline void put_column_value(sink_t *s, unsigned column, uint64_t v) {
    uint8_t *p = s->at[column];
    while (v >= 128) {
        *p++ = (uint8_t)(v | 128);
        v >>= 7;
    }
    *p++ = (uint8_t)v;
    s->at[column] = p;
}

/* Returns STACK_FORESEEN or 0. */
static unsigned put_stack_code(na_trace_coder_t *m, sink_t *s, uint32_t stack) {
    unsigned flag = STACK_FORESEEN;
    if (*pair_slot(m) != stack) {
        flag = 0;
        if (*follow_slot(m) == stack) {
            put_column_value(s, STACKS, 0);
        } else {
            uint32_t i = mix_hash(stack) % KNOWN, number;
            while ((number = m->known[i]) != 0 && m->numbers[number - 1] != stack)
                i = (i + 1) % KNOWN;
            if (number == 0) {
                put_column_value(s, STACKS, m->number_count + 1);
                put_column_value(s, NODES, zigzag((uint64_t)stack - m->node));
                m->node = stack;
                if (m->number_count < NUMBERS) {
                    m->numbers[m->number_count++] = stack;
                    m->known[i] = m->number_count;
                }
            } else {
                put_column_value(s, STACKS, number);
            }
        }
    }
    saw_stack(m, stack);
    return flag;
}

static unsigned put_size_code(na_trace_coder_t *m, sink_t *s, uint32_t stack, uint64_t size,
                              uint32_t slack) {
    asked_t *last = asked_slot(m, stack), *known = slack_slot(m, size);
    unsigned flag = SIZE_FORESEEN;
    bool as_known = known->size == size && known->slack == slack;
    if (last->size != size || last->slack != slack) {
        flag = 0;
        /* Sizes have 63 bits: a block is smaller than half of the address space. */
        put_column_value(s, SIZES, size << 1 | as_known);
        if (!as_known) put_column_value(s, SLACKS, slack);
        last->size = size;
        last->slack = slack;
    }
    if (!as_known) {
        known->size = size;
        known->slack = slack;
    }
    return flag;
}

static unsigned put_address(na_trace_coder_t *m, sink_t *s, uint64_t address, uint32_t class16) {
    list_t *l = class_list(m, class16);
    uint64_t last = l != NULL ? l->last : m->last_large;
    unsigned how = BY_ADDRESS;
    if (l != NULL && l->count != 0 && list_at(l, 0) == address) {
        how = LAST_FREED;
        list_drop(l, 1);
    } else if (l != NULL && last + class16 * 16u == address) {
        how = NEXT_TO_LAST;
    } else if (l != NULL) {
        uint32_t depth = 1;
        while (depth < l->count && depth <= SEARCH && list_at(l, depth) != address)
            depth++;
        if (depth < l->count && depth <= SEARCH) {
            how = BY_DEPTH;
            put_column_value(s, BLOCKS, depth);
            list_drop(l, depth + 1);
        }
    }
    if (how == BY_ADDRESS) put_column_value(s, BLOCKS, difference(address, last));
    if (l != NULL)
        l->last = address;
    else
        m->last_large = address;
    return BLOCK_HOW(how);
}

/* Names a block that is there already: way, number; `ways` of them may be used. */
static unsigned put_reference(na_trace_coder_t *m, sink_t *s, uint64_t address, uint32_t class16,
                              unsigned ways) {
    uint32_t ordinal, tag;
    find_ordinal(m, address, &ordinal, &tag);
    unsigned how = OLD_BLOCK;
    if (ordinal < m->ordinals && m->classes[ordinal] == class16) {
        /* The first way that foresees it; looked at without branches, which would be foreseen
         * badly themselves. */
        uint32_t age = m->ordinals - 1 - ordinal;
        how = BY_AGE;
        if (age == m->age) how = SAME_AGE;
        if (age == *after_slot(m)) how = AS_AFTER_STACK;
        if (ordinal == m->freed - 1) how = NEXT_OLDER;
        if (ordinal == m->freed + 1) how = NEXT_NEWER;
        if (age == 0) how = NEWEST;
        if (how >= ways) how = BY_AGE;
        if (how == BY_AGE) put_column_value(s, AGES, age);
    } else {
        ordinal = UINT32_MAX;
        page_t *page = page_slot(m, address);
        bool same = page->number == address >> 13 && page->class16 == class16;
        put_column_value(s, OLD, difference(address, m->last_old));
        put_column_value(s, CLASSES, same ? 0 : class16 + 1);
        *page = (page_t){address >> 13, class16};
    }
    freed(m, address, class16, ordinal);
    return how;
}

static void encode_alloc(na_trace_coder_t *m, sink_t *s, const na_nprof_unit_t *u, unsigned kind) {
    uint64_t address = u[0].word & ((UINT64_C(1) << 48) - 1), align = u[0].word >> 48;
    uint32_t stack = (uint32_t)u[1].word, slack = (uint32_t)(u[1].word >> 32);
    uint32_t class16 = usable_class(u[1].head + slack);
    if (kind == NA_NPROF_EVENT_ALIGNED) {
        put_column_value(s, EXTRA, align);
    } else if (align != 0) {
        put_column_value(s, OPS, 0);
        put_column_value(s, EXTRA, align << 1 | 1);
    }
    uint8_t *op = s->at[OPS]++;
    unsigned how = put_stack_code(m, s, stack);
    how |= put_size_code(m, s, stack, u[1].head, slack);
    if (kind == NA_NPROF_EVENT_RESIZE) {
        uint32_t ordinal, tag;
        find_ordinal(m, address, &ordinal, &tag);
        uint32_t old = ordinal < m->ordinals ? m->classes[ordinal] : class16;
        how |= BLOCK_HOW(put_reference(m, s, address, old, NEXT_OLDER));
        list_t *l = class_list(m, old);
        if (l != NULL) list_drop(l, 1); /* it was not freed */
    } else {
        how |= put_address(m, s, address, class16);
    }
    uint32_t earlier, tag, *slot = find_ordinal(m, address, &earlier, &tag);
    allocated(m, address, class16);
    *slot = tag | m->ordinals;
    *op = (uint8_t)(kind | how);
}

static void encode_free(na_trace_coder_t *m, sink_t *s, const na_nprof_unit_t *u, unsigned kind,
                        bool stacks) {
    uint64_t address = u[0].word & ((UINT64_C(1) << 48) - 1);
    uint32_t class16 = (uint32_t)(u[0].word >> 48);
    bool more = (u[0].head & NA_NPROF_EVENT_MORE) != 0;
    uint8_t *op = s->at[OPS]++;
    unsigned how = 0;
    uint64_t moved_to = more ? u[1].head : 0;
    if (kind == NA_NPROF_EVENT_MOVED && moved_to != m->last_block) {
        how |= MOVED_ELSEWHERE;
        put_column_value(s, EXTRA, difference(moved_to, m->last_block));
    }
    if (stacks) put_column_value(s, EXTRA, more ? (uint32_t)u[1].word : 0);
    how |= HOW(put_reference(m, s, address, class16, SAME_AGE + 1));
    bool before = (u[0].head & NA_NPROF_EVENT_BEFORE) != 0;
    *op = (uint8_t)(kind | (before ? 4u : 0) | how);
}

static uint64_t write_header(uint8_t *to, const na_nprof_trace_t *h) {
    __builtin_memcpy(to, h, sizeof *h);
    return sizeof *h;
}

uint64_t na_trace_store(uint8_t *to, const na_nprof_unit_t *units, uint32_t count,
                        uint32_t *events) {
    na_nprof_trace_t h = {.units = count};
    for (uint32_t i = 0; i < count; i += na_trace_units(units[i].head))
        h.events++;
    h.first_ticks = count != 0 ? units[0].head >> 8 : 0;
    *events = h.events;
    uint64_t bytes = write_header(to, &h);
    __builtin_memcpy(to + bytes, units, (size_t)count * sizeof *units);
    return bytes + (uint64_t)count * sizeof *units;
}

/* Room of one column while coding: an event of one unit has at most 12 bytes in any. */
static uint64_t column_room(uint32_t units) {
    return (uint64_t)units * 12 + 64;
}

uint64_t na_trace_code_bound(uint32_t units) {
    return sizeof(na_nprof_trace_t) + COLUMNS * column_room(units);
}

/* Units of a file that was cut short read as zeros, and those are no event: an allocation has two
 * units. */
static bool is_event(const na_nprof_unit_t *u, uint32_t left) {
    unsigned kind = (unsigned)(u->head & NA_NPROF_EVENT_KIND);
    uint32_t own = na_trace_units(u->head);
    return own <= left && (own == 2 || kind >= NA_NPROF_EVENT_FREE);
}

/* Into the columns, up to what is no event. False: it is said that frees have no stacks, and one
 * has. */
static bool encode(na_trace_coder_t *m, sink_t *s, const na_nprof_unit_t *units, uint32_t count,
                   na_nprof_trace_t *h) {
    begin_coder(m, count, true);
    h->events = 0;
    h->first_ticks = m->ticks = count != 0 ? units[0].head >> 8 >> h->tick_shift : 0;
    for (uint32_t i = 0; i < count; i += na_trace_units(units[i].head), h->events++) {
        const na_nprof_unit_t *u = &units[i];
        if (!is_event(u, count - i)) break;
        uint64_t ticks = u->head >> 8 >> h->tick_shift;
        put_column_value(s, TIMES, ticks - m->ticks);
        m->ticks = ticks;
        unsigned kind = (unsigned)(u->head & NA_NPROF_EVENT_KIND);
        if (kind == NA_NPROF_EVENT_THREAD) {
            *s->at[OPS]++ = 0;
            put_column_value(s, EXTRA, u->word << 1);
        } else if (kind < NA_NPROF_EVENT_FREE) {
            encode_alloc(m, s, u, kind);
        } else {
            bool stack = (u->head & NA_NPROF_EVENT_MORE) != 0 && (uint32_t)u[1].word != 0;
            if (stack && !h->free_stacks) return false;
            encode_free(m, s, u, kind, h->free_stacks != 0);
        }
    }
    return true;
}

uint64_t na_trace_encode(na_trace_coder_t *m, uint8_t *to, const na_nprof_unit_t *units,
                         uint32_t count, uint16_t tick_shift, uint32_t *events) {
    na_nprof_trace_t h = {.units = count, .tick_shift = tick_shift, .columns = COLUMNS};
    sink_t s;
    uint8_t *at = to + sizeof h;
    for (h.free_stacks = 0; h.free_stacks < 2; h.free_stacks++) {
        for (unsigned c = 0; c < COLUMNS; c++)
            s.start[c] = s.at[c] = at + c * column_room(count);
        if (encode(m, &s, units, count, &h)) break;
    }
    for (unsigned c = 0; c < COLUMNS; c++) {
        h.column_bytes[c] = (uint32_t)(s.at[c] - s.start[c]);
        __builtin_memmove(at, s.start[c], h.column_bytes[c]);
        at += h.column_bytes[c];
    }
    *events = h.events;
    write_header(to, &h);
    return (uint64_t)(at - to);
}

/* ---- decoder ---- */

typedef struct source {
    const uint8_t *at[COLUMNS], *end[COLUMNS];
    bool bad; /* something was not there, or made no sense */
} source_t;

static uint64_t get(source_t *s, unsigned column) {
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (s->at[column] == s->end[column]) break;
        uint8_t byte = *s->at[column]++;
        v |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return v;
    }
    s->bad = true;
    return 0;
}

static uint32_t get_stack(na_trace_coder_t *m, source_t *s, unsigned op) {
    uint32_t stack = *pair_slot(m);
    if ((op & STACK_FORESEEN) == 0) {
        uint64_t number = get(s, STACKS);
        if (number == 0) {
            stack = *follow_slot(m);
        } else if (number <= m->number_count) {
            stack = m->numbers[number - 1];
        } else {
            stack = m->node = (uint32_t)(m->node + unzigzag(get(s, NODES)));
            if (m->number_count < NUMBERS) m->numbers[m->number_count++] = stack;
        }
    }
    saw_stack(m, stack);
    return stack;
}

static asked_t get_size(na_trace_coder_t *m, source_t *s, unsigned op, uint32_t stack) {
    asked_t *last = asked_slot(m, stack), is = *last;
    if ((op & SIZE_FORESEEN) == 0) {
        uint64_t v = get(s, SIZES);
        is.size = v >> 1;
        is.slack = (v & 1) != 0 ? slack_slot(m, is.size)->slack : (uint32_t)get(s, SLACKS);
    }
    /* By its members: they are read so, soon. */
    asked_t *known = slack_slot(m, is.size);
    last->size = known->size = is.size;
    last->slack = known->slack = is.slack;
    return is;
}

static uint64_t get_block(na_trace_coder_t *m, source_t *s, unsigned op, uint32_t class16) {
    list_t *l = class_list(m, class16);
    uint64_t last = l != NULL ? l->last : m->last_large, address = 0;
    unsigned how = op >> 6;
    if (how == BY_ADDRESS) {
        address = undo_difference(get(s, BLOCKS), last);
    } else if (l == NULL) {
        s->bad = true;
    } else if (how == NEXT_TO_LAST) {
        address = last + class16 * 16u;
    } else {
        uint64_t depth = how == LAST_FREED ? 0 : get(s, BLOCKS);
        if (depth < l->count) {
            address = list_at(l, (uint32_t)depth);
            list_drop(l, (uint32_t)depth + 1);
        } else {
            s->bad = true;
        }
    }
    if (l != NULL)
        l->last = address;
    else
        m->last_large = address;
    return address;
}

static uint64_t get_reference(na_trace_coder_t *m, source_t *s, unsigned how, uint32_t *class16) {
    uint64_t address;
    uint32_t ordinal = UINT32_MAX;
    if (how == OLD_BLOCK) {
        address = undo_difference(get(s, OLD), m->last_old) & ((UINT64_C(1) << 48) - 1);
        uint64_t v = get(s, CLASSES);
        page_t *page = page_slot(m, address);
        *class16 = v == 0 ? page->class16 : (uint32_t)(v - 1) & 0xffff;
        *page = (page_t){address >> 13, *class16};
    } else {
        ordinal = how == BY_AGE ? m->ordinals - 1 - (uint32_t)get(s, AGES) : foreseen(m, how);
        if (ordinal >= m->ordinals) {
            s->bad = true;
            return 0;
        }
        address = m->addresses[ordinal];
        *class16 = m->classes[ordinal];
    }
    freed(m, address, *class16, ordinal);
    return address;
}

static void decode_alloc(na_trace_coder_t *m, source_t *s, na_nprof_unit_t *u, unsigned op,
                         uint64_t align) {
    unsigned kind = op & NA_NPROF_EVENT_KIND;
    if (kind == NA_NPROF_EVENT_ALIGNED) align = get(s, EXTRA);
    uint32_t stack = get_stack(m, s, op);
    asked_t asked = get_size(m, s, op, stack);
    uint32_t class16 = usable_class(asked.size + asked.slack), old = 0;
    uint64_t address;
    if (kind == NA_NPROF_EVENT_RESIZE) {
        address = get_reference(m, s, op >> 6, &old);
        list_t *l = class_list(m, old);
        if (l != NULL && l->count != 0) list_drop(l, 1);
    } else {
        address = get_block(m, s, op, class16);
    }
    address &= (UINT64_C(1) << 48) - 1;
    allocated(m, address, class16);
    u[0].head = kind | NA_NPROF_EVENT_MORE;
    u[0].word = address | align << 48;
    u[1].head = asked.size;
    u[1].word = stack | (uint64_t)asked.slack << 32;
}

static void decode_free(na_trace_coder_t *m, source_t *s, na_nprof_unit_t *u, unsigned op,
                        bool stacks) {
    unsigned kind = op & 11u;
    uint64_t moved_to = 0;
    if (kind == NA_NPROF_EVENT_MOVED)
        moved_to = (op & MOVED_ELSEWHERE) == 0 ? m->last_block
                                               : undo_difference(get(s, EXTRA), m->last_block);
    uint32_t stack = stacks ? (uint32_t)get(s, EXTRA) : 0, class16 = 0;
    uint64_t address = get_reference(m, s, op >> 4 & 7, &class16);
    bool more = kind == NA_NPROF_EVENT_MOVED || stack != 0;
    u[0].head =
        kind | ((op & 4) != 0 ? NA_NPROF_EVENT_BEFORE : 0) | (more ? NA_NPROF_EVENT_MORE : 0);
    u[0].word = address | (uint64_t)class16 << 48;
    u[1] = (na_nprof_unit_t){moved_to, stack};
}

bool na_trace_header(const uint8_t *from, uint64_t bytes, na_nprof_trace_t *h) {
    if (bytes < sizeof *h) return false;
    __builtin_memcpy(h, from, sizeof *h);
    uint64_t rest = bytes - sizeof *h;
    if (h->units > NA_NPROF_TRACE_UNITS || h->events > h->units ||
        h->units > h->events * UINT64_C(2) || h->units == 0)
        return false;
    if (h->columns == 0) return rest / sizeof(na_nprof_unit_t) >= h->units;
    uint64_t sum = 0;
    for (unsigned c = 0; c < COLUMNS; c++)
        sum += h->column_bytes[c];
    return h->columns == COLUMNS && h->tick_shift < 32 && sum <= rest &&
           h->column_bytes[OPS] >= h->events && h->column_bytes[TIMES] >= h->events;
}

/* Units that were stored as they are. */
static bool load_stored(const uint8_t *from, const na_nprof_trace_t *h, na_nprof_unit_t *units) {
    __builtin_memcpy(units, from, (size_t)h->units * sizeof *units);
    for (uint32_t i = 0; i < h->units; i += na_trace_units(units[i].head))
        if (i + na_trace_units(units[i].head) > h->units) return false;
    return true;
}

bool na_trace_decode(na_trace_coder_t *m, const uint8_t *from, uint64_t bytes,
                     const na_nprof_trace_t *h, na_nprof_unit_t *units) {
    (void)bytes;
    from += sizeof *h;
    if (h->columns == 0) return load_stored(from, h, units);
    begin_coder(m, h->units, false);
    source_t s = {.bad = false};
    for (unsigned c = 0; c < COLUMNS; c++) {
        s.at[c] = from;
        s.end[c] = from += h->column_bytes[c];
    }
    m->ticks = h->first_ticks;
    uint32_t at = 0;
    for (uint32_t i = 0; i < h->events && !s.bad; i++) {
        uint64_t gone = get(&s, TIMES);
        m->ticks += gone;
        if (m->ticks < gone || m->ticks > UINT64_MAX >> 8 >> h->tick_shift) return false;
        unsigned op = 0;
        uint64_t align = 0, extra = 1;
        if (s.at[OPS] != s.end[OPS]) op = *s.at[OPS]++;
        if ((op & NA_NPROF_EVENT_KIND) == 0) {
            extra = get(&s, EXTRA);
            if ((extra & 1) != 0) {
                align = extra >> 1 & 0xffff;
                op = s.at[OPS] != s.end[OPS] ? *s.at[OPS]++ : 0;
            }
        }
        na_nprof_unit_t u[2] = {{0, 0}, {0, 0}};
        unsigned kind = op & NA_NPROF_EVENT_KIND;
        if (kind == 0 && (extra & 1) == 0) {
            u[0] = (na_nprof_unit_t){NA_NPROF_EVENT_THREAD, extra >> 1};
        } else if (kind == 0) {
            return false;
        } else if (kind < NA_NPROF_EVENT_FREE) {
            decode_alloc(m, &s, u, op, align);
        } else {
            decode_free(m, &s, u, op, h->free_stacks != 0);
        }
        u[0].head |= m->ticks << h->tick_shift << 8;
        uint32_t n = na_trace_units(u[0].head);
        if (at + n > h->units) return false;
        for (uint32_t k = 0; k < n; k++)
            units[at++] = u[k];
    }
    return !s.bad && at == h->units;
}
