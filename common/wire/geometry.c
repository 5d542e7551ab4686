#include "wire/geometry.h"

#include "base/text.h"

/* protobuf-c never writes through the pointers of what it packs. */
static ProtobufCBinaryData borrow(const void *bytes, size_t count)
{
    return (ProtobufCBinaryData){.len = count, .data = (uint8_t *)(uintptr_t)bytes};
}

void kvr_geometry_put_rank(const struct kvr_rank *rank, kvr_pb_rank *out)
{
    kvrail__geometry__rank__init(out);
    out->engine = borrow(rank->engine.bytes, sizeof(rank->engine.bytes));
    out->generation = rank->generation;
    out->tp = rank->tp;
    out->tp_size = rank->tp_size;
    out->pp = rank->pp;
    out->pp_size = rank->pp_size;
}

const char *kvr_geometry_get_rank(const kvr_pb_rank *in, struct kvr_rank *ret_rank)
{
    if (in == NULL)
        return "rank is missing";
    if (in->engine.len != sizeof(ret_rank->engine.bytes))
        return "the engine id is not 16 bytes";
    if (in->tp >= in->tp_size || in->pp >= in->pp_size)
        return "tp is not below tp_size, or pp not below pp_size";
    memcpy(ret_rank->engine.bytes, in->engine.data, sizeof(ret_rank->engine.bytes));
    ret_rank->generation = in->generation;
    ret_rank->tp = in->tp;
    ret_rank->tp_size = in->tp_size;
    ret_rank->pp = in->pp;
    ret_rank->pp_size = in->pp_size;
    return NULL;
}

void kvr_geometry_put_compat(const struct kvr_compat *compat, kvr_pb_compat *out)
{
    kvrail__geometry__compat__init(out);
    out->model = (char *)(uintptr_t)compat->model;
    out->dtype = (char *)(uintptr_t)compat->dtype;
    out->layers_total = compat->layers_total;
    out->kv_heads_total = compat->kv_heads_total;
    out->head_dim = compat->head_dim;
}

const char *kvr_geometry_get_compat(const kvr_pb_compat *in, struct kvr_compat *ret_compat)
{
    if (in == NULL)
        return "compat is missing";
    if (!kvr_text_valid(in->model, sizeof(ret_compat->model)))
        return "model is too long or not printable";
    if (!kvr_text_valid(in->dtype, sizeof(ret_compat->dtype)))
        return "dtype is too long or not printable";
    *ret_compat = (struct kvr_compat){.layers_total = in->layers_total,
                                      .kv_heads_total = in->kv_heads_total,
                                      .head_dim = in->head_dim};
    memcpy(ret_compat->model, in->model, strlen(in->model));
    memcpy(ret_compat->dtype, in->dtype, strlen(in->dtype));
    return NULL;
}

void kvr_geometry_put_layout(const struct kvr_region_layout *layout, kvr_pb_layout *out)
{
    kvrail__geometry__region_layout__init(out);
    out->region = layout->region;
    out->group = layout->group;
    out->layer_first = layout->layer_first;
    out->layer_count = layout->layer_count;
    out->parts = borrow(layout->parts, layout->part_count);
    out->replicated = layout->replicated;
    out->head_first = layout->head_first;
    out->head_count = layout->head_count;
    out->page_tokens = layout->page_tokens;
    out->page_count = layout->page_count;
    out->bytes = layout->bytes;
    out->base_offset = layout->base;
    out->layer_stride = layout->layer_stride;
    out->part_stride = layout->part_stride;
    out->page_stride = layout->page_stride;
    out->token_stride = layout->token_stride;
    out->head_stride = layout->head_stride;
    out->head_bytes = layout->head_bytes;
}

const char *kvr_geometry_get_layout(const kvr_pb_layout *in, struct kvr_region_layout *ret_layout)
{
    if (in == NULL)
        return "layout is missing";
    if (in->parts.len > KVR_PARTS_MAX)
        return "a layout has too many parts";
    *ret_layout = (struct kvr_region_layout){
        .region = in->region,
        .group = in->group,
        .layer_first = in->layer_first,
        .layer_count = in->layer_count,
        .part_count = (uint32_t)in->parts.len,
        .replicated = in->replicated,
        .head_first = in->head_first,
        .head_count = in->head_count,
        .page_tokens = in->page_tokens,
        .page_count = in->page_count,
        .bytes = in->bytes,
        .base = in->base_offset,
        .layer_stride = in->layer_stride,
        .part_stride = in->part_stride,
        .page_stride = in->page_stride,
        .token_stride = in->token_stride,
        .head_stride = in->head_stride,
        .head_bytes = in->head_bytes,
    };
    if (in->parts.len > 0)
        memcpy(ret_layout->parts, in->parts.data, in->parts.len);
    return NULL;
}
