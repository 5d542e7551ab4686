#include "wire/compat.h"

#include <inttypes.h>

/* In the order of the fields, so that a larger number is a closer match. */
enum field { FIELD_MODEL, FIELD_DTYPE, FIELD_LAYERS, FIELD_KV_HEADS, FIELD_HEAD_DIM, FIELD_NONE };

static enum field first_difference(const struct kvr_compat *source, const struct kvr_compat *target)
{
    if (strncmp(source->model, target->model, sizeof(source->model)) != 0)
        return FIELD_MODEL;
    if (strncmp(source->dtype, target->dtype, sizeof(source->dtype)) != 0)
        return FIELD_DTYPE;
    if (source->layers_total != target->layers_total)
        return FIELD_LAYERS;
    if (source->kv_heads_total != target->kv_heads_total)
        return FIELD_KV_HEADS;
    if (source->head_dim != target->head_dim)
        return FIELD_HEAD_DIM;
    return FIELD_NONE;
}

static kvr_status refuse_text(struct kvr_error *error, const char *field, const char *source,
                              const char *target)
{
    return kvr_error_set(error, KVR_INCOMPATIBLE, "compat",
                         "%s: the source has \"%s\", the target has \"%s\"", field, source, target);
}

static kvr_status refuse_number(struct kvr_error *error, const char *field, uint32_t source,
                                uint32_t target)
{
    return kvr_error_set(error, KVR_INCOMPATIBLE, "compat",
                         "%s: the source has %" PRIu32 ", the target has %" PRIu32, field, source,
                         target);
}

kvr_status kvr_compat_check(const struct kvr_compat *source, const struct kvr_compat *target,
                            struct kvr_error *error)
{
    switch (first_difference(source, target)) {
    case FIELD_MODEL:
        return refuse_text(error, "model", source->model, target->model);
    case FIELD_DTYPE:
        return refuse_text(error, "dtype", source->dtype, target->dtype);
    case FIELD_LAYERS:
        return refuse_number(error, "num layers", source->layers_total, target->layers_total);
    case FIELD_KV_HEADS:
        return refuse_number(error, "num kv heads", source->kv_heads_total, target->kv_heads_total);
    case FIELD_HEAD_DIM:
        return refuse_number(error, "head dim", source->head_dim, target->head_dim);
    case FIELD_NONE:
        break;
    }
    return KVR_OK;
}

kvr_status kvr_compat_check_any(const struct kvr_compat *sources, uint32_t source_count,
                                const struct kvr_compat *targets, uint32_t target_count,
                                struct kvr_error *error)
{
    const struct kvr_compat *source = NULL, *target = NULL;
    enum field closest = FIELD_MODEL;

    if (source_count == 0 || target_count == 0)
        return KVR_OK;
    for (uint32_t s = 0; s < source_count; s++) {
        for (uint32_t t = 0; t < target_count; t++) {
            enum field difference = first_difference(&sources[s], &targets[t]);

            if (source != NULL && difference <= closest)
                continue;
            closest = difference;
            source = &sources[s];
            target = &targets[t];
        }
    }
    return kvr_compat_check(source, target, error);
}

static kvr_status check_versions(const struct kvr_msg_hello *source,
                                 const struct kvr_msg_hello *target, uint32_t *ret_version,
                                 struct kvr_error *error)
{
    uint32_t highest =
        source->version_max < target->version_max ? source->version_max : target->version_max;

    if (source->version_min == 0 || target->version_min == 0 || highest < source->version_min ||
        highest < target->version_min)
        return kvr_error_set(
            error, KVR_VERSION, "compat",
            "protocol version: the source speaks %" PRIu32 " to %" PRIu32
            ", the target speaks %" PRIu32 " to %" PRIu32 ": upgrade both agents together",
            source->version_min, source->version_max, target->version_min, target->version_max);
    *ret_version = highest;
    return KVR_OK;
}

/* A write carries something: what a plan is made with is divided by these. */
static kvr_status check_limits(const struct kvr_write_limits *limits, const char *side,
                               struct kvr_error *error)
{
    if (limits->pieces_local > 0 && limits->pieces_remote > 0 &&
        limits->chunk_bytes_max >= KVR_CHUNK_BYTES_MIN)
        return KVR_OK;
    return kvr_error_set(error, KVR_INVALID, "compat",
                         "write limits: the %s has %" PRIu32 " local and %" PRIu32
                         " remote pieces of %" PRIu64 " bytes in all, at least 1, 1 and %d are "
                         "needed",
                         side, limits->pieces_local, limits->pieces_remote, limits->chunk_bytes_max,
                         KVR_CHUNK_BYTES_MIN);
}

static kvr_status check_one(const struct kvr_msg_hello *hello, const char *side,
                            struct kvr_error *error)
{
    if (hello->boot == 0)
        return kvr_error_set(error, KVR_INVALID, "compat", "boot id: the %s has none", side);
    if (hello->beat_ms < KVR_BEAT_MS_MIN || hello->beat_ms > KVR_BEAT_MS_MAX)
        return kvr_error_set(error, KVR_INVALID, "compat",
                             "beat: the %s has %" PRIu32 " ms, from %d to %d are allowed", side,
                             hello->beat_ms, KVR_BEAT_MS_MIN, KVR_BEAT_MS_MAX);
    return check_limits(&hello->limits, side, error);
}

/* Rule 5: on such a rail of the target a write counts only with its tag. Both ends have the same
 * provider, so this is for versions of libfabric that carry more than others. */
static kvr_status check_tags(const struct kvr_msg_hello *source, const struct kvr_msg_hello *target,
                             struct kvr_error *error)
{
    for (uint32_t t = 0; t < target->rail_count; t++)
        for (uint32_t s = 0; s < source->rail_count; s++)
            if (target->rails[t].tags && !source->rails[s].tags &&
                target->rails[t].same_host == source->rails[s].same_host)
                return kvr_error_set(error, KVR_INCOMPATIBLE, "compat",
                                     "tags: rail %" PRIu32 " of the target takes writes with tags "
                                     "alone, and rail %" PRIu32 " of the source carries none: use "
                                     "the same libfabric on both hosts",
                                     target->rails[t].rail, source->rails[s].rail);
    return KVR_OK;
}

kvr_status kvr_hello_check(const struct kvr_msg_hello *source, const struct kvr_msg_hello *target,
                           uint32_t *ret_version, struct kvr_error *error)
{
    KVR_TRY(check_versions(source, target, ret_version, error));
    KVR_TRY(check_one(source, "source", error));
    KVR_TRY(check_one(target, "target", error));
    if (strncmp(source->provider, target->provider, sizeof(source->provider)) != 0)
        return refuse_text(error, "provider", source->provider, target->provider);
    KVR_TRY(check_tags(source, target, error));
    return kvr_compat_check_any(source->compats, source->compat_count, target->compats,
                                target->compat_count, error);
}
