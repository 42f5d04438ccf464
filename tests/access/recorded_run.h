/* recorded_run.h - a program whose accesses are known (load.c) under an access profile, and
 * questions to its profile. What goes wrong ends the test. */
#ifndef NUMALLOC_TESTS_ACCESS_RECORDED_RUN_H
#define NUMALLOC_TESTS_ACCESS_RECORDED_RUN_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "numalloc/profile.h"

#define MOST_NAMES 16

typedef struct named {
    char name[24];
    uint64_t at, size;
} named_t;

typedef struct run {
    pid_t pid;
    int in;
    FILE *out;
    char directory[64], file[96], errors[96];
    named_t name[MOST_NAMES];
    unsigned names;
} run_t;

typedef struct condition {
    unsigned uid;   /* 0: as we are */
    bool contained; /* by a seccomp filter like Docker's */
} condition_t;

/* Of load.c; set by main. */
extern const char *run_program;

/* The program does WHAT under this source of accesses; it writes to r->out and reads from r->in. */
void run_start(run_t *r, const char *what, const char *source, condition_t as);
/* Reads what the program says, and keeps the places and threads that it names. */
void run_until_line(run_t *r, const char *wanted);
const named_t *run_named(const run_t *r, const char *name);
bool run_within(const named_t *n, uint64_t address);
/* It must end with status 0. */
void run_end(run_t *r);
/* Removes its files. */
void run_clean(run_t *r);
/* What it wrote on standard error. */
void run_said(const run_t *r, char *text, size_t size);
/* Reads the file of the running program until so many samples satisfy; the test's time limit is the
 * only one. */
void run_wait_for(run_t *r, bool (*enough)(const run_t *r, numalloc_profile_t *p));

numalloc_profile_t *must_open(const char *file);
/* The source that was used, and one by its name; all zero: there is none. */
numalloc_profile_access_source_t source_used(numalloc_profile_t *p);
numalloc_profile_access_source_t source_of(numalloc_profile_t *p, const char *name);

#endif
