/* foreign.h - blocks of the C library's own heap that reach us.
 *
 * A library loaded with RTLD_DEEPBIND binds malloc to the C library's even though ours was
 * preloaded. What it returns to the program (a string, say) is then freed here. Such a block is
 * recognised and handed to the C library; anything else that is in none of our spans is misuse.
 * (Our blocks that such a library frees never come by here: the C library finds them, and ends the
 * program.) */
#ifndef NUMALLOC_ALLOC_CORE_MALLOC_FOREIGN_H
#define NUMALLOC_ALLOC_CORE_MALLOC_FOREIGN_H

#include <stddef.h>

/* Remembers where the C library's heap begins. Before the program runs. */
void na_foreign_init(void);

/* free and realloc of an address that is in none of our spans. realloc returns NULL when the
 * address was reported. Errno is the C library's business, free keeps it. */
void na_free_foreign(void *address);
void *na_realloc_foreign(void *address, size_t size);

#endif
