/* team.h - worker threads that start a phase together.
 *
 * The threads live from start to stop; each phase is a function that all of them run. The main
 * thread sleeps meanwhile, so that as many workers as CPUs is a fair number. */
#ifndef NUMALLOC_BENCH_LOAD_TEAM_H
#define NUMALLOC_BENCH_LOAD_TEAM_H

#include <stdint.h>

/* In the order of the choices of NA_KNOB_PIN. */
typedef enum na_pin { NA_PIN_AUTO, NA_PIN_ON, NA_PIN_OFF } na_pin_t;

typedef struct na_team na_team_t;

/* The phase; `worker` is 0 .. threads-1. */
typedef void na_team_fn(void *arg, unsigned worker);

/* How many threads a knob's value means: itself, or for 0 the CPUs that this process may use. */
unsigned na_team_threads(uint64_t knob);

/* Starts the threads. One team at a time has its CPUs to itself: worker i is bound to the i-th CPU
 * that the process may use (modulo their number, with NA_PIN_ON). Ends the program on failure. */
na_team_t *na_team_start(unsigned threads, na_pin_t pin);

/* Runs `fn` once in each worker, all beginning together, and returns the wall time in nanoseconds
 * from the first worker's begin to the last one's end. */
uint64_t na_team_run(na_team_t *team, na_team_fn *fn, void *arg);

/* The time that worker took in the latest phase, nanoseconds. */
uint64_t na_team_elapsed(const na_team_t *team, unsigned worker);

/* What so many workers had of CPUs in a phase, nanoseconds: `own`, the sum of their times, when
 * each had a CPU to itself. With more workers than CPUs a worker's own time depends on when the
 * others had their turns: then it is the wall time `elapsed`, once for each CPU. Divided by the
 * operations of all it is the time of one, flat over the number of threads where nothing is in
 * their way. */
double na_team_time(unsigned threads, double own, double elapsed);

void na_team_stop(na_team_t *team);

/* Binds the calling thread to the first CPU it may use, as the knob says. */
void na_team_pin_self(na_pin_t pin);

#endif
