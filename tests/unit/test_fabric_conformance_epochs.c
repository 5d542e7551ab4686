/* Goal: the end of an endpoint is an end on both sides, and its successor works: recycled
 * endpoints, peers that are killed and come again. Part of the conformance list, see
 * test_fabric_conformance.c. */
#include "tests/support/check.h"

#include "tests/support/fabric_case.h"

static void recycle_at_the_target_stops_what_lands(void **state)
{
    (void)state;
    for (int source = 0; source < 2; source++) {
        struct party *party = party_open(case_provider, 1);
        const struct party_side *target = &party_shared(party)->sides[1 - source];
        const struct party_side *sender = &party_shared(party)->sides[source];
        uint64_t arrived, digest;

        case_prepare(party, source, 4);
        case_stream(party, source, 16 << 10, true);
        assert_true(party_wait(party, &target->arrived, 500, 5000));
        case_tell(party, 1 - source, PARTY_RECYCLE); /* empties and closes the old queue */
        arrived = target->arrived;
        digest = case_tell(party, 1 - source, PARTY_DIGEST).value;
        (void)party_wait(party, &sender->failed, UINT64_MAX,
                         300); /* the source keeps writing meanwhile */
        assert_int_equal(target->arrived, arrived);
        assert_int_equal(case_tell(party, 1 - source, PARTY_DIGEST).value, digest);
        case_stream(party, source, 16 << 10, false);
        case_renew(party, source);
        party_close(party);
    }
}

static void recycle_at_the_source_frees_its_memory(void **state)
{
    (void)state;
    for (int source = 0; source < 2; source++) {
        struct party *party = party_open(case_provider, 1);
        const struct party_side *target = &party_shared(party)->sides[1 - source];
        uint64_t arrived = 0;

        case_prepare(party, source, 4);
        case_stream(party, source, 16 << 10, true);
        assert_true(party_wait(party, &target->arrived, 500, 5000));
        case_stream(party, source, 16 << 10, false);
        case_tell(party, source, PARTY_RECYCLE);
        /* Writes under way may still arrive when the target polls again; then no more arrive. */
        for (unsigned i = 0; i < 20 && target->arrived != arrived; i++) {
            arrived = target->arrived;
            (void)party_wait(party, &target->arrived, UINT64_MAX, 200);
        }
        assert_int_equal(target->arrived, arrived);
        case_renew(party, source);
        party_close(party);
    }
}

static void recycle_many_times(void **state)
{
    struct party *party = party_open(case_provider, 1);
    struct party_command post = case_post(50, 4 << 10, 1, 8);

    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        int side = (int)(i % 2);
        struct kvr_rail_address before = party_shared(party)->sides[side].addresses[0];

        case_tell(party, side, PARTY_RECYCLE);
        assert_memory_not_equal(
            before.address, party_shared(party)->sides[side].addresses[0].address, before.bytes);
        /* A half-open connection refuses the old endpoint: both sides take fresh ones. */
        case_tell(party, 1 - side, PARTY_RECYCLE);
        case_tell(party, 0, PARTY_CONNECT);
        case_tell(party, 1, PARTY_CONNECT);
        case_write(party, side, &post);
    }
    party_close(party);
}

/* The peer died in the middle of one stream from us, and of another to us. */
static void a_killed_peer_is_survived(void **state)
{
    (void)state;
    for (int source = 0; source < 2; source++) {
        struct party *party = party_open(case_provider, 1);
        const struct party_side *target = &party_shared(party)->sides[1 - source];
        struct party_command post = case_post(500, 8192, 1, 78);
        kvr_ns begin;

        case_prepare(party, source, 4);
        case_stream(party, source, 16 << 10, true);
        assert_true(party_wait(party, &target->arrived, 200, 5000));
        party_kill(party);
        /* Some providers fail the writes, some never report them; nothing may hang. */
        (void)party_wait(party, &party_shared(party)->sides[0].failed, UINT64_MAX, 300);
        case_stream(party, 0, 64 << 10, false);
        begin = kvr_clock_now();
        case_tell(party, 0, PARTY_RECYCLE);
        assert_true(kvr_clock_now() - begin < 2 * party_patience() * KVR_S);
        party_revive(party);
        case_tell(party, 0, PARTY_CONNECT);
        case_tell(party, 1, PARTY_CONNECT);
        case_write(party, 0, &post);
        case_write(party, 1, &post);
        party_close(party);
    }
}

/* The endpoint that wrote to the dead peer goes on: nothing of the dead peer counts for its
 * successor. */
static void a_restarted_peer_is_written_to(void **state)
{
    struct party *party = party_open(case_provider, 1);
    struct party_command post = case_post(100, 8192, 1, 79);

    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        if (i % 2 == 0)
            case_write(party, 0, &post);
        if (i % 2 == 1) { /* it dies before it has answered the first command */
            party_freeze(party);
            case_stream(party, 0, 8192, true);
            (void)party_wait(party, &party_shared(party)->sides[0].failed, UINT64_MAX, 20);
            case_stream(party, 0, 8192, false);
        }
        party_kill(party);
        (void)party_wait(party, &party_shared(party)->sides[0].failed, UINT64_MAX, 50);
        party_revive(party);
        case_tell(party, 0, i < 3 ? PARTY_CONNECT : PARTY_RECONNECT);
        case_tell(party, 1, PARTY_CONNECT);
    }
    case_write(party, 0, &post);
    case_write(party, 1, &post);
    party_close(party);
}

/* Writers come, leave in the middle of their writes, and come again. The target goes on to serve
 * them, or reports that it needs a new epoch. */
static void a_target_outlives_its_writers(void **state)
{
    struct party *party = party_open(case_provider, 1);
    const struct party_side *target = &party_shared(party)->sides[1];

    (void)state;
    for (unsigned i = 0; i < 12; i++) {
        uint64_t arrived = target->arrived;

        case_stream(party, 0, 8192, true);
        if (!party_wait(party, &target->arrived, arrived + 50, 3000)) {
            assert_true(target->queue_errors > 0);
            case_tell(party, 1, PARTY_RECYCLE);
            case_tell(party, 0, PARTY_CONNECT);
        }
        case_tell(party, 1, PARTY_DIGEST); /* does not poll meanwhile: its queue fills */
        case_stream(party, 0, 8192, false);
        case_tell(party, 0, PARTY_RECYCLE);
        case_tell(party, 0, PARTY_CONNECT);
    }
    case_renew(party, 0);
    party_close(party);
}

static void an_address_can_be_inserted_twice(void **state)
{
    struct party *party = party_open(case_provider, 1);
    struct party_command post = case_post(100, 8192, 1, 80);

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        case_write(party, 0, &post);
        case_tell(party, 0, PARTY_RECONNECT);
    }
    case_write(party, 0, &post);
    party_close(party);
}

int conformance_epochs(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recycle_at_the_target_stops_what_lands),
        cmocka_unit_test(recycle_at_the_source_frees_its_memory),
        cmocka_unit_test(recycle_many_times),
        cmocka_unit_test(a_killed_peer_is_survived),
        cmocka_unit_test(a_restarted_peer_is_written_to),
        cmocka_unit_test(a_target_outlives_its_writers),
        cmocka_unit_test(an_address_can_be_inserted_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
