/* wasteful.h - the figures by which wasteful_malloc.c wastes. */
#ifndef NUMALLOC_TESTS_SUPPORT_WASTEFUL_H
#define NUMALLOC_TESTS_SUPPORT_WASTEFUL_H

#define WASTEFUL_HEADER 32
#define WASTEFUL_PAGE   4096

#endif
