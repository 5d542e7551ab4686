/* /api/v1/rails/matrix: how the rails of sources reach those of their targets. */
#include "scheduler/api.h"
#include "scheduler/api_json.h"

#define MATRIX_PAIRS_MAX 20000 /* about 5 MB */

static bool parse(const struct api_query *query, struct fleet_pairs_wanted *wanted,
                  struct api_answer *answer)
{
    for (int i = 0; i < query->count && i < API_PARAMETERS_MAX; i++) {
        const char *name = query->parameters[i].name, *value = query->parameters[i].value;
        bool source = strcmp(name, "source") == 0;
        const char **to = source ? &wanted->source : &wanted->target;

        if (strcmp(name, "trouble") == 0) {
            wanted->troubled = value != NULL && strcmp(value, "yes") == 0;
            if (wanted->troubled)
                continue;
            api_bad_request(answer, "\"trouble\" can be yes, or be left out: it is %s",
                            value != NULL ? value : "nothing");
            return false;
        }
        if (!source && strcmp(name, "target") != 0) {
            api_bad_request(
                answer, "there is no parameter \"%s\": source, target and trouble are known", name);
            return false;
        }
        if (*to != NULL || value == NULL || value[0] == '\0' || strlen(value) >= KVR_NAME_BYTES) {
            api_bad_request(
                answer, "\"%s\" is no agent, or a second one: give the name of one agent", value);
            return false;
        }
        *to = value;
    }
    return true;
}

static json_t *rail_json(uint32_t index, const char *name)
{
    return json_pack("{s:I, s:o}", "index", (json_int_t)index, "name",
                     name != NULL ? json_text(name) : json_null());
}

static void add_pair(void *self, const struct fleet_pair *pair)
{
    const struct kvr_pair_row *row = pair->row;

    json_array_append_new(
        self,
        json_pack("{s:s, s:s, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:I, s:I}", "source", pair->source,
                  "target", row->peer, "rail", rail_json(row->rail, pair->rail_name), "target_rail",
                  rail_json(row->target_rail, pair->target_rail_name), "state",
                  kvr_pair_state_name(row->state), "detail", json_text(row->detail), "bytes",
                  json_count(row->bytes), "age_seconds", json_seconds((int64_t)row->age),
                  "state_seconds",
                  row->state_ns > 0 ? json_seconds((int64_t)row->state_ns) : json_null(), "breaks",
                  (json_int_t)row->breaks, "renewals", (json_int_t)row->renewals));
}

void api_get_matrix(struct fleet *fleet, const struct api_query *query,
                    struct api_answer *ret_answer)
{
    struct fleet_pairs_wanted wanted = {.count_max = MATRIX_PAIRS_MAX};
    json_t *array;
    uint64_t left_out;

    if (!parse(query, &wanted, ret_answer))
        return;
    array = json_array();
    left_out = fleet_each_pair(fleet, &wanted, kvr_clock_now(), add_pair, array);
    api_answer_with(ret_answer, 200,
                    json_pack("{s:o, s:o}", "pairs", array, "left_out", json_count(left_out)));
}
