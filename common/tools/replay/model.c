#include "tools/replay/model.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Layers, KV heads and head size as the models' published config.json files have them; DeepSeek's
 * one head is kv_lora_rank 512 + qk_rope_head_dim 64. "qwen3-next" is its model of 80B parameters,
 * with a state of 32 heads of 128 × 128 values, and 3 steps of a convolution over 8,192
 * channels. "hybrid" is no published model: it has layers of every kind. */
static const struct model models[] = {
    {"llama-3.1-8b", 32, 8, 128, 2, {KVR_PART_K, KVR_PART_V}, "bfloat16", 2, NULL, 0, 0},
    {"llama-3.1-70b", 80, 8, 128, 2, {KVR_PART_K, KVR_PART_V}, "bfloat16", 2, NULL, 0, 0},
    {"qwen3-235b-a22b", 94, 4, 128, 2, {KVR_PART_K, KVR_PART_V}, "bfloat16", 2, NULL, 0, 0},
    {"deepseek-v3", 61, 1, 576, 1, {KVR_PART_MLA}, "bfloat16", 2, NULL, 0, 0},
    {"gpt-oss-120b", 36, 8, 64, 2, {KVR_PART_K, KVR_PART_V}, "bfloat16", 2, "wf", 128, 0},
    {"qwen3-next",
     48,
     2,
     256,
     2,
     {KVR_PART_K, KVR_PART_V},
     "bfloat16",
     2,
     "sssf",
     0,
     2 * (32 * 128 * 128 + 3 * 8192)},
    {"hybrid", 32, 8, 128, 2, {KVR_PART_K, KVR_PART_V}, "bfloat16", 2, "swsf", 1000, 1 << 20},
};

#define WORD_BYTES 8u /* contents are checked in words */

const struct model *model_find(const char *name)
{
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
        if (strcmp(models[i].name, name) == 0)
            return &models[i];
    return NULL;
}

model_kind model_layer_kind(const struct model *model, uint32_t layers, uint32_t layer)
{
    size_t length = model->pattern != NULL ? strlen(model->pattern) : 0;
    char kind = length > 0 ? model->pattern[length - 1 - (layers - 1 - layer) % length] : 'f';

    return kind == 's' ? MODEL_STATE : kind == 'w' ? MODEL_WINDOW : MODEL_FULL;
}

static void count_kinds(const struct model *model, uint32_t layers, uint32_t ret_kinds[MODEL_KINDS])
{
    memset(ret_kinds, 0, MODEL_KINDS * sizeof(ret_kinds[0]));
    for (uint32_t layer = 0; layer < layers; layer++)
        ret_kinds[model_layer_kind(model, layers, layer)]++;
}

/* Layers × parts that have K and V, or a latent. */
static uint64_t planes_of(const struct model *model, uint32_t layers)
{
    uint32_t kinds[MODEL_KINDS];

    count_kinds(model, layers, kinds);
    return (uint64_t)(kinds[MODEL_FULL] + kinds[MODEL_WINDOW]) * model->part_count;
}

uint64_t model_nearest_token_bytes(const struct model *model, uint32_t layers, uint64_t token_bytes)
{
    uint64_t unit = planes_of(model, layers > 0 ? layers : model->layers) * WORD_BYTES;
    uint64_t nearest = (token_bytes + unit / 2) / unit * unit;

    return nearest > 0 ? nearest : unit;
}

/* As many of the model's heads as leave each a whole number of words. */
static uint32_t heads_of(const struct model *model, uint64_t layer_bytes)
{
    uint32_t heads = model->kv_heads;

    while (heads > 1 && layer_bytes % (heads * WORD_BYTES) != 0)
        heads /= 2;
    return heads;
}

/* Whole words for each of the tokens that its page stands for. */
static uint64_t scaled_state(const struct model *model, uint64_t layer_bytes,
                             uint64_t own_layer_bytes)
{
    const uint64_t unit = MODEL_STATE_TOKENS * WORD_BYTES;
    uint64_t bytes = model->state_bytes * layer_bytes / own_layer_bytes;

    return model->state_bytes > 0 ? (bytes / unit + (bytes % unit != 0 || bytes == 0)) * unit : 0;
}

static void describe(const struct model_geometry *geometry, uint64_t own_bytes, char *text)
{
    const struct model *model = geometry->model;
    int used;

    text[0] = '\0';
    if (geometry->layers == model->layers && geometry->token_bytes == own_bytes)
        return;
    used = snprintf(text, MODEL_SCALING_BYTES,
                    "%s is scaled: %u of %u layers, %u of %u heads, %u of %u bytes a head, %" PRIu64
                    " of %" PRIu64 " bytes a token",
                    model->name, geometry->layers, model->layers, geometry->heads, model->kv_heads,
                    geometry->head_bytes, model->head_dim * model->dtype_bytes,
                    geometry->token_bytes, own_bytes);
    if (geometry->kinds[MODEL_STATE] > 0 && used < MODEL_SCALING_BYTES)
        snprintf(text + used, MODEL_SCALING_BYTES - (size_t)used,
                 ", %" PRIu64 " of %" PRIu64 " bytes a state", geometry->state_bytes,
                 model->state_bytes);
}

kvr_status model_scale(const struct model *model, uint32_t layers, uint64_t token_bytes,
                       struct kvr_error *error, struct model_geometry *ret_geometry)
{
    struct model_geometry geometry = {.model = model};
    uint64_t own_layer_bytes = (uint64_t)model->kv_heads * model->head_dim * model->dtype_bytes;
    uint64_t own_bytes = own_layer_bytes * planes_of(model, model->layers), planes, layer_bytes;

    geometry.layers = layers > 0 ? layers : model->layers;
    planes = planes_of(model, geometry.layers);
    assert(planes > 0); /* a pattern ends with attention */
    count_kinds(model, geometry.layers, geometry.kinds);
    geometry.token_bytes = token_bytes > 0 ? token_bytes : own_layer_bytes * planes;
    layer_bytes = geometry.token_bytes / planes;
    if (geometry.token_bytes % planes != 0 || layer_bytes == 0 || layer_bytes % WORD_BYTES != 0)
        return kvr_error_set(error, KVR_INVALID, "model",
                             "%" PRIu64
                             " bytes a token cannot be cut into %u layers of attention, %u "
                             "part%s, "
                             "in words of %u bytes; the nearest that can is %" PRIu64,
                             geometry.token_bytes, (unsigned)(planes / model->part_count),
                             model->part_count, model->part_count == 1 ? "" : "s", WORD_BYTES,
                             model_nearest_token_bytes(model, layers, geometry.token_bytes));
    geometry.heads = heads_of(model, layer_bytes);
    geometry.head_bytes = (uint32_t)(layer_bytes / geometry.heads);
    geometry.state_bytes = scaled_state(model, layer_bytes, own_layer_bytes);
    describe(&geometry, own_bytes, geometry.scaling);
    *ret_geometry = geometry;
    return KVR_OK;
}
