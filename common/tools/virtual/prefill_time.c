#include "tools/virtual/prefill_time.h"

#include <stddef.h>
#include <string.h>

/* The fit. Of Qwen3-235B the table has 9.860 ms for the first 16,384 tokens and 34.895 ms for the
 * eighth 16,384: seven chunks before it cost 25.035 ms, so a pair costs 13.32 fs. Half a chunk of
 * pairs costs 1.788 ms; what is left of 9.860 ms is `fixed` and 16,384 tokens. The rows of 4,096
 * and 8,192 tokens divide it. */
#define FIT_GPUS           4u
#define FIT_FIXED_NS       120000u
#define FIT_PS_PER_PARAM_M 2074u /* of one token: 485 ns for 234 million parameters */
#define FIT_AS_PER_FLOP    407u  /* attoseconds of one operation of attention, on all GPUs */

/* Active parameters / layers; query heads × (size of a key + size of a value) × 2 operations. From
 * the models' published cards and config.json files. */
static const struct prefill_time times[] = {
    {"llama-3.1-8b", 251, 2 * 32 * (128 + 128), false},
    {"llama-3.1-70b", 882, 2 * 64 * (128 + 128), false},
    {"qwen3-235b-a22b", 234, 2 * 64 * (128 + 128), true},
    {"deepseek-v3", 607, 2 * 128 * (192 + 128), false},
};

const struct prefill_time *prefill_time_find(const char *model)
{
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
        if (strcmp(times[i].model, model) == 0)
            return &times[i];
    return NULL;
}

kvr_ns prefill_layer_ns(const struct prefill_time *time, uint32_t gpus, uint64_t tokens,
                        uint64_t prefix_tokens)
{
    uint64_t linear_ps = tokens * time->layer_params_m * FIT_PS_PER_PARAM_M;
    uint64_t pairs = tokens * prefix_tokens + tokens * tokens / 2;
    uint64_t pairs_ps = pairs / 1000 * time->pair_flops / 1000 * FIT_AS_PER_FLOP;

    return (FIT_FIXED_NS + (linear_ps + pairs_ps) / 1000) * FIT_GPUS / gpus;
}
