#include "kv/layout_named.h"

#include <inttypes.h>

#include "kv/layout.h"

/* Dimensions, the outermost first: l layer, k part, p page, t token, h head. */
static const struct form {
    const char *text, *order;
    uint32_t part_count;
    uint8_t parts[2];
    uint32_t head_parts; /* tensors side by side in a head */
    bool one_head;
} forms[KVR_LAYOUT_NAMES] = {
    [KVR_LAYOUT_VLLM_NHD] = {"vllm-nhd", "lkpth", 2, {KVR_PART_K, KVR_PART_V}, 1, false},
    [KVR_LAYOUT_VLLM_HND] = {"vllm-hnd", "lkpht", 2, {KVR_PART_K, KVR_PART_V}, 1, false},
    [KVR_LAYOUT_VLLM_PAGES_NHD] =
        {"vllm-pages-nhd", "lpkth", 2, {KVR_PART_K, KVR_PART_V}, 1, false},
    [KVR_LAYOUT_VLLM_PAGES_HND] =
        {"vllm-pages-hnd", "lpkht", 2, {KVR_PART_K, KVR_PART_V}, 1, false},
    [KVR_LAYOUT_VLLM_CROSS_NHD] =
        {"vllm-cross-nhd", "plkth", 2, {KVR_PART_K, KVR_PART_V}, 1, false},
    [KVR_LAYOUT_VLLM_CROSS_HND] =
        {"vllm-cross-hnd", "phlkt", 2, {KVR_PART_K, KVR_PART_V}, 1, false},
    [KVR_LAYOUT_SGLANG_K] = {"sglang-k", "lkpth", 1, {KVR_PART_K}, 1, false},
    [KVR_LAYOUT_SGLANG_V] = {"sglang-v", "lkpth", 1, {KVR_PART_V}, 1, false},
    [KVR_LAYOUT_MLA] = {"mla", "lkpth", 1, {KVR_PART_MLA}, 1, true},
    [KVR_LAYOUT_FUSED_NHD] = {"fused-nhd", "lkpth", 1, {KVR_PART_KV}, 2, false},
    [KVR_LAYOUT_FUSED_HND] = {"fused-hnd", "lkpht", 1, {KVR_PART_KV}, 2, false},
    [KVR_LAYOUT_STATE] = {"state", "lkpth", 1, {KVR_PART_STATE}, 1, true},
};

const char *kvr_layout_name_text(kvr_layout_name name)
{
    return name < KVR_LAYOUT_NAMES ? forms[name].text : "?";
}

bool kvr_layout_name_find(const char *text, kvr_layout_name *ret_name)
{
    for (unsigned i = 0; i < KVR_LAYOUT_NAMES; i++) {
        if (strcmp(text, forms[i].text) != 0)
            continue;
        *ret_name = (kvr_layout_name)i;
        return true;
    }
    return false;
}

static kvr_status check_shape(kvr_layout_name name, const struct kvr_layout_shape *shape,
                              struct kvr_error *error)
{
    uint32_t element = shape->element_bytes;

    if (element == 0 || (element & (element - 1)) != 0 || element > 16)
        return kvr_error_set(error, KVR_INVALID, "layout",
                             "region %" PRIu32 ": element_bytes is %" PRIu32
                             ", allowed are 1, 2, 4, 8 and 16",
                             shape->region, element);
    if (shape->base % element != 0)
        return kvr_error_set(error, KVR_INVALID, "layout",
                             "region %" PRIu32 ": base is %" PRIu64
                             ", no multiple of the element's %" PRIu32 " B",
                             shape->region, shape->base, element);
    if (forms[name].one_head && (shape->head_first != 0 || shape->head_count != 1))
        return kvr_error_set(error, KVR_INVALID, "layout",
                             "region %" PRIu32 ": heads %" PRIu32 " to %" PRIu32
                             ", but %s has head 0 alone",
                             shape->region, shape->head_first,
                             shape->head_first + shape->head_count - 1, forms[name].text);
    return KVR_OK;
}

/* Bytes of one head of one token. For a state: one token's part of its page, or all of the page
 * that a request has one of. */
static kvr_status head_bytes(kvr_layout_name name, const struct kvr_layout_shape *shape,
                             uint64_t *ret_bytes, struct kvr_error *error)
{
    uint64_t bytes = (uint64_t)shape->head_dim * shape->element_bytes * forms[name].head_parts;

    *ret_bytes = bytes;
    if (name != KVR_LAYOUT_STATE || shape->page_tokens == 0)
        return KVR_OK;
    *ret_bytes = bytes / shape->page_tokens;
    if (bytes % shape->page_tokens == 0)
        return KVR_OK;
    return kvr_error_set(error, KVR_INVALID, "layout",
                         "region %" PRIu32 ": a state of %" PRIu64
                         " B is no multiple of the %" PRIu32 " tokens of its page",
                         shape->region, bytes, shape->page_tokens);
}

kvr_status kvr_layout_make(kvr_layout_name name, const struct kvr_layout_shape *shape,
                           struct kvr_region_layout *ret_layout, struct kvr_error *error)
{
    struct kvr_region_layout layout = {
        .region = shape->region,
        .group = shape->group,
        .layer_first = shape->layer_first,
        .layer_count = shape->layer_count,
        .part_count = forms[name].part_count,
        .parts = {forms[name].parts[0], forms[name].parts[1]},
        .replicated = name == KVR_LAYOUT_MLA,
        .head_first = shape->head_first,
        .head_count = shape->head_count,
        .page_tokens = shape->page_tokens,
        .page_count = shape->page_count,
        .base = shape->base,
    };
    const struct {
        char letter;
        uint64_t count, *stride;
    } dimensions[] = {
        {'l', layout.layer_count, &layout.layer_stride},
        {'k', layout.part_count, &layout.part_stride},
        {'p', layout.page_count, &layout.page_stride},
        {'t', name == KVR_LAYOUT_STATE && layout.page_tokens == 0 ? 1 : layout.page_tokens,
         &layout.token_stride},
        {'h', layout.head_count, &layout.head_stride},
    };
    uint64_t extent;

    KVR_TRY(check_shape(name, shape, error));
    KVR_TRY(head_bytes(name, shape, &layout.head_bytes, error));
    extent = layout.head_bytes;
    for (size_t i = strlen(forms[name].order); i-- > 0;) {
        size_t d = 0;

        while (dimensions[d].letter != forms[name].order[i])
            d++;
        *dimensions[d].stride = extent;
        if (__builtin_mul_overflow(extent, dimensions[d].count, &extent))
            return kvr_error_set(error, KVR_INVALID, "layout",
                                 "region %" PRIu32 ": its sizes are more than 2^64 bytes",
                                 shape->region);
    }
    layout.bytes = shape->bytes;
    if (layout.bytes == 0 && __builtin_add_overflow(layout.base, extent, &layout.bytes))
        layout.bytes = UINT64_MAX; /* kvr_layout_check reports the error */
    KVR_TRY(kvr_layout_check(&layout, error));
    *ret_layout = layout;
    return KVR_OK;
}
