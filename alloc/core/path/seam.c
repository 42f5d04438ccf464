/* seam.c - the tables of seam.h, and the round of the layers. */
#include "alloc/core/path/seam.h"

#include <string.h>

na_path_t na_path;
bool na_path_ends;
static _Atomic(na_layer_t *) layers;
const na_owners_t *na_owners;

/* Word by word: each is a function, or a number. */
void na_path_front(const na_path_t *front) {
    enum { WORDS = sizeof(na_path_t) / sizeof(uintptr_t) };
    uintptr_t words[WORDS];
    _Static_assert(sizeof words == sizeof *front, "nothing but words");
    memcpy(words, front, sizeof words);
    for (unsigned i = 0; i < WORDS; i++)
        if (words[i] != 0)
            __atomic_store_n((uintptr_t *)(void *)&na_path + i, words[i], __ATOMIC_RELEASE);
}

void na_layer_add(na_layer_t *layer) {
    enum { BITS = 3 };
    static _Atomic(unsigned) count;
    layer->bits = BITS * atomic_fetch_add(&count, 1);
    _Atomic(na_layer_t *) *link = &layers;
    for (na_layer_t *last = NULL; !atomic_compare_exchange_strong(link, &last, layer); last = NULL)
        link = &last->next;
}

NA_INLINE na_layer_t *first_layer(void) {
    return atomic_load_explicit(&layers, memory_order_acquire);
}

#define CALL_ALL(name, parameter, argument)                                                        \
    void na_layers_##name(parameter) {                                                             \
        for (na_layer_t *layer = first_layer(); layer != NULL; layer = layer->next)                \
            if (layer->name != NULL) layer->name(argument);                                        \
    }
CALL_ALL(flush, struct na_tcache *tcache, tcache)
CALL_ALL(decay, struct na_tcache *tcache, tcache)
CALL_ALL(switched, struct na_tcache *tcache, tcache)
CALL_ALL(leave, struct na_tcache *tcache, tcache)
CALL_ALL(drain, struct na_tcache *tcache, tcache)
CALL_ALL(recount, struct na_tcache *tcache, tcache)
CALL_ALL(reset, void, )
CALL_ALL(forget_counts, void, )

unsigned na_layers_before_fork(void) {
    unsigned taken = 0;
    for (na_layer_t *layer = first_layer(); layer != NULL; layer = layer->next)
        if (layer->before_fork != NULL) taken |= layer->before_fork() << layer->bits;
    return taken;
}

void na_layers_after_fork(bool child, unsigned taken) {
    for (na_layer_t *layer = first_layer(); layer != NULL; layer = layer->next)
        if (layer->after_fork != NULL)
            layer->after_fork(child, taken >> layer->bits & NA_LAYER_TAKEN);
}

uint64_t na_layers_forget(struct na_tcache *tcache) {
    uint64_t bytes = 0;
    for (na_layer_t *layer = first_layer(); layer != NULL; layer = layer->next)
        if (layer->forget != NULL) bytes += layer->forget(tcache);
    return bytes;
}
