#include "scheduler/api_window.h"

#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "scheduler/api_json.h"

#define WINDOW_DEFAULT 3600

static bool parse_time(const struct api_query *query, const char *name, int64_t *seconds, bool ends,
                       struct api_answer *answer)
{
    int64_t ns;

    if (api_parameter(query, name) == NULL)
        return true;
    if (!api_parse_time(query, name, &ns, answer))
        return false;
    *seconds = (ns + (ends ? (int64_t)KVR_S - 1 : 0)) / (int64_t)KVR_S;
    return true;
}

bool api_parse_window(const struct api_query *query, const char *from, const char *until,
                      int64_t now, struct api_window *ret_window, struct api_answer *ret_answer)
{
    ret_window->until = now + 1;
    if (!parse_time(query, until, &ret_window->until, true, ret_answer))
        return false;
    ret_window->from = ret_window->until - WINDOW_DEFAULT;
    if (!parse_time(query, from, &ret_window->from, false, ret_answer))
        return false;
    if (ret_window->from < ret_window->until)
        return true;
    api_bad_request(ret_answer, from, "the window has no second: it must begin before it ends",
                    NULL);
    return false;
}

int api_window_step(struct api_window *window, int64_t now, int64_t rows_max)
{
    int step = 0;
    int64_t seconds;

    while (step + 1 < ROLLUP_STEPS &&
           ((window->until - window->from) / rollup_steps[step].seconds > rows_max ||
            window->from < now - rollup_steps[step].kept_seconds))
        step++;
    seconds = rollup_steps[step].seconds;
    window->from -= window->from % seconds;
    window->until = (window->until + seconds - 1) / seconds * seconds;
    return step;
}

/* ---- cells ---- */

#define NAMES_MAX 20
_Static_assert(NAMES_MAX <= API_CELLS_MAX, "the list has room for both");

static bool is_larger(const struct rollup_cell *a, const struct rollup_cell *b)
{
    if (a->amounts[ROLLUP_BYTES] != b->amounts[ROLLUP_BYTES])
        return a->amounts[ROLLUP_BYTES] > b->amounts[ROLLUP_BYTES];
    return a->amounts[ROLLUP_ENDED] > b->amounts[ROLLUP_ENDED];
}

void api_choose_cells(const struct rollup_row *row, rollup_kind kind, struct api_cells *ret_cells)
{
    struct api_cells *cells = ret_cells;
    uint32_t count_max = kind == ROLLUP_RAIL ? KVR_RAILS_MAX : NAMES_MAX;

    *cells = (struct api_cells){0};
    for (const struct rollup_cell *cell = row->cells; cell != NULL; cell = cell->hh.next) {
        uint32_t at = cells->count;

        while (at > 0 && is_larger(cell, cells->list[at - 1]))
            at--;
        if (cells->count == count_max)
            cells->left_out++;
        else
            cells->count++;
        if (at == count_max)
            continue;
        memmove(&cells->list[at + 1], &cells->list[at],
                (cells->count - 1 - at) * sizeof(cells->list[0]));
        cells->list[at] = cell;
    }
}

static json_t *text_of(const struct rollup_key *key, size_t count)
{
    return json_stringn_nocheck(key->bytes, count);
}

/* A damaged row may have a key of another length. */
void api_name_cell(json_t *object, rollup_kind kind, const struct rollup_key *key)
{
    char hex[2 * sizeof(struct kvr_uuid) + 1];

    if (key->count == 0) {
        json_object_set_new(object, "name", json_null());
    } else if (kind == ROLLUP_ENGINE && key->count == sizeof(struct kvr_uuid)) {
        kvr_hex_print((const uint8_t *)key->bytes, sizeof(struct kvr_uuid), hex);
        json_object_set_new(object, "name", json_string(hex));
    } else if (kind == ROLLUP_RAIL) {
        json_object_set_new(object, "rail", json_integer((uint8_t)key->bytes[0]));
    } else if (kind == ROLLUP_PAIR && key->count > 2) {
        json_object_set_new(object, "rail", json_integer((uint8_t)key->bytes[key->count - 2]));
        json_object_set_new(object, "target", text_of(key, key->count - 2u));
        json_object_set_new(object, "target_rail",
                            json_integer((uint8_t)key->bytes[key->count - 1]));
    } else {
        json_object_set_new(object, "name", text_of(key, key->count));
    }
}

/* ---- amounts ---- */

bool api_amount_is_of(rollup_amount amount, rollup_kind kind)
{
    if (kind == ROLLUP_PAIR)
        return amount == ROLLUP_BYTES || amount == ROLLUP_ERRORS;
    if (kind == ROLLUP_RAIL)
        return amount != ROLLUP_ENDED && amount != ROLLUP_FAILED && amount != ROLLUP_LAYERS;
    return amount != ROLLUP_ERRORS && amount != ROLLUP_BUSY;
}

const char *api_amount_name(rollup_amount amount)
{
    return amount == ROLLUP_BUSY ? "busy_seconds" : rollup_amount_name(amount);
}

json_t *api_amount(rollup_amount amount, uint64_t value)
{
    return amount == ROLLUP_BUSY ? json_seconds((int64_t)value) : json_count(value);
}

void api_put_amounts(json_t *object, rollup_kind kind, const uint64_t amounts[ROLLUP_AMOUNT_END],
                     int64_t seconds)
{
    json_t *rates = json_object();

    for (int i = 0; i < ROLLUP_AMOUNT_END; i++) {
        rollup_amount amount = (rollup_amount)i;
        double unit = amount == ROLLUP_BUSY ? 1e-9 : 1;

        if (!api_amount_is_of(amount, kind))
            continue;
        json_object_set_new(object, api_amount_name(amount), api_amount(amount, amounts[i]));
        json_object_set_new(rates, api_amount_name(amount),
                            json_real((double)amounts[i] * unit / (double)seconds));
    }
    json_object_set_new(object, "per_second", rates);
}
