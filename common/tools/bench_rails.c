#include "tools/bench_rails.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

void bench_rails_loopback(struct bench_rails *rails, const char *provider, uint32_t source_count,
                          uint32_t target_count)
{
    *rails = (struct bench_rails){.source_count = source_count,
                                  .target_count = target_count,
                                  .control = "127.0.0.1",
                                  .target_space = -1};
    if (strcmp(provider, "tcp") != 0)
        return;
    for (unsigned i = 0; i < source_count; i++)
        snprintf(rails->source[i], sizeof(rails->source[i]), "127.0.0.%u", i + 1);
    for (unsigned i = 0; i < target_count; i++)
        snprintf(rails->target[i], sizeof(rails->target[i]), "127.0.%d.%u",
                 source_count != target_count, i + 1);
}

bool bench_rails_enter_target(const struct bench_rails *rails)
{
    return rails->target_space < 0 || setns(rails->target_space, CLONE_NEWNET) == 0;
}
