/* where.h - from where the names of profiles count.
 *
 * A relative name counts from the directory in which the program started, an absolute one from the
 * root directory of that moment, whatever the process does later: daemons go to "/", servers into a
 * root of their own, and their children begin profiles there. So a descriptor is kept, out of the
 * program's way, of the directory that the name counts from; one that the program closed is opened
 * again by name, if that still leads to the same directory. Rights are those of the moment: who may
 * not write there any more is told that there is no profile.
 *
 * A name that the program gave itself (numalloc_record_start) counts from where it is then. */
#ifndef NUMALLOC_PROFILER_RECORD_STATE_WHERE_H
#define NUMALLOC_PROFILER_RECORD_STATE_WHERE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* As the program starts, if a profile may begin: `name` is that which it will have, or NULL. */
void na_where_start(const char *name);
/* A profile begins, whose name the program gave just now, or not. */
void na_where_begin(bool named_by_call);
/* In a forked child, before anything else here. */
void na_where_after_fork(void);

/* As the system calls, by a name of a profile. 0, a descriptor, or a negative errno. */
long na_where_open(const char *name, int flags, int mode);
long na_where_stat(const char *name, struct stat *to);
void na_where_unlink(const char *name);
/* -EEXIST: there is one of the new name, which stays. */
long na_where_rename(const char *from, const char *to);

/* Makes the directories before each slash of the name. 0 or a negative errno. */
long na_where_make_folders(char *name);

/* The name for a message: whole, where the process is in another directory. */
const char *na_where_shown(const char *name);

#endif
