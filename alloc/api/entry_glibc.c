/* entry_glibc.c - the rest of <malloc.h>, and numalloc.h.
 *
 * Exported so that no call falls through to glibc, whose versions would set up its own arena or
 * answer for it. These may use stdio where their contract is a FILE. */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#include "alloc/api/stats.h"
#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/central/central.h"
#include "alloc/core/malloc/api.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/core/thread/attach.h"
#include "alloc/core/thread/scavenge.h"
#include "alloc/options/options_read.h"
#include "numalloc/numalloc.h"
#include "pagemap/pagemap.h"

const char *numalloc_version(void) {
    return "0.1.0";
}

size_t numalloc_trim(size_t keep) {
    na_tcache_t *tcache = na_tcache_enter();
    if (tcache == NULL) return 0;
    size_t purged = 0;
    if (!na_gate_enter(tcache)) {
        na_tcache_leave(tcache);
        return 0;
    }
    na_tcache_flush(tcache);
    for (unsigned node = 0; node <= NA_NODE_ANY; node = na_node_next(node))
        na_inbox_home(node, false);
    na_remote_drain(tcache); /* some may have been its own, or a warm one's */
    na_scavenge_warm(true);
    for (unsigned node = 0; node <= NA_NODE_ANY; node = na_node_next(node)) {
        na_central_trim(node);
        purged += na_pageheap_trim(node, keep);
    }
    na_gate_leave(tcache);
    na_tcache_leave(tcache);
    return purged;
}

/* --- <malloc.h> --- */

NA_EXPORT int NA_FN(malloc_trim)(size_t keep);
NA_EXPORT void NA_FN(malloc_stats)(void);
NA_EXPORT int NA_FN(mallopt)(int parameter, int value);
NA_EXPORT int NA_FN(malloc_info)(int options, FILE *out);
#ifdef __GLIBC__
NA_EXPORT struct mallinfo2 NA_FN(mallinfo2)(void);
NA_EXPORT struct mallinfo NA_FN(mallinfo)(void);
#endif

int NA_FN(malloc_trim)(size_t keep) {
    return numalloc_trim(keep) != 0;
}

void NA_FN(malloc_stats)(void) {
    na_init();
    na_stats_print(STDERR_FILENO);
}

/* glibc's parameters tune glibc's arenas. Accepted, without effect: callers treat 0 as an error. */
int NA_FN(mallopt)(int parameter, int value) {
    (void)parameter;
    (void)value;
    return 1;
}

#ifdef __GLIBC__ /* other C libraries have no such structures */
struct mallinfo2 NA_FN(mallinfo2)(void) {
    na_init();
    na_totals_t t;
    na_stats_gather(&t);
    struct mallinfo2 info = {
        .arena = t.all.in_spans - t.all.large + t.all.dirty,
        .hblks = t.large_allocs - t.large_frees,
        .hblkhd = t.all.large,
        .uordblks = t.small_live + t.all.large,
        .fordblks = t.all.in_spans + t.all.dirty - t.small_live - t.all.large,
        .keepcost = t.all.dirty,
    };
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++)
        info.ordblks += t.classes[cls].cached;
    return info;
}

static int clip_to_int(size_t value) {
    return value > INT32_MAX ? INT32_MAX : (int)value;
}

struct mallinfo NA_FN(mallinfo)(void) {
    struct mallinfo2 wide = NA_FN(mallinfo2)();
    return (struct mallinfo){
        .arena = clip_to_int(wide.arena),
        .ordblks = clip_to_int(wide.ordblks),
        .hblks = clip_to_int(wide.hblks),
        .hblkhd = clip_to_int(wide.hblkhd),
        .uordblks = clip_to_int(wide.uordblks),
        .fordblks = clip_to_int(wide.fordblks),
        .keepcost = clip_to_int(wide.keepcost),
    };
}
#endif

static void write_node(FILE *out, unsigned node) {
    numalloc_node_stats_t s;
    na_stats_gather_node(node, &s);
    if (s.reserved == 0 && s.in_spans == 0) return;
    fprintf(out, "<node id=\"%d\" bound=\"%d\" refused=\"%d\" usable=\"%d\" regions=\"%lu\">\n",
            node < NA_NODE_ANY ? (int)na_node_system_id(node) : -1, s.bound, s.refused, s.usable,
            s.regions);
    fprintf(out,
            "<live bytes=\"%lu\"/><cached bytes=\"%lu\"/><spans bytes=\"%lu\"/>"
            "<dirty bytes=\"%lu\"/><purged bytes=\"%lu\"/><accessible bytes=\"%lu\"/>"
            "<reserved bytes=\"%lu\"/>\n",
            s.live, s.cached, s.in_spans, s.dirty, s.purged, s.committed, s.reserved);
    fprintf(out,
            "<strays bytes=\"%lu\" total=\"%lu\"/><guests bytes=\"%lu\"/>"
            "<remote_frees count=\"%lu\"/>\n</node>\n",
            s.strays, s.strays_total, s.guests, s.remote_frees);
}

static void write_options(FILE *out) {
    for (unsigned id = 0; id < NA_OPT_COUNT; id++) {
        if (na_option_text((na_option_id_t)id) == NULL)
            fprintf(out, "<option name=\"%s\" value=\"%lu\"/>\n",
                    na_option_name((na_option_id_t)id), na_option((na_option_id_t)id));
    }
}

int NA_FN(malloc_info)(int options, FILE *out) {
    if (options != 0 || out == NULL) return EINVAL;
    na_init();
    na_totals_t t;
    na_stats_gather(&t);
    fprintf(out, "<malloc version=\"numalloc-%s\">\n<sizes>\n", numalloc_version());
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        const na_class_stats_t *c = &t.classes[cls];
        if (c->allocs != 0)
            fprintf(out, "<size bytes=\"%u\" allocated=\"%lu\" freed=\"%lu\" in_bins=\"%lu\"/>\n",
                    na_classes[cls].size, c->allocs, c->frees, c->cached);
    }
    fprintf(out, "</sizes>\n");
    for (unsigned node = 0; node <= NA_NODE_ANY; node = na_node_next(node))
        write_node(out, node);
    fprintf(out, "<large count=\"%lu\" bytes=\"%lu\"/>\n", t.large_allocs - t.large_frees,
            t.all.large);
    fprintf(out, "<remote_frees count=\"%lu\"/>\n", t.remote_frees);
    fprintf(out, "<system type=\"current\" size=\"%lu\"/>\n", t.all.committed);
    fprintf(out, "<metadata bytes=\"%lu\"/>\n", t.all.metadata);
    write_options(out);
    fprintf(out, "</malloc>\n");
    return 0;
}

#if !defined(NA_PREFIXED) && defined(__GLIBC__)
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* mallinfo, which we must provide */
NA_EXPORT int __libc_mallopt(int parameter, int value) NA_ALIAS_OF(mallopt);
NA_EXPORT struct mallinfo __libc_mallinfo(void) NA_ALIAS_OF(mallinfo);
#endif
