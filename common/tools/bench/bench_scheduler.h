/* A kvrail-scheduler of the benchmark's own, with its database in a folder, gone when the benchmark
 * ends. */
#ifndef KVR_TOOLS_BENCH_SCHEDULER_H
#define KVR_TOOLS_BENCH_SCHEDULER_H

#include "base/url.h"
#include "tools/bench/bench_program.h"

struct bench_scheduler {
    char folder[BENCH_PATH_BYTES];     /* temporary: its log */
    char state[BENCH_PATH_BYTES + 32]; /* of the database */
    char url[KVR_URL_BYTES];
    bool keeps; /* the database stays */
    pid_t pid;  /* 0: not started */
};

/* --database of a benchmark, in the struct's `database`. */
#define BENCH_OPTION_DATABASE(type_, help_)                                                        \
    {                                                                                              \
        .name = "database", .section = "database", .value = "DIR",                                 \
        KVR_OPTION_STRING(type_, database), .help = (help_)                                        \
    }
/* Refuses what is no folder of SQLite. False: leave with *ret_exit. */
bool bench_database_check(const struct kvr_command *command, const char *database, int *ret_exit);

/* database: its state folder, which is kept; "": a temporary one. False: said on stderr. */
bool bench_scheduler_start(struct bench_scheduler *scheduler, const char *database);
void bench_scheduler_stop(struct bench_scheduler *scheduler);

#endif
