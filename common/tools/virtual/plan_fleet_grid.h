/* A grid of fleets, a replay in virtual time of each, and which of them is enough. Memory is the
 * grid's own; one thread. */
#ifndef KVR_TOOLS_VIRTUAL_PLAN_FLEET_GRID_H
#define KVR_TOOLS_VIRTUAL_PLAN_FLEET_GRID_H

#include "tools/virtual/virtual_run.h"

#define PLAN_COUNTS_MAX 16
#define PLAN_CARDS_MAX  8
#define PLAN_CELLS_MAX  (PLAN_COUNTS_MAX * PLAN_COUNTS_MAX * PLAN_CARDS_MAX)

struct plan_cell {
    struct virtual_fleet fleet;
    uint32_t cards; /* place in the grid's list */
    uint64_t time_ns, p50_ns;
    double prefill_busy, source_share, target_share;
};

struct plan_grid {
    uint32_t prefill[PLAN_COUNTS_MAX], decode[PLAN_COUNTS_MAX];
    char card_names[PLAN_CARDS_MAX][32];
    struct virtual_fleet cards[PLAN_CARDS_MAX]; /* rails and card_bps alone */
    uint32_t prefill_count, decode_count, card_count;
    virtual_time time;
    uint64_t percent, budget_ns;
    struct plan_cell cells[PLAN_CELLS_MAX]; /* cards, then prefill, then decode */
    uint32_t cell_count;
    uint32_t clipped, without_output; /* requests that were changed before the first run */
};

/* Of all fleets with so many hosts or fewer and these cards, the one with the shortest time. */
struct plan_point {
    uint32_t hosts;
    const struct plan_cell *cell;
};
#define PLAN_POINTS_MAX (PLAN_COUNTS_MAX * PLAN_COUNTS_MAX)

/* tell: after each run; may be NULL. */
KVR_MUST_CHECK kvr_status plan_grid_run(struct plan_grid *grid, const struct virtual_config *config,
                                        struct kvr_trace *trace,
                                        void (*tell)(const struct plan_grid *grid,
                                                     const struct plan_cell *cell),
                                        struct kvr_error *error);
const struct plan_cell *plan_grid_cell(const struct plan_grid *grid, uint32_t cards,
                                       uint32_t prefill, uint32_t decode);
/* The fewest hosts within the budget; of equally many the least bits a second of cards, then the
 * shortest time. NULL: none is. */
const struct plan_cell *plan_grid_best(const struct plan_grid *grid);
/* The points of these cards, fewest hosts first: each is faster than the one before. */
uint32_t plan_grid_points(const struct plan_grid *grid, uint32_t cards,
                          struct plan_point ret_points[PLAN_POINTS_MAX]);
/* Where more hosts begin to gain little: the point farthest below the line from the first to the
 * last, with the logarithm of the time. UINT32_MAX: no point lies below it. */
uint32_t plan_knee(const struct plan_point *points, uint32_t count);

#endif
