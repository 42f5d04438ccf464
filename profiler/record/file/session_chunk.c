/* session_chunk.c - the chunk that says which profile of its process this is, and how it began. */
#include "profiler/record/state/state.h"

static na_nprof_chunk_t *chunk; /* NULL: the disk was full */

void na_session_start(const na_profile_config_t *config, uint32_t session) {
    chunk = na_writer_chunk(NA_NPROF_SESSION, na_nprof_chunk_length(1, sizeof(na_nprof_session_t)),
                            sizeof(na_nprof_session_t), 0, 0, 0);
    if (chunk == NULL) return;
    chunk->capacity = 1; /* the padding is no second entry */
    na_nprof_session_t *s = (na_nprof_session_t *)(chunk + 1);
    s->session = session;
    s->flags = config->from_start ? NA_NPROF_SESSION_FROM_START : 0;
    s->missed = config->from_start ? 0 : config->missed;
    na_rec_copy(s->file, sizeof s->file, na_writer_name());
    chunk->count = 1;
    na_writer_publish(chunk);
}

void na_session_stopped(void) {
    if (chunk != NULL) ((na_nprof_session_t *)(chunk + 1))->flags |= NA_NPROF_SESSION_STOPPED;
}

uint64_t na_session_entry(na_nprof_session_t *entry) {
    if (chunk == NULL) return 0;
    *entry = *(na_nprof_session_t *)(chunk + 1);
    return chunk->self_offset + sizeof *chunk;
}
