#include "tools/virtual/plan_fleet_grid.h"

#include <math.h>
#include <stdlib.h>

const struct plan_cell *plan_grid_cell(const struct plan_grid *grid, uint32_t cards,
                                       uint32_t prefill, uint32_t decode)
{
    return &grid->cells[(cards * grid->prefill_count + prefill) * grid->decode_count + decode];
}

static kvr_status run_cell(struct plan_grid *grid, const struct virtual_config *config,
                           struct kvr_trace *trace, struct plan_cell *cell, struct kvr_error *error)
{
    struct virtual_config one = *config;
    struct virtual_figures figures;
    kvr_status status;

    one.fleet = cell->fleet;
    status = virtual_run(&one, trace, NULL, &figures, error);
    if (status == KVR_OK) {
        cell->time_ns = virtual_percentile(&figures, grid->time, (double)grid->percent);
        cell->p50_ns = virtual_percentile(&figures, grid->time, 50);
        cell->prefill_busy = figures.prefill_busy;
        cell->source_share = figures.source.share;
        cell->target_share = figures.target.share;
        /* The first run changes them for all further ones. */
        grid->clipped += figures.clipped;
        if (grid->cell_count == 1)
            grid->without_output = figures.without_output;
    }
    virtual_figures_done(&figures);
    return status;
}

kvr_status plan_grid_run(struct plan_grid *grid, const struct virtual_config *config,
                         struct kvr_trace *trace,
                         void (*tell)(const struct plan_grid *grid, const struct plan_cell *cell),
                         struct kvr_error *error)
{
    grid->cell_count = grid->clipped = grid->without_output = 0;
    for (uint32_t cards = 0; cards < grid->card_count; cards++) {
        for (uint32_t prefill = 0; prefill < grid->prefill_count; prefill++) {
            for (uint32_t decode = 0; decode < grid->decode_count; decode++) {
                struct plan_cell *cell = &grid->cells[grid->cell_count++];

                *cell = (struct plan_cell){.fleet = grid->cards[cards], .cards = cards};
                cell->fleet.prefill_hosts = grid->prefill[prefill];
                cell->fleet.decode_hosts = grid->decode[decode];
                KVR_TRY(run_cell(grid, config, trace, cell, error));
                if (tell != NULL)
                    tell(grid, cell);
            }
        }
    }
    return KVR_OK;
}

static uint32_t hosts_of(const struct plan_cell *cell)
{
    return cell->fleet.prefill_hosts + cell->fleet.decode_hosts;
}

static int compare_values(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_size(const struct plan_cell *a, const struct plan_cell *b)
{
    int order = compare_values(hosts_of(a), hosts_of(b));

    if (order == 0)
        order =
            compare_values(a->fleet.rails * a->fleet.card_bps, b->fleet.rails * b->fleet.card_bps);
    return order != 0 ? order : compare_values(a->time_ns, b->time_ns);
}

const struct plan_cell *plan_grid_best(const struct plan_grid *grid)
{
    const struct plan_cell *best = NULL;

    for (uint32_t i = 0; i < grid->cell_count; i++) {
        const struct plan_cell *cell = &grid->cells[i];

        if (cell->time_ns <= grid->budget_ns && (best == NULL || by_size(cell, best) < 0))
            best = cell;
    }
    return best;
}

static int by_hosts(const void *left, const void *right)
{
    const struct plan_point *a = left, *b = right;
    int order = compare_values(a->hosts, b->hosts);

    return order != 0 ? order : compare_values(a->cell->time_ns, b->cell->time_ns);
}

uint32_t plan_grid_points(const struct plan_grid *grid, uint32_t cards,
                          struct plan_point ret_points[PLAN_POINTS_MAX])
{
    uint32_t all = 0, count = 0;

    for (uint32_t i = 0; i < grid->cell_count; i++)
        if (grid->cells[i].cards == cards)
            ret_points[all++] = (struct plan_point){hosts_of(&grid->cells[i]), &grid->cells[i]};
    qsort(ret_points, all, sizeof(ret_points[0]), by_hosts);
    for (uint32_t i = 0; i < all; i++)
        if (count == 0 || ret_points[i].cell->time_ns < ret_points[count - 1].cell->time_ns)
            ret_points[count++] = ret_points[i];
    return count;
}

uint32_t plan_knee(const struct plan_point *points, uint32_t count)
{
    double first, last, deepest = 0;
    uint32_t knee = UINT32_MAX;

    if (count < 3)
        return UINT32_MAX;
    first = log((double)points[0].cell->time_ns + 1);
    last = log((double)points[count - 1].cell->time_ns + 1);
    for (uint32_t i = 1; i + 1 < count; i++) {
        double part = (double)(points[i].hosts - points[0].hosts) /
                      (points[count - 1].hosts - points[0].hosts);
        double below = first + (last - first) * part - log((double)points[i].cell->time_ns + 1);

        if (below > deepest) {
            deepest = below;
            knee = i;
        }
    }
    return knee;
}
