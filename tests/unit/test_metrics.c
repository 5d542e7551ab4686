/* Goal: the scheduler's figures of the last minute are right, also for few transfers and for agents
 * with wrong clocks. */
#include "tests/support/check.h"

#include <stdio.h>

#include "scheduler/api_json.h"
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

static char *written(bool open)
{
    char *text = NULL;
    size_t size = 0;
    struct exposition out = {.out = open_memstream(&text, &size), .open = open};

    metrics_write(metrics, KVR_S, WALL, &out);
    exposition_end(&out);
    assert_int_equal(fclose(out.out), 0);
    return text;
}

/* The time that a transfer took after its last layer was ready, by the source's clock alone. */
static void what_prefill_did_not_hide_is_a_phase(void **state)
{
    struct transfer transfer = {0};
    int64_t *at_ns = transfer.sides[KVR_ROLE_SOURCE].at_ns;
    char *text;

    (void)state;
    transfer.id = 0xabc;
    at_ns[STAGE_LAST_READY] = WALL;
    at_ns[STAGE_ENDED] = WALL + 20 * MS;
    transfer.sides[KVR_ROLE_SOURCE].path = KVR_PATH_STAGED;
    metrics_ended(metrics, &transfer, KVR_ROLE_SOURCE, WALL);
    text = written(false);
    assert_non_null(strstr(text, "seconds_bucket{phase=\"exposed\",le=\"0.01\"} 0\n"));
    assert_non_null(strstr(text, "seconds_bucket{phase=\"exposed\",le=\"0.025\"} 1\n"));
    assert_non_null(strstr(text, "seconds_sum{phase=\"exposed\"} 0.02\n"));
    assert_non_null(strstr(text, "transfer_sides_done_total{role=\"source\",path=\"staged\"} 1\n"));
    assert_non_null(strstr(text, "transfer_sides_done_total{role=\"source\",path=\"host\"} 0\n"));
    free(text);
    text = written(true);
    assert_non_null(strstr(text, "le=\"0.025\"} 1 # {transfer_id=\"0000000000000abc\"} 0.02 "));
    assert_non_null(strstr(text, "# TYPE kvrail_transfers_ended counter\n"));
    assert_non_null(strstr(text, "\nkvrail_transfers_ended_total{"));
    assert_string_equal(text + strlen(text) - 6, "# EOF\n");
    free(text);
}

/* A transfer is counted once, whichever side ends first, and not again when a lost one is heard. */
static void a_transfer_ends_once(void **state)
{
    struct metrics_move move = {.from = STATE_END, .to = STATE_OPENED, .held = true};
    char *text;

    (void)state;
    metrics_moved(metrics, &move);
    text = written(false);
    assert_non_null(strstr(text, "\nkvrail_held_requests 1\n"));
    assert_non_null(strstr(text, "\nkvrail_transfers_in_stage{stage=\"opened\"} 1\n"));
    free(text);
    move = (struct metrics_move){STATE_OPENED, STATE_LOST, true, false, KVR_AGENT_LOST};
    metrics_moved(metrics, &move);
    move = (struct metrics_move){STATE_LOST, STATE_DONE, false, false, KVR_OK};
    metrics_moved(metrics, &move);
    move = (struct metrics_move){STATE_END, STATE_DONE, false, false, KVR_OK};
    metrics_moved(metrics, &move);
    text = written(false);
    assert_non_null(strstr(text, "ended_total{outcome=\"failed\",reason=\"agent_lost\"} 1\n"));
    assert_non_null(strstr(text, "ended_total{outcome=\"done\",reason=\"ok\"} 1\n"));
    assert_non_null(strstr(text, "\nkvrail_held_requests 0\n"));
    assert_non_null(strstr(text, "\nkvrail_inflight_transfers 0\n"));
    free(text);
}

static void the_oldest_transfer_has_an_age(void **state)
{
    char *text;

    (void)state;
    metrics_set_oldest(metrics, WALL - 90 * (int64_t)KVR_S);
    text = written(false);
    assert_non_null(strstr(text, "\nkvrail_oldest_transfer_seconds 90\n"));
    free(text);
}

static void clients_get_the_format_that_they_prefer(void **state)
{
    (void)state;
    assert_false(exposition_wants_open(NULL));
    assert_false(exposition_wants_open("*/*"));
    assert_false(exposition_wants_open("text/plain"));
    assert_false(exposition_wants_open("application/openmetrics-text;q=0.1,text/plain;q=0.5"));
    assert_false(exposition_wants_open("application/openmetrics-text; q=0"));
    assert_true(exposition_wants_open("application/openmetrics-text"));
    assert_true(exposition_wants_open("application/openmetrics-text;version=1.0.0,"
                                      "application/openmetrics-text;version=0.0.1;q=0.75,"
                                      "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"));
    assert_true(exposition_wants_open("text/plain;q=0.2, application/openmetrics-text; q=0.3"));
    assert_false(exposition_wants_open(",;,q=;;,"));
}

/* What an agent calls itself cannot end a label. */
static void labels_are_escaped(void **state)
{
    const struct exposition_label labels[] = {{"agent", "a\"b\\c\nd"}, {"rail", "0"}, {NULL, NULL}};
    char *text = NULL;
    size_t size = 0;
    struct exposition out = {.out = open_memstream(&text, &size)};

    (void)state;
    exposition_gauge(&out, "up", "Whether.");
    exposition_count(&out, labels, 7);
    exposition_value(&out, NULL, 0.5);
    exposition_end(&out);
    assert_int_equal(fclose(out.out), 0);
    assert_string_equal(text, "# HELP up Whether.\n# TYPE up gauge\n"
                              "up{agent=\"a\\\"b\\\\c\\nd\",rail=\"0\"} 7\nup 0.5\n");
    free(text);
}

static void insecurity_shows(void **state)
{
    (void)state;
    for (int insecure = 0; insecure < 2; insecure++) {
        struct metrics_summary summary;
        char *text, line[64];

        metrics_set_insecure(metrics, insecure == 1);
        text = written(false);
        snprintf(line, sizeof(line), "\nkvrail_scheduler_insecure %d\n", insecure);
        assert_non_null(strstr(text, line));
        free(text);
        metrics_summarise(metrics, WALL, &summary);
        assert_int_equal(summary.insecure, insecure);
    }
}

static struct health *health;

static json_t *troubles(int64_t wall_ns)
{
    struct metrics_summary summary;
    struct health_view view;

    metrics_summarise(metrics, wall_ns, &summary);
    health_look(health, &view);
    return json_troubles(&summary, &view, wall_ns);
}

static void expect_trouble(int64_t wall_ns, const char *sentence)
{
    json_t *list = troubles(wall_ns);

    assert_int_equal(json_array_size(list), sentence != NULL);
    if (sentence != NULL)
        assert_string_equal(json_string_value(json_array_get(list, 0)), sentence);
    json_decref(list);
}

static void the_scheduler_says_its_own_troubles(void **state)
{
    (void)state;
    health = health_open("kvrail.db");
    expect_trouble(WALL, NULL);
    health_failed(health, HEALTH_DISK_FULL, "disk full");
    expect_trouble(WALL, "no report can be stored: the disk is full: free space on the disk of "
                         "kvrail.db; agents keep their events until then");
    health_stored(health);
    metrics_set_expiry(metrics, WALL / (int64_t)KVR_S);
    expect_trouble(WALL, NULL);
    expect_trouble(WALL + (int64_t)KVR_S, "its certificate has ended: renew it");
    http_counts_refuse(metrics_http(metrics), HTTP_LIMIT_PER_HOST, WALL);
    metrics_set_expiry(metrics, 0);
    expect_trouble(WALL + 59 * (int64_t)KVR_S,
                   "it refused connections within the last minute, 1 since its start: see "
                   "--connections-max and --connections-per-host");
    expect_trouble(WALL + 60 * (int64_t)KVR_S, NULL);
    health_close(health);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_prefill_did_not_hide_is_a_phase, begin, end),
        cmocka_unit_test_setup_teardown(insecurity_shows, begin, end),
        cmocka_unit_test_setup_teardown(a_transfer_ends_once, begin, end),
        cmocka_unit_test_setup_teardown(the_oldest_transfer_has_an_age, begin, end),
        cmocka_unit_test(clients_get_the_format_that_they_prefer),
        cmocka_unit_test(labels_are_escaped),
        cmocka_unit_test_setup_teardown(percentiles_are_by_nearest_rank, begin, end),
        cmocka_unit_test_setup_teardown(bytes_are_spread_over_the_time_in_which_they_landed, begin,
                                        end),
        cmocka_unit_test_setup_teardown(the_scheduler_says_its_own_troubles, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
