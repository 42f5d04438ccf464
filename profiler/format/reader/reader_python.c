/* reader_python.c - see reader_python.h.
 *
 * The new tree is made in order of the old one's ids, so that parents come before their children.
 * Native entries are copied. A pair becomes the frames of its stack, those that are new; the last
 * of them is its own, so that no two sites become one. What that may cost is bounded by the number
 * of entries (WORK_A_NODE), beyond which pairs are shown as their native part. */
#include "profiler/format/reader/reader_python.h"

#include <stdlib.h>
#include <string.h>

#include "profiler/containers/array.h"
#include "profiler/containers/index.h"
#include "profiler/format/python_lines.h"
#include "profiler/format/reader/reader_priv.h"

#define CODES_MOST  NA_NPROF_PY_CODES_MOST
#define WORDS_MOST  (1u << 28)
#define WORK_A_NODE 2000u

struct na_reader_python {
    na_python_frames_t which;
    bool read, has_info, is_refused; /* is_refused: `info` says why; has_info is false then */
    na_nprof_python_t info;
    na_nprof_python_code_t *codes;
    uint32_t code_count;
    char *text; /* words, and one NUL */
    uint64_t text_bytes;
    char **names, **files; /* by code, terminated; made when they are asked for */
    uint32_t *to;          /* old ids to new ones; NULL: they are the same */
    uint32_t to_count;
};

static struct na_reader_python *python_state(na_reader_t *reader) {
    if (reader->python == NULL) reader->python = calloc(1, sizeof *reader->python);
    return reader->python;
}

void na_reader_python_free(na_reader_t *reader) {
    struct na_reader_python *p = reader->python;
    if (p == NULL) return;
    for (uint32_t i = 0; p->names != NULL && i < p->code_count; i++)
        free(p->names[i]);
    for (uint32_t i = 0; p->files != NULL && i < p->code_count; i++)
        free(p->files[i]);
    na_budget_free(p->names);
    na_budget_free(p->files);
    na_budget_free(p->codes);
    na_budget_free(p->text);
    na_budget_free(p->to);
    free(p);
}

void na_reader_python_frames(na_reader_t *reader, na_python_frames_t which) {
    struct na_reader_python *p = python_state(reader);
    if (p != NULL) p->which = which;
}

/* ---- tables ---- */

static void visit_info(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk, uint32_t index,
                       const void *entry) {
    (void)index;
    struct na_reader_python *p = arg;
    na_nprof_python_t info;
    memcpy(&info, entry, sizeof info);
    if (info.version == 0 || p->has_info) return;
    if (info.refused != 0) {
        p->info = info;
        p->is_refused = true;
        return;
    }
    bool good = info.range_count <= NA_NPROF_PY_RANGES;
    for (uint32_t i = 0; good && i < info.range_count; i++)
        good = info.ranges[i][0] < info.ranges[i][1];
    if (!good) {
        na_reader_issue(reader, NA_ISSUE_BAD_ENTRY, chunk->data, info.range_count);
        return;
    }
    p->info = info;
    p->has_info = true;
}

static void visit_code(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk, uint32_t index,
                       const void *entry) {
    struct na_reader_python *p = arg;
    na_nprof_python_code_t code;
    memcpy(&code, entry, sizeof code);
    uint64_t id = (uint64_t)chunk->first_id + index;
    if (code.kind == 0) return;
    if (id == 0 || id >= p->code_count || p->codes[id].kind != 0) {
        na_reader_issue(reader, NA_ISSUE_BAD_ENTRY, chunk->data, id);
        return;
    }
    const na_nprof_python_text_ref_t refs[] = {code.name, code.file, code.lines};
    for (size_t i = 0; i < 3; i++) {
        if ((uint64_t)refs[i].word * 8 + refs[i].bytes <= p->text_bytes) continue;
        na_reader_issue(reader, NA_ISSUE_BAD_ENTRY, chunk->data, id);
        return;
    }
    p->codes[id] = code;
}

static void visit_text(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk, uint32_t index,
                       const void *entry) {
    (void)reader;
    struct na_reader_python *p = arg;
    uint64_t word = (uint64_t)chunk->first_id + index;
    if (word < p->text_bytes / 8) memcpy(p->text + word * 8, entry, 8);
}

static struct na_reader_python *read_tables(na_reader_t *reader) {
    struct na_reader_python *p = python_state(reader);
    if (p == NULL || p->read) return p;
    p->read = true;
    na_reader_each_entry(reader, NA_NPROF_PYTHON, visit_info, p);
    if (!p->has_info) return p;
    uint32_t words = na_reader_id_bound(reader, NA_NPROF_PYTHON_TEXT, WORDS_MOST);
    uint32_t codes = na_reader_id_bound(reader, NA_NPROF_PYTHON_CODES, CODES_MOST);
    p->text = na_budget_calloc(reader->budget, (size_t)words * 8 + 1, 1);
    p->codes = na_budget_calloc(reader->budget, (size_t)codes + 1, sizeof *p->codes);
    p->names = na_budget_calloc(reader->budget, (size_t)codes + 1, sizeof *p->names);
    p->files = na_budget_calloc(reader->budget, (size_t)codes + 1, sizeof *p->files);
    if (p->text == NULL || p->codes == NULL || p->names == NULL || p->files == NULL) {
        na_reader_no_memory(reader, 0);
        return p;
    }
    p->text_bytes = (uint64_t)words * 8;
    p->code_count = codes;
    na_reader_each_entry(reader, NA_NPROF_PYTHON_TEXT, visit_text, p);
    na_reader_each_entry(reader, NA_NPROF_PYTHON_CODES, visit_code, p);
    return p;
}

const na_nprof_python_t *na_reader_python(na_reader_t *reader) {
    struct na_reader_python *p = read_tables(reader);
    return p != NULL && p->has_info ? &p->info : NULL;
}

const na_nprof_python_t *na_reader_python_refused(na_reader_t *reader) {
    struct na_reader_python *p = read_tables(reader);
    return p != NULL && p->is_refused && !p->has_info ? &p->info : NULL;
}

/* NULL: no memory. */
static const char *code_text(const struct na_reader_python *p, char **kept,
                             na_nprof_python_text_ref_t ref) {
    if (*kept == NULL) *kept = strndup(p->text + (uint64_t)ref.word * 8, ref.bytes);
    return *kept;
}

bool na_reader_python_at(na_reader_t *reader, uint64_t pc, na_python_code_t *code) {
    struct na_reader_python *p = read_tables(reader);
    uint32_t id = na_nprof_py_code(pc);
    if (p == NULL || id >= p->code_count || p->codes[id].kind == 0) return false;
    const na_nprof_python_code_t *c = &p->codes[id];
    code->name = code_text(p, &p->names[id], c->name);
    code->file = code_text(p, &p->files[id], c->file);
    code->first_line = c->first_line > 0 ? (uint32_t)c->first_line : 0;
    code->line = na_python_line(c->kind, (const uint8_t *)p->text + (uint64_t)c->lines.word * 8,
                                c->lines.bytes, c->first_line, na_nprof_py_unit(pc));
    return code->name != NULL && code->file != NULL;
}

/* ---- the tree ---- */

typedef struct frame {
    uint64_t pc;
    uint32_t flags;
} frame_t;

typedef struct tree {
    const na_nprof_stack_t *old;
    uint32_t old_count;
    const struct na_reader_python *p;
    na_budget_t *budget;
    na_nprof_stack_t *items;
    uint32_t count, room;
    na_index_t index; /* of children by (parent, pc, flags); its slots are the budget's */
    frame_t *native, *python, *merged; /* innermost first; merged: outermost first */
    size_t native_count, native_room, python_count, python_room, merged_count, merged_room;
    size_t ended;   /* so many of the innermost calls run no frame */
    bool innermost; /* the groups are those of the innermost calls */
    uint64_t work;
} tree_t;

static uint64_t hash_of_child(uint32_t parent, frame_t f) {
    return na_hash_number(na_hash_number(NA_HASH_BEGIN, f.pc), (uint64_t)parent << 32 | f.flags);
}

/* A new entry, 0: no memory. */
static uint32_t add_stack(tree_t *t, uint32_t parent, frame_t f) {
    if (!NA_BUDGET_RESERVE(t->budget, t->items, t->room, t->count + 1u)) return 0;
    t->items[t->count] = (na_nprof_stack_t){parent, f.flags, f.pc};
    return t->count++;
}

/* The child with this frame, which is made if there is none; 0: no memory. */
static uint32_t child(tree_t *t, uint32_t parent, frame_t f) {
    uint64_t hash = hash_of_child(parent, f);
    na_probe_t probe = na_index_probe(&t->index, hash);
    while (na_index_next(&t->index, &probe)) {
        const na_nprof_stack_t *s = &t->items[probe.number];
        if (s->parent == parent && s->pc == f.pc && s->flags == f.flags) return probe.number;
    }
    uint32_t made = add_stack(t, parent, f);
    return made != 0 && na_budget_index_add(t->budget, &t->index, hash, made) ? made : 0;
}

static bool push(frame_t **items, size_t *count, size_t *room, uint64_t pc, uint32_t flags) {
    if (!NA_ARRAY_RESERVE(*items, *room, *count + 1)) return false;
    (*items)[(*count)++] = (frame_t){pc, flags};
    return true;
}

/* Both parts of a pair, innermost first. */
static bool gather_pair(tree_t *t, const na_nprof_stack_t *pair) {
    t->native_count = t->python_count = 0;
    for (uint32_t node = pair->parent; node > NA_NPROF_ROOT; node = t->old[node].parent, t->work++)
        if (!na_nprof_is_py(t->old[node].pc) && !push(&t->native, &t->native_count, &t->native_room,
                                                      t->old[node].pc, t->old[node].flags))
            return false;
    uint32_t node = (uint32_t)(pair->pc & NA_NPROF_PY_NODE_MASK);
    t->ended = 0;
    t->innermost = false;
    if (node >= t->old_count) return true;
    for (; node > NA_NPROF_ROOT && t->old[node].pc == NA_NPROF_PY_NO_FRAME;
         node = t->old[node].parent, t->work++)
        t->ended++;
    for (; node > NA_NPROF_ROOT; node = t->old[node].parent, t->work++)
        if (na_nprof_is_py(t->old[node].pc) && !na_nprof_is_py_pair(t->old[node].pc) &&
            !push(&t->python, &t->python_count, &t->python_room, t->old[node].pc,
                  t->old[node].flags | NA_NPROF_STACK_EXACT))
            return false;
    if (t->python_count == 0) return true;
    const frame_t *outermost = &t->python[t->python_count - 1];
    t->innermost = (outermost->flags & NA_NPROF_STACK_TRUNCATED) != 0 ||
                   t->p->info.version == NA_NPROF_PY_ALL_RUN;
    if (outermost->pc != NA_NPROF_PY_OTHER) return true;
    t->innermost = true;
    t->python_count--;
    return true;
}

static bool is_eval(const na_nprof_python_t *info, const frame_t *f) {
    uint64_t at = f->pc - ((f->flags & NA_NPROF_STACK_EXACT) == 0);
    for (uint32_t i = 0; i < info->range_count; i++)
        if (at >= info->ranges[i][0] && at < info->ranges[i][1]) return true;
    return false;
}

static bool put(tree_t *t, const frame_t *f, uint32_t flags) {
    return push(&t->merged, &t->merged_count, &t->merged_room, f->pc, f->flags | flags);
}

/* Of t->python, of which `left` are not yet put, the next group, which begins with the outermost of
 * these. Of a call that runs no frame `native` is put; NULL: nothing. */
static bool put_python_group(tree_t *t, size_t *left, const frame_t *native) {
    bool first = true;
    if (t->python[*left - 1].pc == NA_NPROF_PY_NO_FRAME) {
        --*left;
        return native == NULL || put(t, native, 0);
    }
    while (*left != 0 && (first || (t->python[*left - 1].pc & NA_NPROF_PY_ENTRY) == 0)) {
        frame_t f = t->python[--*left];
        f.pc &= ~NA_NPROF_PY_ENTRY; /* it has told what it had to */
        if (!put(t, &f, 0)) return false;
        first = false;
    }
    return true;
}

/* Fills t->merged. */
static bool merge_pair(tree_t *t) {
    na_python_frames_t which = t->p->which;
    size_t calls = 0, groups = 0, left = t->python_count, others = 0;
    t->merged_count = 0;
    if (which != NA_PYTHON_NATIVE) {
        for (size_t i = 0; i < t->native_count; i++)
            calls += is_eval(&t->p->info, &t->native[i]);
        for (size_t i = 0; i < t->python_count; i++)
            groups += i == t->python_count - 1 || (t->python[i].pc & NA_NPROF_PY_ENTRY) != 0;
        for (; groups > calls; groups--)
            if (!put_python_group(t, &left, NULL)) return false;
        if (t->innermost && calls - groups > t->ended) others = calls - groups - t->ended;
    }
    bool leaves_only = which == NA_PYTHON_LEAVES && t->python_count != 0;
    for (size_t i = t->native_count; i-- > 0;) {
        const frame_t *f = &t->native[i];
        if (left != 0 && which != NA_PYTHON_NATIVE && is_eval(&t->p->info, f)) {
            if (others == 0) {
                if (!put_python_group(t, &left, which == NA_PYTHON_BOTH ? f : NULL)) return false;
                continue;
            }
            others--;
        }
        bool shown = which == NA_PYTHON_NATIVE || which == NA_PYTHON_BOTH ||
                     (which == NA_PYTHON_LEAVES && left == 0) || t->python_count == 0;
        if (shown && !put(t, f, leaves_only ? NA_READER_BELOW_PYTHON : 0)) return false;
    }
    return true;
}

/* The new id of a pair; 0: no memory. */
static uint32_t add_pair(tree_t *t, const uint32_t *to, const na_nprof_stack_t *pair) {
    if (t->work > (uint64_t)WORK_A_NODE * t->old_count) return to[pair->parent];
    if (!gather_pair(t, pair) || !merge_pair(t)) return 0;
    uint32_t node = NA_NPROF_ROOT;
    for (size_t i = 0; i + 1 < t->merged_count; i++)
        if ((node = child(t, node, t->merged[i])) == 0) return 0;
    return t->merged_count == 0 ? node : add_stack(t, node, t->merged[t->merged_count - 1]);
}

static bool make_stacks(tree_t *t, uint32_t *to) {
    t->room = t->old_count + 1024;
    t->items = na_budget_calloc(t->budget, t->room, sizeof *t->items);
    if (t->items == NULL) return false;
    t->items[NA_NPROF_ROOT] = t->old[NA_NPROF_ROOT];
    t->count = NA_NPROF_ROOT + 1;
    to[NA_NPROF_ROOT] = NA_NPROF_ROOT;
    for (uint32_t id = NA_NPROF_ROOT + 1; id < t->old_count; id++) {
        const na_nprof_stack_t *s = &t->old[id];
        if (s->flags == 0) continue;
        if (na_nprof_is_py_pair(s->pc))
            to[id] = add_pair(t, to, s);
        else if (na_nprof_is_py(s->pc))
            to[id] = NA_NPROF_ROOT; /* of no event */
        else
            to[id] = child(t, to[s->parent], (frame_t){s->pc, s->flags});
        if (to[id] == 0) return false;
    }
    return true;
}

void na_reader_python_stacks(na_reader_t *reader) {
    if (na_reader_entries(reader, NA_NPROF_PYTHON) == 0) return;
    struct na_reader_python *p = read_tables(reader);
    if (p == NULL || !p->has_info) return;
    tree_t t = {
        .old = reader->stacks, .old_count = reader->stack_count, .p = p, .budget = reader->budget};
    uint32_t *to = na_budget_calloc(reader->budget, (size_t)t.old_count + 1, sizeof *to);
    if (to != NULL && make_stacks(&t, to)) {
        na_budget_free(reader->stacks);
        reader->stacks = t.items;
        reader->stack_count = t.count;
        p->to = to;
        p->to_count = t.old_count;
    } else {
        na_reader_no_memory(reader, 0);
        na_budget_free(t.items);
        na_budget_free(to);
    }
    na_budget_free(t.index.slots);
    free(t.native);
    free(t.python);
    free(t.merged);
}

uint32_t na_reader_stack_id(na_reader_t *reader, uint32_t id) {
    if (reader->python_asked == 0)
        reader->python_asked = na_reader_entries(reader, NA_NPROF_PYTHON) == 0 ? 1 : 2;
    if (reader->python_asked == 1) return id;
    na_reader_stacks(reader);
    const struct na_reader_python *p = reader->python;
    if (p == NULL || p->to == NULL || id == NA_NPROF_NO_STACK) return id;
    return id < p->to_count && p->to[id] != 0 ? p->to[id] : UINT32_MAX;
}
