/* One page from one side to the other, timed on one clock: over a bare endpoint, between the
 * threads of two rail groups, and between two engines with their agents. Private to bench_ping*.c.
 */
#ifndef KVR_TOOLS_BENCH_PING_H
#define KVR_TOOLS_BENCH_PING_H

#include <stdatomic.h>

#include "rail_group/rail_group_thread.h"
#include "tools/bench/bench_options.h"
#include "tools/bench/bench_ping_account.h"

struct ping_options {
    char provider[16];
    uint64_t page_bytes, pings;
    bool tls;
    char json[JSON_OUTPUT_PATH_BYTES];
};

/* Every way goes through as many pages, one after the other: the same page again and again would be
 * in the cache. */
#define PING_PAGES 200u

/* Two rails of one process, with their pages. */
struct ping_pair {
    struct kvr_fabric fabric;
    struct kvr_rail *rails[2];     /* source, target */
    struct kvr_region *regions[2]; /* their pages */
    _Atomic uint64_t arrived_at, arrivals;
};
bool ping_pair_open(struct ping_pair *pair, const struct ping_options *options);
void ping_pair_close(struct ping_pair *pair);
/* After a ping: sleeps until arrivals is `expected`, and notes when that was. False: it never came.
 */
bool ping_pair_await(struct ping_pair *pair, uint64_t expected, struct ping_sample *sample);

/* Each fills as many samples as there are pings. spin: the threads that drive rails poll and never
 * sleep. False: said on stderr. */
bool ping_raw(struct ping_pair *pair, const struct ping_options *options, bool spin,
              struct ping_sample *samples);
bool ping_groups(struct ping_pair *pair, const struct ping_options *options, bool spin,
                 struct ping_sample *samples);
bool ping_engines(const struct ping_options *options, bool spin, struct ping_sample *samples);

#endif
