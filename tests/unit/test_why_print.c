/* Goal: `kvrail why` names the network where the network holds a transfer up, and only there.
 * Method: the scheduler's JSON of a transfer and of its pairs of rails in, text out. */
#include "tests/support/check.h"

#include "tools/why_print.h"

#define ENDED 1785585600.0 /* 2026-08-01T12:00:00Z */

#define TRANSFER(state, more, stages)                                                              \
    "{\"id\":\"0123456789abcdef\",\"request\":\"r\",\"state\":\"" state "\"," more                 \
    ",\"source\":{\"agent\":\"p0\"},\"target\":{\"agent\":\"d0\"},\"stages\":[" stages "]}"
#define LIVE ",\"live\":true,\"age_seconds\":30"
#define FAILED(reason)                                                                             \
    "\"live\":false,\"reason\":\"" reason "\",\"reason_text\":\"of that\",\"duration_seconds\":30" \
    ",\"ended\":\"2026-08-01T12:00:00.250000Z\""
#define STAGE(name, role, seconds)                                                                 \
    "{\"stage\":\"" name "\",\"role\":\"" role "\",\"seconds\":" seconds "}"
#define OPENED STAGE("opened", "source", "0") "," STAGE("opened", "target", "0.1")
#define READY  OPENED "," STAGE("first_ready", "source", "1")
#define POSTED READY "," STAGE("first_post", "source", "2") "," STAGE("last_ready", "source", "3")
#define LANDED POSTED "," STAGE("first_land", "target", "4") "," STAGE("last_land", "target", "5")

#define PAIR(state, seconds)                                                                       \
    "{\"source\":\"p0\",\"target\":\"d0\",\"rail\":{\"index\":0},\"target_rail\":{\"index\":0}"    \
    ",\"state\":\"" state "\",\"state_seconds\":" seconds ",\"breaks\":1}"
#define GOOD    "[" PAIR("warm", "100") "," PAIR("spare", "100") "]"
#define TROUBLE "[" PAIR("warm", "100") "," PAIR("slow", "12") "]"

static char *printed;
static size_t printed_bytes;

static int forget(void **state)
{
    (void)state;
    free(printed);
    printed = NULL;
    return 0;
}

static const char *why_at(const char *transfer_text, const char *pairs_text, double now)
{
    json_error_t where;
    json_t *transfer = json_loads(transfer_text, 0, &where);
    json_t *pairs = json_loads(pairs_text, JSON_DECODE_ANY, NULL);
    FILE *out;

    if (transfer == NULL)
        fail_msg("%s: %s", where.text, transfer_text);
    forget(NULL);
    out = open_memstream(&printed, &printed_bytes);
    why_print(transfer, pairs, now, out);
    fclose(out);
    json_decref(transfer);
    json_decref(pairs);
    return printed;
}

static const char *why(const char *transfer, const char *pairs)
{
    return why_at(transfer, pairs, ENDED + 1);
}

static void expect(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("no \"%s\" in %s", part, text);
}

static void expect_no_network(const char *text)
{
    if (strstr(text, "the network between") != NULL)
        fail_msg("the network is blamed: %s", text);
}

static void a_live_transfer_is_held_up_by_the_network(void **state)
{
    const char *transfer = TRANSFER("last_ready", "\"retries\":0" LIVE, POSTED);

    (void)state;
    expect(why(transfer, TROUBLE), "It is not done after 30.00 s (last_ready): the network between "
                                   "p0 and d0 holds it up: 1 of 2 pairs of rails is in trouble.\n"
                                   "What to do: check all that lies between those cards: cables, "
                                   "switch ports");
    expect(printed, "`kvrail topo --peer d0`");
    expect(printed, "`kvrail doctor --peer d0`");
    assert_null(strstr(printed, "deadline"));
    expect_no_network(why(transfer, GOOD));
    expect(printed, "all layers are final and not all are written yet");
    expect_no_network(why(transfer, "null"));
    expect(why(TRANSFER("first_ready", "\"retries\":0" LIVE, READY), TROUBLE), "holds it up");
}

/* An engine has still to do its part. */
static void a_transfer_that_waits_for_an_engine_does_not_blame_the_network(void **state)
{
    (void)state;
    expect_no_network(why(TRANSFER("opened", "\"retries\":0" LIVE, OPENED), TROUBLE));
    expect_no_network(why(
        TRANSFER("first_land", "\"retries\":0" LIVE, READY "," STAGE("first_land", "target", "4")),
        TROUBLE));
}

/* All is in place. Only a rail that has fallen into trouble since may still deliver a write. */
static void what_has_landed_may_wait_for_a_rail_that_was_lost_meanwhile(void **state)
{
    const char *transfer = TRANSFER("last_land", "\"retries\":0" LIVE, LANDED);

    (void)state;
    expect(why(transfer, TROUBLE), "holds it up");
    expect_no_network(why(transfer, "[" PAIR("unreachable", "31") "]"));
}

static void an_expired_transfer_is_not_told_to_wait_longer(void **state)
{
    const char *transfer = TRANSFER("expired", "\"retries\":34," FAILED("expired"), POSTED);

    (void)state;
    expect(why(transfer, TROUBLE),
           "It is expired (expired) because of that.\n"
           "At its end: the network between p0 and d0 is the cause: 1 of 2 pairs of rails is in "
           "trouble, and 34 writes were posted again.\nWhat to do: check ");
    expect(printed, "a longer deadline does not help");
    assert_null(strstr(printed, "--deadline"));
    expect(why(transfer, GOOD), "is the cause: 34 writes were posted again.\n");
    transfer = TRANSFER("expired", "\"retries\":0," FAILED("expired"), POSTED);
    expect_no_network(why(transfer, GOOD));
    expect(printed, "--deadline");
    expect(why(transfer, TROUBLE), "is the cause");
    expect_no_network(why_at(transfer, TROUBLE, ENDED + 60)); /* it came later */
}

static void reasons_of_the_network_name_it(void **state)
{
    (void)state;
    expect(why(TRANSFER("failed", "\"retries\":0," FAILED("no_rail"), OPENED), GOOD),
           "At its end: the network between p0 and d0 is the cause.\n");
    expect_no_network(why(TRANSFER("failed", "\"retries\":0," FAILED("no_rail"), OPENED), "[]"));
    expect(printed, "give both agents rails of one provider");
    expect_no_network(why(TRANSFER("failed", "\"retries\":9," FAILED("digest"), POSTED), TROUBLE));
}

static void a_transfer_that_is_done_says_what_held_it_up(void **state)
{
    (void)state;
    expect(why(TRANSFER("done", "\"retries\":1," FAILED("ok"), LANDED), GOOD),
           "It is done, after 30.00 s.\nOn its way the network between p0 and d0 has held it up: 1 "
           "write was posted again.\n");
    expect_no_network(why(TRANSFER("done", "\"retries\":0," FAILED("ok"), LANDED), GOOD));
}

static void the_exit_status_is_the_outcome(void **state)
{
    static const struct {
        const char *transfer;
        int status;
    } outcomes[] = {
        {"{\"state\":\"done\",\"live\":false}", 0},
        {"{\"state\":\"failed\",\"live\":false}", 1},
        {"{\"state\":\"cancelled\",\"live\":false}", 1},
        {"{\"state\":\"expired\",\"live\":false}", 1},
        {"{\"state\":\"lost\",\"live\":false}", 1},
        {"{\"state\":\"opened\",\"live\":true}", 3},
        {"{\"state\":\"failing\",\"live\":true}", 3},
        {"{}", 4},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++) {
        json_t *transfer = json_loads(outcomes[i].transfer, 0, NULL);

        assert_int_equal(why_exit(transfer), outcomes[i].status);
        json_decref(transfer);
    }
}

#define LAYER(number, ready, delivered)                                                            \
    "{\"layer\":" number ",\"ready_seconds\":" ready ",\"posted_seconds\":0.25,"                   \
    "\"landed_seconds\":null,\"delivered_seconds\":" delivered "}"
#define RAIL(name, writes, retries)                                                                \
    "{\"index\":3,\"name\":" name ",\"writes\":" writes ",\"retries\":" retries "}"

static const char *layers(const char *timeline_text)
{
    json_t *timeline = json_loads(timeline_text, 0, NULL);
    FILE *out;

    assert_non_null(timeline);
    forget(NULL);
    out = open_memstream(&printed, &printed_bytes);
    why_print_layers(timeline, out);
    fclose(out);
    json_decref(timeline);
    return printed;
}

#define LAYERS  LAYER("7", "0.1", "0.3") "," LAYER("8", "0.2", "0.5") "," LAYER("9", "0.3", "null")
#define SOURCES RAIL("\"mlx5_0\"", "40", "1") "," RAIL("\"mlx5_1\"", "30", "4")
#define TARGETS RAIL("null", "70", "0") "," RAIL("null", "null", "null")

static void the_slowest_layer_and_the_worst_rail_are_named(void **state)
{
    static const char timeline[] =
        "{\"layers\":[" LAYERS "],\"sides\":[{\"role\":\"source\",\"rails\":[" SOURCES
        "]},{\"role\":\"target\",\"rails\":[" TARGETS "]}]}";

    (void)state;
    assert_string_equal(
        layers(timeline),
        "\n  The slowest layer is 8: 300.0 ms, 50.0 ms until its last write was posted\n"
        "  Of the source's rails mlx5_1 (3) had most repeats: 4 of 30 writes\n");
    assert_string_equal(layers("{\"layers\":[],\"sides\":[]}"), "");
    assert_string_equal(layers("{}"), ""); /* an older scheduler */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_live_transfer_is_held_up_by_the_network, forget),
        cmocka_unit_test_teardown(a_transfer_that_waits_for_an_engine_does_not_blame_the_network,
                                  forget),
        cmocka_unit_test_teardown(what_has_landed_may_wait_for_a_rail_that_was_lost_meanwhile,
                                  forget),
        cmocka_unit_test_teardown(an_expired_transfer_is_not_told_to_wait_longer, forget),
        cmocka_unit_test_teardown(reasons_of_the_network_name_it, forget),
        cmocka_unit_test_teardown(a_transfer_that_is_done_says_what_held_it_up, forget),
        cmocka_unit_test_teardown(the_slowest_layer_and_the_worst_rail_are_named, forget),
        cmocka_unit_test(the_exit_status_is_the_outcome),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
