/* /api/v1/rails/matrix: how the rails of sources reach those of their targets. */
#include "scheduler/api_json.h"
#include "scheduler/api_parameters.h"

#define MATRIX_PAIRS_MAX 20000 /* about 5 MB */

static bool take_agent(const struct api_query *query, const char *name, const char **ret_agent,
                       struct api_answer *answer)
{
    *ret_agent = api_parameter(query, name);
    if (*ret_agent == NULL || ((*ret_agent)[0] != '\0' && strlen(*ret_agent) < KVR_NAME_BYTES))
        return true;
    api_bad_request(answer, name, "\"%s\" is no agent: give the name of one agent", *ret_agent);
    return false;
}

static bool parse(const struct api_query *query, struct fleet_pairs_wanted *wanted,
                  struct api_answer *answer)
{
    const char *trouble = api_parameter(query, "trouble");

    wanted->troubled = trouble != NULL;
    if (trouble != NULL && strcmp(trouble, "yes") != 0) {
        api_bad_request(answer, "trouble", "\"trouble\" can be yes, or be left out: it is %s",
                        trouble);
        return false;
    }
    return take_agent(query, "source", &wanted->source, answer) &&
           take_agent(query, "target", &wanted->target, answer);
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
