#include "tools/bench/bench_rails.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "fabric/fabric_provider.h"

static void name(char ret_name[BENCH_RAIL_BYTES], const char *provider, unsigned network,
                 unsigned index)
{
    if (kvr_provider_find(provider)->kernel_tcp)
        snprintf(ret_name, BENCH_RAIL_BYTES, "127.0.%u.%u", network, index + 1);
    else
        snprintf(ret_name, BENCH_RAIL_BYTES, "%s", provider);
}

void bench_rails_loopback(struct bench_rails *rails, const char *provider, uint32_t source_count,
                          uint32_t target_count)
{
    if (source_count + target_count == 0)
        source_count = target_count = 1;
    *rails = (struct bench_rails){.source_count = source_count,
                                  .target_count = target_count,
                                  .control = "127.0.0.1",
                                  .target_space = -1};
    for (unsigned i = 0; i < source_count; i++)
        name(rails->source[i], provider, 0, i);
    for (unsigned i = 0; i < target_count; i++)
        name(rails->target[i], provider, source_count != target_count, i);
}

uint32_t bench_rails_partner(const struct bench_rails *rails, bool of_source, uint32_t rail)
{
    const uint32_t *ours = of_source ? rails->source_planes : rails->target_planes;
    const uint32_t *theirs = of_source ? rails->target_planes : rails->source_planes;
    uint32_t count = of_source ? rails->target_count : rails->source_count;

    if (ours[rail] == 0)
        return rail % count;
    for (uint32_t i = 0; i < count; i++)
        if (theirs[i] == ours[rail])
            return i;
    return BENCH_RAIL_NONE;
}

bool bench_rails_enter_target(const struct bench_rails *rails)
{
    return rails->target_space < 0 || setns(rails->target_space, CLONE_NEWNET) == 0;
}
