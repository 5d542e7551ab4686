/* The two engines of `kvrail bench push`: public client library only, one process and one thread
 * each.
 *
 * The target leads: it opens a fetch, sends its number to the source through a pipe, as a router
 * would, and the source publishes that request with all its layers ready at once. Requests are
 * numbered from 0 and take the pool's pages in order; a request waits until the one that used its
 * pages before has ended. */
#ifndef KVR_TOOLS_BENCH_PUSH_ENGINE_H
#define KVR_TOOLS_BENCH_PUSH_ENGINE_H

#include "base/histogram.h"
#include "tools/bench/bench_agents.h"
#include "tools/bench/bench_child.h"
#include "tools/bench/bench_pool.h"

struct push_engines {
    const struct bench_options *options;
    const struct bench_pool *pool;
    const struct bench_agents *agents;
    struct kvr_histogram *fetch_ns; /* shared memory; the target records in it */
    uint8_t engine[16];             /* the source's identity */
    uint64_t generation;
    char secret[KVRAIL_SECRET_BYTES]; /* of all requests */
    int numbers[2];                   /* the pipe: [0] the source reads, [1] the target writes */
    struct bench_child source, target;
    uint64_t requests; /* so far */
};

/* False: said on stderr. */
bool push_engines_start(struct push_engines *engines);
/* One turn: fetches are opened for `duration`, or so many `requests` when that is not 0; then all
 * is settled. *engines->fetch_ns has how long each took. False: said on stderr. */
bool push_engines_run(struct push_engines *engines, kvr_ns duration, uint64_t requests,
                      struct bench_result *ret_result);
kvr_ns push_engines_cpu_time(const struct push_engines *engines);
void push_engines_stop(struct push_engines *engines);

#endif
