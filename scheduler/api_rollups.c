/* /api/v1/rollups: amounts over time, a series for each reason, tenant, agent, engine, rail or pair
 * of rails. */
#include <stdlib.h>
#include <string.h>

#include "scheduler/api_json.h"
#include "scheduler/api_point_times.h"
#include "scheduler/api_window.h"

#define POINTS_WANTED 60 /* at most, where no step is given */
#define POINTS_MAX    500
#define ROWS_MAX      4000 /* that are read for one answer */

struct question {
    rollup_kind kind;
    const char *agent; /* "" for kinds without parts */
    struct api_window window;
    int64_t step; /* seconds of a point */
    int base;     /* the rows that it is read from: a place in rollup_steps */
    bool times;   /* how long transfers took, too */
};

/* ---- parameters ---- */

static bool parse_kind(const struct api_query *query, struct question *question,
                       struct api_answer *answer)
{
    const char *text = api_parameter(query, "by");

    question->kind = ROLLUP_ALL;
    if (text != NULL && !rollup_kind_from_name(text, &question->kind)) {
        api_bad_request(answer, "by", "by=%s is none of reason, tenant, agent, engine, rail, pair",
                        text);
        return false;
    }
    if (!api_parse_name(query, "agent", "agent", &question->agent, answer))
        return false;
    if (rollup_kind_has_parts(question->kind) != (question->agent != NULL)) {
        api_bad_request(answer, "agent",
                        "agent=NAME belongs to by=rail and by=pair: rails are an agent's own",
                        NULL);
        return false;
    }
    if (question->agent == NULL)
        question->agent = "";
    return true;
}

static bool parse_times(const struct api_query *query, struct question *question,
                        struct api_answer *answer)
{
    const char *text = api_parameter(query, "times");

    question->times = text != NULL && strcmp(text, "yes") == 0;
    if (text == NULL || (question->times && question->kind == ROLLUP_ALL))
        return true;
    api_bad_request(
        answer, "times",
        question->times
            ? "times=%s belongs to all transfers: leave by out, or ask /api/v1/histograms"
            : "times=%s is not yes",
        text);
    return false;
}

/* The coarsest rows of which a point is a whole number. */
static int base_of(int64_t step)
{
    int base = ROLLUP_STEPS - 1;

    while (step % rollup_steps[base].seconds != 0)
        base--;
    return base;
}

static bool is_kept(const struct question *question, int64_t now)
{
    return question->window.from >= now - rollup_steps[question->base].kept_seconds;
}

static void choose_step(struct question *question, int64_t now)
{
    static const int64_t steps[] = {1,   5,    10,   30,    60,    120,      300,
                                    600, 1800, 3600, 21600, 86400, 7 * 86400};
    int64_t seconds = question->window.until - question->window.from;

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        question->step = steps[i];
        question->base = base_of(steps[i]);
        if (seconds / steps[i] <= POINTS_WANTED && is_kept(question, now))
            return;
    }
}

static bool parse_step(const struct api_query *query, struct question *question, int64_t now,
                       struct api_answer *answer)
{
    const char *text = api_parameter(query, "step");
    struct api_window *window = &question->window;

    if (text == NULL) {
        choose_step(question, now);
    } else if (!api_number(text, 1, 366 * 86400, &question->step)) {
        api_bad_request(answer, "step", "step=%s is no number of seconds from 1 on", text);
        return false;
    }
    question->base = base_of(question->step);
    window->from -= window->from % question->step;
    window->until = (window->until + question->step - 1) / question->step * question->step;
    if (text != NULL && !is_kept(question, now - question->step)) {
        api_bad_request(answer, "step",
                        "step=%s is too short for that time: seconds are kept for an hour, minutes "
                        "for two days, hours for 31 days, and days for a year",
                        text);
        return false;
    }
    if ((window->until - window->from) / question->step <= POINTS_MAX &&
        (window->until - window->from) / rollup_steps[question->base].seconds <= ROWS_MAX)
        return true;
    api_bad_request(answer, text != NULL ? "step" : "from",
                    "there would be more than 500 points, or more than 4,000 rows to read: give a "
                    "longer step, or a shorter window",
                    NULL);
    return false;
}

/* ---- reading ---- */

struct reading {
    const struct question *question;
    struct rollup_row sums;   /* of each cell over the window */
    struct rollup_row chosen; /* cells that become series; their first amount is which one */
    uint64_t (*points)[ROLLUP_AMOUNT_END]; /* of a series all, then of the next */
    int64_t point_count;
    struct api_point_times *times;
    bool failed; /* no memory */
};

static void sum_row(void *self, const struct store_rollup *rollup)
{
    struct reading *reading = self;

    reading->failed |=
        rollup_row_add(&reading->sums, rollup->amounts, (struct rollup_unpack){0}) == KVR_NO_MEMORY;
}

static void place_row(void *self, const struct store_rollup *rollup)
{
    struct reading *reading = self;
    const struct question *question = reading->question;
    int64_t point = (rollup->begin - question->window.from) / question->step;
    struct rollup_unpack unpack = rollup->amounts;
    uint64_t amounts[ROLLUP_AMOUNT_END];

    if (point < 0 || point >= reading->point_count)
        return;
    if (reading->times != NULL)
        api_point_times_add(reading->times, point, rollup->times);
    while (rollup_next_amounts(&unpack, amounts) == KVR_OK) {
        const struct rollup_cell *cell = rollup_row_find(&reading->chosen, &unpack.key);
        int64_t series = cell != NULL ? (int64_t)cell->amounts[0] : -1;

        for (int i = 0; i < ROLLUP_AMOUNT_END && series >= 0; i++)
            reading->points[series * reading->point_count + point][i] += amounts[i];
    }
}

static bool choose(struct reading *reading, const struct api_cells *cells)
{
    for (uint32_t i = 0; i < cells->count; i++) {
        struct rollup_cell *cell = rollup_row_cell(&reading->chosen, &cells->list[i]->key);

        if (cell == NULL)
            return false;
        cell->amounts[0] = i;
    }
    reading->points =
        calloc((size_t)reading->point_count * API_CELLS_MAX, sizeof(*reading->points));
    return reading->points != NULL;
}

static bool read_all(struct store *store, struct reading *reading, struct api_cells *ret_cells)
{
    const struct question *question = reading->question;
    const struct rollup_window window = {.kind = question->kind,
                                         .part = question->agent,
                                         .from = question->window.from,
                                         .until = question->window.until,
                                         .step = question->base,
                                         .times = question->times};

    if (!store_read_rollups(store, &window, sum_row, reading) || reading->failed)
        return false;
    api_choose_cells(&reading->sums, question->kind, ret_cells);
    return choose(reading, ret_cells) && store_read_rollups(store, &window, place_row, reading);
}

/* ---- JSON ---- */

static json_t *series_json(const struct reading *reading, uint32_t series,
                           const struct rollup_cell *cell)
{
    const struct question *question = reading->question;
    json_t *object = json_object(), *totals = json_object();

    api_name_cell(object, question->kind, &cell->key);
    api_put_amounts(totals, question->kind, cell->amounts,
                    question->window.until - question->window.from);
    json_object_set_new(object, "totals", totals);
    for (int i = 0; i < ROLLUP_AMOUNT_END; i++) {
        rollup_amount amount = (rollup_amount)i;
        json_t *array;

        if (!api_amount_is_of(amount, question->kind))
            continue;
        array = json_array();
        for (int64_t point = 0; point < reading->point_count; point++)
            json_array_append_new(
                array,
                api_amount(amount, reading->points[series * reading->point_count + point][i]));
        json_object_set_new(object, api_amount_name(amount), array);
    }
    if (reading->times != NULL)
        json_object_set_new(object, "times", api_point_times_json(reading->times));
    return object;
}

static json_t *answer_json(const struct reading *reading, const struct api_cells *cells)
{
    const struct question *question = reading->question;
    json_t *array = json_array();

    for (uint32_t i = 0; i < cells->count; i++)
        json_array_append_new(array, series_json(reading, i, cells->list[i]));
    return json_pack("{s:o, s:o, s:I, s:I, s:o, s:o, s:o}", "from",
                     json_time(question->window.from * (int64_t)KVR_S), "until",
                     json_time(question->window.until * (int64_t)KVR_S), "step_seconds",
                     (json_int_t)question->step, "points", (json_int_t)reading->point_count, "by",
                     question->kind == ROLLUP_ALL ? json_null()
                                                  : json_string(rollup_kind_name(question->kind)),
                     "series", array, "left_out", json_count(cells->left_out));
}

bool api_get_rollups(struct store *store, const struct api_query *query,
                     struct api_answer *ret_answer)
{
    int64_t now = (int64_t)(kvr_clock_wall() / KVR_S);
    struct question question;
    struct reading reading = {.question = &question};
    struct api_cells cells;
    bool read;

    if (!parse_kind(query, &question, ret_answer) || !parse_times(query, &question, ret_answer) ||
        !api_parse_window(query, "from", "until", now, &question.window, ret_answer) ||
        !parse_step(query, &question, now, ret_answer))
        return true;
    reading.point_count = (question.window.until - question.window.from) / question.step;
    if (question.times)
        reading.times = api_point_times_open(reading.point_count);
    read = (!question.times || reading.times != NULL) && read_all(store, &reading, &cells);
    if (read)
        api_answer_with(ret_answer, 200, answer_json(&reading, &cells));
    rollup_row_clear(&reading.sums);
    rollup_row_clear(&reading.chosen);
    free(reading.points);
    api_point_times_close(reading.times);
    return read;
}
