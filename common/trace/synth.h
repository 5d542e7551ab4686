/* Request traces from a seed, with statistics like those published for a conversation service
 * (Mooncake's FAST'25 trace). Input has p50 6,900 and p90 27,000 tokens, output p50 350. About a
 * third of the blocks was seen before, because conversations continue; all share the first block.
 * Arrivals are bunched in steps of 3 s, at 3.4 requests a second. The same seed gives the same
 * trace. */
#ifndef KVR_TRACE_SYNTH_H
#define KVR_TRACE_SYNTH_H

#include "trace/trace_file.h"

#define KVR_SYNTH_INPUT_TOKENS_MAX 126000u

/* Appends `count` requests to an initialised, empty trace. */
KVR_MUST_CHECK kvr_status kvr_trace_synth(uint64_t seed, uint32_t count, struct kvr_trace *trace,
                                          struct kvr_error *error);

#endif
