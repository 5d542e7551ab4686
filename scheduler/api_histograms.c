/* /api/v1/histograms: how long transfers took, and each of their stages, in a window of time;
 * /api/v1/compare: two windows beside each other. */
#include <stdio.h>
#include <stdlib.h>

#include "scheduler/api_json.h"
#include "scheduler/api_window.h"

#define ROWS_OF_ALL 1500 /* rows that are read for one answer */
#define ROWS_OF_BY  150

/* ---- reading ---- */

struct reading {
    struct rollup_row row;
    bool failed; /* no memory */
};

/* A row that is damaged gives what can be read of it. */
static void add_row(void *self, const struct store_rollup *rollup)
{
    struct reading *reading = self;

    reading->failed |=
        rollup_row_add(&reading->row, rollup->amounts, rollup->times) == KVR_NO_MEMORY;
}

/* Sums the window up. False: the database failed. */
static bool read_window(struct store *store, rollup_kind kind, const struct api_window *window,
                        int step, struct reading *ret_reading)
{
    const struct rollup_window wanted = {.kind = kind,
                                         .part = "",
                                         .from = window->from,
                                         .until = window->until,
                                         .step = step,
                                         .times = true};
    bool read;

    *ret_reading = (struct reading){0};
    read = store_read_rollups(store, &wanted, add_row, ret_reading) && !ret_reading->failed;
    if (!read)
        rollup_row_clear(&ret_reading->row);
    return read;
}

/* ---- JSON ---- */

static json_t *buckets_json(const uint32_t buckets[ROLLUP_BUCKETS])
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < ROLLUP_BUCKETS; i++)
        if (buckets[i] != 0)
            json_array_append_new(
                array, json_pack("[o, o, I]", json_seconds(rollup_bucket_begin(i)),
                                 i + 1 == ROLLUP_BUCKETS ? json_null()
                                                         : json_seconds(rollup_bucket_begin(i + 1)),
                                 (json_int_t)buckets[i]));
    return array;
}

static json_t *time_json(const uint32_t buckets[ROLLUP_BUCKETS])
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "count", json_count(rollup_times_count(buckets)),
                     "p50_seconds", json_seconds(rollup_percentile(buckets, 50)), "p90_seconds",
                     json_seconds(rollup_percentile(buckets, 90)), "p99_seconds",
                     json_seconds(rollup_percentile(buckets, 99)), "buckets",
                     buckets_json(buckets));
}

static const rollup_histograms no_times;

static const rollup_histograms *times_of(const struct rollup_cell *cell)
{
    return cell != NULL && cell->times != NULL ? (const rollup_histograms *)cell->times : &no_times;
}

static json_t *times_json(const rollup_histograms *times)
{
    json_t *object = json_object();

    for (int time = 0; time < ROLLUP_TIME_END; time++)
        json_object_set_new(object, rollup_time_name((rollup_time)time), time_json((*times)[time]));
    return object;
}

static json_t *group_json(rollup_kind kind, const struct rollup_cell *cell,
                          const struct api_window *window)
{
    static const struct rollup_cell empty;
    const struct rollup_cell *shown = cell != NULL ? cell : &empty;
    json_t *object = json_object();

    api_name_cell(object, kind, &shown->key);
    api_put_amounts(object, kind, shown->amounts, window->until - window->from);
    json_object_set_new(object, "times", times_json(times_of(cell)));
    return object;
}

static json_t *window_json(const struct api_window *window, int step)
{
    return json_pack("{s:o, s:o, s:I}", "from", json_time(window->from * (int64_t)KVR_S), "until",
                     json_time(window->until * (int64_t)KVR_S), "step_seconds",
                     (json_int_t)rollup_steps[step].seconds);
}

/* ---- histograms ---- */

/* *ret_kind: ROLLUP_ALL where it is not given. */
static bool parse_by(const struct api_query *query, rollup_kind *ret_kind,
                     struct api_answer *answer)
{
    const char *text = api_parameter(query, "by");

    *ret_kind = ROLLUP_ALL;
    if (text == NULL ||
        (rollup_kind_from_name(text, ret_kind) && !rollup_kind_has_parts(*ret_kind)))
        return true;
    api_bad_request(answer, "by", "by=%s is none of reason, tenant, agent, engine", text);
    return false;
}

bool api_get_histograms(struct store *store, const struct api_query *query,
                        struct api_answer *ret_answer)
{
    int64_t now = (int64_t)(kvr_clock_wall() / KVR_S);
    struct api_window window;
    struct reading reading;
    struct api_cells cells;
    rollup_kind kind;
    json_t *object, *groups;
    int step;

    if (!parse_by(query, &kind, ret_answer) ||
        !api_parse_window(query, "from", "until", now, &window, ret_answer))
        return true;
    step = api_window_step(&window, now, kind == ROLLUP_ALL ? ROWS_OF_ALL : ROWS_OF_BY);
    if (!read_window(store, kind, &window, step, &reading))
        return false;
    api_choose_cells(&reading.row, kind, &cells);
    groups = json_array();
    for (uint32_t i = 0; i < cells.count; i++)
        json_array_append_new(groups, group_json(kind, cells.list[i], &window));
    if (kind == ROLLUP_ALL && cells.count == 0)
        json_array_append_new(groups, group_json(kind, NULL, &window));
    object = window_json(&window, step);
    json_object_set_new(object, "by",
                        kind == ROLLUP_ALL ? json_null() : json_string(rollup_kind_name(kind)));
    json_object_set_new(object, "groups", groups);
    json_object_set_new(object, "left_out", json_count(cells.left_out));
    rollup_row_clear(&reading.row);
    api_answer_with(ret_answer, 200, object);
    return true;
}

/* ---- compare ---- */

struct side {
    struct api_window window;
    int step;
    struct reading reading;
};

static const struct rollup_cell *all_of(const struct side *side)
{
    return rollup_row_find(&side->reading.row, &(struct rollup_key){0});
}

/* In ns; 0 where one of both has none. */
static int64_t difference(const struct side sides[2], rollup_time time, double percent)
{
    int64_t now = rollup_percentile((*times_of(all_of(&sides[0])))[time], percent);
    int64_t with = rollup_percentile((*times_of(all_of(&sides[1])))[time], percent);

    return now < 0 || with < 0 ? 0 : now - with;
}

/* The stage of which the p99 moved most, in the direction of the whole time's. ROLLUP_TIME_END: the
 * p99 of the whole time is the same, or no stage moved so. */
static rollup_time moved_most(const struct side sides[2])
{
    int64_t whole = difference(sides, ROLLUP_TOTAL, 99), most = 0;
    rollup_time moved = ROLLUP_TIME_END;

    for (int time = ROLLUP_MATCH; time < ROLLUP_TIME_END; time++) {
        int64_t by = difference(sides, (rollup_time)time, 99) * (whole > 0 ? 1 : -1);

        if (whole != 0 && by > most) {
            most = by;
            moved = (rollup_time)time;
        }
    }
    return moved;
}

static double p99_of(const struct side *side, rollup_time time)
{
    return (double)rollup_percentile((*times_of(all_of(side)))[time], 99) / 1e9;
}

static json_t *sentence(const struct side sides[2], rollup_time moved)
{
    char text[240];
    int used;

    if (difference(sides, ROLLUP_TOTAL, 99) == 0)
        return json_string("the p99 of the whole time has not moved");
    used = snprintf(text, sizeof(text), "the p99 of the whole time went from %.4g s to %.4g s",
                    p99_of(&sides[1], ROLLUP_TOTAL), p99_of(&sides[0], ROLLUP_TOTAL));
    if (moved == ROLLUP_TIME_END)
        snprintf(text + used, sizeof(text) - (size_t)used, "; no stage moved so");
    else
        snprintf(text + used, sizeof(text) - (size_t)used,
                 "; most of all moved %s, from %.4g s to %.4g s", rollup_time_name(moved),
                 p99_of(&sides[1], moved), p99_of(&sides[0], moved));
    return json_string(text);
}

/* Of each time: by how much it is longer now; null where one of both windows has none. */
static json_t *differences_json(const struct side sides[2])
{
    json_t *object = json_object();

    for (int time = 0; time < ROLLUP_TIME_END; time++) {
        bool both = rollup_times_count((*times_of(all_of(&sides[0])))[time]) > 0 &&
                    rollup_times_count((*times_of(all_of(&sides[1])))[time]) > 0;
        static const struct {
            const char *name;
            double percent;
        } parts[] = {{"p50_seconds", 50}, {"p90_seconds", 90}, {"p99_seconds", 99}};
        json_t *one = json_object();

        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
            int64_t ns = difference(sides, (rollup_time)time, parts[i].percent);

            json_object_set_new(one, parts[i].name,
                                both ? json_real((double)ns / 1e9) : json_null());
        }
        json_object_set_new(object, rollup_time_name((rollup_time)time), one);
    }
    return object;
}

static json_t *side_json(const struct side *side)
{
    json_t *object = window_json(&side->window, side->step);
    json_t *group = group_json(ROLLUP_ALL, all_of(side), &side->window);

    json_object_del(group, "name");
    json_object_update(object, group);
    json_decref(group);
    return object;
}

bool api_get_compare(struct store *store, const struct api_query *query,
                     struct api_answer *ret_answer)
{
    static const char *const names[2][2] = {{"from", "until"}, {"with_from", "with_until"}};
    int64_t now = (int64_t)(kvr_clock_wall() / KVR_S);
    struct side sides[2];
    rollup_time moved;

    for (int i = 0; i < 2; i++) {
        for (int end = 0; end < 2; end++) {
            if (api_parameter(query, names[i][end]) != NULL)
                continue;
            api_bad_request(ret_answer, names[i][end],
                            "two windows are needed: from, until, with_from and with_until", NULL);
            return true;
        }
        if (!api_parse_window(query, names[i][0], names[i][1], now, &sides[i].window, ret_answer))
            return true;
        sides[i].step = api_window_step(&sides[i].window, now, ROWS_OF_ALL);
    }
    if (!read_window(store, ROLLUP_ALL, &sides[0].window, sides[0].step, &sides[0].reading))
        return false;
    if (!read_window(store, ROLLUP_ALL, &sides[1].window, sides[1].step, &sides[1].reading)) {
        rollup_row_clear(&sides[0].reading.row);
        return false;
    }
    moved = moved_most(sides);
    api_answer_with(
        ret_answer, 200,
        json_pack("{s:o, s:o, s:o, s:o, s:o}", "window", side_json(&sides[0]), "with",
                  side_json(&sides[1]), "differences", differences_json(sides), "moved",
                  moved == ROLLUP_TIME_END ? json_null() : json_string(rollup_time_name(moved)),
                  "text", sentence(sides, moved)));
    for (int i = 0; i < 2; i++)
        rollup_row_clear(&sides[i].reading.row);
    return true;
}
