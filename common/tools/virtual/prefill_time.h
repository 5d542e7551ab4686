/* How long a prefill engine computes one layer.
 *
 *   layer(n new tokens behind p) = fixed + n · linear + n · (p + n / 2) · pair
 *
 * `linear` is the work on weights, `pair` the attention of one token to one other. All three are
 * fitted to fabric-lib's published layer times (arXiv 2510.27656, table 3: Qwen3-235B, four H200,
 * chunks of 16,384 tokens). Another model takes the same time for each active parameter and for
 * each operation of attention: that is an assumption, not a measurement. An engine of other than
 * four GPUs is as much faster or slower. Pure; whole numbers. */
#ifndef KVR_TOOLS_VIRTUAL_PREFILL_TIME_H
#define KVR_TOOLS_VIRTUAL_PREFILL_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

struct prefill_time {
    const char *model;       /* as in tools/replay/model.h */
    uint32_t layer_params_m; /* active parameters of one layer, in millions */
    uint32_t pair_flops;     /* of one layer's attention: one token and one token before it */
    bool fitted;             /* to this model's own times */
};

/* NULL: no times are known of that model. */
const struct prefill_time *prefill_time_find(const char *model);

/* Of one layer, on `gpus` GPUs. */
kvr_ns prefill_layer_ns(const struct prefill_time *time, uint32_t gpus, uint64_t tokens,
                        uint64_t prefix_tokens);

#endif
