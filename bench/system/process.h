/* process.h - facts about this process and this machine: whose malloc, how much memory, which
 * files lie beside the program. */
#ifndef NUMALLOC_BENCH_SYSTEM_PROCESS_H
#define NUMALLOC_BENCH_SYSTEM_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct na_allocator_id {
    char path[1024];   /* the object that malloc comes from, all links followed */
    char soname[256];  /* "" when it has none */
    char build_id[72]; /* hexadecimal, "" when it has none */
    char foreign[32]; /* of free, calloc, realloc the first that comes from another object, or "" */
} na_allocator_id_t;

void na_allocator_identify(na_allocator_id_t *id);

typedef struct na_memory {
    uint64_t peak, now; /* resident bytes of this process; peak >= now */
} na_memory_t;

/* The begin of a file of /proc, with a 0 behind it; "" when it is not there. (Not with fopen(): its
 * buffers would come from the allocator under test.) */
void na_system_file(const char *path, char *out, size_t size);

/* All zero when /proc is not there. */
na_memory_t na_memory_read(void);

/* "AMD EPYC, 2 CPUs, Linux 6.1.0" */
void na_machine_describe(char *out, size_t size);

/* The full path of a file that is built with the suite: beside this program in a build tree, in the
 * library directory once installed. False when it is in neither. */
bool na_beside_program(const char *file, char *out, size_t size);

/* The full path of this program. */
bool na_program_path(char *out, size_t size);

#endif
