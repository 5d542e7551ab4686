/* Whether the schedulers' API shows all transfers of a fleet, each once and as it ended. */
#ifndef KVR_TOOLS_BENCH_ANSWERS_H
#define KVR_TOOLS_BENCH_ANSWERS_H

#include "tools/bench/bench_fleet.h"
#include "tools/scheduler_get.h"

/* Goes through the list of transfers, asks for some of them alone with their events, and compares
 * the counts of events in the summaries. Schedulers of one database are asked by turns.
 * KVR_NOT_FOUND: the error says what is missing. */
KVR_MUST_CHECK kvr_status bench_answers_check(const struct bench_fleet *fleet,
                                              const struct scheduler_call *calls, uint32_t count,
                                              struct kvr_error *error);

#endif
