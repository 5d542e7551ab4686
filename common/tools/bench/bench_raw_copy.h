/* What memory alone does with the same pages: a plain memcpy by several threads, without a rail. */
#ifndef KVR_TOOLS_BENCH_RAW_COPY_H
#define KVR_TOOLS_BENCH_RAW_COPY_H

#include "tools/bench/bench_child.h"
#include "tools/bench/bench_pool.h"

#define BENCH_COPY_THREADS_MAX 16u

/* One turn of the pages in order, `pages` of them at each call; *next is where it begins and where
 * it has ended. */
void raw_copy_turn(const struct bench_pool *pool, const struct bench_order *order, uint64_t *next,
                   struct bench_result *result);

#endif
