/* A process that takes orders: an engine, or one side of a raw loop. Forked by the conductor, dies
 * with it, and answers each order with one result; the first result, unasked, says that it is
 * ready.
 *
 * Both sides' single thread. */
#ifndef KVR_TOOLS_BENCH_CHILD_H
#define KVR_TOOLS_BENCH_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"

/* What a raw loop writes. */
struct bench_raw_shape {
    uint32_t window;  /* writes on their way, a rail */
    uint32_t pieces;  /* of one write */
    uint32_t pages;   /* of one piece: neighbours at both ends */
    uint32_t rail;    /* that one of the source alone; BENCH_RAILS_ALL */
    uint32_t threads; /* no rail at all: so many threads copy each piece; 0: it is written */
    bool spins;       /* it never sleeps; else as the agents: after `spin` without progress */
};
#define BENCH_RAILS_ALL UINT32_MAX

struct bench_order {
    kvr_ns duration;            /* how long to begin new work; 0 with a count: until that is done */
    uint64_t count;             /* requests or pages in all since the start, to be settled */
    struct bench_raw_shape raw; /* raw loops: what they write */
};

struct bench_result {
    bool failed;
    char problem[256];
    uint64_t bytes, writes, retries, count;
    kvr_ns first_at, last_at; /* first begun, last done */
};

struct bench_child {
    const char *role; /* "source engine" */
    pid_t pid;        /* 0: not started */
    int socket;
};

/* Runs in the child: serves orders until the socket is at its end, then returns. */
typedef void bench_child_main(void *self, int socket);

/* False: said on stderr. */
bool bench_child_start(struct bench_child *child, const char *role, bench_child_main *run,
                       void *self);
void bench_child_stop(struct bench_child *child);
/* Waits for a result at most `timeout`. False, and said on stderr: it failed, ended or is late. */
bool bench_child_result(struct bench_child *child, kvr_ns timeout, struct bench_result *ret_result);
bool bench_child_order(struct bench_child *child, const struct bench_order *order);

/* In the child: sends the first result, then takes orders, and sends the result of a turn for each.
 * Returns after a result that failed, or when the conductor has no more orders. */
typedef void bench_child_turn(void *self, const struct bench_order *order,
                              struct bench_result *result);
void bench_child_serve(int socket, struct bench_result *result, bench_child_turn *turn, void *self);
void bench_problem(struct bench_result *result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Asks a child process to end, waits for it, and kills it after three seconds. Sets *pid to 0; with
 * 0 it does nothing. */
void bench_process_stop(pid_t *pid);

void bench_sleep(kvr_ns time);

/* CPU time that a process has used, all threads; 0 when it is gone. */
kvr_ns bench_cpu_time(pid_t pid);

#endif
