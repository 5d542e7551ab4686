/* Goal: the benchmark's fleet makes each event of each transfer once, in order, at the agents of
 * its transfer, and the scheduler makes of them the transfer that ended as the fleet says.
 * Method: all moments of all agents, in pieces of time, counted and merged. */
#include "tests/support/check.h"

#include <stdlib.h>

#include "scheduler/transfer.h"
#include "tools/bench/bench_fleet.h"

#define PIECE (200 * KVR_MS)
#define ROOM  4096

static const struct bench_fleet fleet = {.seed = 7,
                                         .boot = 9,
                                         .pairs = 5,
                                         .transfers = 333,
                                         .transfers_per_s = 100,
                                         .start = 10 * KVR_S};

static void each_event_happens_once(void **state)
{
    static struct bench_moment moments[ROOM];
    uint8_t *seen = calloc(fleet.transfers, BENCH_FLEET_EVENTS);

    (void)state;
    assert_non_null(seen);
    for (uint32_t agent = 0; agent < bench_fleet_agents(&fleet); agent++) {
        kvr_ns last = 0;

        for (kvr_ns from = fleet.start; from < fleet.start + 5 * KVR_S; from += PIECE) {
            size_t count = bench_fleet_moments(&fleet, agent, from, from + PIECE, moments, ROOM);

            assert_true(count <= ROOM);
            for (size_t i = 0; i < count; i++) {
                const struct bench_moment *moment = &moments[i];
                struct bench_transfer transfer = bench_fleet_transfer(&fleet, moment->number);
                bool source = bench_fleet_step_role(moment->step) == KVR_ROLE_SOURCE;

                assert_true(moment->at >= last && moment->at >= from && moment->at < from + PIECE);
                assert_int_equal(agent, source ? transfer.source : transfer.target);
                seen[moment->number * BENCH_FLEET_EVENTS + moment->step]++;
                last = moment->at;
            }
        }
    }
    for (uint64_t i = 0; i < fleet.transfers * BENCH_FLEET_EVENTS; i++)
        assert_int_equal(seen[i], 1);
    free(seen);
}

static void moments_without_room_are_counted(void **state)
{
    struct bench_moment moments[2];
    size_t all = bench_fleet_moments(&fleet, 0, fleet.start, fleet.start + 5 * KVR_S, moments, 2);

    (void)state;
    assert_int_equal(all, fleet.transfers / fleet.pairs * 8 + 8); /* 67 transfers of agent 0 */
}

static void merged_transfers_end_as_they_were_made(void **state)
{
    uint64_t by_state[STATE_END] = {0};

    (void)state;
    for (uint64_t number = 0; number < fleet.transfers; number++) {
        struct bench_transfer made = bench_fleet_transfer(&fleet, number);
        struct transfer transfer = {0};

        for (uint32_t step = 0; step < BENCH_FLEET_EVENTS; step++) {
            struct kvr_event event;
            char agent[KVR_NAME_BYTES];

            bench_fleet_event(&fleet, &made, step, &event);
            assert_int_equal(event.transfer, step == 0 ? 0 : made.id);
            bench_fleet_name(&fleet, event.role == KVR_ROLE_SOURCE ? made.source : made.target,
                             agent);
            transfer_merge(&transfer, agent, fleet.boot, &event, (int64_t)event.at);
        }
        assert_false(transfer_state_live(transfer.state));
        assert_int_equal(transfer.reason, made.outcome);
        assert_true(made.source < fleet.pairs && made.target >= fleet.pairs);
        by_state[transfer.state]++;
    }
    assert_true(by_state[STATE_DONE] > 300);
    assert_true(by_state[STATE_DONE] < fleet.transfers);
}

static void a_requests_id_names_its_transfer(void **state)
{
    static const char *const others[] = {"", "request-1", "chatcmpl-", "chatcmpl-12x", "cmpl-1-2"};
    char request[KVR_REQUEST_BYTES];
    uint64_t number;

    (void)state;
    for (uint64_t i = 0; i < fleet.transfers; i++) {
        struct bench_transfer transfer = bench_fleet_transfer(&fleet, i);

        bench_fleet_request(&transfer, request);
        assert_true(bench_fleet_number(request, &number));
        assert_int_equal(number, i);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(bench_fleet_number(others[i], &number));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_event_happens_once),
        cmocka_unit_test(moments_without_room_are_counted),
        cmocka_unit_test(merged_transfers_end_as_they_were_made),
        cmocka_unit_test(a_requests_id_names_its_transfer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
