/* delay.c - see delay.h. */
#include "alloc/cache/delay.h"

#include "alloc/cache/deferred.h"
#include "alloc/cache/links.h"
#include "alloc/sys/meta.h"

na_delay_t *na_delay_make(na_tcache_t *tcache) {
    tcache->delay = na_meta_alloc(sizeof *tcache->delay, NA_CACHE_LINE);
    return tcache->delay;
}

static na_delayed_t take(na_delay_t *delay, uint32_t least) {
    if (delay->end - delay->first > NA_DELAY_BLOCKS) delay->first = delay->end - NA_DELAY_BLOCKS;
    while (delay->end - delay->first > least) {
        na_delayed_t *place = &delay->waits[delay->first++ % NA_DELAY_BLOCKS], oldest = *place;
        *place = (na_delayed_t){0};
        delay->bytes -= oldest.bytes;
        if (oldest.block != NULL) return oldest;
    }
    return (na_delayed_t){0};
}

na_delayed_t na_delay_take(na_delay_t *delay) {
    return take(delay, 1);
}

NA_COLD void na_delay_flush(na_tcache_t *tcache) {
    na_delay_t *delay = tcache->delay;
    if (delay == NULL) return;
    for (na_delayed_t delayed; (delayed = take(delay, 0)).block != NULL;)
        if (delayed.tag == NA_TAG_NONE || na_link_waits(delayed.block))
            na_defer_free(delayed.block);
        else
            na_link_report(delayed.block);
}

NA_COLD uint64_t na_delay_forget(na_tcache_t *tcache) {
    na_delay_t *delay = tcache->delay;
    if (delay == NULL) return 0;
    uint64_t bytes = delay->bytes;
    *delay = (na_delay_t){0};
    return bytes;
}
