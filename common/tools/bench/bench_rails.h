/* The rails of a benchmark: the addresses of both sides, and where the target's processes live.
 * What the agents and the raw loop have in common. */
#ifndef KVR_TOOLS_BENCH_RAILS_H
#define KVR_TOOLS_BENCH_RAILS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"

#define BENCH_RAIL_BYTES 24
#define BENCH_RAIL_NONE  UINT32_MAX

struct bench_rails {
    uint32_t source_count, target_count;
    /* Addresses; "": the provider's first. */
    char source[KVR_RAILS_MAX][BENCH_RAIL_BYTES], target[KVR_RAILS_MAX][BENCH_RAIL_BYTES];
    /* From 1; equal ones alone reach each other. 0: all reach all. */
    uint32_t source_planes[KVR_RAILS_MAX], target_planes[KVR_RAILS_MAX];
    char control[BENCH_RAIL_BYTES]; /* where the prefill-agent listens */
    int target_space;               /* network namespace of the target's processes; -1: ours */
};

/* On tcp each rail has a loopback address of its own; target j has that of source j where there are
 * as many of both. Rails of other providers have the provider's name. 0 and 0: one of each. */
void bench_rails_loopback(struct bench_rails *rails, const char *provider, uint32_t source_count,
                          uint32_t target_count);
/* The other side's rail that the raw loop has for ours; BENCH_RAIL_NONE: its plane has none. */
uint32_t bench_rails_partner(const struct bench_rails *rails, bool of_source, uint32_t rail);
/* In a process of the target side, before it opens a socket. False: errno says why. */
bool bench_rails_enter_target(const struct bench_rails *rails);

#endif
