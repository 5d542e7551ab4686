/* Posts all reports of a fleet to its schedulers, as the agents' reporters would. An agent has one
 * post on its way. A report holds the events of 200 ms, at most KVR_REPORT_EVENTS_MAX, and once a
 * second the agent's facts. The times are the fleet's. The next agent posts as soon as a connection
 * is free, so the schedulers set the pace. One thread. */
#ifndef KVR_TOOLS_BENCH_POSTS_H
#define KVR_TOOLS_BENCH_POSTS_H

#include "base/histogram.h"
#include "base/status.h"
#include "tools/bench/bench_fleet.h"
#include "tools/scheduler_get.h"

#define BENCH_CONNECTIONS_MAX 120 /* a scheduler takes 128 of one host, and a reader has some */

struct bench_posts {
    uint64_t events, reports;
    uint64_t repeats; /* posts that were not answered, or with "again" */
    kvr_ns begin, end;
    struct kvr_histogram acks; /* from a post to its answer, of those that were taken */
};

/* Agents are spread over the schedulers. KVR_INVALID: one refused a report, with its sentence. */
KVR_MUST_CHECK kvr_status bench_posts_run(const struct bench_fleet *fleet,
                                          const struct scheduler_call *schedulers,
                                          uint32_t scheduler_count, uint32_t connections,
                                          struct bench_posts *ret_posts, struct kvr_error *error);

#endif
