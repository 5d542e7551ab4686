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

bool bench_rails_enter_target(const struct bench_rails *rails)
{
    return rails->target_space < 0 || setns(rails->target_space, CLONE_NEWNET) == 0;
}
