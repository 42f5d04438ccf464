/* main.c - numalloc-run: a program with numalloc as its malloc. See run.h. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "profiler/run/run.h"

/* A profile by an option, or by a variable that the user set. The modes of both are one then. */
static bool wants_profile(na_run_command_t *command) {
    if (command->tune != 0) return false; /* makes its own */
    if (command->mode != NULL || na_run_variable("NUMALLOC_PROFILE") != NULL) return true;
    if (command->access == NULL && !command->later) return false;
    command->mode = "sites";
    command->by = command->later ? "--later" : "--access";
    return true;
}

/* What the user says of the place, by option or by variable. A pattern is for the library alone:
 * profiles have the library's names here. */
static const char *profile_place(const na_run_command_t *command) {
    const char *file = na_run_variable("NUMALLOC_PROFILE_FILE");
    if (command->output != NULL || file == NULL) return command->output;
    for (const char *c = file; *c != 0; c++) {
        if (*c != '%') continue;
        na_run_say("NUMALLOC_PROFILE_FILE=%s is not heeded, since it has a %%; -o NAME says where "
                   "profiles go",
                   file);
        return NULL;
    }
    return file;
}

static bool watches(const na_run_command_t *command) {
    return command->check || command->leaks;
}

static bool begin_watch(const na_run_command_t *command, const na_run_tools_t *tools) {
    return (!watches(command) || na_run_watch_errors()) &&
           (!command->leaks || na_run_watch_leaks(tools));
}

/* Ends as the program did, or with the status of --check and --leaks, or of limits that are broken.
 */
static _Noreturn void end_run(const na_run_command_t *command, const na_run_tools_t *tools,
                              int status, int limits) {
    na_run_errors_t errors = {0, 0};
    if (watches(command)) errors = na_run_count_errors();
    if (command->leaks) errors.leaks += na_run_report_leaks(tools, command->quiet);
    if (errors.errors + errors.leaks == 0 && limits == 0) na_run_end_as(status);
    if (!command->quiet && errors.errors != 0)
        na_run_say(errors.errors == 1 ? "%zu error was found (above)"
                                      : "%zu errors were found (above)",
                   errors.errors);
    if (!command->quiet && errors.leaks != 0)
        na_run_say(errors.leaks == 1 ? "%zu process has lost blocks (above)"
                                     : "%zu processes have lost blocks (above)",
                   errors.leaks);
    exit(limits != 0 ? limits : NA_RUN_FOUND);
}

/* Without a profile. */
static int run_checked(const na_run_command_t *command, const na_run_tools_t *tools,
                       const na_run_program_t *program) {
    int status = 0;
    if (!begin_watch(command, tools)) return NA_RUN_FAILED;
    na_run_take_signals();
    int failed = na_run_program(program, command->program, &status);
    if (failed != 0) return failed;
    end_run(command, tools, status, 0);
}

/* There is no place for one. A server is to run all the same. */
static int run_without(const na_run_command_t *command, const na_run_tools_t *tools,
                       const na_run_program_t *program) {
    na_run_command_t without = *command;
    without.mode = without.access = without.interval = NULL;
    without.later = without.python = false;
    without.every[0] = 0;
    unsetenv("NUMALLOC_PROFILE");
    if (!na_run_set_environment(&without, tools, program, NULL)) return NA_RUN_FAILED;
    return watches(command) ? run_checked(command, tools, program)
                            : na_run_become(program, command->program);
}

static int run_command(const na_run_command_t *command, const na_run_tools_t *tools,
                       const na_run_program_t *program) {
    na_run_place_t place;
    na_run_files_t files;
    int status = 0;
    bool made = na_run_make_place(&place, profile_place(command), command->program[0]);
    if (!made && place.shut && !na_run_has_limits(command))
        return run_without(command, tools, program);
    if (!made || !na_run_set_environment(command, tools, program, &place) ||
        !begin_watch(command, tools))
        return NA_RUN_FAILED;
    na_run_take_signals();
    int failed = na_run_program(program, command->program, &status);
    na_run_collect(&place, tools, &files);
    if (failed != 0) return failed;
    na_run_show(command, tools, &files, status);
    end_run(command, tools, status, na_run_hold_limits(command, tools, &files));
}

int main(int argc, char **argv) {
    static na_run_command_t command;
    static na_run_tools_t tools;
    static na_run_program_t program;
    int status = na_run_read_command(&command, argc, argv);
    if (status != -1) return status;
    if (command.request == NA_RUN_STATUS) return na_run_status(&command);
    if (command.request == NA_RUN_ATTACH) return na_run_attach(&command);
    if (!na_run_find_tools(&tools, command.library)) return NA_RUN_FAILED;
    if (!na_run_can_hold_limits(&command, &tools)) return NA_RUN_FAILED;
    if (command.request == NA_RUN_GROWTH) return na_run_growth(&command, &tools);
    if (command.request != NA_RUN_NONE) return na_run_control(&command, &tools);
    if (command.program[0] != NULL)
        status = na_run_find_program(&program, command.program[0], tools.library);
    if (status > 0) return status;
    bool profile = wants_profile(&command);
    if (profile && !command.environment) return run_command(&command, &tools, &program);
    if (!na_run_set_environment(&command, &tools, &program, NULL)) return NA_RUN_FAILED;
    /* With a profile the library says so, and knows whether that malloc only passes calls on. */
    if (program.other_malloc)
        na_run_say("%s has a malloc of its own, so numalloc may do nothing in it; build it without",
                   program.path);
    if (command.rounds != 0) return na_run_rounds(&command, &program);
    if (command.tune != 0) return na_run_tune(&command, &tools, &program);
    if (watches(&command) && !command.environment) return run_checked(&command, &tools, &program);
    if (!command.environment) return na_run_become(&program, command.program);
    na_run_print_environment();
    return fflush(stdout) == 0 ? 0 : NA_RUN_FAILED;
}
