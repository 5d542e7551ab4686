#include "tools/replay/replay_progress.h"

#include <inttypes.h>
#include <unistd.h>

#define BAR_CELLS 30

static bool bar_drawn;

kvr_ns replay_progress_interval(const struct replay_setup *setup)
{
    if (isatty(STDERR_FILENO))
        return 100 * KVR_MS;
    return setup->options.progress ? KVR_S : KVR_NEVER;
}

void replay_progress_show(const struct replay_figures *figures, kvr_ns now)
{
    uint32_t settled = replay_figures_settled(figures);
    int cells = figures->requests > 0 ? (int)((uint64_t)settled * BAR_CELLS / figures->requests)
                                      : BAR_CELLS;
    double seconds = (double)(now - figures->started_at) / (double)KVR_S;
    char bar[BAR_CELLS + 1];

    for (int i = 0; i < BAR_CELLS; i++)
        bar[i] = i < cells ? '#' : '.';
    bar[BAR_CELLS] = '\0';
    bar_drawn = isatty(STDERR_FILENO);
    fprintf(stderr, "%s[%s] %u/%u requests, %.2f GB, %.2f GB/s, %u failed%s", bar_drawn ? "\r" : "",
            bar, settled, figures->requests, (double)figures->bytes / 1e9,
            seconds > 0 ? (double)figures->bytes / 1e9 / seconds : 0,
            figures->ends[REPLAY_END_FAILED], bar_drawn ? "\033[K" : "\n");
    fflush(stderr);
}

void replay_progress_clear(void)
{
    if (bar_drawn)
        fputs("\r\033[K", stderr);
    bar_drawn = false;
}
