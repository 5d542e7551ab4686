/* Rails of known speed on one machine: network namespaces for the source, the target and a switch
 * between them, a veth pair for every rail, each capped by tc in both directions.
 *
 *   source: rail i, 10.78.i.1 ── switch (routes) ── target: rail j, 10.79.j.1
 *   source: 10.80.0.1 ──────── uncapped, for control ──────── target: 10.80.0.2
 *
 * Every source rail reaches every target rail, so that their numbers may differ; or those of one
 * plane alone reach each other, and the switch drops other packets without a sign. It needs
 * iproute2, and CAP_SYS_ADMIN or a kernel that lets a user make a user namespace. */
#ifndef KVR_TOOLS_BENCH_NETNS_H
#define KVR_TOOLS_BENCH_NETNS_H

#include <sys/types.h>

#include "tools/bench/bench_rails.h"

struct bench_netns_options {
    uint32_t source_count, target_count;
    uint32_t rail_mbits;
    uint32_t slow_mbits; /* of the last source rail; 0: as the others */
    /* By rail of the target: the number, from 1, of the one source rail that reaches it. 0 in the
     * first: all reach all. */
    uint32_t planes[KVR_RAILS_MAX];
};

struct bench_netns {
    pid_t target, exchange; /* hold their namespaces; 0: not there */
    char way[256];          /* which way was taken, and why not a better one */
};

/* Moves this process, which must have one thread, into the source's namespace; where only a user
 * namespace allows that, into one of those first. Where neither holds, rails on loopback addresses,
 * which nothing caps; netns->way says so. False: said on stderr. */
bool bench_netns_open(struct bench_netns *netns, const struct bench_netns_options *options,
                      struct bench_rails *ret_rails);
void bench_netns_close(struct bench_netns *netns, struct bench_rails *rails);

#endif
