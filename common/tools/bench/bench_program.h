/* A program of kvrail's that a benchmark starts: found beside this executable, with its log in a
 * temporary folder, and gone when the benchmark ends. Main thread. */
#ifndef KVR_TOOLS_BENCH_PROGRAM_H
#define KVR_TOOLS_BENCH_PROGRAM_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/limits.h"
#include "base/options.h"

#define BENCH_PATH_BYTES    256
#define BENCH_ARGUMENTS_MAX (28 + 2 * KVR_RAILS_MAX + KVR_OPTION_LIST_MAX)

/* Keep it static, not on a small stack. */
struct bench_arguments {
    char *list[BENCH_ARGUMENTS_MAX + 1];
    unsigned count; /* the program's own name is added at its start */
    char text[BENCH_ARGUMENTS_MAX][KVR_OPTION_ITEM_BYTES + 96];
};

void bench_arguments_init(struct bench_arguments *arguments);
/* --name=value; nothing for an empty value. */
void bench_arguments_add(struct bench_arguments *arguments, const char *name, const char *value);
/* --item. */
void bench_arguments_add_item(struct bench_arguments *arguments, const char *item);

/* In TMPDIR, or in /tmp where that is too long for a socket's path. False: said on stderr. */
bool bench_folder_make(char ret_path[BENCH_PATH_BYTES]);
/* With its files; folders in it are kept, and so is the folder then. */
void bench_folder_remove(const char *path);

/* With its log in `folder`. enter: called in the new process first; NULL: nothing. 0: not started.
 */
pid_t bench_program_start(const char *folder, const char *program,
                          struct bench_arguments *arguments, bool (*enter)(const void *self),
                          const void *self);
/* Until the file is there and not empty (a port), or a socket is: the program listens then. */
bool bench_program_await(const char *path, pid_t pid);
/* The port in a program's --port-file; 0: none. */
unsigned bench_program_port(const char *path);
/* Shows the end of the log of a program that did not start, on stderr; false. */
bool bench_program_failed(const char *folder, const char *program);

#endif
