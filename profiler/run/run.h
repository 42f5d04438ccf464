/* run.h - numalloc-run: starts a program with the library preloaded and its options set, and says
 * what came of it. Needs nothing but the C library; what a profile says it has from numalloc-dump,
 * as a program.
 *
 *     command.c      the command line, from one table (options.def)
 *     run_program.c  finds the program, and refuses what cannot be preloaded
 *     library.c      finds libnumalloc.so and numalloc-dump beside this program
 *     environment.c  what is set for the program
 *     run_leaks.c    --leaks: the reports of what processes left
 *     run_limits.c   --limit: the profile held against limits and a baseline
 *     run_place.c    where the profiles go, and what is there when the program has ended
 *     run_child.c    runs a program and waits: signals, job control
 *     rounds.c       --rounds: with a policy and without
 *     tune.c         --tune: a profile, its policy, and of that the rules that pay
 *     run_result.c   the lines at the end, the page
 *     proc.c         the variables of another process
 *     ask.c          a request that is written to another process's memory
 *     run_control.c  --start, --stop, --dump
 *     run_growth.c   --growth: what grows in a process that runs
 *     run_attach.c   --attach: of a process that runs without numalloc
 *     run_status.c   --status: the figures that processes publish
 *     family.c       --dump of a process and of what it has forked
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
#include <stdint.h>
#include <sys/types.h>

#include "profiler/format/process_info.h"

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
    NA_RUN_DUMP,
    NA_RUN_GROWTH, /* all three, in turn */
    NA_RUN_ATTACH, /* asks nothing of it */
    NA_RUN_STATUS  /* reads what it publishes */
} na_run_request_t;

#define NA_RUN_LIMITS 16

typedef struct na_run_command {
    const char *mode;     /* "sample", "sites", "trace"; NULL: no option asks for a profile */
    const char *by;       /* the option that does, for messages: "--profile" */
    const char *interval; /* bytes, of --sample=; NULL: not given */
    const char *access;   /* a source; NULL: not asked for */
    char every[24];       /* as NUMALLOC_PROFILE_DUMP_EVERY takes it; "": not given */
    bool later, check, leaks, stats, python;
    bool report, html, quiet;
    bool environment; /* print it only */
    bool openmetrics;
    const char *output, *library, *policy;
    unsigned rounds, tune;             /* 0: none */
    const char *limits[NA_RUN_LIMITS]; /* FIGURE=MOST */
    size_t limit_count;
    const char *increase; /* of those, the one in percent; NULL: none */
    const char *baseline, *junit;
    bool github;
    na_run_request_t request; /* to a running process */
    pid_t pid;                /* 0: of NA_RUN_STATUS, all */
    unsigned growth_ms;
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

/* ---- run_program.c ---- */

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

/* ---- run_place.c ---- */

/* While processes run, their profiles are in a directory of this run's own: nothing else is there,
 * and a program that starts others leaves one thing behind, not dozens. */
typedef struct na_run_place {
    char directory[PATH_MAX]; /* absolute */
    char shown[PATH_MAX];     /* the same as the user would write it */
    char target[PATH_MAX];    /* -o FILE; "": none is named, files keep the library's names */
    char trigger[PATH_MAX];   /* the file of requests in it */
    bool shut; /* it could not be made, since nothing can be written there: no mistake of a name */
} na_run_place_t;

#define NA_RUN_REQUESTS "requests" /* the trigger's name in the directory */

/* False: it could not be made, which was said. Makes the directory, and keeps it open as long as
 * this process lives: so another numalloc-run finds it (na_run_environment_of). It is in `output`
 * if that is one, as `output`.all if it is a file; NULL: in the working directory. `program`: for
 * its name. */
bool na_run_make_place(na_run_place_t *place, const char *output, const char *program);

/* Makes the directory and those above it; one that is there already is fine. False: said. */
bool na_run_make_directory(const char *path);

/* What is there at the end. One profile of a process that has ended is moved out of the directory,
 * which goes; else it stays. */
typedef struct na_run_files {
    size_t count, running;  /* profiles; those whose process has not ended */
    size_t most;            /* of one process: a profile and its copies */
    size_t missing;         /* processes that could not make one */
    int missing_error;      /* errno of the last of them */
    char name[PATH_MAX];    /* the profile, or the directory, as the user would write it */
    char largest[PATH_MAX]; /* the profile to look at first; of one the same */
} na_run_files_t;

void na_run_collect(const na_run_place_t *place, const na_run_tools_t *tools,
                    na_run_files_t *files);

/* ---- run_attach.c ---- */

/* The status to end with: 0, the process has numalloc already. */
int na_run_attach(const na_run_command_t *command);

/* ---- run_status.c ---- */

/* The status to end with. */
int na_run_status(const na_run_command_t *command);

/* ---- errors.c ---- */

/* Before the program starts: its processes are to add their messages to a file. False: it cannot be
 * made, which was said. */
bool na_run_watch_errors(void);
/* When it has ended: how many there are, and how many processes have lost blocks. */
typedef struct na_run_errors {
    size_t errors, leaks;
} na_run_errors_t;
na_run_errors_t na_run_count_errors(void);

/* ---- run_leaks.c ---- */

/* Before the program starts: its processes are to leave what they lost for numalloc-dump, if there
 * is one. False: it cannot be, which was said. */
bool na_run_watch_leaks(const na_run_tools_t *tools);
/* When it has ended: the reports on stderr, unless `quiet`; of how many processes. */
size_t na_run_report_leaks(const na_run_tools_t *tools, bool quiet);

/* ---- run_limits.c ---- */

/* Takes a --limit. False: it is none, which was said. */
bool na_run_read_limit(na_run_command_t *command, const char *text);
/* There is something to hold the profile against. */
bool na_run_has_limits(const na_run_command_t *command);
/* Before the program starts. False: what is needed is not there, which was said. */
bool na_run_can_hold_limits(const na_run_command_t *command, const na_run_tools_t *tools);
/* Holds the profile that is looked at first against them, and says what breaks them. 0: none does,
 * else the status to end with. */
int na_run_hold_limits(const na_run_command_t *command, const na_run_tools_t *tools,
                       const na_run_files_t *files);

/* ---- environment.c ---- */

/* Sets what the command asks for in this process's environment. `place`: NULL: no profile, or its
 * place is the library's to choose. */
bool na_run_set_environment(const na_run_command_t *command, const na_run_tools_t *tools,
                            const na_run_program_t *program, const na_run_place_t *place);
/* Prints what that is, a NAME=VALUE a line. */
void na_run_print_environment(void);
/* The variable's value in this process; NULL if there is none or it is empty. */
const char *na_run_variable(const char *name);

/* ---- run_child.c ---- */

/* Signals are kept for na_run_program and na_run_tool from here on; the programs that they start
 * have those of before. */
void na_run_take_signals(void);

/* 'T' is stopped; '?': there is no such process. Also after a stop was waited for. */
char na_run_process_state(pid_t pid);

/* Runs it and waits; *status as waitpid has it. 0, or the status to end with: it could not be
 * started, which was said. */
int na_run_program(const na_run_program_t *program, char **argv, int *status);
/* Becomes the program. Returns if that fails, with the status to end with. */
int na_run_become(const na_run_program_t *program, char **argv);
/* Runs numalloc-dump and waits for it. Its standard output goes to descriptor `to`, which is closed
 * here. False: it could not be started, or failed. */
bool na_run_tool(char *const *argv, int to);
/* The same; its exit status, -1: none. */
int na_run_tool_status(char *const *argv, int to);
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
/* 0: there is no such process. */
double na_run_resident_kib(pid_t pid);
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

/* ---- run_result.c ---- */

/* The profile with the largest peak in a directory. False: not known. */
bool na_run_find_largest(const na_run_tools_t *tools, const char *directory, char out[PATH_MAX]);

/* The lines of a profile or a directory, the page, the next command. False: numalloc-dump cannot
 * read it, and said why. */
bool na_run_show_files(const na_run_command_t *command, const na_run_tools_t *tools,
                       const na_run_files_t *files);
/* The next command: what differs between the two. */
void na_run_show_diff(const na_run_command_t *command, const na_run_tools_t *tools,
                      const char *first, const char *last);
/* The next command: numalloc-dump, `view` and a space, the file or its directory. */
void na_run_show_next(const na_run_tools_t *tools, const char *view, const char *file,
                      bool directory);
/* How the program ended, and these. */
void na_run_show(const na_run_command_t *command, const na_run_tools_t *tools,
                 const na_run_files_t *files, int status);

/* ---- proc.c ---- */

/* The variables that a process was started with: NAME=VALUE, each ends with a NUL, two at the end.
 * NULL: errno says why. free() it. Servers write their title over them (redis, nginx, postgres):
 * where none is left that says how to ask, they are those that the profile `recording` ("": none)
 * has recorded, or those that the numalloc-run that the process descends from gave it. */
char *na_run_environment_of(pid_t pid, const char *recording);

/* ---- ask.c ---- */

typedef struct na_run_mailbox {
    int memory;       /* the process's; -1: it is asked in another way */
    uint64_t at;      /* where its mailbox is (profiler/format/mailbox.h) */
    uint32_t answers; /* before it was asked */
} na_run_mailbox_t;

/* False: it may not be written to, or has none; said, with the remedy. */
bool na_run_find_mailbox(na_run_mailbox_t *mailbox, pid_t pid);
void na_run_leave_mailbox(na_run_mailbox_t *mailbox);
/* The process has come to its allocator, and can be asked. */
bool na_run_is_open(const na_run_mailbox_t *mailbox);
/* `mode`, `file`: of NA_RUN_START; "": as the process's options say. False: it has ended. */
bool na_run_ask_mailbox(na_run_mailbox_t *mailbox, na_run_request_t request, const char *mode,
                        const char *file);
/* -1: none yet; 0; else an errno. */
int na_run_mailbox_answer(const na_run_mailbox_t *mailbox);
/* The process need not do it any more. */
void na_run_take_back(const na_run_mailbox_t *mailbox, na_run_request_t request);

/* ---- run_control.c ---- */

typedef struct na_run_process {
    pid_t pid;
    char *environment;        /* na_run_environment_of */
    na_process_maps_t maps;   /* its profile, if one is under way */
    na_run_mailbox_t mailbox; /* where it is asked by that */
    unsigned closed;          /* how often its profile was seen closed, and not finished */
} na_run_process_t;

/* False: it cannot be asked for anything; said. Else na_run_leave. */
bool na_run_look_at(na_run_process_t *process, pid_t pid, const char *library);
void na_run_leave(na_run_process_t *process);

/* A profile with a mode, and a place of its own: NULL: as the process's options say. */
typedef struct na_run_wish {
    na_run_request_t request;
    const char *mode, *file;
} na_run_wish_t;

/* It was started with a way to ask it to begin. */
bool na_run_is_told_how(const na_run_process_t *process);
/* Asks, and waits for what comes of it. *path: the profile that it is about; then the one that was
 * begun, copied or ended. False: said. */
bool na_run_ask(na_run_process_t *process, const na_run_wish_t *wish, char path[PATH_MAX]);
/* Signals that came meanwhile and are to end this process: a wait ends at the first. */
extern volatile sig_atomic_t na_run_ended_by;
bool na_run_has_ended(pid_t pid);

/* The path leads that process where it leads this one: they have the same root directory. */
bool na_run_is_same_for(const na_run_process_t *process, const char *path);
/* A new directory is that process's user's, who writes there. */
void na_run_give_to(const na_run_process_t *process, const char *directory);
/* A directory as the name of a profile has it: with its % doubled, and a / at its end. */
void na_run_profile_name(const char *directory, char out[PATH_MAX]);
/* The name of a profile in the directory `output`, which is made if it is not there. NULL: not to
 * be had; said. */
const char *na_run_place_for(const na_run_process_t *process, const char *output,
                             char out[PATH_MAX]);
/* "sites,access=watch", as the options say; "": they do not. */
void na_run_mode_text(const na_run_command_t *command, char out[64]);

/* Asks the process, waits until it is done, says what came of it. The status to end with. */
int na_run_control(const na_run_command_t *command, const na_run_tools_t *tools);
/* Copies of a profile are numbered: the name, a dot, a number. The highest one; 0: none. *grows:
 * what one that is under way (NA_NPROF_PART) was, some sum of it: 0 is none. */
unsigned long na_run_last_copy(const char *profile, char path[PATH_MAX], uint64_t *grows);

/* ---- family.c ---- */

/* A process that records, and those that descend from it. */
typedef struct na_run_member {
    pid_t pid;
    char name[64], path[PATH_MAX]; /* its profile; when it has answered the copy */
    unsigned long copies;          /* there were before it was asked */
    bool answered;
} na_run_member_t;

typedef struct na_run_family {
    na_run_member_t *members; /* free() them */
    size_t count, answers;
} na_run_family_t;

/* False: it is none of several. */
bool na_run_find_family(na_run_family_t *family, pid_t pid);
/* They have been asked: waits until all have answered, or nobody does any more. */
void na_run_wait_for_family(na_run_family_t *family);
void na_run_show_family(const na_run_family_t *family, const na_run_tools_t *tools, bool quiet);

/* ---- run_growth.c ---- */

/* --growth. The status to end with. */
int na_run_growth(const na_run_command_t *command, const na_run_tools_t *tools);

#endif
