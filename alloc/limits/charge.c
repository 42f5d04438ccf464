/* charge.c - a huge page on trial. See charge.h. */
#include "alloc/limits/charge.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "alloc/core/sys/base.h"
#include "alloc/core/sys/os.h"

/* Whatever the size of huge pages is: what cannot be collapsed is not known about. */
#define AREA ((size_t)2 << 20)

static char *area; /* reserved, readable and writable; not there in forked children */

static bool make_area(void) {
    char *start = na_os_reserve(AREA, AREA);
    if (start == NULL) return false;
    if (!na_os_commit(start, AREA) || !na_os_keep_from_children(start, AREA)) {
        na_os_unmap(start, AREA);
        return false;
    }
    na_os_dump(start, AREA, false);
    area = start;
    return true;
}

/* The area is collapsed when this says so, at no other time: it is not for khugepaged, and not for
 * the fault that touches its page. */
na_charge_t na_charge_ask(void) {
    if (area == NULL && !make_area()) return NA_CHARGE_UNKNOWN;
    na_os_hugepage(area, AREA, false);
    *(volatile char *)area = 1;
    na_os_hugepage(area, AREA, true);
    long result = na_os_collapse(area, AREA);
    na_os_hugepage(area, AREA, false);
    if (result == 0) na_os_purge(area, AREA);
    return result == 0 ? NA_CHARGE_ROOM : result == -EBUSY ? NA_CHARGE_NONE : NA_CHARGE_UNKNOWN;
}

void na_charge_after_fork_child(void) {
    area = NULL;
}
