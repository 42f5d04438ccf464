/* attacks.h - the attacks of attacks_*.c, and what each is made of.
 *
 * An attack is a program that uses its blocks wrongly, as programs with a CVE do, and an attacker
 * who makes the most of it. It runs in a process of its own and ends that by worked(), once the
 * attacker has what he wants, or returns. A seed draws sizes, counts, order and the function that
 * allocates. */
#ifndef NUMALLOC_TESTS_CONFORM_ATTACKS_H
#define NUMALLOC_TESTS_CONFORM_ATTACKS_H

#include "support/check.h"

/* Link attacks: malloc is led to memory of the attacker's choice. */
void poisoned_link(void);
void partial_link(void);
void forged_link(void);
void learned_key(void);

/* Out of a block. */
void poisoned_null(void);
void metadata(void);
void adjacent(void);

/* What a new block has of an old one, or is. */
void leaked_address(void);
void uninitialised(void);
void methods(void);
void type_reuse(void);
void predicted(void);

/* Wrong frees. */
void double_free(void);
void double_free_threads(void);
void bad_pointer(void);
void stale_realloc(void);

/* The attacker has what he wants. */
__attribute__((noreturn)) void worked(void);

/* Of `of` kinds of an attack the one that this seed has: each in turn. */
unsigned variant(unsigned of);
uint32_t draw(uint32_t below);
/* A size that a block's neighbour begins behind at once, with one allocator or the other. */
size_t draw_size(void);
/* How many other frees come between: none, more than wait at level 1, more than at level 2. */
unsigned draw_others(void);

/* malloc is the C library's: who attacks knows how that writes its links. */
extern bool is_libc;

/* A block, by malloc, or by a function that is drawn. It is the program's from now on: if it lies
 * in what is the program's already, the attack has worked. Nothing is written to it. */
char *take_by_malloc(size_t size);
char *take(size_t size);
/* So many, which are written to. */
void take_all(char **blocks, unsigned count, size_t size);
/* Frees it. */
void drop(char *block);
void drop_all(char *const *blocks, unsigned count);
/* As if it had been freed. */
void forget(const char *block);
/* Memory of the program that is no block. */
void claim(char *memory, size_t size);

/* Of blocks of a size two that lie side by side, the lower one first. */
bool neighbours(char *const *blocks, unsigned count, size_t size, char **low, char **high);

uint64_t word_of(const char *block, size_t at);
void set_word(char *block, size_t at, uint64_t word);

#define MOST 1300u

#endif
