#include "trace/synth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"

/* Fitted to the published percentiles: p90 / p50 = exp(1.2816 · sigma). */
#define INPUT_MEDIAN     6900.0
#define INPUT_SIGMA      1.07
#define OUTPUT_MEDIAN    350.0
#define OUTPUT_SIGMA     0.42
#define STEP             (3 * KVR_S) /* arrivals are bunched */
#define STEP_REQUESTS    10.2        /* mean of one step */
#define CONTINUE_PERCENT 66          /* of requests that continue an earlier conversation */
#define CONTINUE_DRAWS   6
#define RECENT_REQUESTS  512 /* a conversation older than that is not continued */

static double normal(struct kvr_rng *rng)
{
    double radius = sqrt(-2 * log(1 - kvr_rng_unit(rng)));

    return radius * cos(2 * 3.14159265358979323846 * kvr_rng_unit(rng));
}

static uint32_t lognormal(struct kvr_rng *rng, double median, double sigma, uint32_t max)
{
    double value = median * exp(sigma * normal(rng));

    return value < 1 ? 1 : value > max ? max : (uint32_t)value;
}

/* The full blocks of an earlier request that this one begins with: of a few recent conversations
 * the longest that is not longer than this input. 0: it begins a conversation of its own. */
static uint32_t continued_blocks(struct kvr_rng *rng, const struct kvr_trace *trace,
                                 uint32_t input_tokens, uint32_t *ret_earlier)
{
    uint32_t recent =
        trace->request_count < RECENT_REQUESTS ? trace->request_count : RECENT_REQUESTS;
    uint32_t longest = 0;

    if (recent == 0 || !kvr_rng_percent(rng, CONTINUE_PERCENT))
        return 0;
    for (int draw = 0; draw < CONTINUE_DRAWS; draw++) {
        uint32_t earlier = trace->request_count - 1 - (uint32_t)kvr_rng_below(rng, recent);
        uint32_t full = trace->requests[earlier].input_tokens / KVR_TRACE_BLOCK_TOKENS;

        if (full <= longest || full * KVR_TRACE_BLOCK_TOKENS > input_tokens)
            continue;
        longest = full;
        *ret_earlier = earlier;
    }
    return longest;
}

static kvr_status add_request(struct kvr_rng *rng, kvr_ns at, uint64_t *next_block,
                              uint64_t *blocks, struct kvr_trace *trace, struct kvr_error *error)
{
    uint32_t input = lognormal(rng, INPUT_MEDIAN, INPUT_SIGMA, KVR_SYNTH_INPUT_TOKENS_MAX);
    uint32_t output = lognormal(rng, OUTPUT_MEDIAN, OUTPUT_SIGMA, 16384);
    uint32_t count = (input + KVR_TRACE_BLOCK_TOKENS - 1) / KVR_TRACE_BLOCK_TOKENS;
    uint32_t earlier = 0, shared = continued_blocks(rng, trace, input, &earlier);

    for (uint32_t i = 0; i < count; i++) {
        if (i < shared)
            blocks[i] = kvr_trace_blocks(trace, &trace->requests[earlier])[i];
        else if (i == 0 && input >= KVR_TRACE_BLOCK_TOKENS)
            blocks[i] = 0; /* the system prompt, which every request begins with */
        else
            blocks[i] = (*next_block)++;
    }
    return kvr_trace_add(trace, at, input, output, blocks, count, error);
}

kvr_status kvr_trace_synth(uint64_t seed, uint32_t count, struct kvr_trace *trace,
                           struct kvr_error *error)
{
    uint64_t next_block = 1;
    uint64_t *blocks =
        calloc(KVR_SYNTH_INPUT_TOKENS_MAX / KVR_TRACE_BLOCK_TOKENS + 1, sizeof(*blocks));
    kvr_status status = KVR_OK;
    struct kvr_rng rng;
    kvr_ns at = 0;

    if (blocks == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "trace", "no memory to synthesise a trace");
    kvr_rng_init(&rng, seed);
    snprintf(trace->name, sizeof(trace->name), "synth, seed %llu", (unsigned long long)seed);
    for (uint32_t i = 0; i < count && status == KVR_OK; i++) {
        if (i > 0 && kvr_rng_unit(&rng) < 1 / STEP_REQUESTS)
            at += STEP;
        status = add_request(&rng, at, &next_block, blocks, trace, error);
    }
    free(blocks);
    return status;
}
