/* The options that `kvrail replay --virtual` and `kvrail plan-fleet` share, and what follows from
 * them. Plain values. */
#ifndef KVR_TOOLS_VIRTUAL_VIRTUAL_OPTIONS_H
#define KVR_TOOLS_VIRTUAL_VIRTUAL_OPTIONS_H

#include <stdio.h>

#include "base/options.h"
#include "tools/virtual/virtual_run.h"

struct virtual_options {
    char format[16], model[32], costs[512], pages[16];
    uint64_t requests, seed, layers, kv_bytes_per_token, tp, page_tokens, chunk_tokens, pool_bytes,
        decode_batch, output_tokens, engines, prefill_tokens_per_s, concurrency;
    char speed[16];
    kvr_ns decode_step;
    bool prefix_cache, fused_pages;
};

extern const struct kvr_option_table virtual_option_table;

/* KVR_INVALID with a sentence that names the option. The fleet, the options of one run alone and
 * the trace are the caller's. */
KVR_MUST_CHECK kvr_status virtual_config_make(const struct virtual_options *options,
                                              struct virtual_config *ret_config,
                                              struct kvr_error *error);
/* "8:8" and "32x100G"; gpus: of a host, that have an engine. */
KVR_MUST_CHECK kvr_status virtual_hosts_parse(const char *text, struct virtual_fleet *fleet,
                                              struct kvr_error *error);
KVR_MUST_CHECK kvr_status virtual_rails_parse(const char *text, uint32_t gpus,
                                              struct virtual_fleet *fleet, struct kvr_error *error);
/* Reads PATH in --format; "": synthesises requests from --seed. */
KVR_MUST_CHECK kvr_status virtual_trace_read(const struct virtual_options *options,
                                             const char *path, struct kvr_trace *trace,
                                             struct kvr_error *error);
/* What the model takes for granted, sentence after sentence; returns their number. */
#define VIRTUAL_SENTENCE_BYTES  400
#define VIRTUAL_ASSUMPTIONS_MAX 12
/* Of requests that are not played as the trace has them; "": there are none. */
void virtual_shortened(const struct virtual_config *config, uint32_t clipped,
                       uint32_t without_output, char ret_sentence[VIRTUAL_SENTENCE_BYTES]);
size_t virtual_assumptions(const struct virtual_config *config,
                           char ret_sentences[VIRTUAL_ASSUMPTIONS_MAX][VIRTUAL_SENTENCE_BYTES]);

#endif
