/* /api/v1/transfers/ID/timeline: one transfer as its two agents saw it, each by its own clock. */
#include <string.h>

#include "scheduler/api_json.h"
#include "scheduler/api_spans.h"
#include "scheduler/api_transfers.h"

static const struct {
    const char *name;
    transfer_stage from, until;
} spans[] = {
    {"match", STAGE_OPENED, STAGE_MATCHED},         {"grant", STAGE_MATCHED, STAGE_GRANTED},
    {"ready", STAGE_FIRST_READY, STAGE_LAST_READY}, {"post", STAGE_FIRST_POST, STAGE_LAST_POST},
    {"land", STAGE_FIRST_LAND, STAGE_LAST_LAND},    {"settle", STAGE_LAST_LAND, STAGE_ENDED},
    {"fail", STAGE_FAILING, STAGE_ENDED},           {"whole", STAGE_OPENED, STAGE_ENDED},
};

/* A stage that this side has seen is followed by its next one in time. */
static int next_stage(const struct transfer_side *side, int after)
{
    int64_t after_ns = after < 0 ? 0 : side->at_ns[after];
    int next = STAGE_END;

    for (int stage = 0; stage < STAGE_END; stage++) {
        int64_t at_ns = side->at_ns[stage];
        bool later = at_ns > after_ns || (at_ns == after_ns && stage > after);

        if (at_ns != 0 && later && (next == STAGE_END || at_ns < side->at_ns[next]))
            next = stage;
    }
    return next;
}

static json_t *stages_json(const struct transfer_side *side, int64_t from_ns)
{
    json_t *stages = json_array();
    int before = -1;

    for (int stage = next_stage(side, -1); stage < STAGE_END; stage = next_stage(side, stage)) {
        int64_t at_ns = side->at_ns[stage];

        json_array_append_new(
            stages, json_pack("{s:s, s:o, s:o, s:o}", "stage",
                              transfer_stage_name((transfer_stage)stage), "at", json_time(at_ns),
                              "seconds", json_seconds(at_ns - from_ns), "after_seconds",
                              json_seconds(before < 0 ? -1 : at_ns - side->at_ns[before])));
        before = stage;
    }
    return stages;
}

static json_t *spans_json(const struct transfer_side *side, int64_t from_ns)
{
    json_t *array = json_array();

    for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++) {
        int64_t from = side->at_ns[spans[i].from], until = side->at_ns[spans[i].until];

        if (from != 0 && until >= from)
            json_array_append_new(array, json_pack("{s:s, s:o, s:o}", "span", spans[i].name,
                                                   "begins_seconds", json_seconds(from - from_ns),
                                                   "seconds", json_seconds(until - from)));
    }
    return array;
}

/* NULL: the database failed. */
static json_t *rails_json(struct store *store, const struct transfer *transfer, kvr_role role,
                          const struct transfer_spans *carried)
{
    const struct transfer_side *side = &transfer->sides[role];
    char names[KVR_RAILS_MAX][KVR_NAME_BYTES];
    json_t *rails;

    if (!store_rail_names(store, side->agent, names))
        return NULL;
    rails = json_array();
    for (int rail = 0; rail < KVR_RAILS_MAX; rail++)
        if ((side->rails >> rail & 1) != 0) {
            json_t *object = json_pack("{s:i, s:o}", "index", rail, "name", json_text(names[rail]));

            api_spans_rail(object, carried, role, (uint32_t)rail);
            json_array_append_new(rails, object);
        }
    return rails;
}

static json_t *side_json(struct store *store, const struct transfer *transfer, kvr_role role,
                         const struct transfer_spans *carried, json_t *retries)
{
    const struct transfer_side *side = &transfer->sides[role];
    int64_t from_ns = transfer_opened_ns(transfer);
    json_t *rails = rails_json(store, transfer, role, carried);

    if (rails == NULL)
        return NULL;
    return json_pack("{s:s, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:O}", "role",
                     transfer_role_name(role), "agent", json_text(side->agent), "outcome",
                     side->ended ? json_string(kvr_status_name(side->outcome)) : json_null(),
                     "detail", json_text(side->detail), "lost", side->lost, "stages",
                     stages_json(side, from_ns), "spans", spans_json(side, from_ns), "rails", rails,
                     "retries", retries);
}

struct retry_list {
    json_t *of_role[2];
    int64_t from_ns;
};

static void add_retry(void *self, const struct stored_event *event)
{
    struct retry_list *list = self;
    kvr_role role = strcmp(event->role, transfer_role_name(KVR_ROLE_SOURCE)) == 0 ? KVR_ROLE_SOURCE
                                                                                  : KVR_ROLE_TARGET;

    if (kvr_event_from_name(event->kind) != KVR_EVENT_RETRY)
        return;
    json_array_append_new(list->of_role[role],
                          json_pack("{s:o, s:o, s:I, s:o}", "at", json_time(event->at_ns),
                                    "seconds", json_seconds(event->at_ns - list->from_ns),
                                    "retries", (json_int_t)event->retries, "detail",
                                    json_text(event->detail)));
}

/* NULL: the database failed. */
static json_t *sides_json(struct store *store, const struct transfer *transfer,
                          const struct transfer_spans *carried)
{
    struct retry_list retries = {{json_array(), json_array()}, transfer_opened_ns(transfer)};
    bool read = store_list_events(store, transfer->id, API_EVENTS_MAX, add_retry, &retries);
    json_t *sides = json_array();

    for (int role = 0; role < 2; role++) {
        json_t *side =
            read ? side_json(store, transfer, (kvr_role)role, carried, retries.of_role[role])
                 : NULL;

        read = side != NULL;
        if (read)
            json_array_append_new(sides, side);
        json_decref(retries.of_role[role]);
    }
    if (read)
        return sides;
    json_decref(sides);
    return NULL;
}

bool api_get_timeline(struct store *store, const char *path, struct api_answer *ret_answer)
{
    struct transfer_spans carried;
    struct transfer transfer;
    json_t *sides;
    bool read;

    if (!api_find_transfer(store, path, &transfer, &read, ret_answer))
        return read;
    if (!api_spans_read(store, transfer.id, &carried))
        return false;
    sides = sides_json(store, &transfer, &carried);
    if (sides == NULL)
        return false;
    api_answer_with(ret_answer, 200,
                    json_pack("{s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:s, s:o}", "id",
                              json_id(transfer.id), "request", json_text(transfer.request), "state",
                              transfer_state_name(transfer.state), "opened",
                              json_time(transfer_opened_ns(&transfer)), "ended",
                              json_time(transfer_ended_ns(&transfer)), "duration_seconds",
                              transfer_state_live(transfer.state)
                                  ? json_null()
                                  : json_seconds(transfer_duration_ns(&transfer)),
                              "sides", sides, "spans", api_spans_word(&carried, &transfer),
                              "layers", api_spans_layers(&carried, &transfer)));
    return true;
}
