/* Coding of the values that several messages carry: limits, ranks, rails and runs. */
#include "wire/message_parts.h"

kvr_status kvr_put_limits(struct kvr_arena *arena, const struct kvr_write_limits *limits,
                          kvr_pb_limits **ret_limits)
{
    kvr_pb_limits *out;

    KVR_PUT_NEW(arena, out, kvrail__control__write_limits__init);
    out->pieces_local = limits->pieces_local;
    out->pieces_remote = limits->pieces_remote;
    out->chunk_bytes_max = limits->chunk_bytes_max;
    out->calibrated = limits->calibrated;
    *ret_limits = out;
    return KVR_OK;
}

void kvr_get_limits(const kvr_pb_limits *in, struct kvr_write_limits *ret_limits)
{
    if (in == NULL)
        return; /* all zero, as for a message without fields */
    ret_limits->pieces_local = in->pieces_local;
    ret_limits->pieces_remote = in->pieces_remote;
    ret_limits->chunk_bytes_max = in->chunk_bytes_max;
    ret_limits->calibrated = in->calibrated;
}

kvr_status kvr_put_rank(struct kvr_arena *arena, const struct kvr_rank *rank,
                        kvr_pb_rank **ret_rank)
{
    kvr_pb_rank *out = kvr_arena_take(arena, 1, sizeof(*out));

    if (out == NULL)
        return KVR_NO_MEMORY;
    kvr_geometry_put_rank(rank, out);
    *ret_rank = out;
    return KVR_OK;
}

kvr_status kvr_put_rail(struct kvr_arena *arena, const struct kvr_rail_address *rail,
                        kvr_pb_rail **ret_rail)
{
    kvr_pb_rail *out;

    if (rail->bytes > KVR_ADDRESS_BYTES)
        return KVR_INVALID;
    KVR_PUT_NEW(arena, out, kvrail__control__rail_address__init);
    out->rail = rail->rail;
    out->epoch = rail->epoch;
    out->group = rail->group;
    out->same_host = rail->same_host;
    out->address.data = (uint8_t *)rail->address;
    out->address.len = rail->bytes;
    out->scratch_bytes = rail->scratch_bytes;
    out->scratch_key = rail->scratch.key;
    out->scratch_base = rail->scratch.base;
    *ret_rail = out;
    return KVR_OK;
}

kvr_status kvr_get_rail(const struct kvr_get *get, const kvr_pb_rail *in,
                        struct kvr_rail_address *ret_rail)
{
    if (in == NULL)
        return kvr_get_malformed(get, "a rail is missing");
    if (in->address.len > KVR_ADDRESS_BYTES)
        return kvr_get_malformed(get,
                                 "the address of rail %u has %zu bytes: at most %d are allowed",
                                 in->rail, in->address.len, KVR_ADDRESS_BYTES);
    ret_rail->rail = in->rail;
    ret_rail->group = in->group;
    ret_rail->same_host = in->same_host != 0;
    ret_rail->epoch = in->epoch;
    ret_rail->bytes = (uint32_t)in->address.len;
    ret_rail->scratch_bytes = in->scratch_bytes;
    ret_rail->scratch = (struct kvr_remote_key){.key = in->scratch_key, .base = in->scratch_base};
    if (in->address.len > 0)
        memcpy(ret_rail->address, in->address.data, in->address.len);
    return KVR_OK;
}

kvr_status kvr_put_rails(struct kvr_arena *arena, const struct kvr_rail_address *rails,
                         uint32_t count, kvr_pb_rail ***ret_rails)
{
    kvr_pb_rail **out = kvr_arena_take(arena, count, sizeof(*out));

    if (out == NULL)
        return KVR_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        KVR_TRY(kvr_put_rail(arena, &rails[i], &out[i]));
    *ret_rails = out;
    return KVR_OK;
}

kvr_status kvr_get_rails(const struct kvr_get *get, size_t count, kvr_pb_rail **in,
                         const struct kvr_rail_address **ret_rails, uint32_t *ret_count)
{
    struct kvr_rail_address *rails;

    if (count > KVR_RAILS_MAX)
        return kvr_get_malformed(get, "rails has %zu entries: at most %d are allowed", count,
                                 KVR_RAILS_MAX);
    rails = kvr_arena_take(get->arena, count, sizeof(*rails));
    if (rails == NULL)
        return kvr_get_no_memory(get);
    for (size_t i = 0; i < count; i++)
        KVR_TRY(kvr_get_rail(get, in[i], &rails[i]));
    *ret_rails = rails;
    *ret_count = (uint32_t)count;
    return KVR_OK;
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
    out->step = kvr_arena_take(arena, count, sizeof(*out->step));
    out->count = kvr_arena_take(arena, count, sizeof(*out->count));
    if (out->step == NULL || out->count == NULL)
        return KVR_NO_MEMORY;
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
    runs = kvr_arena_take(get->arena, in->n_step, sizeof(*runs));
    if (runs == NULL)
        return kvr_get_no_memory(get);
    for (size_t i = 0; i < in->n_step; i++) {
        runs[i] = (struct run){next + (uint32_t)in->step[i], in->count[i]};
        next = runs[i].first + runs[i].count;
    }
    *ret_runs = runs;
    *ret_count = (uint32_t)in->n_step;
    return KVR_OK;
}
