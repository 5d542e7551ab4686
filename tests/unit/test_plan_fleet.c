/* Goal: of a grid of fleets the smallest within the budget is named, and the knee of the curve is
 * where a person would put it. Method: grids with known times, and one that is played. */
#include "tests/support/check.h"

#include "tools/virtual/plan_fleet_print.h"
#include "trace/synth.h"

static struct plan_grid grid;

/* Times in milliseconds: of two cards, three prefill and two decode counts. */
static void grid_init(const uint64_t times_ms[12], uint64_t budget_ms)
{
    static const uint32_t prefill[] = {1, 2, 4}, decode[] = {1, 2};

    memset(&grid, 0, sizeof(grid));
    grid.card_count = 2;
    grid.prefill_count = 3;
    grid.decode_count = 2;
    grid.budget_ns = budget_ms * KVR_MS;
    grid.time = VIRTUAL_WAIT;
    grid.percent = 99;
    for (uint32_t i = 0; i < 12; i++) {
        struct plan_cell *cell = &grid.cells[grid.cell_count++];

        cell->cards = i / 6;
        cell->fleet = (struct virtual_fleet){prefill[i / 2 % 3], decode[i % 2], 8,
                                             (2 - i / 6) * UINT64_C(100000000000)};
        cell->time_ns = times_ms[i] * KVR_MS;
    }
}

static void the_smallest_within_the_budget_wins(void **state)
{
    const uint64_t times[12] = {9000, 8000, 900, 800, 700, 600, 9500, 8500, 950, 850, 750, 650};
    const struct plan_cell *best;

    (void)state;
    grid_init(times, 1000);
    best = plan_grid_best(&grid); /* 2 + 1 with the slower cards */
    assert_ptr_equal(best, plan_grid_cell(&grid, 1, 1, 0));
    assert_int_equal(best->time_ns, 950 * KVR_MS);
    grid.budget_ns = 920 * KVR_MS; /* the faster ones are needed */
    assert_ptr_equal(plan_grid_best(&grid), plan_grid_cell(&grid, 0, 1, 0));
    grid.budget_ns = 620 * KVR_MS;
    assert_ptr_equal(plan_grid_best(&grid), plan_grid_cell(&grid, 0, 2, 1));
    grid.budget_ns = 599 * KVR_MS;
    assert_null(plan_grid_best(&grid));
}

static void the_knee_is_where_it_bends(void **state)
{
    const uint64_t times[12] = {9000, 9100, 900, 800, 810, 790, 9, 9, 9, 9, 9, 9};
    const uint64_t late[12] = {9000, 8990, 8950, 8940, 8900, 100, 9, 9, 9, 9, 9, 9};
    struct plan_point points[PLAN_POINTS_MAX];
    uint32_t count;

    (void)state;
    grid_init(times, 1000);
    count = plan_grid_points(&grid, 0, points);
    assert_int_equal(count, 4); /* 1+1, 2+1, 2+2, 4+2: 4+1 is no faster than 2+2 */
    assert_int_equal(points[0].hosts, 2);
    assert_int_equal(points[3].hosts, 6);
    for (uint32_t i = 1; i < count; i++)
        assert_true(points[i].cell->time_ns < points[i - 1].cell->time_ns);
    assert_int_equal(plan_knee(points, count), 1);
    assert_int_equal(plan_grid_points(&grid, 1, points), 1);
    assert_int_equal(plan_knee(points, 1), UINT32_MAX);
    grid_init(late, 1000); /* all but the largest are overloaded: more hosts gain most at the end */
    count = plan_grid_points(&grid, 0, points);
    assert_true(count >= 3);
    assert_int_equal(plan_knee(points, count), UINT32_MAX);
}

static void config_init(struct virtual_config *config)
{
    struct kvr_error error = {0};

    *config = (struct virtual_config){
        .costs = *rail_costs_find("efa"),
        .prefill = prefill_time_find("qwen3-235b-a22b"),
        .tp = 4,
        .page_tokens = 16,
        .chunk_tokens = 16384,
        .pool_bytes = UINT64_C(4) << 30,
        .order = PAGES_AGED,
        .seed = 1,
        .speed_permille = 2000,
        .step_ns = 10 * KVR_MS,
        .batch = 64,
        .prefix_cache = true,
    };
    assert_int_equal(model_scale(model_find("qwen3-235b-a22b"), 4, 0, &error, &config->geometry),
                     KVR_OK);
}

static void more_prefill_hosts_wait_less(void **state)
{
    struct virtual_config config;
    struct kvr_error error = {0};
    struct kvr_trace trace;
    char page[64 * 1024] = "", verdict[PLAN_VERDICT_BYTES];
    FILE *stream = fmemopen(page, sizeof(page), "w");

    (void)state;
    config_init(&config);
    memset(&grid, 0, sizeof(grid));
    grid.card_count = grid.decode_count = 1;
    grid.prefill_count = 3;
    for (uint32_t i = 0; i < 3; i++)
        grid.prefill[i] = 1u << i;
    grid.decode[0] = 1;
    grid.cards[0] = (struct virtual_fleet){0, 0, 32, UINT64_C(100000000000)};
    strcpy(grid.card_names[0], "32x100G");
    grid.percent = 90;
    grid.time = VIRTUAL_WAIT;
    grid.budget_ns = 50 * KVR_MS;
    kvr_trace_init(&trace);
    assert_int_equal(kvr_trace_synth(5, 150, &trace, &error), KVR_OK);
    strcpy(trace.name, "<trace>");
    assert_int_equal(plan_grid_run(&grid, &config, &trace, NULL, &error), KVR_OK);
    assert_int_equal(grid.cell_count, 3);
    assert_true(grid.cells[0].time_ns > grid.cells[1].time_ns);
    assert_true(grid.cells[1].time_ns > grid.cells[2].time_ns);
    assert_true(
        plan_html(&(struct plan_report){&grid, &config, trace.name, trace.request_count}, stream));
    assert_int_equal(fclose(stream), 0);
    assert_non_null(strstr(page, "<svg"));
    assert_non_null(strstr(page, "&lt;trace&gt;"));
    assert_null(strstr(page, "http"));
    assert_non_null(strstr(page, "</html>"));
    plan_verdict(&(struct plan_report){&grid, &config, trace.name, trace.request_count}, verdict);
    assert_non_null(strstr(page, verdict));
    kvr_trace_done(&trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smallest_within_the_budget_wins),
        cmocka_unit_test(the_knee_is_where_it_bends),
        cmocka_unit_test(more_prefill_hosts_wait_less),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
