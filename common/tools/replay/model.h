/* Models with a KV cache that a replay imitates, and how their geometry is scaled to a test
 * machine.
 *
 * The layers of a hybrid model are of several kinds, which follow each other in a pattern that ends
 * with full attention; cut to fewer layers, it is the pattern's end that stays. Layers of one kind
 * are one KV group.
 *
 * Real caches take 70 to 320 KiB a token; a test machine moves less. Layers are cut to `layers`,
 * and the bytes of one head are scaled so that a token of all layers and parts has exactly
 * `token_bytes`. What was scaled is said in a sentence, never hidden. Plain values. */
#ifndef KVR_TOOLS_MODEL_H
#define KVR_TOOLS_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/types.h"

#define MODEL_SCALING_BYTES 240
#define MODEL_PARTS_MAX     2

/* In the order of their KV groups. */
typedef enum model_kind {
    MODEL_FULL,   /* attention over all tokens: pages of all of them */
    MODEL_WINDOW, /* over the last tokens: pages of those */
    MODEL_STATE,  /* a state computed over all tokens, and no page but the last */
} model_kind;
#define MODEL_KINDS 3

struct model {
    const char *name;
    uint32_t layers;
    uint32_t kv_heads; /* 1 with MLA */
    uint32_t head_dim; /* values of one head; with MLA the latent and its rotary part */
    uint32_t part_count;
    uint8_t parts[MODEL_PARTS_MAX]; /* kvr_part */
    const char *dtype;
    uint32_t dtype_bytes;
    const char *pattern;    /* of layers: f, w, s; NULL: all are MODEL_FULL */
    uint32_t window_tokens; /* that a window layer keeps */
    uint64_t state_bytes;   /* of a state layer */
};

struct model_geometry {
    const struct model *model;
    uint32_t layers;
    uint32_t heads;
    uint32_t head_bytes;               /* a multiple of 8, so that contents are whole words */
    uint64_t token_bytes;              /* attention layers × parts × heads × head_bytes */
    uint32_t kinds[MODEL_KINDS];       /* layers of each */
    uint64_t state_bytes;              /* of one layer, scaled as a head is; whole words a token
                                          of MODEL_STATE_TOKENS */
    char scaling[MODEL_SCALING_BYTES]; /* a sentence; empty: the model's own geometry */
};

/* A state's page stands for so many tokens. */
#define MODEL_STATE_TOKENS 512u

model_kind model_layer_kind(const struct model *model, uint32_t layers, uint32_t layer);

/* NULL when no preset has that name. */
const struct model *model_find(const char *name);
/* "llama-3.1-8b|llama-3.1-70b|…", for options. */
#define MODEL_NAMES                                                                                \
    "llama-3.1-8b|llama-3.1-70b|qwen3-235b-a22b|deepseek-v3|gpt-oss-120b|qwen3-next|"              \
    "hybrid"

/* layers, token_bytes: 0 takes the model's own. KVR_INVALID, with the nearest size that works, when
 * token_bytes cannot be cut into layers, parts and whole words. */
KVR_MUST_CHECK kvr_status model_scale(const struct model *model, uint32_t layers,
                                      uint64_t token_bytes, struct kvr_error *error,
                                      struct model_geometry *ret_geometry);
/* The size nearest to token_bytes that model_scale() takes, never 0. */
uint64_t model_nearest_token_bytes(const struct model *model, uint32_t layers,
                                   uint64_t token_bytes);

#endif
