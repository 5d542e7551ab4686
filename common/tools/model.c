#include "tools/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Layers, KV heads and head size as the models' published config.json files have them; DeepSeek's
 * one head is kv_lora_rank 512 + qk_rope_head_dim 64. */
static const struct model models[] = {
    {"llama-3.1-8b", 32, 8, 128, 2, {KVR_PART_K, KVR_PART_V}, "bfloat16", 2},
    {"llama-3.1-70b", 80, 8, 128, 2, {KVR_PART_K, KVR_PART_V}, "bfloat16", 2},
    {"qwen3-235b-a22b", 94, 4, 128, 2, {KVR_PART_K, KVR_PART_V}, "bfloat16", 2},
    {"deepseek-v3", 61, 1, 576, 1, {KVR_PART_MLA}, "bfloat16", 2},
};

#define WORD_BYTES 8u /* contents are checked in words */

const struct model *model_find(const char *name)
{
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
        if (strcmp(models[i].name, name) == 0)
            return &models[i];
    return NULL;
}

uint64_t model_nearest_token_bytes(const struct model *model, uint32_t layers, uint64_t token_bytes)
{
    uint64_t unit =
        (uint64_t)(layers > 0 ? layers : model->layers) * model->part_count * WORD_BYTES;
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

static void describe(const struct model_geometry *geometry, uint64_t own_bytes, char *text)
{
    const struct model *model = geometry->model;

    text[0] = '\0';
    if (geometry->layers == model->layers && geometry->token_bytes == own_bytes)
        return;
    snprintf(text, MODEL_SCALING_BYTES,
             "%s is scaled: %u of %u layers, %u of %u heads, %u of %u bytes a head, %" PRIu64
             " of %" PRIu64 " bytes a token",
             model->name, geometry->layers, model->layers, geometry->heads, model->kv_heads,
             geometry->head_bytes, model->head_dim * model->dtype_bytes, geometry->token_bytes,
             own_bytes);
}

kvr_status model_scale(const struct model *model, uint32_t layers, uint64_t token_bytes,
                       struct kvr_error *error, struct model_geometry *ret_geometry)
{
    struct model_geometry geometry = {.model = model};
    uint64_t own_layer_bytes = (uint64_t)model->kv_heads * model->head_dim * model->dtype_bytes;
    uint64_t own_bytes = own_layer_bytes * model->part_count * model->layers, planes, layer_bytes;

    geometry.layers = layers > 0 ? layers : model->layers;
    planes = (uint64_t)geometry.layers * model->part_count;
    geometry.token_bytes = token_bytes > 0 ? token_bytes : own_layer_bytes * planes;
    layer_bytes = geometry.token_bytes / planes;
    if (geometry.token_bytes % planes != 0 || layer_bytes == 0 || layer_bytes % WORD_BYTES != 0)
        return kvr_error_set(error, KVR_INVALID, "model",
                             "%" PRIu64 " bytes a token cannot be cut into %u layers of %u part%s "
                             "in words of %u bytes; the nearest that can is %" PRIu64,
                             geometry.token_bytes, geometry.layers, model->part_count,
                             model->part_count == 1 ? "" : "s", WORD_BYTES,
                             model_nearest_token_bytes(model, layers, geometry.token_bytes));
    geometry.heads = heads_of(model, layer_bytes);
    geometry.head_bytes = (uint32_t)(layer_bytes / geometry.heads);
    describe(&geometry, own_bytes, geometry.scaling);
    *ret_geometry = geometry;
    return KVR_OK;
}
