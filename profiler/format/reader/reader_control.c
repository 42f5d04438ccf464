/* reader_control.c - reads the chunks of nprof_control.h: sessions, markers, pools, inheritance. */
#include <string.h>

#include "profiler/format/reader/reader_priv.h"

typedef struct visit {
    na_control_fn_t visit;
    void *arg;
} visit_t;

/* Copies what is known of an entry: later versions may have longer ones. */
#define COPY(type)                                                                                 \
    type copied;                                                                                   \
    memcpy(&copied, entry, sizeof copied);

static void visit_session(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk,
                          uint32_t index, const void *entry) {
    (void)reader;
    (void)chunk;
    const visit_t *to = arg;
    COPY(na_nprof_session_t)
    copied.file[sizeof copied.file - 1] = 0;
    if (index == 0) to->visit(to->arg, 0, &copied);
}

static void visit_marker(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk,
                         uint32_t index, const void *entry) {
    (void)reader;
    const visit_t *to = arg;
    na_nprof_marker_t copied = {0};
    size_t size = chunk->entry_size < sizeof copied ? NA_NPROF_MARKER_LEAST : sizeof copied;
    memcpy(&copied, entry, size);
    copied.name[sizeof copied.name - 1] = 0;
    if (size < sizeof copied) copied.flags &= ~NA_NPROF_MARKER_PLACED;
    if ((copied.flags & NA_NPROF_MARKER_VALID) != 0)
        to->visit(to->arg, chunk->first_id + index, &copied);
}

static void visit_pool(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk, uint32_t index,
                       const void *entry) {
    (void)reader;
    const visit_t *to = arg;
    COPY(na_nprof_pool_t)
    copied.name[sizeof copied.name - 1] = 0;
    if ((copied.flags & NA_NPROF_POOL_VALID) != 0)
        to->visit(to->arg, chunk->first_id + index, &copied);
}

static void visit_pool_cell(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk,
                            uint32_t index, const void *entry) {
    (void)chunk;
    (void)index;
    const visit_t *to = arg;
    COPY(na_nprof_pool_cell_t)
    copied.site = na_reader_stack_id(reader, copied.site);
    if (copied.site != NA_NPROF_NO_STACK) to->visit(to->arg, copied.pool, &copied);
}

static void visit_origin(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk,
                         uint32_t index, const void *entry) {
    (void)reader;
    const visit_t *to = arg;
    COPY(na_nprof_origin_t)
    copied.file[sizeof copied.file - 1] = 0;
    to->visit(to->arg, chunk->first_id + index, &copied);
}

static void visit_inherited(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk,
                            uint32_t index, const void *entry) {
    (void)reader;
    (void)chunk;
    (void)index;
    const visit_t *to = arg;
    COPY(na_nprof_inherited_t)
    if (copied.site != NA_NPROF_NO_STACK) to->visit(to->arg, copied.origin, &copied);
}

static void visit_policy(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk,
                         uint32_t index, const void *entry) {
    (void)reader, (void)chunk;
    const visit_t *to = arg;
    COPY(na_nprof_policy_t)
    copied.file[sizeof copied.file - 1] = 0;
    if (index == 0 && copied.state != 0) to->visit(to->arg, 0, &copied);
}

static void visit_rule(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk, uint32_t index,
                       const void *entry) {
    (void)reader, (void)chunk;
    const visit_t *to = arg;
    COPY(na_nprof_rule_t)
    copied.text[sizeof copied.text - 1] = 0;
    if (copied.line != 0) to->visit(to->arg, index, &copied);
}

static void visit_leaks(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk, uint32_t index,
                        const void *entry) {
    (void)reader, (void)chunk;
    const visit_t *to = arg;
    COPY(na_nprof_leaks_t)
    if (index == 0 && copied.state != 0) to->visit(to->arg, 0, &copied);
}

static void visit_leak_site(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk,
                            uint32_t index, const void *entry) {
    (void)chunk;
    const visit_t *to = arg;
    COPY(na_nprof_leak_site_t)
    copied.site = na_reader_stack_id(reader, copied.site);
    if (copied.kind != 0 && copied.kind <= NA_NPROF_LEAK_KINDS) to->visit(to->arg, index, &copied);
}

static void visit_leak_held(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk,
                            uint32_t index, const void *entry) {
    (void)chunk;
    const visit_t *to = arg;
    COPY(na_nprof_leak_held_t)
    copied.root = na_reader_stack_id(reader, copied.root);
    copied.site = na_reader_stack_id(reader, copied.site);
    if (copied.blocks != 0) to->visit(to->arg, index, &copied);
}

void na_reader_control(na_reader_t *reader, uint16_t type, na_control_fn_t visit, void *arg) {
    static const struct {
        uint16_t type;
        na_entry_fn_t visit;
    } visitors[] = {
        {NA_NPROF_SESSION, visit_session},     {NA_NPROF_MARKERS, visit_marker},
        {NA_NPROF_POOLS, visit_pool},          {NA_NPROF_POOL_CELLS, visit_pool_cell},
        {NA_NPROF_ORIGINS, visit_origin},      {NA_NPROF_INHERITED, visit_inherited},
        {NA_NPROF_POLICY, visit_policy},       {NA_NPROF_POLICY_RULES, visit_rule},
        {NA_NPROF_LEAKS, visit_leaks},         {NA_NPROF_LEAK_SITES, visit_leak_site},
        {NA_NPROF_LEAK_HELD, visit_leak_held},
    };
    visit_t to = {.visit = visit, .arg = arg};
    for (size_t i = 0; i < sizeof visitors / sizeof visitors[0]; i++)
        if (visitors[i].type == type) na_reader_each_entry(reader, type, visitors[i].visit, &to);
}

static void copy_policy(void *arg, uint32_t id, const void *entry) {
    (void)id;
    memcpy(arg, entry, sizeof(na_nprof_policy_t));
}

void na_reader_policy(na_reader_t *reader, na_nprof_policy_t *policy) {
    na_reader_control(reader, NA_NPROF_POLICY, copy_policy, policy);
}

static void copy_session(void *arg, uint32_t id, const void *entry) {
    (void)id;
    memcpy(arg, entry, sizeof(na_nprof_session_t));
}

static na_nprof_session_t session_of(na_reader_t *reader) {
    na_nprof_session_t session = {0};
    na_reader_control(reader, NA_NPROF_SESSION, copy_session, &session);
    return session;
}

uint32_t na_reader_dump(na_reader_t *reader) {
    return session_of(reader).copy;
}

na_moment_t na_reader_moment(na_reader_t *reader) {
    const na_nprof_header_t *h = na_reader_header(reader);
    if (h->pid == 0) return NA_MOMENT_MANY;
    na_nprof_session_t session = session_of(reader);
    if (session.copy != 0) return NA_MOMENT_DUMP;
    if (h->state != NA_NPROF_CLOSED) return NA_MOMENT_LAST;
    bool stopped = (session.flags & NA_NPROF_SESSION_STOPPED) != 0;
    return stopped ? NA_MOMENT_STOPPED : NA_MOMENT_END;
}
