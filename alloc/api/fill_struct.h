/* fill_struct.h - structures of the public interface that are passed with their size: the caller's
 * may be shorter (older) or longer (newer) than ours. */
#ifndef NUMALLOC_ALLOC_API_FILL_STRUCT_H
#define NUMALLOC_ALLOC_API_FILL_STRUCT_H

#include <string.h>

#include "alloc/core/sys/base.h"

/* What ours does not have becomes zero. */
NA_INLINE void na_fill_struct(void *to, size_t size, const void *from, size_t from_size) {
    memset(to, 0, size);
    memcpy(to, from, size < from_size ? size : from_size);
}

#endif
