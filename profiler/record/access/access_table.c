/* access_table.c - tables in the file to which one thread adds entries. */
#include "profiler/record/access/access_priv.h"

void *na_access_table_next(na_access_table_t *t) {
    na_nprof_chunk_t *c = t->chunk;
    if (c == NULL || c->count == c->capacity) {
        if (!na_rec_has_room(t->chunk_bytes)) return NULL;
        c = na_writer_chunk(t->type, t->chunk_bytes, t->size, 0, t->chunks, t->next_id);
        if (c == NULL) return NULL;
        na_writer_publish(c);
        t->chunks++;
        t->chunk = c;
    }
    return (uint8_t *)(c + 1) + (size_t)c->count * t->size;
}

uint32_t na_access_table_commit(na_access_table_t *t) {
    na_nprof_seal((uint8_t *)(t->chunk + 1) + (size_t)t->chunk->count * t->size, t->size);
    __atomic_store_n(&t->chunk->count, t->chunk->count + 1, __ATOMIC_RELEASE);
    return t->next_id++;
}
