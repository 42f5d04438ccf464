/* turns.c - the script of MemProf's paper (Figure 3), over libnumalloc-profile: the average time
 * between two accesses to an object by different threads, which says whether it is worth moving the
 * object to whoever uses it.
 *
 *     cc turns.c $(pkg-config --cflags --libs numalloc-profile) -o turns
 *     ./turns app.nprof
 *
 * The paper's first interval begins at time 0; here it begins with the object's first access.
 * Turns between two looks are not seen: `numalloc-dump verdicts` says where these may be many. */
#include <inttypes.h>
#include <numalloc/profile.h>
#include <stdio.h>

static void turns(numalloc_profile_flows_t *flows, uint32_t object) {
    numalloc_profile_touch_t a;
    uint64_t last_ns = 0, turns = 0, time = 0;
    int64_t last_thread = -1;
    NUMALLOC_EACH_TOUCH_OF_OBJECT(flows, object, a) {
        if (a.thread == last_thread) continue;
        if (last_thread >= 0) turns++, time += a.ns - last_ns;
        last_thread = a.thread;
        last_ns = a.ns;
    }
    if (turns != 0)
        printf("object %u: avg time: %" PRIu64 " ns (%" PRIu64 " switches)\n", object, time / turns,
               turns);
}

int main(int argc, char **argv) {
    char why[256] = "usage: turns PROFILE";
    numalloc_profile_t *p = argc == 2 ? numalloc_profile_open(argv[1], why, sizeof why) : NULL;
    numalloc_profile_flows_t *flows =
        p != NULL ? numalloc_profile_flows_open(&p, 1, NULL, why, sizeof why) : NULL;
    if (flows == NULL) {
        fprintf(stderr, "turns: %s\n", why);
        numalloc_profile_close(p);
        return 2;
    }
    for (uint32_t object = 0; object < numalloc_profile_flows_objects(flows); object++)
        turns(flows, object);
    numalloc_profile_flows_close(flows);
    numalloc_profile_close(p);
    return 0;
}
