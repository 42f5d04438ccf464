/* run.h - numalloc-run: starts a program with the library preloaded and its options set, and says
 * what came of it. Needs nothing but the C library; what a profile says it has from numalloc-dump,
 * as a program.
 *
 *     command.c      the command line, from one table (options.def)
 *     program.c      finds the program, and refuses what cannot be preloaded
 *     library.c      finds libnumalloc.so and numalloc-dump beside this program
 *     environment.c  what is set for the program
 *     place.c        where the profiles go, and what is there when the program has ended
 *     child.c        runs a program and waits: signals, job control
 *     rounds.c       --rounds: with a policy and without
 *     tune.c         --tune: a profile, its policy, and of that the rules that pay
 *     result.c       the lines at the end, the page
 *     proc.c         what /proc says of another process
 *     control.c      --start, --stop, --dump
 *     main.c         in this order
 *
 * Without a profile this process becomes the program (exec). With one it waits for it, in the same
 * process group, and then ends as it ended: same exit status, or killed by the same signal.
 *
 * All functions say on stderr, in one line, what goes wrong. */
#ifndef NUMALLOC_PROFILER_RUN_RUN_H
#define NUMALLOC_PROFILER_RUN_RUN_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Exit statuses of numalloc-run's own, as those of env, nice and timeout. */
enum {
    NA_RUN_FOUND = 86,      /* --check has found errors */
    NA_RUN_FAILED = 125,    /* numalloc-run itself could not go on */
    NA_RUN_CANNOT = 126,    /* the program is there and cannot be run, or not with numalloc */
    NA_RUN_NOT_FOUND = 127, /* there is no such program */
};

/* "numalloc-run: ..." on stderr. */
__attribute__((format(printf, 1, 2))) void na_run_say(const char *format, ...);

/* ---- command.c ---- */

typedef enum na_run_request {
    NA_RUN_NONE,
    NA_RUN_START,
    NA_RUN_STOP,
    NA_RUN_DUMP
} na_run_request_t;

typedef struct na_run_command {
    const char *mode;     /* "sample", "sites", "trace"; NULL: no option asks for a profile */
    const char *by;       /* the option that does, for messages: "--profile" */
    const char *interval; /* bytes, of --sample=; NULL: not given */
    const char *access;   /* a source; NULL: not asked for */
    bool later, check, leaks, stats, python;
    bool report, html, quiet;
    bool environment; /* print it only */
    const char *output, *library, *policy;
    unsigned rounds, tune;    /* 0: none */
    na_run_request_t request; /* to a running process */
    pid_t pid;
    char **program; /* its argv, ends with NULL */
} na_run_command_t;

/* -1: go on; else the status to end with (help and version were printed, or a mistake was said). */
int na_run_read_command(na_run_command_t *command, int argc, char **argv);

/* ---- library.c ---- */

typedef struct na_run_tools {
    char library[PATH_MAX]; /* libnumalloc.so */
    char dump[PATH_MAX];    /* numalloc-dump; "": there is none */
} na_run_tools_t;

/* `given`: --library, NULL: beside this program as built or installed. */
bool na_run_find_tools(na_run_tools_t *tools, const char *given);

/* ---- program.c ---- */

typedef struct na_run_program {
    char path[PATH_MAX]; /* to execute */
    bool by_shell;       /* text without "#!": sh runs it, as shells do */
    bool linked;         /* numalloc is in it: nothing to preload */
    bool other_malloc;   /* it has a malloc of its own, which comes before numalloc's */
} na_run_program_t;

/* 0, or the status to end with. */
int na_run_find_program(na_run_program_t *program, const char *name, const char *library);

/* The open file of a program: is numalloc linked into it? Its options are named in it. */
bool na_run_has_numalloc(int fd);

/* ---- place.c ---- */

/* While processes run, their profiles are in a directory of this run's own: nothing else is there,
 * and a program that starts others leaves one thing behind, not dozens. */
typedef struct na_run_place {
    char directory[PATH_MAX]; /* absolute */
    char shown[PATH_MAX];     /* the same as the user would write it */
    char target[PATH_MAX];    /* -o FILE; "": none is named, files keep the library's names */
    char trigger[PATH_MAX];   /* the file of requests in it */
} na_run_place_t;

#define NA_RUN_REQUESTS "requests" /* the trigger's name in the directory */

/* Makes the directory, and keeps it open as long as this process lives: so another numalloc-run
 * finds it (na_run_environment_of). It is in `output` if that is one, as `output`.all if it is a
 * file; NULL: in the working directory. `program`: for its name. */
bool na_run_make_place(na_run_place_t *place, const char *output, const char *program);

/* What is there at the end. One profile of a process that has ended is moved out of the directory,
 * which goes; else it stays. */
typedef struct na_run_files {
    size_t count, running;  /* profiles; those whose process has not ended */
    char name[PATH_MAX];    /* the profile, or the directory, as the user would write it */
    char largest[PATH_MAX]; /* the profile to look at first; of one the same */
} na_run_files_t;

void na_run_collect(const na_run_place_t *place, const na_run_tools_t *tools,
                    na_run_files_t *files);

/* ---- errors.c ---- */

/* Before the program starts: its processes are to add their messages to a file. False: it cannot be
 * made, which was said. */
bool na_run_watch_errors(void);
/* When it has ended: how many there are, and how many processes have lost blocks. */
typedef struct na_run_errors {
    size_t errors, leaks;
} na_run_errors_t;
na_run_errors_t na_run_count_errors(void);

/* ---- environment.c ---- */

/* Sets what the command asks for in this process's environment. `place`: NULL: no profile, or its
 * place is the library's to choose. */
bool na_run_set_environment(const na_run_command_t *command, const na_run_tools_t *tools,
                            const na_run_program_t *program, const na_run_place_t *place);
/* Prints what that is, a NAME=VALUE a line. */
void na_run_print_environment(void);
/* The variable's value in this process; NULL if there is none or it is empty. */
const char *na_run_variable(const char *name);

/* ---- child.c ---- */

/* Signals are kept for na_run_program and na_run_tool from here on; the programs that they start
 * have those of before. */
void na_run_take_signals(void);

/* Runs it and waits; *status as waitpid has it. 0, or the status to end with: it could not be
 * started, which was said. */
int na_run_program(const na_run_program_t *program, char **argv, int *status);
/* Becomes the program. Returns if that fails, with the status to end with. */
int na_run_become(const na_run_program_t *program, char **argv);
/* Runs numalloc-dump and waits for it. Its standard output goes to descriptor `to`, which is closed
 * here. False: it could not be started, or failed. */
bool na_run_tool(char *const *argv, int to);
/* Starts a program that lives on by itself, with nothing of the terminal. */
void na_run_detached(char *const *argv);
/* Ends this process as another one ended. */
_Noreturn void na_run_end_as(int status);

/* ---- rounds.c ---- */

typedef enum na_run_figure {
    NA_RUN_TIME, /* s */
    NA_RUN_PEAK, /* KiB, of the largest process of the run */
    NA_RUN_MEAN, /* KiB, resident over time, of the process that was started; 0: never looked */
    NA_RUN_FIGURES
} na_run_figure_t;

/* A median, and its interval of at least 95 %. */
typedef struct na_run_ratio {
    double median, low, high;
} na_run_ratio_t;

typedef enum na_run_says {
    NA_RUN_PAYS,  /* one figure is better for sure, and none more than 1 % worse */
    NA_RUN_LOSES, /* one is worse for sure */
    NA_RUN_SAME,
    NA_RUN_UNCLEAR
} na_run_says_t;

typedef struct na_run_compared {
    double without[NA_RUN_FIGURES], with[NA_RUN_FIGURES]; /* medians */
    na_run_ratio_t ratio[NA_RUN_FIGURES];                 /* with / without */
    na_run_says_t says;
} na_run_compared_t;

/* What of the program is seen: all of the first run without, and stderr of the first with, where
 * the library says what is wrong with a policy; only that; nothing. Of the other runs nothing. */
typedef enum na_run_shown { NA_RUN_SHOWN, NA_RUN_ERRORS, NA_RUN_HIDDEN } na_run_shown_t;

/* Runs the program in turn under two policies (NULL: none), `rounds` times, 6 or more. False: it
 * could not be run, or failed, which was said. */
bool na_run_compare(const na_run_command_t *command, const na_run_program_t *program,
                    unsigned rounds, const char *without, const char *with, na_run_shown_t shown,
                    na_run_compared_t *to);
/* For what has something to tidy up: signals that end a process end the program, and then
 * na_run_compare fails. na_run_child: the program while one runs, for the handler. */
void na_run_stop_by_signals(void);
extern volatile sig_atomic_t na_run_child;
/* Four lines on stderr. */
void na_run_show_compared(const na_run_compared_t *compared);

/* --rounds. 0: the policy pays; 1: it does not, or that is not clear; else the status to end with.
 */
int na_run_rounds(const na_run_command_t *command, const na_run_program_t *program);

/* ---- tune.c ---- */

/* --tune: a profile, its policy, and of that what pays. 0: something does, and the policy was
 * written; 1: nothing does; else the status to end with. */
int na_run_tune(const na_run_command_t *command, const na_run_tools_t *tools,
                const na_run_program_t *program);

/* ---- result.c ---- */

/* The profile with the largest peak in a directory. False: not known. */
bool na_run_find_largest(const na_run_tools_t *tools, const char *directory, char out[PATH_MAX]);

/* The lines of a profile or a directory, the page, the next command. */
void na_run_show_files(const na_run_command_t *command, const na_run_tools_t *tools,
                       const na_run_files_t *files);
/* How the program ended, and these. */
void na_run_show(const na_run_command_t *command, const na_run_tools_t *tools,
                 const na_run_files_t *files, int status);

/* ---- proc.c ---- */

/* A file of /proc/PID with two NULs behind it; NULL: errno says why. free() it. */
char *na_run_read_of(pid_t pid, const char *name);
/* The program that a numalloc-run waits for; of all others the process itself. */
pid_t na_run_behind(pid_t pid);
/* The variables that a process was started with: NAME=VALUE, each ends with a NUL, two at the end.
 * NULL: errno says why. free() it. Servers write their title over them (redis, nginx, postgres):
 * where none is left that says how to ask, they are those that the profile `recording` ("": none)
 * has recorded, or those that the numalloc-run that the process descends from gave it. */
char *na_run_environment_of(pid_t pid, const char *recording);

/* ---- control.c ---- */

/* Asks the process, waits until it is done, says what came of it. The status to end with. */
int na_run_control(const na_run_command_t *command, const na_run_tools_t *tools);

#endif
