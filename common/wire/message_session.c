/* Coding of the messages of a session and of an engine: HELLO, WELCOME, REFUSED, RESUME, BEAT,
 * REGIONS. */
#include "wire/message_parts.h"

/* ---- compat ---- */

static kvr_status put_compat(struct kvr_arena *arena, const struct kvr_compat *compat,
                             kvr_pb_compat **ret_compat)
{
    kvr_pb_compat *out = kvr_arena_take(arena, 1, sizeof(*out));

    if (out == NULL)
        return KVR_NO_MEMORY;
    if (!kvr_text_valid(compat->model, sizeof(compat->model)) ||
        !kvr_text_valid(compat->dtype, sizeof(compat->dtype)))
        return KVR_INVALID;
    kvr_geometry_put_compat(compat, out);
    *ret_compat = out;
    return KVR_OK;
}

/* ---- HELLO and WELCOME ---- */

static kvr_status put_hello(struct kvr_arena *arena, const struct kvr_msg_hello *hello,
                            Kvrail__Control__Hello **ret_hello)
{
    Kvrail__Control__Hello *out;

    if (hello->rail_count > KVR_RAILS_MAX || hello->compat_count > KVR_ENGINES_MAX ||
        !kvr_text_valid(hello->agent, sizeof(hello->agent)) ||
        !kvr_text_valid(hello->provider, sizeof(hello->provider)) ||
        !kvr_text_valid(hello->host, sizeof(hello->host)))
        return KVR_INVALID;
    KVR_PUT_NEW(arena, out, kvrail__control__hello__init);
    out->version_min = hello->version_min;
    out->version_max = hello->version_max;
    out->boot = hello->boot;
    out->session = hello->session;
    out->agent = (char *)hello->agent;
    out->provider = (char *)hello->provider;
    out->host = (char *)hello->host;
    out->beat_ms = hello->beat_ms;
    out->digest = hello->digest;
    out->revocation_pid = hello->revocation_pid;
    out->revocation_fd = hello->revocation_fd;
    KVR_TRY(kvr_put_limits(arena, &hello->limits, &out->limits));
    KVR_TRY(kvr_put_rails(arena, hello->rails, hello->rail_count, &out->rails));
    out->n_rails = hello->rail_count;
    out->compats = kvr_arena_take(arena, hello->compat_count, sizeof(*out->compats));
    if (out->compats == NULL)
        return KVR_NO_MEMORY;
    for (uint32_t i = 0; i < hello->compat_count; i++)
        KVR_TRY(put_compat(arena, &hello->compats[i], &out->compats[i]));
    out->n_compats = hello->compat_count;
    *ret_hello = out;
    return KVR_OK;
}

static kvr_status get_compats(const struct kvr_get *get, const Kvrail__Control__Hello *in,
                              struct kvr_msg_hello *ret_hello)
{
    struct kvr_compat *compats;

    if (in->n_compats > KVR_ENGINES_MAX)
        return kvr_get_malformed(get, "compats has %zu entries: at most %d are allowed",
                                 in->n_compats, KVR_ENGINES_MAX);
    compats = kvr_arena_take(get->arena, in->n_compats, sizeof(*compats));
    if (compats == NULL)
        return kvr_get_no_memory(get);
    for (size_t i = 0; i < in->n_compats; i++)
        KVR_TRY(kvr_get_checked(get, kvr_geometry_get_compat(in->compats[i], &compats[i])));
    ret_hello->compats = compats;
    ret_hello->compat_count = (uint32_t)in->n_compats;
    return KVR_OK;
}

static kvr_status get_hello(const struct kvr_get *get, const Kvrail__Control__Hello *in,
                            struct kvr_msg_hello *ret_hello)
{
    ret_hello->version_min = in->version_min;
    ret_hello->version_max = in->version_max;
    ret_hello->boot = in->boot;
    ret_hello->session = in->session;
    ret_hello->beat_ms = in->beat_ms;
    ret_hello->revocation_pid = in->revocation_pid;
    ret_hello->revocation_fd = in->revocation_fd;
    KVR_TRY(kvr_get_digest_mode(get, in->digest, &ret_hello->digest));
    kvr_get_limits(in->limits, &ret_hello->limits);
    KVR_TRY(kvr_get_name(get, "agent", in->agent, sizeof(ret_hello->agent), ret_hello->agent));
    KVR_TRY(kvr_get_name(get, "provider", in->provider, sizeof(ret_hello->provider),
                         ret_hello->provider));
    KVR_TRY(kvr_get_name(get, "host", in->host, sizeof(ret_hello->host), ret_hello->host));
    KVR_TRY(kvr_get_rails(get, in->n_rails, in->rails, &ret_hello->rails, &ret_hello->rail_count));
    return get_compats(get, in, ret_hello);
}

/* ---- REFUSED, RESUME, BEAT ---- */

static kvr_status put_refused(struct kvr_arena *arena, const struct kvr_msg_refused *refused,
                              Kvrail__Control__Refused **ret_refused)
{
    char *detail = kvr_arena_take(arena, 1, sizeof(refused->detail));
    Kvrail__Control__Refused *out;

    if (detail == NULL)
        return KVR_NO_MEMORY;
    if (memchr(refused->detail, '\0', sizeof(refused->detail)) == NULL)
        return KVR_INVALID;
    kvr_text_show(refused->detail, sizeof(refused->detail), detail);
    KVR_PUT_NEW(arena, out, kvrail__control__refused__init);
    out->status = refused->status;
    out->detail = detail;
    *ret_refused = out;
    return KVR_OK;
}

static void get_refused(const Kvrail__Control__Refused *in, struct kvr_msg_refused *ret_refused)
{
    ret_refused->status = kvr_status_known(in->status) ? (kvr_status)in->status : KVR_INTERNAL;
    kvr_text_show(in->detail, sizeof(ret_refused->detail), ret_refused->detail);
}

static kvr_status put_seen(struct kvr_arena *arena, const struct kvr_msg_seen *seen,
                           Kvrail__Control__Seen **ret_seen)
{
    Kvrail__Control__Seen *out;

    KVR_PUT_NEW(arena, out, kvrail__control__seen__init);
    out->session = seen->session;
    out->seen = seen->seen;
    *ret_seen = out;
    return KVR_OK;
}

/* ---- REGIONS ---- */

static kvr_status put_layout(struct kvr_arena *arena, const struct kvr_region_layout *layout,
                             kvr_pb_layout **ret_layout)
{
    kvr_pb_layout *out = kvr_arena_take(arena, 1, sizeof(*out));

    if (out == NULL)
        return KVR_NO_MEMORY;
    if (layout->part_count > KVR_PARTS_MAX)
        return KVR_INVALID;
    kvr_geometry_put_layout(layout, out);
    *ret_layout = out;
    return KVR_OK;
}

static kvr_status put_regions(struct kvr_arena *arena, const struct kvr_msg_regions *regions,
                              Kvrail__Control__Regions **ret_regions)
{
    Kvrail__Control__Regions *out;

    if (regions->layout_count > KVR_REGIONS_MAX || regions->rail_count > KVR_RAILS_MAX)
        return KVR_INVALID;
    KVR_PUT_NEW(arena, out, kvrail__control__regions__init);
    KVR_TRY(kvr_put_rank(arena, &regions->rank, &out->rank));
    KVR_TRY(put_compat(arena, &regions->compat, &out->compat));
    out->layouts = kvr_arena_take(arena, regions->layout_count, sizeof(*out->layouts));
    if (out->layouts == NULL)
        return KVR_NO_MEMORY;
    for (uint32_t i = 0; i < regions->layout_count; i++)
        KVR_TRY(put_layout(arena, &regions->layouts[i], &out->layouts[i]));
    out->n_layouts = regions->layout_count;
    out->rail_count = regions->rail_count;
    /* A key is two numbers, on the wire as in memory. */
    out->n_keys = (size_t)regions->layout_count * regions->rail_count * 2;
    out->keys = (uint64_t *)regions->keys;
    *ret_regions = out;
    return KVR_OK;
}

static kvr_status get_regions(const struct kvr_get *get, const Kvrail__Control__Regions *in,
                              struct kvr_msg_regions *ret_regions)
{
    struct kvr_region_layout *layouts;

    if (in->n_layouts > KVR_REGIONS_MAX)
        return kvr_get_malformed(get, "layouts has %zu entries: at most %d are allowed",
                                 in->n_layouts, KVR_REGIONS_MAX);
    if (in->rail_count > KVR_RAILS_MAX || in->n_keys != in->n_layouts * in->rail_count * 2)
        return kvr_get_malformed(get, "%zu numbers of keys for %zu layouts over %u rails",
                                 in->n_keys, in->n_layouts, in->rail_count);
    KVR_TRY(kvr_get_checked(get, kvr_geometry_get_rank(in->rank, &ret_regions->rank)));
    KVR_TRY(kvr_get_checked(get, kvr_geometry_get_compat(in->compat, &ret_regions->compat)));
    layouts = kvr_arena_take(get->arena, in->n_layouts, sizeof(*layouts));
    if (layouts == NULL)
        return kvr_get_no_memory(get);
    for (size_t i = 0; i < in->n_layouts; i++)
        KVR_TRY(kvr_get_checked(get, kvr_geometry_get_layout(in->layouts[i], &layouts[i])));
    ret_regions->layouts = layouts;
    ret_regions->layout_count = (uint32_t)in->n_layouts;
    ret_regions->rail_count = in->rail_count;
    ret_regions->keys = (const struct kvr_remote_key *)in->keys;
    return KVR_OK;
}
_Static_assert(sizeof(struct kvr_remote_key) == 2 * sizeof(uint64_t), "keys travel as pairs");

/* ---- all of them ---- */

kvr_status kvr_put_session(struct kvr_arena *arena, const struct kvr_message *message,
                           kvr_pb_frame *frame)
{
    switch (message->kind) {
    case KVR_MSG_HELLO:
    case KVR_MSG_WELCOME:
        return put_hello(arena, &message->hello, &frame->hello);
    case KVR_MSG_REFUSED:
        return put_refused(arena, &message->refused, &frame->refused);
    case KVR_MSG_RESUME:
    case KVR_MSG_BEAT:
        return put_seen(arena, &message->seen, &frame->beat);
    case KVR_MSG_REGIONS:
        return put_regions(arena, &message->regions, &frame->regions);
    default:
        return KVR_INVALID;
    }
}

kvr_status kvr_get_session(const struct kvr_get *get, const kvr_pb_frame *frame,
                           struct kvr_message *message)
{
    switch (message->kind) {
    case KVR_MSG_HELLO:
    case KVR_MSG_WELCOME:
        return get_hello(get, frame->hello, &message->hello);
    case KVR_MSG_REFUSED:
        get_refused(frame->refused, &message->refused);
        return KVR_OK;
    case KVR_MSG_RESUME:
    case KVR_MSG_BEAT:
        message->seen = (struct kvr_msg_seen){frame->beat->session, frame->beat->seen};
        return KVR_OK;
    case KVR_MSG_REGIONS:
        return get_regions(get, frame->regions, &message->regions);
    default:
        return kvr_get_malformed(get, "a message of kind %d", (int)message->kind);
    }
}
