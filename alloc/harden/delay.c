/* delay.c - see delay.h. */
#include "alloc/harden/delay.h"

#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/reserve.h"
#include "alloc/harden/hardened.h"
#include "alloc/harden/signed.h"
#include "alloc/harden/slack.h"

size_t na_delay_share(void) {
    return (na_harden > 1 ? NA_DELAY_ALL2 : NA_DELAY_ALL) / na_tcache_attached();
}

void na_delay_look(na_delay_t *delay) {
    size_t most = na_harden > 1 ? NA_DELAY_BYTES2 : NA_DELAY_BYTES, share = na_delay_share();
    delay->most = (uint32_t)(share < most ? share : most);
}

na_delay_t *na_delay_make(na_tcache_t *tcache) {
    uint32_t blocks = na_harden > 1 ? NA_DELAY_BLOCKS2 : NA_DELAY_BLOCKS;
    na_delay_t *delay =
        na_meta_alloc(sizeof *delay + blocks * sizeof delay->waits[0], NA_CACHE_LINE);
    if (delay == NULL) return NULL;
    delay->mask = blocks - 1;
    na_delay_look(delay);
    tcache->kept[NA_KEPT_DELAY] = delay;
    return delay;
}

void na_delay_open(const na_delayed_t *delayed) {
    if (delayed->tag == NA_TAG_NONE && (na_harden > 1 || delayed->bytes >= NA_DELAY_SEALED))
        (void)na_os_commit((void *)na_align_down((uintptr_t)delayed->block, na_os_page),
                           na_os_page);
}

bool na_delay_is_sound(const na_delayed_t *delayed) {
    if (delayed->tag == NA_TAG_NONE) return true;
    if (NA_LIKELY(na_link_waits(delayed->block)) &&
        (NA_LIKELY(na_harden < 2) || na_slack_is_untouched(delayed->block, delayed->bytes)))
        return true;
    na_link_report(delayed->block);
    return false;
}

NA_COLD void na_delay_check(const na_delay_t *delay) {
    for (uint32_t i = 0; i <= delay->mask; i++)
        if (delay->waits[i].block != NULL) (void)na_delay_is_sound(&delay->waits[i]);
}

static na_delayed_t take(na_delay_t *delay, uint64_t least) {
    if (delay->end - delay->first > delay->mask + 1) delay->first = delay->end - delay->mask - 1;
    while (delay->end - delay->first > least) {
        na_delayed_t *place = &delay->waits[delay->first++ & delay->mask], oldest = *place;
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
    na_delay_t *delay = na_delay_of(tcache);
    if (delay == NULL) return;
    for (na_delayed_t delayed; (delayed = take(delay, 0)).block != NULL;) {
        if (!na_delay_is_sound(&delayed)) continue;
        /* Who defers writes to the block. */
        na_delay_open(&delayed);
        na_defer_free(delayed.block);
    }
}

NA_COLD uint64_t na_delay_forget(na_tcache_t *tcache) {
    na_delay_t *delay = na_delay_of(tcache);
    if (delay == NULL) return 0;
    uint64_t bytes = delay->bytes;
    for (uint32_t i = 0; i <= delay->mask; i++)
        delay->waits[i] = (na_delayed_t){0};
    delay->bytes = 0;
    delay->first = delay->end;
    return bytes;
}
