/* kvrail-schedulers of the benchmark's own: one with its database in a folder, or several with one
 * database of PostgreSQL. They are gone when the benchmark ends. */
#ifndef KVR_TOOLS_BENCH_SCHEDULER_H
#define KVR_TOOLS_BENCH_SCHEDULER_H

#include "base/clock.h"
#include "base/url.h"
#include "scheduler/store.h"
#include "tools/bench/bench_program.h"

#define BENCH_SCHEDULERS_MAX 8

struct bench_scheduler {
    char folder[BENCH_PATH_BYTES];     /* temporary: its log */
    char state[BENCH_PATH_BYTES + 32]; /* of SQLite's database, or a lock alone */
    char url[KVR_URL_BYTES];
    bool keeps; /* the state folder stays */
    pid_t pid;  /* 0: not started */
};

/* --database of a benchmark, in the struct's `database`. */
#define BENCH_OPTION_DATABASE(type_, value_, help_)                                                \
    {                                                                                              \
        .name = "database", .section = "database", .value = (value_),                              \
        KVR_OPTION_STRING(type_, database), .help = (help_)                                        \
    }
/* Refuses what is no folder of SQLite. False: leave with *ret_exit. */
bool bench_database_check(const struct kvr_command *command, const char *database, int *ret_exit);

/* place: a URL of PostgreSQL; or a state folder, which is kept; "": a temporary one. False: said on
 * stderr. */
bool bench_scheduler_start(struct bench_scheduler *scheduler, const struct store_place *place);
void bench_scheduler_stop(struct bench_scheduler *scheduler);

/* What all of them have used of the processor. */
kvr_ns bench_schedulers_cpu(const struct bench_scheduler *schedulers, uint64_t count);

#endif
