/* Goal: no write leaves from an endpoint that the target's endpoints do not know, and those know
 * each sender that was announced (rule 12). Method: a rail group on a scripted fabric. */
#include "tests/support/check.h"

#include "tests/support/fake_group.h"

#define PEER 2

static struct group_fixture fixture;

static void open_group(uint32_t rail_count, bool warm_up)
{
    fixture_open_as(&fixture, &(struct kvr_group_options){.rail_count = rail_count,
                                                          .ring_entries = 64,
                                                          .warm_up = warm_up});
    fake.log_inserts = true;
}

static int start(void **state)
{
    (void)state;
    fake_needs_senders = true;
    return 0;
}

static int end(void **state)
{
    (void)state;
    fake_needs_senders = false;
    kvr_group_close(fixture.group);
    return 0;
}

/* ---- the agent that writes ---- */

static void target_add(bool needs_senders)
{
    struct kvr_peer_rails *rails = &fixture.peer_rails[PEER];

    rails->rail_count = 1;
    rails->rails[0] = (struct kvr_rail_address){.epoch = 1,
                                                .bytes = 1,
                                                .address = "a",
                                                .scratch_bytes = 4096,
                                                .needs_senders = needs_senders};
    command(&fixture, KVR_GROUP_PEER_ADD, PEER, rails);
}

static void known(uint32_t rail, uint32_t epoch)
{
    struct kvr_group_message message = {
        .head.kind = KVR_GROUP_SENDER_KNOWN,
        .sender_known = {.peer = PEER, .rail = rail, .epoch = epoch},
    };

    fixture_tell(&fixture, 1, &message);
}

static kvr_status try_post(void)
{
    struct kvr_pair pair;

    return post(&fixture, PEER, &pair);
}

static void a_post_waits_until_the_target_knows(void **state)
{
    (void)state;
    open_group(1, false);
    target_add(true);
    assert_int_equal(try_post(), KVR_AGAIN);
    known(0, 2); /* of another endpoint */
    assert_int_equal(try_post(), KVR_AGAIN);
    known(0, 1);
    assert_int_equal(try_post(), KVR_OK);
}

static void other_targets_need_no_answer(void **state)
{
    (void)state;
    open_group(1, false);
    target_add(false);
    assert_int_equal(try_post(), KVR_OK);
}

static void a_fresh_endpoint_waits_again(void **state)
{
    (void)state;
    open_group(1, false);
    target_add(true);
    known(0, 1);
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    assert_int_equal(try_post(), KVR_AGAIN);
    known(0, 1); /* an answer that was on its way */
    assert_int_equal(try_post(), KVR_AGAIN);
    known(0, 2);
    assert_int_equal(try_post(), KVR_OK);
}

/* The target's successor knows what the endpoint before it knew. */
static void a_fresh_endpoint_of_the_target_needs_no_answer(void **state)
{
    struct kvr_rail_address successor = {
        .epoch = 2, .bytes = 1, .address = "b", .needs_senders = true};

    (void)state;
    open_group(1, false);
    target_add(true);
    known(0, 1);
    command(&fixture, KVR_GROUP_PEER_RAIL, PEER, &successor);
    assert_int_equal(try_post(), KVR_OK);
}

static void a_pair_that_is_known_is_taken_before_one_that_is_not(void **state)
{
    struct kvr_pair pair;

    (void)state;
    open_group(2, false);
    target_add(true);
    known(1, 1);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(post(&fixture, PEER, &pair), KVR_OK);
        assert_int_equal(pair.rail, 1);
    }
}

static void the_next_session_is_told_again(void **state)
{
    (void)state;
    open_group(1, false);
    target_add(true);
    known(0, 1);
    command(&fixture, KVR_GROUP_PEER_DROP, PEER, NULL);
    known(0, 1);
    target_add(true);
    assert_int_equal(try_post(), KVR_AGAIN);
}

static void a_warm_up_waits_too(void **state)
{
    struct kvr_endpoint *endpoint;

    (void)state;
    open_group(1, true);
    endpoint = fixture.rails[0].newest;
    target_add(true);
    fixture_settle(&fixture, 2);
    assert_int_equal(endpoint->write_count, 0);
    known(0, 1);
    assert_int_equal(endpoint->write_count, 1);
    assert_int_equal(endpoint->writes[0].immediate, KVR_WARM_UP_IMMEDIATE);
}

/* ---- the agent that is written to ---- */

static kvr_status announced(uint32_t rail, char address)
{
    struct kvr_rail_address endpoint = {.rail = rail, .bytes = 1, .address = {(uint8_t)address}};
    struct kvr_group_message message = {
        .head.kind = KVR_GROUP_SENDER,
        .sender = {.peer = PEER, .rail = rail, .serial = 7, .address = &endpoint},
    };

    fixture_tell(&fixture, 1, &message);
    assert_true(fixture_told(&fixture, KVR_GROUP_SENDER_SET, &message));
    assert_ptr_equal(message.sender.address, &endpoint);
    assert_int_equal(message.sender.serial, 7);
    return message.sender.status;
}

static void expect_log(const char *log)
{
    assert_string_equal(fake.log, log);
    fake.log[0] = '\0';
}

static void every_rail_learns_a_sender(void **state)
{
    (void)state;
    open_group(2, false);
    assert_int_equal(announced(5, 'x'), KVR_OK);
    expect_log("insert0(x) insert1(x) ");
    assert_int_equal(announced(6, 'y'), KVR_OK);
    expect_log("insert0(y) insert1(y) ");
    assert_int_equal(announced(5, 'z'), KVR_OK); /* in the place of x */
    expect_log("remove0 remove1 insert0(z) insert1(z) ");
    command(&fixture, KVR_GROUP_PEER_DROP, PEER, NULL);
    expect_log("remove0 remove1 remove0 remove1 ");
    command(&fixture, KVR_GROUP_PEER_DROP, PEER, NULL);
    expect_log("");
}

static void a_successor_learns_all_senders_before_it_is_named(void **state)
{
    struct kvr_group_message message;

    (void)state;
    open_group(2, false);
    assert_int_equal(announced(5, 'x'), KVR_OK);
    assert_int_equal(announced(6, 'y'), KVR_OK);
    fake.log[0] = '\0';
    command(&fixture, KVR_GROUP_RECYCLE, 1, NULL);
    expect_log("open1 stop1 insert1(x) insert1(y) close1 closed1/1 ");
    assert_true(fixture_told(&fixture, KVR_GROUP_RECYCLED, &message));
}

static void a_rail_without_an_endpoint_learns_them_with_the_next(void **state)
{
    (void)state;
    open_group(1, false);
    fixture.rails[0].refuse_open = true;
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    fake.log[0] = '\0';
    assert_int_equal(announced(5, 'x'), KVR_OK);
    expect_log("");
    fixture.rails[0].refuse_open = false;
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    expect_log("open0 insert0(x) closed0/2 ");
    command(&fixture, KVR_GROUP_PEER_DROP, PEER, NULL);
    expect_log("remove0 ");
}

/* The loop then ends the session: writes of that sender would not arrive. */
static void an_address_that_is_refused_is_reported(void **state)
{
    struct kvr_group_message message;

    (void)state;
    open_group(1, false);
    assert_int_equal(announced(5, '?'), KVR_INVALID);
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    assert_true(fixture_told(&fixture, KVR_GROUP_SENDER_SET, &message));
    assert_int_equal(message.sender.status, KVR_INVALID);
    assert_int_equal(message.sender.peer, PEER);
    assert_int_equal(message.sender.rail, 5);
    assert_int_equal(message.sender.serial, 7);
    assert_null(message.sender.address);
}

static void numbers_from_the_wire_are_checked(void **state)
{
    (void)state;
    open_group(1, false);
    assert_int_equal(announced(KVR_RAILS_MAX, 'x'), KVR_INVALID);
    expect_log("");
}

static void rails_that_need_nothing_learn_nothing(void **state)
{
    (void)state;
    fake_needs_senders = false;
    open_group(1, false);
    assert_int_equal(announced(5, 'x'), KVR_OK);
    expect_log("");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_post_waits_until_the_target_knows),
        CASE(other_targets_need_no_answer),
        CASE(a_fresh_endpoint_waits_again),
        CASE(a_fresh_endpoint_of_the_target_needs_no_answer),
        CASE(a_pair_that_is_known_is_taken_before_one_that_is_not),
        CASE(the_next_session_is_told_again),
        CASE(a_warm_up_waits_too),
        CASE(every_rail_learns_a_sender),
        CASE(a_successor_learns_all_senders_before_it_is_named),
        CASE(a_rail_without_an_endpoint_learns_them_with_the_next),
        CASE(an_address_that_is_refused_is_reported),
        CASE(numbers_from_the_wire_are_checked),
        CASE(rails_that_need_nothing_learn_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
