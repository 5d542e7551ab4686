#include "wire/geometry.h"

#include "base/proto.h"
#include "base/text.h"

#define RANK_FIELDS(X)   X(generation) X(tp) X(tp_size) X(pp) X(pp_size)
#define COMPAT_FIELDS(X) X(layers_total) X(kv_heads_total) X(head_dim)
#define LAYOUT_FIELDS(X)                                                                           \
    X(region)                                                                                      \
    X(group)                                                                                       \
    X(layer_first)                                                                                 \
    X(layer_count)                                                                                 \
    X(replicated)                                                                                  \
    X(head_first)                                                                                  \
    X(head_count)                                                                                  \
    X(page_tokens)                                                                                 \
    X(page_count)                                                                                  \
    X(bytes)                                                                                       \
    X(layer_stride)                                                                                \
    X(part_stride)                                                                                 \
    X(page_stride)                                                                                 \
    X(token_stride)                                                                                \
    X(head_stride)                                                                                 \
    X(head_bytes)

void kvr_geometry_put_rank(const struct kvr_rank *in, kvr_pb_rank *out)
{
    kvrail__geometry__rank__init(out);
    RANK_FIELDS(KVR_PROTO_COPY)
    out->engine = kvr_proto_bytes(in->engine.bytes, sizeof(in->engine.bytes));
}

const char *kvr_geometry_get_rank(const kvr_pb_rank *in, struct kvr_rank *out)
{
    if (in == NULL)
        return "rank is missing";
    if (in->engine.len != sizeof(out->engine.bytes))
        return "the engine id is not 16 bytes";
    if (in->tp >= in->tp_size || in->pp >= in->pp_size)
        return "tp is not below tp_size, or pp not below pp_size";
    RANK_FIELDS(KVR_PROTO_COPY)
    memcpy(out->engine.bytes, in->engine.data, sizeof(out->engine.bytes));
    return NULL;
}

void kvr_geometry_put_compat(const struct kvr_compat *in, kvr_pb_compat *out)
{
    kvrail__geometry__compat__init(out);
    COMPAT_FIELDS(KVR_PROTO_COPY)
    out->model = kvr_proto_text(in->model);
    out->dtype = kvr_proto_text(in->dtype);
}

const char *kvr_geometry_get_compat(const kvr_pb_compat *in, struct kvr_compat *out)
{
    if (in == NULL)
        return "compat is missing";
    if (!kvr_text_valid(in->model, sizeof(out->model)))
        return "model is too long or not printable";
    if (!kvr_text_valid(in->dtype, sizeof(out->dtype)))
        return "dtype is too long or not printable";
    memset(out, 0, sizeof(*out));
    COMPAT_FIELDS(KVR_PROTO_COPY)
    memcpy(out->model, in->model, strlen(in->model));
    memcpy(out->dtype, in->dtype, strlen(in->dtype));
    return NULL;
}

void kvr_geometry_put_layout(const struct kvr_region_layout *in, kvr_pb_layout *out)
{
    kvrail__geometry__region_layout__init(out);
    LAYOUT_FIELDS(KVR_PROTO_COPY)
    out->parts = kvr_proto_bytes(in->parts, in->part_count);
    out->base_offset = in->base;
}

const char *kvr_geometry_get_layout(const kvr_pb_layout *in, struct kvr_region_layout *out)
{
    if (in == NULL)
        return "layout is missing";
    if (in->parts.len > KVR_PARTS_MAX)
        return "a layout has too many parts";
    memset(out, 0, sizeof(*out));
    LAYOUT_FIELDS(KVR_PROTO_COPY)
    out->base = in->base_offset;
    out->part_count = (uint32_t)in->parts.len;
    if (in->parts.len > 0)
        memcpy(out->parts, in->parts.data, in->parts.len);
    return NULL;
}
