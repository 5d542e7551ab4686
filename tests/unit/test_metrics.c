/* Goal: the scheduler's figures of the last minute are right, also for few transfers and for agents
 * with wrong clocks. */
#include "tests/support/check.h"

#include <stdio.h>

#include "scheduler/fleet.h"
#include "scheduler/metrics.h"

#define WALL ((int64_t)1700000000000000000)
#define MS   ((int64_t)KVR_MS)

static struct metrics *metrics;

static int begin(void **state)
{
    (void)state;
    metrics = metrics_open();
    return metrics == NULL;
}

static int end(void **state)
{
    (void)state;
    return metrics_close(metrics) != NULL;
}

/* A transfer that opened at `from`, and landed and ended at `to`. */
static void ended(int64_t from, int64_t to, uint64_t bytes)
{
    struct transfer transfer = {.bytes = bytes};
    int64_t *at_ns = transfer.sides[KVR_ROLE_TARGET].at_ns;

    at_ns[STAGE_OPENED] = at_ns[STAGE_FIRST_LAND] = from;
    at_ns[STAGE_LAST_LAND] = at_ns[STAGE_ENDED] = to;
    metrics_ended(metrics, &transfer, KVR_ROLE_TARGET, WALL);
}

/* Nearest rank, as in the figures of a replay: p99 of two values is the slower one. */
static void percentiles_are_by_nearest_rank(void **state)
{
    struct metrics_summary summary;

    (void)state;
    ended(WALL - 30 * MS, WALL, 1);
    ended(WALL - 10 * MS, WALL, 1);
    metrics_summarise(metrics, WALL, &summary);
    assert_int_equal(summary.total.count, 2);
    assert_true(summary.total.p50 == 0.01 && summary.total.p99 == 0.03);
    for (int64_t i = 3; i <= 100; i++)
        ended(WALL - (i + 100) * MS, WALL, 1);
    metrics_summarise(metrics, WALL, &summary);
    assert_true(summary.total.p50 == 0.15 && summary.total.p95 == 0.195);
    assert_true(summary.total.p99 == 0.199);
}

static void bytes_are_spread_over_the_time_in_which_they_landed(void **state)
{
    struct metrics_summary summary;
    int64_t second = (int64_t)KVR_S;

    (void)state;
    ended(WALL - 5 * second, WALL - 3 * second, 2000);
    ended(WALL + 5 * second, WALL + 6 * second, 500); /* a clock ahead counts as now */
    metrics_summarise(metrics, WALL + second, &summary);
    assert_true(summary.bytes_per_second[METRICS_SECONDS - 1] == 500);
    assert_true(summary.bytes_per_second[METRICS_SECONDS - 5] == 1000);
    assert_true(summary.bytes_per_second[METRICS_SECONDS - 6] == 1000);
}

/* The time that a transfer took after its last layer was ready, by the source's clock alone. */
static void what_prefill_did_not_hide_is_a_phase(void **state)
{
    struct transfer transfer = {0};
    int64_t *at_ns = transfer.sides[KVR_ROLE_SOURCE].at_ns;
    struct fleet *fleet = fleet_open();
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    at_ns[STAGE_LAST_READY] = WALL;
    at_ns[STAGE_ENDED] = WALL + 20 * MS;
    transfer.sides[KVR_ROLE_SOURCE].path = KVR_PATH_STAGED;
    metrics_ended(metrics, &transfer, KVR_ROLE_SOURCE, WALL);
    metrics_write(metrics, fleet, KVR_S, out);
    assert_int_equal(fclose(out), 0);
    assert_non_null(strstr(text, "seconds_bucket{phase=\"exposed\",le=\"0.01\"} 0\n"));
    assert_non_null(strstr(text, "seconds_bucket{phase=\"exposed\",le=\"0.025\"} 1\n"));
    assert_non_null(strstr(text, "seconds_sum{phase=\"exposed\"} 0.02\n"));
    assert_non_null(strstr(text, "path_transfers_total{role=\"source\",path=\"staged\"} 1\n"));
    assert_non_null(strstr(text, "path_transfers_total{role=\"source\",path=\"host\"} 0\n"));
    free(text);
    fleet_close(fleet);
}

static void insecurity_shows(void **state)
{
    struct fleet *fleet = fleet_open();

    (void)state;
    for (int insecure = 0; insecure < 2; insecure++) {
        struct metrics_summary summary;
        char *text = NULL, line[64];
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);

        metrics_set_insecure(metrics, insecure == 1);
        metrics_write(metrics, fleet, KVR_S, out);
        assert_int_equal(fclose(out), 0);
        snprintf(line, sizeof(line), "\nkvrail_scheduler_insecure %d\n", insecure);
        assert_non_null(strstr(text, line));
        free(text);
        metrics_summarise(metrics, WALL, &summary);
        assert_int_equal(summary.insecure, insecure);
    }
    fleet_close(fleet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_prefill_did_not_hide_is_a_phase, begin, end),
        cmocka_unit_test_setup_teardown(insecurity_shows, begin, end),
        cmocka_unit_test_setup_teardown(percentiles_are_by_nearest_rank, begin, end),
        cmocka_unit_test_setup_teardown(bytes_are_spread_over_the_time_in_which_they_landed, begin,
                                        end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
