/* A window of time of the API's answers from rollups. */
#ifndef KVR_SCHEDULER_API_WINDOW_H
#define KVR_SCHEDULER_API_WINDOW_H

#include "scheduler/api_parameters.h"
#include "scheduler/store_rollups.h"

struct api_window {
    int64_t from, until; /* seconds since 1970; the first that does not count */
};

/* The parameters with these names; without them the hour before `now`. False: *ret_answer says
 * which one is wrong. */
bool api_parse_window(const struct api_query *query, const char *from, const char *until,
                      int64_t now, struct api_window *ret_window, struct api_answer *ret_answer);
/* The finest step of which the window has at most so many rows, and that is still there; the window
 * grows to whole steps. Returns its place in rollup_steps. */
int api_window_step(struct api_window *window, int64_t now, int64_t rows_max);

/* ---- cells: the largest first, at most 20, and all rails of an agent ---- */

#define API_CELLS_MAX KVR_RAILS_MAX
struct api_cells {
    const struct rollup_cell *list[API_CELLS_MAX];
    uint32_t count, left_out;
};
void api_choose_cells(const struct rollup_row *row, rollup_kind kind, struct api_cells *ret_cells);

/* Adds the members that name the cell. */
void api_name_cell(json_t *object, rollup_kind kind, const struct rollup_key *key);
/* Amounts of that kind, and what they are a second. */
void api_put_amounts(json_t *object, rollup_kind kind, const uint64_t amounts[ROLLUP_AMOUNT_END],
                     int64_t seconds);
bool api_amount_is_of(rollup_amount amount, rollup_kind kind);
/* "busy" is in seconds. */
json_t *api_amount(rollup_amount amount, uint64_t value);
const char *api_amount_name(rollup_amount amount);

/* ---- answers; false: the database failed ---- */

bool api_get_rollups(struct store *store, const struct api_query *query,
                     struct api_answer *ret_answer);
bool api_get_histograms(struct store *store, const struct api_query *query,
                        struct api_answer *ret_answer);
bool api_get_compare(struct store *store, const struct api_query *query,
                     struct api_answer *ret_answer);
bool api_get_marks(struct store *store, const struct api_query *query,
                   struct api_answer *ret_answer);
bool api_get_faults(struct store *store, const struct api_query *query,
                    struct api_answer *ret_answer);

#endif
