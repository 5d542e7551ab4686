#include "tools/host_costs.h"

#include <stddef.h>
#include <string.h>

#define SMALL_BYTES 4096u
#define LARGE_BYTES 65536u

/* What a thread that drives EFA takes, and what a card keeps waiting: the same on both hosts. */
#define EFA_THREAD                                                                                 \
    .alone_ns = 1250, .batched_ns = 476, .own_ns = 19, .first_ns = 26 * KVR_MS,                    \
    .latency_ns = 10 * KVR_US, .queue_writes = 4096

/* Published of p5's cards and of threads that drive EFA; ours is the machine of RESULTS.md. */
const struct host_costs host_costs_p5 = {
    .name = "p5",
    .rails = 4,
    .card_bps = UINT64_C(100000000000),
    .small_write_ns = 1250,
    .large_write_ns = 6300,
    EFA_THREAD,
};

/* No single write of a 200 Gb/s card is published. Its line is half of the 364 Gb/s that
 * fabric-lib had with a GPU's two cards in writes of 64 KiB; Mooncake's best, 367 GB/s of a host in
 * blocks of 2 MiB, is 1 % more. fabric-lib's 2.1 M writes/s and Mooncake's first write are of this
 * host. A write with a doorbell of its own is p5's. */
const struct host_costs host_costs_p5en = {
    .name = "p5en",
    .rails = 2,
    .card_bps = UINT64_C(200000000000),
    .line_bps = UINT64_C(182000000000),
    EFA_THREAD,
};

const struct host_costs *host_costs_find(const char *name)
{
    static const struct host_costs *const hosts[] = {&host_costs_p5, &host_costs_p5en};

    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        if (strcmp(hosts[i]->name, name) == 0)
            return hosts[i];
    }
    return NULL;
}

uint64_t host_costs_line_bps(const struct host_costs *costs)
{
    if (costs->line_bps > 0)
        return costs->line_bps;
    return (LARGE_BYTES - SMALL_BYTES) * 8 * KVR_S /
           (costs->large_write_ns - costs->small_write_ns);
}
