/* Page tables as a trace has them, as runs [first page, count] in logical order, folded into the
 * pool of a replayed engine.
 *
 * The whole table moves by one shift, to where all its pages are free: the runs, their order and
 * the gaps between them stay. A table that spans more than the pool, or that finds no such place,
 * keeps its runs and their order in memory, and gets shorter gaps. In both cases two pages lie side
 * by side exactly where they did in the trace, so a transfer has as many pieces as it had. Pure. */
#ifndef KVR_TOOLS_REPLAY_RUNS_H
#define KVR_TOOLS_REPLAY_RUNS_H

#include <stddef.h>

#include "tools/replay/replay_pages.h"

typedef enum runs_fit {
    RUNS_PLACED,
    RUNS_NO_ROOM, /* until other requests hand pages back */
    RUNS_NEVER,   /* too few pages, a page twice, or more than an empty pool holds */
    RUNS_NO_MEMORY
} runs_fit;

/* Takes the logical pages [first, end) of a table, and writes their ids at ret_ids[first] and after
 * it. numbers: those of the runs. Nothing is taken unless the answer is RUNS_PLACED. */
runs_fit runs_take(const int64_t *numbers, size_t number_count, uint32_t first, uint32_t end,
                   struct pages *pages, uint32_t *ret_ids);

#endif
