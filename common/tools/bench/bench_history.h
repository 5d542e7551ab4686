/* A scheduler's database that has seen a fleet for some days, filled in bulk: the rows are those
 * that the fleet's reports would leave. Most transfers have ended; the newest are on their way, and
 * some are lost because their agents fell silent. Equal seeds give equal rows but for the times,
 * which end now. */
#ifndef KVR_TOOLS_BENCH_HISTORY_H
#define KVR_TOOLS_BENCH_HISTORY_H

#include "tools/bench/bench_fleet.h"

#define BENCH_HISTORY_LIVE  2048  /* transfers, the newest, that have not ended */
#define BENCH_HISTORY_AUDIT 10000 /* entries of the audit log */

/* agents: an even number. The fleet's `start` is a wall time, so all its times are. */
struct bench_fleet bench_history_fleet(uint64_t seed, uint32_t agents, uint64_t transfers,
                                       kvr_ns span, kvr_ns wall_now);

/* folder: exists, without a database, or with one that this has filled with as many transfers:
 * *ret_filled false, nothing is done. */
KVR_MUST_CHECK kvr_status bench_history_fill(const struct bench_fleet *fleet, const char *folder,
                                             bool *ret_filled, struct kvr_error *error);

#endif
