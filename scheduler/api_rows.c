#include "scheduler/api_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "scheduler/api.h"

#define UUID_BYTES (2 * sizeof(struct kvr_uuid) + 5)

void api_write_time(struct json_writer *out, const char *key, int64_t wall_ns)
{
    char text[KVR_RFC3339_BYTES];

    json_writer_text(out, key, wall_ns > 0 ? kvr_clock_rfc3339((kvr_ns)wall_ns, text) : NULL);
}

void api_write_id(struct json_writer *out, const char *key, uint64_t id)
{
    uint8_t bytes[sizeof(id)];
    char text[2 * sizeof(bytes) + 1];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(id >> (8 * (sizeof(bytes) - 1 - i)));
    kvr_hex_print(bytes, sizeof(bytes), text);
    json_writer_string(out, key, text);
}

/* With hyphens; null for one of zeros. */
void api_write_uuid(struct json_writer *out, const char *key, const struct kvr_uuid *uuid)
{
    static const struct kvr_uuid none;
    static const size_t parts[] = {4, 2, 2, 2, 6};
    const uint8_t *bytes = uuid->bytes;
    char text[UUID_BYTES], *to = text;

    if (kvr_uuid_equal(uuid, &none)) {
        json_writer_null(out, key);
        return;
    }
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); bytes += parts[i++]) {
        if (i > 0)
            *to++ = '-';
        kvr_hex_print(bytes, parts[i], to);
        to += 2 * parts[i];
    }
    json_writer_string(out, key, text);
}

void api_write_tree(struct json_writer *out, const char *key, const json_t *tree)
{
    char *text = json_dumps(tree, API_JSON_FLAGS | JSON_ENCODE_ANY);

    if (text != NULL)
        json_writer_plain(out, key, text);
    else
        out->failed = true;
    free(text);
}

/* null for a negative one: it is not known. */
static void write_seconds(struct json_writer *out, const char *key, int64_t ns)
{
    if (ns >= 0)
        json_writer_seconds(out, key, ns);
    else
        json_writer_null(out, key);
}

/* ---- a transfer ---- */

static void write_side(struct json_writer *out, const char *key, const struct transfer_side *side,
                       const struct kvr_uuid *engine, const struct kvr_place *rank)
{
    json_writer_object(out, key);
    json_writer_text(out, "agent", side->agent);
    api_write_uuid(out, "engine", engine);
    json_writer_count(out, "tp", rank->tp);
    json_writer_count(out, "pp", rank->pp);
    json_writer_array(out, "rails");
    for (uint64_t rail = 0; rail < KVR_RAILS_MAX; rail++)
        if ((side->rails >> rail & 1) != 0)
            json_writer_count(out, NULL, rail);
    json_writer_end_array(out);
    json_writer_text(out, "path", kvr_path_name(side->path));
    json_writer_text(out, "outcome", side->ended ? kvr_status_name(side->outcome) : NULL);
    json_writer_text(out, "detail", side->detail);
    json_writer_boolean(out, "lost", side->lost);
    json_writer_end_object(out);
}

struct moment {
    int64_t at_ns;
    int role, stage;
};

static int by_time(const void *a, const void *b)
{
    const struct moment *x = a, *y = b;

    if (x->at_ns != y->at_ns)
        return x->at_ns < y->at_ns ? -1 : 1;
    return x->stage != y->stage ? x->stage - y->stage : x->role - y->role;
}

static void write_stages(struct json_writer *out, const struct transfer *transfer)
{
    int64_t from_ns = transfer_opened_ns(transfer);
    struct moment moments[2 * STAGE_END];
    size_t count = 0;

    for (int role = 0; role < 2; role++)
        for (int stage = 0; stage < STAGE_END; stage++)
            if (transfer->sides[role].at_ns[stage] != 0)
                moments[count++] = (struct moment){transfer->sides[role].at_ns[stage], role, stage};
    qsort(moments, count, sizeof(moments[0]), by_time);
    json_writer_array(out, "stages");
    for (size_t i = 0; i < count; i++) {
        json_writer_object(out, NULL);
        json_writer_string(out, "stage", transfer_stage_name((transfer_stage)moments[i].stage));
        json_writer_string(out, "role", transfer_role_name((kvr_role)moments[i].role));
        api_write_time(out, "at", moments[i].at_ns);
        write_seconds(out, "seconds", moments[i].at_ns - from_ns);
        json_writer_end_object(out);
    }
    json_writer_end_array(out);
}

/* null: the way was impossible, or its cost is unknown. */
static void write_way(struct json_writer *out, const char *key, const struct kvr_event_way *way)
{
    if (way->writes == 0) {
        json_writer_null(out, key);
        return;
    }
    json_writer_object(out, key);
    json_writer_count(out, "writes", way->writes);
    write_seconds(out, "seconds", (int64_t)way->ns);
    json_writer_end_object(out);
}

/* How pieces shorter than fragment_bytes_min were moved, in how many writes, and the expected cost
 * of either way. */
static void write_fragments(struct json_writer *out, const struct transfer *transfer)
{
    if (transfer->fragment_bytes == 0) {
        json_writer_null(out, "fragments");
        return;
    }
    json_writer_object(out, "fragments");
    json_writer_string(out, "choice", transfer->fragments_staged ? "staged" : "direct");
    json_writer_count(out, "bytes", transfer->fragment_bytes);
    json_writer_count(out, "pieces", transfer->pieces);
    json_writer_count(out, "writes", transfer->chunks);
    json_writer_object(out, "expected");
    write_way(out, "direct", &transfer->fragments_direct);
    write_way(out, "staged", &transfer->fragments_copied);
    json_writer_end_object(out);
    json_writer_end_object(out);
}

/* null: any number, because the bytes lie in staging memory. */
static void write_pieces(struct json_writer *out, const char *key, uint32_t pieces)
{
    if (pieces == UINT32_MAX)
        json_writer_null(out, key);
    else
        json_writer_count(out, key, pieces);
}

/* The largest write, and whether calibration has found that larger ones gain nothing. */
static void write_limits(struct json_writer *out, const struct kvr_event_limits *limits)
{
    if (limits->bytes == 0) {
        json_writer_null(out, "limits");
        return;
    }
    json_writer_object(out, "limits");
    write_pieces(out, "pieces_local", limits->pieces_local);
    write_pieces(out, "pieces_remote", limits->pieces_remote);
    json_writer_count(out, "bytes", limits->bytes);
    json_writer_boolean(out, "calibrated", limits->calibrated);
    json_writer_end_object(out);
}

static void write_state(struct json_writer *out, const struct transfer *transfer)
{
    bool live = transfer_state_live(transfer->state);
    bool failed = !live && transfer->reason != KVR_OK;

    api_write_id(out, "id", transfer->id);
    json_writer_text(out, "request", transfer->request);
    json_writer_text(out, "tenant", transfer->tenant);
    json_writer_count(out, "attempt", transfer->attempt);
    json_writer_string(out, "state", transfer_state_name(transfer->state));
    json_writer_boolean(out, "live", live);
    json_writer_text(out, "reason", failed ? kvr_status_name(transfer->reason) : NULL);
    json_writer_text(out, "reason_text", failed ? kvr_status_text(transfer->reason) : NULL);
    json_writer_text(out, "detail", transfer_detail(transfer));
}

static void write_amounts(struct json_writer *out, const struct transfer *transfer)
{
    json_writer_count(out, "tokens", transfer->tokens);
    json_writer_count(out, "skip_tokens", transfer->skip_tokens);
    json_writer_count(out, "bytes", transfer->bytes);
    json_writer_count(out, "layers", transfer->layers);
    json_writer_count(out, "chunks", transfer->chunks);
    json_writer_count(out, "retries", transfer->retries);
    json_writer_count(out, "pieces", transfer->pieces);
    json_writer_text(out, "path", kvr_path_name(transfer_path(transfer)));
    write_fragments(out, transfer);
    write_limits(out, &transfer->limits);
}

void api_write_transfer_members(struct json_writer *out, const struct transfer *transfer,
                                int64_t now_ns)
{
    bool live = transfer_state_live(transfer->state);
    int64_t opened_ns = transfer_opened_ns(transfer);

    write_state(out, transfer);
    write_amounts(out, transfer);
    api_write_time(out, "opened", opened_ns);
    api_write_time(out, "ended", transfer_ended_ns(transfer));
    api_write_time(out, "updated", transfer->updated_ns);
    write_seconds(out, "duration_seconds", live ? -1 : transfer_duration_ns(transfer));
    write_seconds(out, "age_seconds", live ? now_ns - opened_ns : -1);
    write_side(out, "source", &transfer->sides[KVR_ROLE_SOURCE], &transfer->source_engine,
               &transfer->source_rank);
    write_side(out, "target", &transfer->sides[KVR_ROLE_TARGET], &transfer->target_engine,
               &transfer->target_rank);
    write_stages(out, transfer);
}

void api_write_transfer(struct json_writer *out, const char *key, const struct transfer *transfer,
                        int64_t now_ns)
{
    json_writer_object(out, key);
    api_write_transfer_members(out, transfer, now_ns);
    json_writer_end_object(out);
}

void api_write_event(struct json_writer *out, const struct stored_event *event, const char *tenant,
                     int64_t from_ns)
{
    json_writer_object(out, NULL);
    json_writer_string(out, "kind", event->kind);
    json_writer_string(out, "role", event->role);
    json_writer_string(out, "agent", event->agent);
    json_writer_text(out, "tenant", tenant);
    json_writer_count(out, "sequence", event->sequence);
    api_write_time(out, "at", event->at_ns);
    write_seconds(out, "seconds", event->at_ns - from_ns);
    json_writer_text(out, "peer", event->peer);
    json_writer_count(out, "bytes", event->bytes);
    json_writer_count(out, "retries", event->retries);
    json_writer_string(out, "outcome", event->outcome);
    json_writer_text(out, "detail", event->detail);
    json_writer_end_object(out);
}
