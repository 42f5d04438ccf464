/* python_code.c - code objects: which one it is, and what is copied of it into the file. See
 * python.h.
 *
 * The table of all codes is by checksum, and changed under a lock; each thread has those that it
 * met of late in front of it. Texts that are equal (files, mostly) are stored once. Both have a
 * bound: what a program makes beyond it is one code (nprof_python.h). */
#include "profiler/record/python/python_same.h"

#define TEXT_CHUNK  (64u << 10)
#define CODES_CHUNK (16u << 10)
#define TEXT_MOST   (4u << 20) /* of a text; longer ones are cut */
#define NAME_MOST   4096u
#define FIRST_SLOTS 1024u

typedef struct slot {
    uint64_t checksum;
    const uint8_t *text;   /* where it is in the file; NULL: it is empty, or a code */
    uint32_t value, bytes; /* id of a code, first word of a text; 0 in `bytes`: free */
} slot_t;

static struct {
    na_lock_t lock;
    slot_t *slots;
    uint32_t mask, used;
    uint32_t next_code, next_word;
    uint32_t made; /* codes of no file */
    bool full;     /* what is looked at is not to be stored */
    uint32_t code_chunks, text_chunks;
    na_nprof_chunk_t *code_chunk, *text_chunk;
} codes;

void na_py_codes_begin(void) {
    na_lock_reset(&codes.lock);
    codes.slots = NULL;
    codes.mask = codes.used = 0;
    codes.next_code = 1;
    codes.next_word = codes.made = 0;
    codes.code_chunks = codes.text_chunks = 0;
    codes.code_chunk = codes.text_chunk = NULL;
}

/* ---- objects ---- */

/* A view of a str or bytes object, or of nothing. */
typedef struct text {
    const uint8_t *data;
    uint64_t units; /* of `width` bytes */
    uint32_t width;
    bool ascii;        /* a str that is in UTF-8 what it is here */
    uint64_t checksum; /* of it as what it is, str or bytes */
} text_t;

/* It is there, alive (in 3.12 and later the lower half counts) and of that type. */
static bool is_object(na_py_thread_t *p, uintptr_t at, const void *type, size_t bytes) {
    return (at & 7) == 0 && na_py_can_read(p, at, bytes) &&
           (uint32_t)na_py_word(at + NA_PY_REFERENCES_AT) != 0 &&
           na_py_word(at + NA_PY_TYPE_AT) == (uintptr_t)type;
}

static bool read_str(na_py_thread_t *p, uintptr_t at, text_t *t) {
    const na_py_layout_t *l = &na_py.layout;
    if (!is_object(p, at, na_py.text_type, l->text_wide)) return false;
    uint32_t state = *(const uint32_t *)(at + NA_PY_STATE_AT), kind = NA_PY_STATE_WIDTH(state);
    bool compact = (state & NA_PY_STATE_COMPACT) != 0, ascii = (state & NA_PY_STATE_ASCII) != 0;
    if (!compact || (kind != 1 && kind != 2 && kind != 4)) return false;
    t->units = na_py_word(at + NA_PY_LENGTH_AT);
    if (t->units > NAME_MOST) t->units = NAME_MOST;
    t->width = kind;
    t->ascii = ascii;
    t->data = (const uint8_t *)at + (ascii ? l->text_ascii : l->text_wide);
    return t->units == 0 || na_py_can_read(p, (uintptr_t)t->data, t->units * kind);
}

static bool read_object_bytes(na_py_thread_t *p, uintptr_t at, text_t *t) {
    if (!is_object(p, at, na_py.bytes_type, NA_PY_BYTES_AT)) return false;
    t->units = na_py_word(at + NA_PY_LENGTH_AT);
    if (t->units > TEXT_MOST) t->units = TEXT_MOST;
    t->width = 1;
    t->ascii = false;
    t->data = (const uint8_t *)at + NA_PY_BYTES_AT;
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
    return read_str(p, na_py_word(at + l->code_name), &c->name) &&
           read_str(p, na_py_word(at + l->code_file), &c->file) &&
           read_object_bytes(p, na_py_word(at + l->code_lines), &c->lines);
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

#define OF_STR   2u
#define OF_BYTES 3u

/* And of its texts. */
static uint64_t sum_code(code_t *c) {
    c->name.checksum = sum_text(OF_STR, &c->name);
    c->file.checksum = sum_text(OF_STR, &c->file);
    c->lines.checksum = sum_text(OF_BYTES, &c->lines);
    uint64_t h = mix(mix(1, (uint32_t)c->first_line), c->name.checksum);
    h = mix(mix(h, c->file.checksum), c->lines.checksum);
    return h != 0 ? h : 1;
}

/* ---- marks ---- */

NA_INLINE uint32_t state_of_str(uintptr_t at) {
    return *(const uint32_t *)(at + NA_PY_STATE_AT);
}

NA_INLINE uint64_t eight_at(const uint8_t *data) {
    uint64_t v;
    __builtin_memcpy(&v, data, 8);
    return v;
}

NA_INLINE na_py_kept_words_t sixteen_at(const uint8_t *data) {
    na_py_kept_words_t v;
    __builtin_memcpy(&v, data, sizeof v);
    return v;
}

/* Whole pieces, of which the last may overlap the one before. */
static NA_NOINLINE bool same_bytes(const uint8_t *a, const uint8_t *b, uint64_t n) {
    if (n < 16) {
        for (uint64_t i = 0; i < n; i++)
            if (a[i] != b[i]) return false;
        return true;
    }
    uint64_t i = 0, last = n - 16;
    na_py_kept_words_t same = sixteen_at(a + last) == sixteen_at(b + last);
    for (; i + 16 < last; i += 32)
        same &= (sixteen_at(a + i) == sixteen_at(b + i)) &
                (sixteen_at(a + i + 16) == sixteen_at(b + i + 16));
    if (i < last) same &= sixteen_at(a + i) == sixteen_at(b + i);
    return na_py_all_halves(same);
}

/* The same of a few dozen, as most are. */
NA_INLINE bool same_text(const uint8_t *a, const uint8_t *b, uint32_t n) {
    if (NA_UNLIKELY(n - 16 > 48)) { /* or less than 16 */
        if (n - 8 > 8) return same_bytes(a, b, n);
        return ((eight_at(a) ^ eight_at(b)) | (eight_at(a + n - 8) ^ eight_at(b + n - 8))) == 0;
    }
    na_py_kept_words_t same =
        (sixteen_at(a) == sixteen_at(b)) & (sixteen_at(a + n - 16) == sixteen_at(b + n - 16));
    if (n > 32)
        same &= (sixteen_at(a + 16) == sixteen_at(b + 16)) &
                (sixteen_at(a + n - 32) == sixteen_at(b + n - 32));
    return na_py_all_halves(same);
}

/* The lengths are as they were. What was copied of the text: the rest of it is, too. */
NA_INLINE bool is_name(const na_py_mark_t *m) {
    return same_text((const uint8_t *)m->name + m->name_at, m->name_copy, m->name_bytes);
}

NA_INLINE bool are_lines(const na_py_mark_t *m) {
    return same_text((const uint8_t *)m->lines + NA_PY_BYTES_AT, m->lines_copy, m->lines_bytes);
}

static NA_NOINLINE bool is_formed(uintptr_t at, uint8_t form) {
    return (state_of_str(at) & NA_PY_STATE_FORM) == form;
}

NA_INLINE bool is_file(const na_py_mark_t *m) {
    if (NA_UNLIKELY(!na_py_all_halves(na_py_same_halves(m->file + NA_PY_LENGTH_AT, m->file_head))))
        return false;
    if ((m->copied & NA_PY_COPIED_FILE) == 0) return true;
    if ((m->copied & NA_PY_COPIED_FORMS) != 0 && !is_formed(m->file, m->file_form)) return false;
    return same_text((const uint8_t *)m->file + m->file_at, m->file_copy, m->file_bytes);
}

/* Those of name and lines that were copied hold it still. */
NA_INLINE bool are_copied(const na_py_mark_t *m) {
    if ((m->copied & NA_PY_COPIED_NAME) != 0) {
        if ((m->copied & NA_PY_COPIED_FORMS) != 0 && !is_formed(m->name, m->name_form))
            return false;
        if (NA_UNLIKELY(!is_name(m))) return false;
    }
    return (m->copied & NA_PY_COPIED_LINES) == 0 || are_lines(m);
}

/* The code object that is there, and can be read, has this mark; `last`: one whose file was found
 * to be as it was. The objects are read if they are the code's. */
NA_INLINE bool is_marked(uintptr_t code, const na_py_mark_t *m, const na_py_mark_t *last,
                         const na_py_layout_t *l) {
    uintptr_t name_at = code + l->code_name;
    if (NA_UNLIKELY(na_py_word(name_at) != m->name) ||
        NA_UNLIKELY(na_py_word(name_at + 8) != m->lines) ||
        NA_UNLIKELY(na_py_word(code + l->code_file) != m->file) ||
        NA_UNLIKELY(*(const int32_t *)(code + l->code_line) != m->first_line))
        return false;
    if (NA_UNLIKELY(
            !na_py_all_halves(na_py_same_halves(m->name + NA_PY_LENGTH_AT, m->name_head) &
                              na_py_same_halves(m->lines + NA_PY_LENGTH_AT, m->lines_head))))
        return false;
    if ((m->copied & (NA_PY_COPIED_NAME | NA_PY_COPIED_LINES)) != 0 && NA_UNLIKELY(!are_copied(m)))
        return false;
    return (NA_LIKELY(m->file == last->file) && NA_LIKELY(m->file_sum == last->file_sum)) ||
           is_file(m);
}

static const na_py_frame_t nobody;

/* From the frame `f` outwards to `end`, the first whose code has not its mark; `end`: all have. */
NA_INLINE const na_py_frame_t *first_unmarked(const na_py_frame_t *f, const na_py_frame_t *end,
                                              const na_py_frame_t *last) {
    for (; f != end; f--) {
        if (f->mark.name == 0) continue;
        /* Code that is what it was, and the same then: recursion. */
        if (f->code == last->code && f->id == last->id) continue;
        if (NA_UNLIKELY(!is_marked(f->code, &f->mark, &last->mark, &na_py.layout))) break;
        last = f;
    }
    return f;
}

int32_t na_py_first_unmarked(const na_py_frame_t *frames, int32_t i, int32_t end) {
    return (int32_t)(first_unmarked(frames + i, frames + end, &nobody) - frames);
}

/* A frame with a mark has no life to be compared. */
NA_INLINE bool all_same_by(const na_py_frame_t *innermost, const na_py_frame_t *kept, uint32_t n,
                           const na_py_how_t how) {
    const na_py_layout_t *l = &na_py.layout;
    const na_py_frame_t *last = &nobody;
    if (innermost->mark.name != 0) {
        if (NA_UNLIKELY(!is_marked(innermost->code, &innermost->mark, &last->mark, l)))
            return false;
        last = innermost;
    } else if (NA_UNLIKELY(!na_py_is_alive(innermost))) {
        return false;
    }
    for (const na_py_frame_t *k = kept + n - 1; k >= kept; k--) {
        if (k->mark.name == 0) {
            if (NA_UNLIKELY(!na_py_is_same(k, how, l->frame_linked, l->frame_instr))) return false;
            continue;
        }
        if (NA_UNLIKELY(!na_py_is_linked(k, how, l->frame_linked, l->frame_instr))) return false;
        /* Code that is what it was, and the same then: recursion. */
        if (k->code == last->code && k->id == last->id) continue;
        if (NA_UNLIKELY(!is_marked(k->code, &k->mark, &last->mark, l))) return false;
        last = k;
    }
    return true;
}

bool na_py_all_same(const na_py_frame_t *innermost, const na_py_frame_t *kept, uint32_t n) {
    switch (na_py.layout.how) {
    case NA_PY_BY_LINKED:
        return all_same_by(innermost, kept, n, NA_PY_BY_LINKED);
    case NA_PY_BY_POINTER:
        return all_same_by(innermost, kept, n, NA_PY_BY_POINTER);
    default:
        return all_same_by(innermost, kept, n, NA_PY_BY_NUMBER);
    }
}

/* ---- under the lock: the table ---- */

static slot_t *code_slot(slot_t *slots, uint32_t mask, uint64_t checksum) {
    uint32_t i = (uint32_t)(checksum >> 32) & mask;
    while (slots[i].bytes != 0 && slots[i].checksum != checksum)
        i = (i + 1) & mask;
    return &slots[i];
}

static bool grow_codes(void) {
    uint32_t mask = codes.slots == NULL ? FIRST_SLOTS - 1 : codes.mask * 2 + 1;
    uint64_t bytes = ((uint64_t)mask + 1) * sizeof(slot_t);
    slot_t *slots = na_rec_has_room(bytes) ? na_own_alloc(bytes) : NULL;
    if (slots == NULL) return false;
    for (uint32_t i = 0; codes.slots != NULL && i <= codes.mask; i++)
        if (codes.slots[i].bytes != 0)
            *code_slot(slots, mask, codes.slots[i].checksum) = codes.slots[i];
    if (codes.slots != NULL)
        na_own_give_back(codes.slots, ((uint64_t)codes.mask + 1) * sizeof(slot_t));
    codes.slots = slots;
    codes.mask = mask;
    return true;
}

/* Its slot, or a free one that may be filled; NULL: no room. */
static slot_t *find_code(uint64_t checksum) {
    if ((codes.slots == NULL || codes.used * 2 > codes.mask) && !grow_codes()) {
        if (codes.slots == NULL || codes.used >= codes.mask) return NULL;
    }
    return code_slot(codes.slots, codes.mask, checksum);
}

/* ---- under the lock: the file ---- */

static na_nprof_chunk_t *new_chunk(uint16_t type, uint64_t length, uint32_t entry, uint32_t *chunks,
                                   uint32_t first) {
    if (!na_rec_has_room(length)) return NULL;
    na_nprof_chunk_t *c = na_writer_chunk(type, length, entry, 0, *chunks, first);
    if (c == NULL) return NULL;
    na_writer_publish(c);
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

bool na_py_text(na_py_thread_t *p, uintptr_t at, char *to, uint32_t size, bool last) {
    text_t t;
    if (!read_str(p, at, &t)) return false;
    uint64_t first = last && t.units > size - 1 ? t.units - (size - 1) : 0;
    t.data += first * t.width;
    t.units -= first;
    if (t.units > size - 1) t.units = size - 1;
    while (to_utf8(&t, NULL) > size - 1) {
        t.units--;
        if (last) t.data += t.width;
    }
    to[to_utf8(&t, (uint8_t *)to)] = 0;
    return true;
}

static bool store_text(const text_t *t, bool is_str, na_nprof_python_text_ref_t *ref) {
    slot_t *s = find_code(t->checksum);
    if (s != NULL && s->bytes != 0) {
        *ref = (na_nprof_python_text_ref_t){s->value, s->bytes - 1};
        return true;
    }
    if (codes.full) return false;
    uint32_t bytes = is_str ? to_utf8(t, NULL) : (uint32_t)t->units, word = 0;
    uint8_t *to = bytes != 0 ? new_text(bytes, &word) : NULL;
    if (bytes != 0 && to == NULL) return false;
    if (is_str)
        to_utf8(t, to);
    else if (bytes != 0)
        __builtin_memcpy(to, t->data, bytes);
    *ref = (na_nprof_python_text_ref_t){word, bytes};
    if (s != NULL) {
        *s = (slot_t){t->checksum, to, word, bytes + 1};
        codes.used++;
    }
    return true;
}

/* What a text without a hash is compared with: what was stored of it, as it is in memory. NULL:
 * there is no room. */
static const uint8_t *copy_of(const text_t *t, bool is_str) {
    static const uint8_t empty[1];
    if (t->units == 0) return empty;
    text_t raw = *t;
    na_nprof_python_text_ref_t ref;
    if (is_str && !t->ascii) {
        raw.units = t->units * t->width;
        raw.width = 1;
        raw.checksum = sum_text(OF_BYTES, &raw);
        if (!store_text(&raw, false, &ref)) return NULL;
    }
    const slot_t *s = find_code(raw.checksum);
    return s != NULL && s->bytes != 0 ? s->text : NULL;
}

/* What is compared of a text: its head, and its copy if it has no hash. */
static const uint8_t *mark_text(uintptr_t object, const text_t *t, bool is_str, uint64_t *head) {
    head[0] = na_py_word(object + NA_PY_LENGTH_AT);
    head[1] = na_py_word(object + NA_PY_HASH_AT);
    if (head[1] != NA_PY_NO_HASH) return NULL;
    const uint8_t *copy = copy_of(t, is_str);
    if (copy == NULL) head[1] = 0; /* as which it will not be found */
    return copy;
}

/* Only an ASCII str has these characters where this one has them: in any other lies its length in
 * UTF-8 there, which is below 2^56, so that one of its eight bytes is 0. */
static bool is_plain(const text_t *t) {
    if (!t->ascii || t->units < 8) return false;
    for (unsigned i = 0; i < 8; i++)
        if (t->data[i] == 0) return false;
    return true;
}

static uint8_t form_of(uintptr_t at) {
    return (uint8_t)(state_of_str(at) & NA_PY_STATE_FORM);
}

/* Of a code object that read_code has read, and that is stored. */
static void make_mark(uintptr_t at, const code_t *c, na_py_mark_t *m) {
    const na_py_layout_t *l = &na_py.layout;
    m->name = na_py_word(at + l->code_name);
    m->lines = na_py_word(at + l->code_lines);
    m->file = na_py_word(at + l->code_file);
    m->name_copy = mark_text(m->name, &c->name, true, m->name_head);
    m->lines_copy = mark_text(m->lines, &c->lines, false, m->lines_head);
    m->file_copy = mark_text(m->file, &c->file, true, m->file_head);
    m->copied = (m->name_copy != NULL ? NA_PY_COPIED_NAME : 0) |
                (m->lines_copy != NULL ? NA_PY_COPIED_LINES : 0) |
                (m->file_copy != NULL ? NA_PY_COPIED_FILE : 0);
    if ((m->name_copy != NULL && !is_plain(&c->name)) ||
        (m->file_copy != NULL && !is_plain(&c->file)))
        m->copied |= NA_PY_COPIED_FORMS;
    m->name_bytes = (uint32_t)(c->name.units * c->name.width);
    m->lines_bytes = (uint32_t)c->lines.units;
    m->file_bytes = (uint32_t)(c->file.units * c->file.width);
    m->name_form = form_of(m->name);
    m->file_form = form_of(m->file);
    m->name_at = (uint8_t)(c->name.data - (const uint8_t *)m->name);
    m->file_at = (uint8_t)(c->file.data - (const uint8_t *)m->file);
    m->file_sum = c->file.checksum;
    m->first_line = c->first_line;
}

/* Its id, 0: no room. */
static uint32_t add_code(uintptr_t address, const code_t *c, uint64_t checksum) {
    slot_t *s;
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
    if ((s = find_code(checksum)) != NULL && s->bytes == 0) {
        *s = (slot_t){checksum, NULL, id, 1};
        codes.used++;
    }
    return id;
}

static const code_t *other_code(void) {
    static const char name[] = NA_NPROF_PY_OTHER_NAME;
    static const uint8_t none[1];
    static code_t other;
    other.file = other.lines = (text_t){.data = none, .width = 1, .ascii = true};
    other.name = other.file;
    other.name.data = (const uint8_t *)name;
    other.name.units = sizeof name - 1;
    sum_code(&other);
    return &other;
}

/* Its id, 0: no room. It may be that of all that are not kept. */
static uint32_t store_code(uintptr_t address, const code_t *c, uint64_t checksum) {
    slot_t *s = find_code(checksum);
    if (s == NULL) return 0;
    if (s->bytes != 0) return s->value;
    bool made = c->file.units != 0 && character(&c->file, 0) == '<';
    if (codes.next_code < NA_NPROF_PY_CODES_KEPT &&
        (!made || codes.made < NA_NPROF_PY_MADE_CODES_KEPT)) {
        codes.made += made;
        return add_code(address, c, checksum);
    }
    na_nprof_python_t *entry = na_py_entry;
    if (entry->other == 0) {
        const code_t *other = other_code();
        __atomic_store_n(&entry->other, add_code(0, other, 1), __ATOMIC_RELEASE);
    }
    __atomic_fetch_add(&entry->other_seen, 1, __ATOMIC_RELAXED);
    return entry->other;
}

/* ---- for frames ---- */

static bool is_alive(const na_py_seen_t *s) {
    return s->life->words[0] == s->born.words[0] && s->life->words[1] == s->born.words[1];
}

static NA_NOINLINE bool learn_code(na_py_thread_t *p, uintptr_t at, na_py_seen_t *s) {
    code_t c;
    if (!read_code(p, at, &c)) return false;
    uint64_t checksum = sum_code(&c);
    const na_record_t *life = na_rec.record_of != NULL ? na_rec.record_of((const void *)at) : NULL;
    na_record_t born = life != NULL ? *life : na_py_no_record;
    if (life != NULL && (born.epoch != na_profile_epoch || born.site == NA_NPROF_NO_STACK))
        life = NULL;
    if (at - na_py.start < na_py.end - na_py.start) {
        life = &na_py_no_record;
        born = na_py_no_record;
    }
    uint32_t id = s->code == at && s->checksum == checksum ? s->id : 0;
    na_py_mark_t mark = {.first_line = 0};
    if (id == 0 || life == NULL) {
        na_lock(&codes.lock);
        if (id == 0) id = store_code(at, &c, checksum);
        codes.full = id == na_py_entry->other;
        if (id != 0 && life == NULL) make_mark(at, &c, &mark);
        codes.full = false;
        na_unlock(&codes.lock);
        if (id == 0) {
            __atomic_fetch_add(&na_py_entry->lost, 1, __ATOMIC_RELAXED);
            return false;
        }
    }
    *s = (na_py_seen_t){.code = at,
                        .life = life,
                        .born = born,
                        .mark = mark,
                        .checksum = checksum,
                        .id = id,
                        .unmapped = p->unmapped};
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
           is_marked(s->code, &s->mark, &nobody.mark, &na_py.layout);
}

bool na_py_code(na_py_thread_t *p, uintptr_t code, na_py_frame_t *frame) {
    uint64_t hash = (code >> 4) * UINT64_C(0x9e3779b97f4a7c15);
    na_py_seen_t *s = p->seen[hash >> (64 - NA_PY_SEEN_BITS)];
    if (NA_UNLIKELY(s->code != code)) s = bring_forward(s, code);
    if (NA_UNLIKELY(s->code != code) || NA_UNLIKELY(!is_as_seen(p, s)))
        if (!learn_code(p, code, s)) return false;
    frame->id = s->id;
    if (s->life != NULL) {
        frame->life = s->life;
        frame->born = s->born;
    } else {
        frame->mark = s->mark;
    }
    return true;
}
