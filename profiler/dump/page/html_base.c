/* html_base.c - puts the sites of another run (--baseline) into the rows of the page.
 *
 * A site of the one run is that of the other if the functions on its stack are. Functions are the
 * same as in view_diff.c: by name, by the name of the source file without directories, and in
 * modules that are a pair (module_pairs.h). Where a function calls the next one in several places,
 * the place with the nearest line counts, counted from the beginning of the function: text above it
 * may have changed. What the new run has no row for gets one of its own, unless it is small where
 * the page had to put small sites together: then it goes to those that were put together at the
 * innermost function that is there. Sums over the tree are those of the other run exactly. */
#include <stdlib.h>
#include <string.h>

#include "profiler/containers/array.h"
#include "profiler/containers/path.h"
#include "profiler/dump/page/html_page.h"
#include "profiler/dump/runs/module_pairs.h"

typedef struct old_function {
    uint32_t page;    /* function of the page + 1; 0: not looked for yet */
    int64_t line;     /* definition here less that of the new run; lines below it moved so far */
    const char *file; /* of the new run's definition; NULL: not known, or not in the new run */
} old_function_t;

typedef struct node_match {
    uint32_t next;     /* child of the same node and function; NA_WEBPAGE_NONE: no more */
    uint32_t row;      /* row + 1 of a site told apart; 0: none */
    uint32_t together; /* row + 1 of what was put together */
} node_match_t;

typedef struct match {
    na_webpage_t *r;
    na_intern_t texts; /* names of functions, and base names */
    na_intern_t names; /* (function, module, file) as `texts`; of the new run's */
    na_pairs_t *pairs;
    uint32_t *page_of_name; /* by `names` */
    size_t name_room;
    old_function_t *functions; /* by id of the old run's function */
    na_intern_t calls;         /* (node, function): */
    uint32_t *first_of_call;   /* its first child node of this function, */
    uint32_t calls_room;
    node_match_t *by_node;
    uint32_t node_room;
    size_t made; /* rows of the old run's own */
    na_stack_t stack;
} match_t;

/* ---- functions ---- */

static uint32_t paired_name(match_t *m, int side, const na_function_name_t *f, bool *fresh) {
    const char *module_text, *text;
    na_pairs_key(m->pairs, side, f, &module_text, &text);
    uint32_t name = na_intern_text(&m->texts, text);
    uint32_t module = na_intern_text(&m->texts, module_text);
    uint32_t file = na_intern_text(&m->texts, na_base_name(f->file));
    if (name == NA_WEBPAGE_NONE || module == NA_WEBPAGE_NONE || file == NA_WEBPAGE_NONE)
        return NA_WEBPAGE_NONE;
    return na_intern_numbers(&m->names, name, module, file, fresh);
}

/* Where two functions of the new run have one name, the first stands for both. */
static bool index_functions(match_t *m) {
    const na_intern_t *all = &m->r->functions;
    if (!NA_ARRAY_RESERVE_ZERO(m->page_of_name, m->name_room, all->count + 1u)) return false;
    for (uint32_t i = 0; i < all->count; i++) {
        bool fresh;
        uint32_t name = paired_name(
            m, 1, na_symbols_function(m->r->in->symbols, all->keys[i].number[0]), &fresh);
        if (name == NA_WEBPAGE_NONE) return false;
        if (fresh) m->page_of_name[name] = i;
    }
    return true;
}

static const old_function_t *function_of(match_t *m, uint32_t id) {
    na_webpage_t *r = m->r;
    old_function_t *f = &m->functions[id];
    if (f->page != 0) return f;
    const na_function_name_t *old = na_symbols_function(r->base->symbols, id);
    bool fresh;
    uint32_t name = paired_name(m, 0, old, &fresh), page;
    if (name == NA_WEBPAGE_NONE) return NULL;
    if (!fresh) {
        page = m->page_of_name[name];
        uint32_t other = r->functions.keys[page].number[0];
        if ((other & NA_WEBPAGE_OLD) == 0) {
            const na_function_name_t *new = na_symbols_function(r->in->symbols, other);
            f->file = new->file;
            if (old->line != 0 && new->line != 0) f->line = (int64_t)old->line - new->line;
        }
    } else {
        uint32_t text = na_intern_text(&r->strings, old->function);
        uint32_t module = na_intern_text(&r->strings, old->module);
        page = na_intern_numbers(&r->functions, id | NA_WEBPAGE_OLD, text, module, NULL);
        if (text == NA_WEBPAGE_NONE || module == NA_WEBPAGE_NONE || page == NA_WEBPAGE_NONE)
            return NULL;
        if (!NA_ARRAY_RESERVE_ZERO(m->page_of_name, m->name_room, m->names.count + 1u)) return NULL;
        m->page_of_name[name] = page;
    }
    f->page = page + 1;
    return f;
}

/* ---- the tree ---- */

/* Room by node for one more than there are. */
static bool make_node_room(match_t *m) {
    return NA_ARRAY_RESERVE_ZERO(m->by_node, m->node_room, m->r->nodes.count + 1u);
}

/* The first child of `node` that is in this function; NULL: out of memory. */
static uint32_t *first_of(match_t *m, uint32_t node, uint32_t function) {
    bool fresh;
    uint32_t call = na_intern_numbers(&m->calls, node, function, 0, &fresh);
    if (call == NA_WEBPAGE_NONE) return NULL;
    if (!NA_ARRAY_RESERVE(m->first_of_call, m->calls_room, call + 1u)) return NULL;
    if (fresh) m->first_of_call[call] = NA_WEBPAGE_NONE;
    return &m->first_of_call[call];
}

static bool link_node(match_t *m, uint32_t node) {
    const na_intern_key_t *key = &m->r->nodes.keys[node];
    if (!make_node_room(m)) return false;
    uint32_t *first = first_of(m, key->number[0], m->r->frames.keys[key->number[1]].number[0]);
    if (first == NULL) return false;
    m->by_node[node].next = *first;
    *first = node;
    return true;
}

/* Where the row of a site at the node is; id 0: of what was put together there. */
static uint32_t *row_at(match_t *m, uint32_t id, uint32_t node) {
    node_match_t *at = &m->by_node[node];
    return id == 0 ? &at->together : &at->row;
}

static bool index_tree(match_t *m) {
    if (!make_node_room(m)) return false;
    for (uint32_t node = m->r->nodes.count; node-- > 1;)
        if (!link_node(m, node)) return false;
    for (size_t i = m->r->site_count; i-- > 0;) {
        const na_webpage_site_t *site = &m->r->sites[i];
        *row_at(m, site->id, site->node) = (uint32_t)i + 1;
    }
    return true;
}

/* The old run's frame among those of the page, its line as if it were in the new text. */
static uint32_t old_frame(match_t *m, const na_symbol_frame_t *frame, const old_function_t *f,
                          int64_t *line) {
    na_webpage_t *r = m->r;
    uint32_t none = NA_WEBPAGE_NONE;
    *line = frame->line;
    bool moved = f->file != NULL && strcmp(na_base_name(frame->file), na_base_name(f->file)) == 0;
    if (moved && *line > f->line) *line -= f->line;
    const char *path = moved ? f->file : frame->file;
    uint32_t file = path == NULL ? none : na_intern_text(&r->strings, path);
    if (path != NULL && file == none) return none;
    return na_intern_numbers(&r->frames, f->page - 1, file, (uint32_t)*line, NULL);
}

/* The child of `node` for a frame: the one at the nearest line; if there is none and `make`, a new
 * one. NA_WEBPAGE_NONE: none. */
static uint32_t child_of(match_t *m, uint32_t node, const na_symbol_frame_t *frame, bool make) {
    na_webpage_t *r = m->r;
    const old_function_t *f = function_of(m, frame->id);
    int64_t line;
    uint32_t as = f == NULL ? NA_WEBPAGE_NONE : old_frame(m, frame, f, &line);
    uint32_t *first = as == NA_WEBPAGE_NONE ? NULL : first_of(m, node, f->page - 1);
    if (first == NULL) {
        r->out_of_memory = true;
        return NA_WEBPAGE_NONE;
    }
    uint32_t best = NA_WEBPAGE_NONE;
    int64_t least = INT64_MAX;
    for (uint32_t child = *first; child != NA_WEBPAGE_NONE; child = m->by_node[child].next) {
        int64_t off = (int64_t)r->frames.keys[r->nodes.keys[child].number[1]].number[2] - line;
        if (off < 0) off = -off;
        if (off >= least) continue;
        least = off;
        best = child;
    }
    if (best != NA_WEBPAGE_NONE || !make ||
        r->nodes.count >= 2 * na_webpage_most(r, NA_WEBPAGE_NODES))
        return best;
    best = na_intern_numbers(&r->nodes, node, as, 0, NULL);
    if (best != NA_WEBPAGE_NONE && link_node(m, best)) return best;
    r->out_of_memory = true;
    return NA_WEBPAGE_NONE;
}

/* ---- sites ---- */

static na_webpage_site_t *add_old_row(match_t *m, uint32_t id, uint32_t node, uint32_t by) {
    na_webpage_t *r = m->r;
    if (!NA_ARRAY_RESERVE(r->sites, r->site_room, r->site_count + 1u)) {
        r->out_of_memory = true;
        return NULL;
    }
    na_webpage_site_t *row = &r->sites[r->site_count++];
    *row = (na_webpage_site_t){id, node, by, na_counters_none(), na_counters_none()};
    *row_at(m, id, node) = (uint32_t)r->site_count;
    return row;
}

static void match_site(match_t *m, const na_site_t *site) {
    na_webpage_t *r = m->r;
    bool make = m->made < na_webpage_most(r, NA_WEBPAGE_SITES) &&
                (r->cut == 0 || na_webpage_share(r->base, &site->sum) > r->cut_share);
    if (!na_view_stack(r->base, site->site, &m->stack)) {
        r->out_of_memory = true;
        return;
    }
    const na_symbol_frame_t *leaf, *by = na_view_site(r->base, site->site, &leaf);
    uint32_t node = 0, of = NA_WEBPAGE_NONE, i = m->stack.count;
    while (i > 0) {
        uint32_t next = child_of(m, node, m->stack.items[i - 1], make);
        if (next == NA_WEBPAGE_NONE) break;
        node = next;
        if (m->stack.items[--i] == by) of = r->nodes.keys[node].number[1];
    }
    if (r->out_of_memory) return;
    uint32_t row = m->by_node[node].row;
    if (i > 0 || (row == 0 && !make)) { /* it ends somewhere above */
        row = m->by_node[node].together;
        if (row == 0 &&
            add_old_row(m, 0, node, node == 0 ? of : r->nodes.keys[node].number[1]) != NULL)
            row = (uint32_t)r->site_count;
    } else if (row == 0) {
        if (add_old_row(m, site->site | NA_WEBPAGE_OLD, node, of) != NULL)
            row = (uint32_t)r->site_count;
        m->made++;
    }
    if (row != 0) na_counters_add(&r->sites[row - 1].before, &site->sum);
}

/* The other run's figures by function, of all its sites. */
static bool match_functions(match_t *m) {
    const na_function_table_t *all = &m->r->base->functions;
    for (size_t i = 0; i < all->count; i++) {
        if (all->items[i].self.peak_bytes == 0) continue;
        const old_function_t *f = function_of(m, all->items[i].id);
        if (f == NULL || !na_webpage_functions_before(m->r, f->page - 1, &all->items[i].self))
            return false;
    }
    return true;
}

bool na_webpage_base(na_webpage_t *r) {
    match_t m = {.r = r};
    m.functions = calloc(r->base->function_count + 1u, sizeof *m.functions);
    m.pairs = na_pairs_open(r->base, r->in);
    bool good = m.functions != NULL && m.pairs != NULL && index_functions(&m) && index_tree(&m);
    for (size_t i = 0; good && i < r->base->sites.count; i++) {
        match_site(&m, &r->base->sites.items[i]);
        good = !r->out_of_memory;
    }
    good = good && match_functions(&m);
    na_pairs_close(m.pairs);
    na_intern_free(&m.texts);
    na_intern_free(&m.names);
    na_intern_free(&m.calls);
    free(m.page_of_name);
    free(m.functions);
    free(m.first_of_call);
    free(m.by_node);
    free(m.stack.items);
    return good;
}
