/* python_code.c - code objects: which one it is, and what is copied of it into the file. See
 * python.h.
 *
 * The table of all codes is by checksum, and changed under a lock; each thread has those that it
 * met of late in front of it. Texts that are equal (files, mostly) are stored once. */
#include "profiler/record/python/python.h"

#define TEXT_CHUNK  (64u << 10)
#define CODES_CHUNK (16u << 10)
#define TEXT_MOST   (4u << 20) /* of a text; longer ones are cut */
#define NAME_MOST   4096u
#define FIRST_SLOTS 1024u

typedef struct slot {
    uint64_t checksum;
    uint32_t value, bytes; /* id of a code, first word of a text; 0 in `bytes`: free */
} slot_t;

static struct {
    na_lock_t lock;
    slot_t *slots;
    uint32_t mask, used;
    uint32_t next_code, next_word;
    uint32_t code_chunks, text_chunks;
    na_nprof_chunk_t *code_chunk, *text_chunk;
} codes;

void na_py_codes_begin(void) {
    na_lock_reset(&codes.lock);
    codes.slots = NULL;
    codes.mask = codes.used = 0;
    codes.next_code = 1;
    codes.next_word = 0;
    codes.code_chunks = codes.text_chunks = 0;
    codes.code_chunk = codes.text_chunk = NULL;
}

/* ---- objects ---- */

/* A view of a str or bytes object, or of nothing. */
typedef struct text {
    const uint8_t *data;
    uint64_t units; /* of `width` bytes */
    uint32_t width;
} text_t;

NA_INLINE uintptr_t word_at(uintptr_t at) {
    return *(const uintptr_t *)at;
}

/* It is there, alive (in 3.12 and later the lower half counts) and of that type. */
static bool is_object(na_py_thread_t *p, uintptr_t at, const void *type, size_t bytes) {
    return (at & 7) == 0 && na_py_can_read(p, at, bytes) && (uint32_t)word_at(at) != 0 &&
           word_at(at + 8) == (uintptr_t)type;
}

static bool read_str(na_py_thread_t *p, uintptr_t at, text_t *t) {
    const na_py_layout_t *l = &na_py.layout;
    if (!is_object(p, at, na_py.text_type, l->text_wide)) return false;
    uint32_t state = *(const uint32_t *)(at + 32), kind = state >> 2 & 7;
    bool compact = (state & 1u << 5) != 0, ascii = (state & 1u << 6) != 0;
    if (!compact || (kind != 1 && kind != 2 && kind != 4)) return false;
    t->units = word_at(at + 16);
    if (t->units > NAME_MOST) t->units = NAME_MOST;
    t->width = kind;
    t->data = (const uint8_t *)at + (ascii ? l->text_ascii : l->text_wide);
    return t->units == 0 || na_py_can_read(p, (uintptr_t)t->data, t->units * kind);
}

static bool read_bytes(na_py_thread_t *p, uintptr_t at, text_t *t) {
    if (!is_object(p, at, na_py.bytes_type, 32)) return false;
    t->units = word_at(at + 16);
    if (t->units > TEXT_MOST) t->units = TEXT_MOST;
    t->width = 1;
    t->data = (const uint8_t *)at + 32;
    return t->units == 0 || na_py_can_read(p, (uintptr_t)t->data, t->units);
}

typedef struct code {
    text_t name, file, lines;
    int32_t first_line;
} code_t;

/* So many bytes of a code object are read. */
NA_INLINE size_t code_bytes(void) {
    const na_py_layout_t *l = &na_py.layout;
    return l->code_start != NA_PY_NONE ? l->code_start : l->code_lines + 8u;
}

static bool read_code(na_py_thread_t *p, uintptr_t at, code_t *c) {
    const na_py_layout_t *l = &na_py.layout;
    if (!is_object(p, at, na_py.code_type, code_bytes())) return false;
    c->first_line = *(const int32_t *)(at + l->code_line);
    return read_str(p, word_at(at + l->code_name), &c->name) &&
           read_str(p, word_at(at + l->code_file), &c->file) &&
           read_bytes(p, word_at(at + l->code_lines), &c->lines);
}

/* ---- checksums ---- */

NA_INLINE uint64_t mix(uint64_t h, uint64_t v) {
    h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 32;
}

static uint64_t sum_text(uint64_t h, const text_t *t) {
    const uint8_t *data = t->data;
    uint64_t n = t->units * t->width;
    h = mix(h, n << 3 | t->width);
    for (; n >= 8; n -= 8, data += 8) {
        uint64_t v;
        __builtin_memcpy(&v, data, 8);
        h = mix(h, v);
    }
    uint64_t rest = 0;
    for (uint64_t i = 0; i < n; i++)
        rest |= (uint64_t)data[i] << 8 * i;
    return mix(h, rest);
}

static uint64_t sum_code(const code_t *c) {
    uint64_t h = mix(1, (uint32_t)c->first_line);
    h = sum_text(sum_text(sum_text(h, &c->name), &c->file), &c->lines);
    return h != 0 ? h : 1;
}

/* ---- marks ---- */

#define NO_HASH UINT64_MAX

/* As mix, but cheaper: only for comparing. What is different stays so in each step. */
NA_INLINE uint64_t add(uint64_t h, uint64_t v) {
    h ^= v;
    return (h << 29 | h >> 35) * UINT64_C(0x9e3779b97f4a7c15);
}

NA_INLINE uint64_t eight_at(const uint8_t *data) {
    uint64_t v;
    __builtin_memcpy(&v, data, 8);
    return v;
}

/* Whole words, of which the last may overlap the one before. */
NA_INLINE uint64_t look_at_data(uint64_t h, const uint8_t *data, uint64_t n) {
    if (NA_UNLIKELY(n < 8)) {
        uint64_t v = 0;
        for (uint64_t i = 0; i < n; i++)
            v |= (uint64_t)data[i] << 8 * i;
        return add(h, v);
    }
    const uint8_t *last = data + n - 8;
    for (; data + 16 <= last; data += 16)
        h = add(add(h, eight_at(data)), eight_at(data + 8));
    if (data + 8 <= last)
        h = add(add(h, eight_at(data)), eight_at(data + 8));
    else if (data < last)
        h = add(h, eight_at(data));
    return add(h, eight_at(last));
}

/* A str that can be read. */
NA_INLINE uint64_t look_at_str(uint64_t h, uintptr_t at) {
    uint64_t units = word_at(at + 16), hash = word_at(at + 24);
    h = add(h, units);
    if (hash != NO_HASH) return add(h, hash);
    uint32_t state = *(const uint32_t *)(at + 32);
    const na_py_layout_t *l = &na_py.layout;
    uintptr_t text = at + ((state & 1u << 6) != 0 ? l->text_ascii : l->text_wide);
    if (units > NAME_MOST) units = NAME_MOST;
    return look_at_data(h, (const uint8_t *)text, units * (state >> 2 & 7));
}

/* The same of bytes. */
NA_INLINE uint64_t look_at_bytes(uint64_t h, uintptr_t at) {
    uint64_t size = word_at(at + 16), hash = word_at(at + 24);
    h = add(h, size);
    if (hash != NO_HASH) return add(h, hash);
    return look_at_data(h, (const uint8_t *)at + 32, size < TEXT_MOST ? size : TEXT_MOST);
}

NA_INLINE uint64_t look_at(const na_py_mark_t *m, int32_t first_line) {
    return look_at_bytes(look_at_str((uint32_t)first_line, m->name), m->lines);
}

/* Of a code object that read_code has read. */
static na_py_mark_t make_mark(uintptr_t at, const code_t *c) {
    const na_py_layout_t *l = &na_py.layout;
    na_py_mark_t m = {.name = word_at(at + l->code_name),
                      .file = word_at(at + l->code_file),
                      .lines = word_at(at + l->code_lines)};
    m.file_sum = look_at_str(0, m.file);
    m.sum = look_at(&m, c->first_line);
    return m;
}

/* All but what the file holds. */
NA_INLINE bool is_marked_else(uintptr_t at, const na_py_mark_t *m) {
    const na_py_layout_t *l = &na_py.layout;
    return ((word_at(at + l->code_name) ^ m->name) | (word_at(at + l->code_file) ^ m->file) |
            (word_at(at + l->code_lines) ^ m->lines)) == 0 &&
           look_at(m, *(const int32_t *)(at + l->code_line)) == m->sum;
}

bool na_py_is_marked(uintptr_t at, const na_py_mark_t *m) {
    return is_marked_else(at, m) && look_at_str(0, m->file) == m->file_sum;
}

int32_t na_py_first_unmarked(const na_py_frame_t *frames, int32_t i, int32_t end) {
    const na_py_frame_t *last = NULL; /* that was found to be as it was */
    for (; i > end && frames[i].marks != 0; i--) {
        const na_py_frame_t *f = &frames[i];
        const na_py_mark_t *m = &f->mark;
        if (m->name == 0) continue;
        bool same_file =
            last != NULL && m->file == last->mark.file && m->file_sum == last->mark.file_sum;
        if (same_file && f->code == last->code && m->sum == last->mark.sum) continue;
        if (!is_marked_else(f->code, m)) return i;
        if (!same_file && look_at_str(0, m->file) != m->file_sum) return i;
        last = f;
    }
    return end;
}

/* ---- under the lock: the table ---- */

static slot_t *slot_of(slot_t *slots, uint32_t mask, uint64_t checksum) {
    uint32_t i = (uint32_t)(checksum >> 32) & mask;
    while (slots[i].bytes != 0 && slots[i].checksum != checksum)
        i = (i + 1) & mask;
    return &slots[i];
}

static bool grow(void) {
    uint32_t mask = codes.slots == NULL ? FIRST_SLOTS - 1 : codes.mask * 2 + 1;
    uint64_t bytes = ((uint64_t)mask + 1) * sizeof(slot_t);
    slot_t *slots = na_rec_has_room(bytes) ? na_own_alloc(bytes, bytes) : NULL;
    if (slots == NULL) return false;
    for (uint32_t i = 0; codes.slots != NULL && i <= codes.mask; i++)
        if (codes.slots[i].bytes != 0)
            *slot_of(slots, mask, codes.slots[i].checksum) = codes.slots[i];
    if (codes.slots != NULL)
        na_own_give_back(codes.slots, ((uint64_t)codes.mask + 1) * sizeof(slot_t));
    codes.slots = slots;
    codes.mask = mask;
    return true;
}

/* Its slot, or a free one that may be filled; NULL: no room. */
static slot_t *find_slot(uint64_t checksum) {
    if ((codes.slots == NULL || codes.used * 2 > codes.mask) && !grow()) {
        if (codes.slots == NULL || codes.used >= codes.mask) return NULL;
    }
    return slot_of(codes.slots, codes.mask, checksum);
}

/* ---- under the lock: the file ---- */

static na_nprof_chunk_t *new_chunk(uint16_t type, uint64_t length, uint32_t entry, uint32_t *chunks,
                                   uint32_t first) {
    if (!na_rec_has_room(length)) return NULL;
    na_nprof_chunk_t *c = na_writer_chunk(type, length, entry, 0, *chunks, first);
    if (c == NULL) return NULL;
    na_writer_publish(c);
    atomic_fetch_add_explicit(&na_rec.own_resident, length, memory_order_relaxed);
    ++*chunks;
    return c;
}

/* Room for so many bytes of text; NULL: none. */
static uint8_t *new_text(uint32_t bytes, uint32_t *word) {
    uint32_t words = (bytes + 7) / 8;
    na_nprof_chunk_t *c = codes.text_chunk;
    if (codes.next_word > UINT32_MAX - TEXT_MOST) return NULL;
    if (c == NULL || c->capacity - c->count < words) {
        uint64_t length = na_nprof_chunk_length(words, 8);
        c = new_chunk(NA_NPROF_PYTHON_TEXT, length < TEXT_CHUNK ? TEXT_CHUNK : length, 8,
                      &codes.text_chunks, codes.next_word);
        if (c == NULL) return NULL;
        codes.text_chunk = c;
    }
    *word = codes.next_word;
    uint8_t *at = (uint8_t *)(c + 1) + (uint64_t)c->count * 8;
    codes.next_word += words;
    __atomic_store_n(&c->count, c->count + words, __ATOMIC_RELEASE);
    return at;
}

static uint32_t character(const text_t *t, uint64_t i) {
    if (t->width == 1) return t->data[i];
    if (t->width == 2) return ((const uint16_t *)t->data)[i];
    return ((const uint32_t *)t->data)[i];
}

/* Its bytes in UTF-8, written to `to` if that is not NULL. */
static uint32_t to_utf8(const text_t *t, uint8_t *to) {
    uint32_t n = 0;
    for (uint64_t i = 0; i < t->units; i++) {
        uint32_t c = character(t, i), more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        if (to != NULL) {
            static const uint8_t lead[] = {0, 0xc0, 0xe0, 0xf0};
            to[n] = (uint8_t)(lead[more] | c >> 6 * more);
            for (uint32_t k = more; k-- > 0;)
                to[n + more - k] = (uint8_t)(0x80 | (c >> 6 * k & 0x3f));
        }
        n += 1 + more;
    }
    return n;
}

static bool store_text(const text_t *t, bool is_str, na_nprof_python_text_ref_t *ref) {
    uint64_t checksum = sum_text(is_str ? 2 : 3, t);
    slot_t *s = find_slot(checksum);
    if (s != NULL && s->bytes != 0) {
        *ref = (na_nprof_python_text_ref_t){s->value, s->bytes - 1};
        return true;
    }
    uint32_t bytes = is_str ? to_utf8(t, NULL) : (uint32_t)t->units, word = 0;
    uint8_t *to = bytes != 0 ? new_text(bytes, &word) : NULL;
    if (bytes != 0 && to == NULL) return false;
    if (is_str)
        to_utf8(t, to);
    else if (bytes != 0)
        __builtin_memcpy(to, t->data, bytes);
    *ref = (na_nprof_python_text_ref_t){word, bytes};
    if (s != NULL) {
        *s = (slot_t){checksum, word, bytes + 1};
        codes.used++;
    }
    return true;
}

/* Its id, 0: no room. */
static uint32_t store_code(uintptr_t address, const code_t *c, uint64_t checksum) {
    slot_t *s = find_slot(checksum);
    if (s == NULL) return 0;
    if (s->bytes != 0) return s->value;
    na_nprof_python_code_t e = {
        .first_line = c->first_line, .address = address, .checksum = checksum};
    if (codes.next_code >= NA_NPROF_PY_CODES_MOST || !store_text(&c->name, true, &e.name) ||
        !store_text(&c->file, true, &e.file) || !store_text(&c->lines, false, &e.lines))
        return 0;
    na_nprof_chunk_t *chunk = codes.code_chunk;
    if (chunk == NULL || chunk->count == chunk->capacity) {
        chunk = new_chunk(NA_NPROF_PYTHON_CODES, CODES_CHUNK, sizeof e, &codes.code_chunks,
                          codes.next_code);
        if (chunk == NULL) return 0;
        codes.code_chunk = chunk;
    }
    na_nprof_python_code_t *to = (na_nprof_python_code_t *)(chunk + 1) + chunk->count;
    *to = e;
    __atomic_store_n(&to->kind, na_py.layout.lines, __ATOMIC_RELEASE);
    __atomic_store_n(&chunk->count, chunk->count + 1, __ATOMIC_RELEASE);
    uint32_t id = codes.next_code++;
    if ((s = find_slot(checksum)) != NULL && s->bytes == 0) {
        *s = (slot_t){checksum, id, 1};
        codes.used++;
    }
    return id;
}

/* ---- for frames ---- */

static bool is_alive(const na_py_seen_t *s) {
    return s->life->words[0] == s->born.words[0] && s->life->words[1] == s->born.words[1];
}

static NA_NOINLINE bool learn(na_py_thread_t *p, uintptr_t at, na_py_seen_t *s) {
    code_t c;
    if (!read_code(p, at, &c)) return false;
    uint64_t checksum = sum_code(&c);
    uint32_t id = s->code == at && s->checksum == checksum ? s->id : 0;
    if (id == 0) {
        na_lock(&codes.lock);
        id = store_code(at, &c, checksum);
        na_unlock(&codes.lock);
        if (id == 0) {
            __atomic_fetch_add(&na_py_entry->lost, 1, __ATOMIC_RELAXED);
            return false;
        }
    }
    const na_record_t *life = na_rec.record_of != NULL ? na_rec.record_of((const void *)at) : NULL;
    s->born = life != NULL ? *life : (na_record_t){.site = 0};
    if (life != NULL && (s->born.epoch != na_profile_epoch || s->born.site == NA_NPROF_NO_STACK))
        life = NULL;
    if (at - na_py.start < na_py.end - na_py.start) {
        life = &na_py_no_record;
        s->born = na_py_no_record;
    }
    s->life = life;
    s->mark = life == NULL ? make_mark(at, &c) : (na_py_mark_t){.name = 0};
    s->unmapped = p->unmapped;
    s->checksum = checksum;
    s->id = id;
    s->code = at;
    return true;
}

/* Of the set, the one with this code, which becomes the first; where there is none, the last. */
static na_py_seen_t *bring_forward(na_py_seen_t *set, uintptr_t code) {
    uint32_t i = 1;
    while (i < NA_PY_SEEN - 1 && set[i].code != code)
        i++;
    na_py_seen_t found = set[i];
    for (; i != 0; i--)
        set[i] = set[i - 1];
    set[0] = found;
    return set;
}

/* The code is there as it was when it was seen. */
NA_INLINE bool is_as_seen(na_py_thread_t *p, const na_py_seen_t *s) {
    if (NA_LIKELY(s->life != NULL)) return is_alive(s);
    return s->unmapped == p->unmapped && na_py_can_read(p, s->code, code_bytes()) &&
           na_py_is_marked(s->code, &s->mark);
}

bool na_py_code(na_py_thread_t *p, uintptr_t code, na_py_frame_t *frame) {
    uint64_t hash = (code >> 4) * UINT64_C(0x9e3779b97f4a7c15);
    na_py_seen_t *s = p->seen[hash >> (64 - NA_PY_SEEN_BITS)];
    if (NA_UNLIKELY(s->code != code)) s = bring_forward(s, code);
    if (NA_UNLIKELY(s->code != code) || NA_UNLIKELY(!is_as_seen(p, s)))
        if (!learn(p, code, s)) return false;
    frame->id = s->id;
    if (s->life != NULL) {
        frame->life = s->life;
        frame->born = s->born;
    } else {
        frame->mark = s->mark;
    }
    return true;
}
