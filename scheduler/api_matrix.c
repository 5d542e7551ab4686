/* /api/v1/rails/matrix: how the rails of sources reach those of their targets. */
#include <string.h>

#include "base/types.h"
#include "scheduler/api_parameters.h"
#include "scheduler/json_writer.h"

#define MATRIX_PAIRS_MAX 20000 /* about 5 MB */

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
    return api_parse_name(query, "source", "agent", &wanted->source, answer) &&
           api_parse_name(query, "target", "agent", &wanted->target, answer);
}

/* ---- the answer, under the lock of the fleet ---- */

static void write_rail(struct json_writer *out, const char *key, uint32_t index, const char *name)
{
    json_writer_object(out, key);
    json_writer_count(out, "index", index);
    json_writer_text(out, "name", name);
    json_writer_end_object(out);
}

static void add_pair(void *self, const struct fleet_pair *pair)
{
    const struct kvr_pair_row *row = pair->row;
    struct json_writer *out = self;

    json_writer_object(out, NULL);
    json_writer_text(out, "source", pair->source);
    json_writer_text(out, "target", row->peer);
    write_rail(out, "rail", row->rail, pair->rail_name);
    write_rail(out, "target_rail", row->target_rail, pair->target_rail_name);
    json_writer_string(out, "state", kvr_pair_state_name(row->state));
    json_writer_text(out, "detail", row->detail);
    json_writer_count(out, "bytes", row->bytes);
    json_writer_seconds(out, "age_seconds", (int64_t)kvr_min_u64(row->age, INT64_MAX));
    if (row->state_ns > 0)
        json_writer_seconds(out, "state_seconds", (int64_t)kvr_min_u64(row->state_ns, INT64_MAX));
    else
        json_writer_null(out, "state_seconds");
    json_writer_count(out, "breaks", row->breaks);
    json_writer_count(out, "renewals", row->renewals);
    json_writer_end_object(out);
}

void api_get_matrix(struct fleet *fleet, const struct api_query *query,
                    struct api_answer *ret_answer)
{
    struct fleet_pairs_wanted wanted = {.count_max = MATRIX_PAIRS_MAX};
    struct json_writer out = {0};
    uint64_t left_out;

    if (!parse(query, &wanted, ret_answer))
        return;
    json_writer_object(&out, NULL);
    json_writer_array(&out, "pairs");
    left_out = fleet_each_pair(fleet, &wanted, kvr_clock_now(), add_pair, &out);
    json_writer_end_array(&out);
    json_writer_count(&out, "left_out", left_out);
    json_writer_end_object(&out);
    *ret_answer = (struct api_answer){.status = 200, .body = json_writer_take(&out)};
}
