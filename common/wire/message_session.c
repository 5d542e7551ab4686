/* Coding of the messages of a session and of an engine: HELLO, WELCOME, REFUSED, RESUME, BEAT,
 * REGIONS. */
#include "wire/message_parts.h"

#define HELLO_FIELDS(X)                                                                            \
    X(version_min)                                                                                 \
    X(version_max)                                                                                 \
    X(boot)                                                                                        \
    X(session)                                                                                     \
    X(beat_ms)
#define SEEN_FIELDS(X) X(session) X(seen)

/* ---- HELLO and WELCOME ---- */

static kvr_status put_compat(struct kvr_arena *arena, const struct kvr_compat *compat,
                             kvr_pb_compat **ret_compat)
{
    if (!kvr_text_valid(compat->model, sizeof(compat->model)) ||
        !kvr_text_valid(compat->dtype, sizeof(compat->dtype)))
        return KVR_INVALID;
    KVR_PUT_LIST(arena, *ret_compat, 1);
    kvr_geometry_put_compat(compat, *ret_compat);
    return KVR_OK;
}

static kvr_status put_hello(struct kvr_arena *arena, const struct kvr_msg_hello *in,
                            Kvrail__Control__Hello *out)
{
    if (in->rail_count > KVR_RAILS_MAX || in->compat_count > KVR_ENGINES_MAX ||
        !kvr_text_valid(in->agent, sizeof(in->agent)) ||
        !kvr_text_valid(in->provider, sizeof(in->provider)) ||
        !kvr_text_valid(in->host, sizeof(in->host)))
        return KVR_INVALID;
    kvrail__control__hello__init(out);
    HELLO_FIELDS(KVR_PROTO_COPY)
    out->agent = kvr_proto_text(in->agent);
    out->provider = kvr_proto_text(in->provider);
    out->host = kvr_proto_text(in->host);
    out->digest = in->digest;
    KVR_TRY(kvr_put_limits(arena, &in->limits, &out->limits));
    KVR_TRY(kvr_put_rails(arena, in->rails, in->rail_count, &out->rails));
    out->n_rails = in->rail_count;
    KVR_PUT_LIST(arena, out->compats, in->compat_count);
    for (uint32_t i = 0; i < in->compat_count; i++)
        KVR_TRY(put_compat(arena, &in->compats[i], &out->compats[i]));
    out->n_compats = in->compat_count;
    return KVR_OK;
}

static kvr_status get_hello(const struct kvr_get *get, const Kvrail__Control__Hello *in,
                            struct kvr_msg_hello *out)
{
    struct kvr_compat *compats;

    HELLO_FIELDS(KVR_PROTO_COPY)
    KVR_TRY(kvr_get_digest_mode(get, in->digest, &out->digest));
    kvr_get_limits(in->limits, &out->limits);
    KVR_TRY(kvr_get_name(get, "agent", in->agent, sizeof(out->agent), out->agent));
    KVR_TRY(kvr_get_name(get, "provider", in->provider, sizeof(out->provider), out->provider));
    KVR_TRY(kvr_get_name(get, "host", in->host, sizeof(out->host), out->host));
    KVR_TRY(kvr_get_rails(get, in->n_rails, in->rails, &out->rails, &out->rail_count));
    KVR_GET_LIST(get, compats, "compats", in->n_compats, KVR_ENGINES_MAX);
    for (size_t i = 0; i < in->n_compats; i++)
        KVR_TRY(kvr_get_checked(get, kvr_geometry_get_compat(in->compats[i], &compats[i])));
    out->compats = compats;
    out->compat_count = (uint32_t)in->n_compats;
    return KVR_OK;
}

/* ---- RESUME, BEAT ---- */

static kvr_status put_seen(const struct kvr_msg_seen *in, Kvrail__Control__Seen *out)
{
    kvrail__control__seen__init(out);
    SEEN_FIELDS(KVR_PROTO_COPY)
    return KVR_OK;
}

static kvr_status get_seen(const Kvrail__Control__Seen *in, struct kvr_msg_seen *out)
{
    SEEN_FIELDS(KVR_PROTO_COPY)
    return KVR_OK;
}

/* ---- REGIONS ---- */

static kvr_status put_layout(struct kvr_arena *arena, const struct kvr_region_layout *layout,
                             kvr_pb_layout **ret_layout)
{
    if (layout->part_count > KVR_PARTS_MAX)
        return KVR_INVALID;
    KVR_PUT_LIST(arena, *ret_layout, 1);
    kvr_geometry_put_layout(layout, *ret_layout);
    return KVR_OK;
}

static kvr_status put_regions(struct kvr_arena *arena, const struct kvr_msg_regions *in,
                              Kvrail__Control__Regions *out)
{
    if (in->layout_count > KVR_REGIONS_MAX || in->rail_count > KVR_RAILS_MAX)
        return KVR_INVALID;
    kvrail__control__regions__init(out);
    KVR_TRY(kvr_put_rank(arena, &in->rank, &out->rank));
    KVR_TRY(put_compat(arena, &in->compat, &out->compat));
    KVR_PUT_LIST(arena, out->layouts, in->layout_count);
    for (uint32_t i = 0; i < in->layout_count; i++)
        KVR_TRY(put_layout(arena, &in->layouts[i], &out->layouts[i]));
    out->n_layouts = in->layout_count;
    out->rail_count = in->rail_count;
    /* A key is two numbers, on the wire as in memory. */
    out->n_keys = (size_t)in->layout_count * in->rail_count * 2;
    out->keys = (uint64_t *)in->keys;
    out->revocation_words = in->revocation_words;
    return KVR_OK;
}

static kvr_status get_regions(const struct kvr_get *get, const Kvrail__Control__Regions *in,
                              struct kvr_msg_regions *out)
{
    struct kvr_region_layout *layouts;

    KVR_GET_LIST(get, layouts, "layouts", in->n_layouts, KVR_REGIONS_MAX);
    if (in->rail_count > KVR_RAILS_MAX || in->n_keys != in->n_layouts * in->rail_count * 2)
        return kvr_get_malformed(get, "%zu numbers of keys for %zu layouts over %u rails",
                                 in->n_keys, in->n_layouts, in->rail_count);
    KVR_TRY(kvr_get_checked(get, kvr_geometry_get_rank(in->rank, &out->rank)));
    KVR_TRY(kvr_get_checked(get, kvr_geometry_get_compat(in->compat, &out->compat)));
    for (size_t i = 0; i < in->n_layouts; i++)
        KVR_TRY(kvr_get_checked(get, kvr_geometry_get_layout(in->layouts[i], &layouts[i])));
    out->layouts = layouts;
    out->layout_count = (uint32_t)in->n_layouts;
    out->rail_count = in->rail_count;
    out->keys = (const struct kvr_remote_key *)in->keys;
    out->revocation_words = in->revocation_words;
    return KVR_OK;
}
_Static_assert(sizeof(struct kvr_remote_key) == 2 * sizeof(uint64_t), "keys travel as pairs");

/* ---- all of them ---- */

kvr_status kvr_put_session(struct kvr_arena *arena, const struct kvr_message *message,
                           union kvr_pb_body *body)
{
    switch (message->kind) {
    case KVR_MSG_REFUSED:
        return kvr_put_reason(arena, &message->reason, &body->reason);
    case KVR_MSG_RESUME:
    case KVR_MSG_BEAT:
        return put_seen(&message->seen, &body->seen);
    case KVR_MSG_REGIONS:
        return put_regions(arena, &message->regions, &body->regions);
    default:
        return put_hello(arena, &message->hello, &body->hello);
    }
}

kvr_status kvr_get_session(const struct kvr_get *get, const kvr_pb_frame *frame,
                           struct kvr_message *message)
{
    switch (message->kind) {
    case KVR_MSG_REFUSED:
        kvr_get_reason(frame->refused, &message->reason);
        return KVR_OK;
    case KVR_MSG_RESUME:
    case KVR_MSG_BEAT:
        return get_seen(frame->beat, &message->seen);
    case KVR_MSG_REGIONS:
        return get_regions(get, frame->regions, &message->regions);
    default:
        return get_hello(get, frame->hello, &message->hello);
    }
}
