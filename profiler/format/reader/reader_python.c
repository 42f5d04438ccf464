/* reader_python.c - see reader_python.h.
 *
 * The new tree is made in order of the old one's ids, so that parents come before their children.
 * Native and Python entries are copied. A pair becomes the frames of its stack, those that are new:
 * its way outwards ends at the first stack that an earlier pair led to (known_node), so that all
 * pairs together take as many steps as the new tree has frames, times KNOWN_EVERY at most. The last
 * frame of a pair is its own, so that no two sites become one. Pairs that the budget has no room
 * for are shown as their native part, which is an issue. */
#include "profiler/format/reader/reader_python.h"

#include <stdlib.h>
#include <string.h>

#include "profiler/containers/array.h"
#include "profiler/containers/index.h"
#include "profiler/format/python_lines.h"
#include "profiler/format/reader/reader_priv.h"

#define CODES_MOST NA_NPROF_PY_CODES_MOST
#define WORDS_MOST (1u << 28)

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

/* Of an entry of the file. */
typedef struct whole {
    uint32_t count; /* calls of the evaluation function, of a native one, or groups, from the
                       outermost to it */
    uint32_t ended; /* so many of the innermost calls run no frame, */
    uint32_t last;  /* and this is the one outside of them */
    uint8_t depth;  /* the lowest bits */
    bool innermost; /* the groups are those of the innermost calls */
} whole_t;

/* A stack with all frames outside of a native one and a Python one, and these; the nth group is
 * that of call n + shift. A result depends on nothing else. */
typedef struct state {
    uint32_t native, python;
    int32_t shift;
} state_t;

typedef struct known {
    state_t of;
    uint32_t node;
} known_t;

typedef struct step {
    state_t to; /* what the frame is innermost of */
    frame_t frame;
    bool shown;
} step_t;

typedef struct tree {
    const na_nprof_stack_t *old;
    uint32_t old_count;
    const struct na_reader_python *p;
    na_budget_t *budget;
    uint32_t *to;
    whole_t *wholes;
    na_nprof_stack_t *items;
    uint32_t count, room, most;
    na_index_t index; /* of children by (parent, pc, flags); its slots are the budget's */
    known_t *known;   /* every KNOWN_EVERYth of those on the way to any pair */
    uint32_t known_count, known_room;
    na_index_t known_index;
    step_t *path; /* innermost first */
    uint32_t path_room;
    uint64_t left_out;
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

static bool is_python(const tree_t *t, uint32_t id) {
    return na_nprof_is_py(t->old[id].pc) && !na_nprof_is_py_pair(t->old[id].pc);
}

/* The frame outside of it. One of the other kind, as no recorder writes it, is none. */
static uint32_t outer_of(const tree_t *t, uint32_t id) {
    uint32_t outer = t->old[id].parent;
    return outer > NA_NPROF_ROOT && na_nprof_is_py(t->old[outer].pc) == is_python(t, id) &&
                   !na_nprof_is_py_pair(t->old[outer].pc)
               ? outer
               : NA_NPROF_ROOT;
}

static bool is_eval(const na_nprof_python_t *info, const na_nprof_stack_t *s) {
    uint64_t at = s->pc - ((s->flags & NA_NPROF_STACK_EXACT) == 0);
    for (uint32_t i = 0; i < info->range_count; i++)
        if (at >= info->ranges[i][0] && at < info->ranges[i][1]) return true;
    return false;
}

static void note_native(tree_t *t, uint32_t id) {
    const whole_t *outer = &t->wholes[outer_of(t, id)];
    t->wholes[id] = (whole_t){.count = outer->count + is_eval(&t->p->info, &t->old[id]),
                              .depth = (uint8_t)(outer->depth + 1)};
}

static void note_python(tree_t *t, uint32_t id) {
    const na_nprof_stack_t *s = &t->old[id];
    const whole_t *outer = &t->wholes[outer_of(t, id)];
    bool outermost = outer->count == 0, other = outermost && s->pc == NA_NPROF_PY_OTHER;
    whole_t *w = &t->wholes[id];
    *w = (whole_t){.last = id, .depth = (uint8_t)(outer->depth + 1)};
    w->innermost =
        outer->innermost || other ||
        (outermost && ((s->flags & NA_NPROF_STACK_TRUNCATED) != 0 ||
                       t->p->info.version == NA_NPROF_PY_ALL_RUN || t->p->info.counted != 0));
    w->count = outer->count + (!other && (outermost || (s->pc & NA_NPROF_PY_ENTRY) != 0));
    if (s->pc != NA_NPROF_PY_NO_FRAME) return;
    w->ended = outer->ended + 1;
    w->last = outer->ended != 0 ? outer->last : outer_of(t, id);
}

/* A Python frame as it is shown: ENTRY has told what it had to. */
static frame_t python_frame(const tree_t *t, uint32_t id) {
    return (frame_t){t->old[id].pc & ~NA_NPROF_PY_ENTRY, t->old[id].flags | NA_NPROF_STACK_EXACT};
}

/* A frame of the import system, as a traceback leaves it out, inside of other Python code: the line
 * that imports stands for it. */
static bool is_folded(const tree_t *t, uint32_t python) {
    static const char importlib[] = "<frozen importlib._bootstrap";
    const struct na_reader_python *p = t->p;
    uint32_t id = na_nprof_py_code(t->old[python].pc);
    if (p->which == NA_PYTHON_BOTH || id >= p->code_count || p->codes[id].kind == 0) return false;
    na_nprof_python_text_ref_t file = p->codes[id].file;
    return file.bytes >= sizeof importlib - 1 &&
           memcmp(p->text + (uint64_t)file.word * 8, importlib, sizeof importlib - 1) == 0 &&
           t->to[outer_of(t, python)] != NA_NPROF_ROOT;
}

/* It stands for a frame. */
static bool is_shown(const tree_t *t, uint32_t python) {
    return t->old[python].pc != NA_NPROF_PY_NO_FRAME &&
           (t->old[python].pc != NA_NPROF_PY_OTHER || t->wholes[python].count != 0) &&
           !is_folded(t, python);
}

/* The node of what has native or Python frames alone; 0: it has both. */
static uint32_t plain_node(const tree_t *t, state_t s) {
    if (t->wholes[s.python].count == 0) return t->to[s.native];
    if (s.native == NA_NPROF_ROOT) return t->to[s.python];
    if (t->p->which != NA_PYTHON_LEAVES) return 0;
    /* Native frames end at the call that runs the last group. */
    bool here = (int64_t)t->wholes[s.native].count - s.shift == t->wholes[s.python].count;
    return here && is_eval(&t->p->info, &t->old[s.native]) ? t->to[s.python] : 0;
}

static void take_native(const tree_t *t, step_t *step) {
    const na_nprof_stack_t *s = &t->old[step->to.native];
    uint32_t flag = t->p->which == NA_PYTHON_LEAVES ? NA_READER_BELOW_PYTHON : 0;
    step->frame = (frame_t){s->pc, s->flags | flag};
    step->shown = true;
    step->to.native = outer_of(t, step->to.native);
}

/* Takes the innermost frame from step->to, which is not plain. */
static void take_innermost(const tree_t *t, step_t *step) {
    state_t *s = &step->to;
    const whole_t *native = &t->wholes[s->native], *python = &t->wholes[s->python];
    if (!is_eval(&t->p->info, &t->old[s->native]) ||
        (int64_t)native->count - s->shift != python->count) {
        take_native(t, step);
        return;
    }
    /* The call runs this group. */
    uint32_t frame = s->python, outer = outer_of(t, frame);
    if (t->old[frame].pc == NA_NPROF_PY_NO_FRAME) {
        take_native(t, step);
    } else {
        step->frame = python_frame(t, frame);
        step->shown = is_shown(t, frame);
        if (t->wholes[outer].count != python->count) s->native = outer_of(t, s->native);
    }
    s->python = outer;
}

static uint64_t hash_of_state(state_t s) {
    return na_hash_number(
        na_hash_number(NA_HASH_BEGIN, (uint64_t)s.native << 32 | (uint32_t)s.python),
        (uint32_t)s.shift);
}

/* A step takes one frame or two. */
#define KNOWN_EVERY 16u
static bool is_kept(const tree_t *t, state_t s) {
    return (t->wholes[s.native].depth + t->wholes[s.python].depth) % KNOWN_EVERY < 2;
}

/* 0: it is not known. */
static uint32_t known_node(const tree_t *t, state_t s) {
    uint32_t plain = plain_node(t, s);
    if (plain != 0 || !is_kept(t, s)) return plain;
    na_probe_t probe = na_index_probe(&t->known_index, hash_of_state(s));
    while (na_index_next(&t->known_index, &probe)) {
        const known_t *k = &t->known[probe.number];
        if (k->of.native == s.native && k->of.python == s.python && k->of.shift == s.shift)
            return k->node;
    }
    return 0;
}

static bool keep_node(tree_t *t, state_t s, uint32_t node) {
    if (!is_kept(t, s)) return true;
    if (!NA_BUDGET_RESERVE(t->budget, t->known, t->known_room, t->known_count + 1u)) return false;
    t->known[t->known_count] = (known_t){s, node};
    return na_budget_index_add(t->budget, &t->known_index, hash_of_state(s), t->known_count++);
}

/* The node of this stack; 0: no memory. */
static uint32_t merged_node(tree_t *t, state_t s) {
    uint32_t n = 0, node;
    for (; (node = known_node(t, s)) == 0; n++) {
        if (!NA_BUDGET_RESERVE(t->budget, t->path, t->path_room, n + 1u)) return 0;
        t->path[n] = (step_t){.to = s};
        take_innermost(t, &t->path[n]);
        state_t outer = t->path[n].to;
        t->path[n].to = s;
        s = outer;
    }
    while (n-- > 0) {
        const step_t *step = &t->path[n];
        if (t->count >= t->most) return 0;
        if (step->shown && (node = child(t, node, step->frame)) == 0) return 0;
        if (!keep_node(t, step->to, node)) return 0;
    }
    return node;
}

/* The innermost frame that shows of a stack that may be plain; step->to: what is outside. False: no
 * frame does. */
static bool take_shown(const tree_t *t, step_t *step) {
    state_t *s = &step->to;
    for (step->shown = false; !step->shown;) {
        if (plain_node(t, *s) == 0) {
            take_innermost(t, step);
        } else if (t->wholes[s->python].count != 0) {
            step->frame = python_frame(t, s->python);
            step->shown = is_shown(t, s->python);
            s->python = outer_of(t, s->python);
            s->native = NA_NPROF_ROOT;
        } else if (s->native != NA_NPROF_ROOT) {
            step->frame = (frame_t){t->old[s->native].pc, t->old[s->native].flags};
            step->shown = true;
            s->native = outer_of(t, s->native);
        } else {
            return false;
        }
    }
    return true;
}

/* The stack of a pair. */
static state_t state_of_pair(const tree_t *t, uint32_t id) {
    const na_nprof_stack_t *pair = &t->old[id];
    uint32_t python = (uint32_t)(pair->pc & NA_NPROF_PY_NODE_MASK), native = pair->parent;
    if (na_nprof_is_py(t->old[native].pc)) native = NA_NPROF_ROOT;
    state_t s = {.native = native, .python = NA_NPROF_ROOT};
    if (t->p->which == NA_PYTHON_NATIVE || python >= id || !is_python(t, python)) return s;
    uint32_t ended = t->wholes[python].ended;
    if (ended != 0) python = t->wholes[python].last;
    const whole_t *w = &t->wholes[python];
    if (w->count == 0) return s;
    s.python = python;
    if (t->p->which == NA_PYTHON_ONLY) s.native = NA_NPROF_ROOT;
    int64_t over = (int64_t)t->wholes[s.native].count - w->count;
    if (over < 0)
        s.shift = (int32_t)over;
    else if (w->innermost && over > ended)
        s.shift = (int32_t)(over - ended);
    return s;
}

/* The new id of a pair; its last frame is its own, so that no two sites become one. Where there is
 * no memory for it, its native part stands for it. */
static uint32_t add_pair(tree_t *t, uint32_t id) {
    step_t last = {.to = state_of_pair(t, id)};
    if (!take_shown(t, &last)) return NA_NPROF_ROOT;
    uint32_t node = merged_node(t, last.to);
    if (node != 0 && t->count < t->most)
        node = add_stack(t, node, last.frame);
    else
        node = 0;
    if (node != 0) return node;
    t->left_out++;
    return t->to[t->old[id].parent];
}

static uint32_t add_python(tree_t *t, uint32_t id) {
    note_python(t, id);
    if (t->p->which == NA_PYTHON_NATIVE) return NA_NPROF_ROOT;
    uint32_t outer = t->to[outer_of(t, id)];
    return is_shown(t, id) ? child(t, outer, python_frame(t, id)) : outer;
}

static uint32_t add_native(tree_t *t, uint32_t id) {
    note_native(t, id);
    return child(t, t->to[outer_of(t, id)], (frame_t){t->old[id].pc, t->old[id].flags});
}

/* What an entry takes, with its places in tables that grow. */
#define BYTES_A_NODE 64u

static bool make_stacks(tree_t *t) {
    t->room = t->old_count + 1024;
    t->items = na_budget_calloc(t->budget, t->room, sizeof *t->items);
    t->wholes = na_budget_calloc(t->budget, t->old_count, sizeof *t->wholes);
    if (t->items == NULL || t->wholes == NULL) return false;
    t->items[NA_NPROF_ROOT] = t->old[NA_NPROF_ROOT];
    t->count = NA_NPROF_ROOT + 1;
    t->to[NA_NPROF_ROOT] = NA_NPROF_ROOT;
    /* Half of what is left is for all other tables. */
    uint64_t most = t->old_count + na_budget_left(t->budget) / 2 / BYTES_A_NODE;
    t->most = most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
    for (uint32_t id = NA_NPROF_ROOT + 1; id < t->old_count; id++) {
        uint64_t pc = t->old[id].pc;
        if (t->old[id].flags == 0) continue;
        t->to[id] = na_nprof_is_py_pair(pc) ? add_pair(t, id)
                    : na_nprof_is_py(pc)    ? add_python(t, id)
                                            : add_native(t, id);
        if (t->to[id] == 0) return false;
    }
    return true;
}

void na_reader_python_stacks(na_reader_t *reader) {
    if (na_reader_entries(reader, NA_NPROF_PYTHON) == 0) return;
    struct na_reader_python *p = read_tables(reader);
    if (p == NULL || !p->has_info) return;
    tree_t t = {
        .old = reader->stacks, .old_count = reader->stack_count, .p = p, .budget = reader->budget};
    t.to = na_budget_calloc(reader->budget, (size_t)t.old_count + 1, sizeof *t.to);
    if (t.to != NULL && make_stacks(&t)) {
        na_budget_free(reader->stacks);
        reader->stacks = t.items;
        reader->stack_count = t.count;
        p->to = t.to;
        p->to_count = t.old_count;
        if (t.left_out != 0) na_reader_issue(reader, NA_ISSUE_PYTHON, 0, t.left_out);
    } else {
        na_reader_no_memory(reader, 0);
        na_budget_free(t.items);
        na_budget_free(t.to);
    }
    na_budget_free(t.index.slots);
    na_budget_free(t.wholes);
    na_budget_free(t.known);
    na_budget_free(t.known_index.slots);
    na_budget_free(t.path);
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
