/* Coding of the values that several messages carry: limits, ranks, rails, runs and reasons. */
#include "wire/message_parts.h"

#define LIMITS_FIELDS(X) X(pieces_local) X(pieces_remote) X(chunk_bytes_max) X(calibrated)
#define RAIL_FIELDS(X)                                                                             \
    X(rail) X(epoch) X(group) X(same_host) X(needs_senders) X(tags) X(scratch_bytes)

kvr_status kvr_put_limits(struct kvr_arena *arena, const struct kvr_write_limits *in,
                          kvr_pb_limits **ret_limits)
{
    kvr_pb_limits *out;

    KVR_PUT_NEW(arena, out, kvrail__control__write_limits__init);
    LIMITS_FIELDS(KVR_PROTO_COPY)
    *ret_limits = out;
    return KVR_OK;
}

void kvr_get_limits(const kvr_pb_limits *in, struct kvr_write_limits *out)
{
    if (in == NULL)
        return; /* all zero, as for a message without fields */
    LIMITS_FIELDS(KVR_PROTO_COPY)
}

kvr_status kvr_put_rank(struct kvr_arena *arena, const struct kvr_rank *rank,
                        kvr_pb_rank **ret_rank)
{
    KVR_PUT_LIST(arena, *ret_rank, 1);
    kvr_geometry_put_rank(rank, *ret_rank);
    return KVR_OK;
}

kvr_status kvr_get_digest_mode(const struct kvr_get *get, uint32_t in, kvr_digest_mode *ret_mode)
{
    if (in > KVR_DIGEST_FULL)
        return kvr_get_malformed(get, "digest is %u: at most %d is known", in, KVR_DIGEST_FULL);
    *ret_mode = (kvr_digest_mode)in;
    return KVR_OK;
}

kvr_status kvr_put_rail(struct kvr_arena *arena, const struct kvr_rail_address *in,
                        kvr_pb_rail **ret_rail)
{
    kvr_pb_rail *out;

    if (in->bytes > KVR_ADDRESS_BYTES || !kvr_text_valid(in->plane, sizeof(in->plane)))
        return KVR_INVALID;
    KVR_PUT_NEW(arena, out, kvrail__control__rail_address__init);
    RAIL_FIELDS(KVR_PROTO_COPY)
    out->address = kvr_proto_bytes(in->address, in->bytes);
    out->scratch_key = in->scratch.key;
    out->scratch_base = in->scratch.base;
    out->plane = kvr_proto_text(in->plane);
    *ret_rail = out;
    return KVR_OK;
}

kvr_status kvr_get_rail(const struct kvr_get *get, const kvr_pb_rail *in,
                        struct kvr_rail_address *out)
{
    if (in == NULL)
        return kvr_get_malformed(get, "a rail is missing");
    if (in->address.len > KVR_ADDRESS_BYTES)
        return kvr_get_malformed(get,
                                 "the address of rail %u has %zu bytes: at most %d are allowed",
                                 in->rail, in->address.len, KVR_ADDRESS_BYTES);
    KVR_TRY(kvr_get_name(get, "plane", in->plane, sizeof(out->plane), out->plane));
    RAIL_FIELDS(KVR_PROTO_COPY)
    out->bytes = (uint32_t)in->address.len;
    out->scratch = (struct kvr_remote_key){.key = in->scratch_key, .base = in->scratch_base};
    if (in->address.len > 0)
        memcpy(out->address, in->address.data, in->address.len);
    return KVR_OK;
}

kvr_status kvr_put_rails(struct kvr_arena *arena, const struct kvr_rail_address *rails,
                         uint32_t count, kvr_pb_rail ***ret_rails)
{
    kvr_pb_rail **out;

    KVR_PUT_LIST(arena, out, count);
    for (uint32_t i = 0; i < count; i++)
        KVR_TRY(kvr_put_rail(arena, &rails[i], &out[i]));
    *ret_rails = out;
    return KVR_OK;
}

kvr_status kvr_get_rails(const struct kvr_get *get, size_t count, kvr_pb_rail **in,
                         const struct kvr_rail_address **ret_rails, uint32_t *ret_count)
{
    struct kvr_rail_address *rails;

    KVR_GET_LIST(get, rails, "rails", count, KVR_RAILS_MAX);
    for (size_t i = 0; i < count; i++)
        KVR_TRY(kvr_get_rail(get, in[i], &rails[i]));
    *ret_rails = rails;
    *ret_count = (uint32_t)count;
    return KVR_OK;
}

kvr_status kvr_put_reason(struct kvr_arena *arena, const struct kvr_msg_reason *in,
                          Kvrail__Control__Reason *out)
{
    if (memchr(in->detail, '\0', sizeof(in->detail)) == NULL)
        return KVR_INVALID;
    kvrail__control__reason__init(out);
    out->status = in->status;
    out->detail = kvr_arena_take(arena, 1, sizeof(in->detail));
    if (out->detail == NULL)
        return KVR_NO_MEMORY;
    kvr_text_show(in->detail, sizeof(in->detail), out->detail);
    return KVR_OK;
}

void kvr_get_reason(const Kvrail__Control__Reason *in, struct kvr_msg_reason *out)
{
    out->status = kvr_status_known(in->status) ? (kvr_status)in->status : KVR_INTERNAL;
    kvr_text_show(in->detail, sizeof(out->detail), out->detail);
}

/* ---- runs, of pages or of chunks: (first, count) pairs ---- */

struct run {
    uint32_t first, count;
};
_Static_assert(sizeof(struct kvr_page_run) == sizeof(struct run) &&
                   sizeof(struct kvr_chunk_run) == sizeof(struct run),
               "both kinds of runs are copied as pairs");

kvr_status kvr_put_runs(struct kvr_arena *arena, const void *runs, uint32_t count,
                        kvr_pb_runs **ret_runs)
{
    uint32_t next = 0;
    struct run run;
    kvr_pb_runs *out;

    if (count > KVR_RUNS_PER_MESSAGE)
        return KVR_INVALID;
    KVR_PUT_NEW(arena, out, kvrail__control__runs__init);
    KVR_PUT_LIST(arena, out->step, count);
    KVR_PUT_LIST(arena, out->count, count);
    for (uint32_t i = 0; i < count; i++) {
        memcpy(&run, (const uint8_t *)runs + i * sizeof(run), sizeof(run));
        out->step[i] = (int32_t)(run.first - next);
        out->count[i] = run.count;
        next = run.first + run.count;
    }
    out->n_step = out->n_count = count;
    *ret_runs = out;
    return KVR_OK;
}

kvr_status kvr_get_runs(const struct kvr_get *get, const kvr_pb_runs *in, const void **ret_runs,
                        uint32_t *ret_count)
{
    uint32_t next = 0;
    struct run *runs;

    if (in == NULL)
        return KVR_OK; /* none */
    if (in->n_step != in->n_count || in->n_step > KVR_RUNS_PER_MESSAGE)
        return kvr_get_malformed(get, "runs have %zu steps and %zu counts: at most %d of both",
                                 in->n_step, in->n_count, KVR_RUNS_PER_MESSAGE);
    KVR_GET_LIST(get, runs, "runs", in->n_step, KVR_RUNS_PER_MESSAGE);
    for (size_t i = 0; i < in->n_step; i++) {
        runs[i] = (struct run){next + (uint32_t)in->step[i], in->count[i]};
        next = runs[i].first + runs[i].count;
    }
    *ret_runs = runs;
    *ret_count = (uint32_t)in->n_step;
    return KVR_OK;
}
