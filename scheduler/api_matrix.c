/* /api/v1/rails/matrix: how the rails of sources reach those of their targets. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "scheduler/api_parameters.h"

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

/* ---- the answer: without jansson, which takes 10 us a row, under the lock of the fleet ---- */

#define QUOTED_BYTES  (6 * KVR_NAME_BYTES + 3) /* a control character takes six */
#define SECONDS_BYTES 32
#define ROW_BYTES     (4 * QUOTED_BYTES + 6 * KVR_DETAIL_BYTES + 512)

struct matrix {
    char *text;
    size_t used, room;
    uint32_t count; /* of rows */
    bool failed;    /* no memory */
};

/* "null" for NULL and "". */
static const char *quoted(const char *text, char *to, size_t capacity)
{
    if (text == NULL || text[0] == '\0')
        return "null";
    to[0] = '"';
    kvr_text_json(text, to + 1, capacity - 2);
    strcat(to + 1, "\"");
    return to;
}

/* With a decimal point, as a number that need not be whole. */
static const char *seconds(kvr_ns ns, char to[SECONDS_BYTES])
{
    int length = snprintf(to, SECONDS_BYTES, "%" PRIu64 ".%09" PRIu64, ns / KVR_S, ns % KVR_S);

    while (to[length - 1] == '0' && to[length - 2] != '.')
        to[--length] = '\0';
    return to;
}

static bool has_room(struct matrix *matrix, size_t bytes)
{
    if (matrix->room - matrix->used < bytes) {
        size_t room = 2 * matrix->room + bytes;
        char *larger = realloc(matrix->text, room);

        matrix->failed |= larger == NULL;
        if (larger == NULL)
            return false;
        matrix->text = larger;
        matrix->room = room;
    }
    return !matrix->failed;
}

static void add_pair(void *self, const struct fleet_pair *pair)
{
    const struct kvr_pair_row *row = pair->row;
    char source[QUOTED_BYTES], target[QUOTED_BYTES], rail[QUOTED_BYTES], target_rail[QUOTED_BYTES];
    char detail[6 * KVR_DETAIL_BYTES + 3], age[SECONDS_BYTES], state[SECONDS_BYTES];
    struct matrix *matrix = self;

    if (!has_room(matrix, ROW_BYTES))
        return;
    matrix->used += (size_t)snprintf(
        matrix->text + matrix->used, ROW_BYTES,
        "%s{\"source\":%s,\"target\":%s,\"rail\":{\"index\":%" PRIu32
        ",\"name\":%s},\"target_rail\":{\"index\":%" PRIu32
        ",\"name\":%s},\"state\":\"%s\",\"detail\":%s,\"bytes\":%" PRIu64
        ",\"age_seconds\":%s,\"state_seconds\":%s,\"breaks\":%" PRIu32 ",\"renewals\":%" PRIu32 "}",
        matrix->count++ > 0 ? "," : "", quoted(pair->source, source, sizeof(source)),
        quoted(row->peer, target, sizeof(target)), row->rail,
        quoted(pair->rail_name, rail, sizeof(rail)), row->target_rail,
        quoted(pair->target_rail_name, target_rail, sizeof(target_rail)),
        kvr_pair_state_name(row->state), quoted(row->detail, detail, sizeof(detail)),
        kvr_min_u64(row->bytes, INT64_MAX), seconds(row->age, age),
        row->state_ns > 0 ? seconds(row->state_ns, state) : "null", row->breaks, row->renewals);
}

void api_get_matrix(struct fleet *fleet, const struct api_query *query,
                    struct api_answer *ret_answer)
{
    struct fleet_pairs_wanted wanted = {.count_max = MATRIX_PAIRS_MAX};
    struct matrix matrix = {0};
    uint64_t left_out;

    if (!parse(query, &wanted, ret_answer))
        return;
    if (has_room(&matrix, ROW_BYTES))
        matrix.used = (size_t)snprintf(matrix.text, ROW_BYTES, "{\"pairs\":[");
    left_out = fleet_each_pair(fleet, &wanted, kvr_clock_now(), add_pair, &matrix);
    if (has_room(&matrix, ROW_BYTES))
        snprintf(matrix.text + matrix.used, ROW_BYTES, "],\"left_out\":%" PRIu64 "}", left_out);
    if (matrix.failed) {
        free(matrix.text);
        matrix.text = NULL;
    }
    *ret_answer = (struct api_answer){.status = 200, .body = matrix.text};
}
