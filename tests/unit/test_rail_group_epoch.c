/* Goal: an epoch ends in the order that makes it provable. Entries of an ended epoch, of a peer
 * that has gone, or of no write at all change nothing. A command is known before the writes that
 * need it. Method: the scripted fabric's own record of its calls, in order. */
#include "tests/support/check.h"

#include <stdio.h>

#include "tests/support/fake_group.h"

static void group_failures_of_an_ended_epoch_break_nothing(void **state)
{
    struct group_fixture fixture;
    struct kvr_pair pair;
    struct kvr_group_message message;
    struct kvr_rail_address successor;

    (void)state;
    fixture_open(&fixture, 1, 0, 64);
    fake.log_inserts = true;
    peer_add(&fixture, 0, 1);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    successor = (struct kvr_rail_address){.rail = 0, .epoch = 2, .bytes = 1, .address = {'z'}};
    command(&fixture, KVR_GROUP_PEER_RAIL, 0, &successor);
    assert_true(event(&fixture, &message));
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    assert_int_equal(pair.epoch, 2);
    finish(fixture.rails[0].newest, 0, KVR_PEER_LOST); /* the write of epoch 1 */
    assert_true(kvr_group_step(fixture.group, 2));
    assert_int_equal(fake.written_status[0], KVR_EPOCH_ENDED);
    assert_false(event(&fixture, &message));
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    /* The old address left the table only with its last write. */
    assert_string_equal(fake.log, "insert0(a) insert0(z) remove0 written0:epoch_ended ");
    kvr_group_close(fixture.group);
}

static void pages_that_no_device_moves_break_nothing(void **state)
{
    struct kvr_completion unmoved = {.kind = KVR_COMPLETION_UNMOVED, .immediate = 9};
    struct group_fixture fixture;
    struct kvr_pair pair;
    struct kvr_group_message message;

    (void)state;
    fixture_open(&fixture, 1, 0, 64);
    peer_add(&fixture, 0, 1);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    finish(fixture.rails[0].newest, 0, KVR_COPY_FAILED);
    fake_push(fixture.rails[0].newest, unmoved);
    assert_true(kvr_group_step(fixture.group, 2));
    assert_int_equal(fake.written_status[0], KVR_COPY_FAILED);
    assert_string_equal(fake.log, "written0:copy_failed unmoved0/1:9 ");
    assert_false(event(&fixture, &message)); /* no PAIR_BROKEN */
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    kvr_group_close(fixture.group);
}

/* The peer had no endpoint on that rail at first, and announces it later. Until then there is
 * nothing to repair. */
static void group_reaches_a_rail_that_gets_its_endpoint_later(void **state)
{
    struct group_fixture fixture;
    struct kvr_pair pair;
    struct kvr_group_message message;
    struct kvr_rail_address successor;
    struct kvr_peer_rails rails = {.rail_count = 1, .rails = {{.rail = 0, .epoch = 2}}};

    (void)state;
    fixture_open(&fixture, 1, 0, 64);
    command(&fixture, KVR_GROUP_PEER_ADD, 0, &rails);
    assert_true(event(&fixture, &message));
    assert_int_equal(message.head.kind, KVR_GROUP_PEER_ADDED);
    assert_int_equal(message.peer_rails.status, KVR_NO_RAIL);
    assert_non_null(strstr(rails.unreachable, "no endpoint"));
    assert_int_equal(post(&fixture, 0, &pair), KVR_NO_RAIL);
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    assert_true(event(&fixture, &message));
    assert_int_equal(message.head.kind, KVR_GROUP_RECYCLED); /* no PAIR_BROKEN before it */
    successor = (struct kvr_rail_address){.rail = 0, .epoch = 3, .bytes = 1, .address = {'z'}};
    command(&fixture, KVR_GROUP_PEER_RAIL, 0, &successor);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    assert_int_equal(pair.epoch, 3);
    kvr_group_close(fixture.group);
}

static void group_drops_a_peer(void **state)
{
    struct group_fixture fixture;
    struct kvr_pair pair;
    struct kvr_group_message message;

    (void)state;
    fixture_open(&fixture, 1, 0, 64);
    fake.log_inserts = true;
    peer_add(&fixture, 3, 1);
    assert_int_equal(post(&fixture, 3, &pair), KVR_OK);
    command(&fixture, KVR_GROUP_PEER_DROP, 3, NULL);
    assert_true(event(&fixture, &message));
    assert_int_equal(message.head.kind, KVR_GROUP_PEER_DROPPED);
    assert_int_equal(message.peer_drop.status, KVR_OK);
    assert_int_equal(post(&fixture, 3, &pair), KVR_NO_RAIL);
    command(&fixture, KVR_GROUP_PEER_DROP, 3, NULL);
    assert_true(event(&fixture, &message));
    assert_int_equal(message.peer_drop.status, KVR_NOT_FOUND);
    peer_add(&fixture, 3, 1); /* the same index, while a write of the old peer is in flight */
    finish(fixture.rails[0].newest, 0, KVR_OK);
    kvr_group_step(fixture.group, 2);
    assert_string_equal(fake.log, "insert0(a) insert0(a) remove0 written0:ok ");
    assert_int_equal(post(&fixture, 3, &pair), KVR_OK);
    kvr_group_close(fixture.group);
}

static void group_recycles_in_order(void **state)
{
    struct group_fixture fixture;
    struct kvr_pair pair;
    struct kvr_group_message message;
    struct kvr_rail_address before, after;
    struct kvr_endpoint *old;

    (void)state;
    fixture_open(&fixture, 1, 0, 64);
    fake.log_inserts = true;
    peer_add(&fixture, 0, 1);
    peer_add(&fixture, 1, 1);
    before = kvr_group_address(fixture.group, 0);
    assert_int_equal(before.epoch, 1);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(post(&fixture, i & 1, &pair), KVR_OK);
    old = fixture.rails[0].newest;
    /* Commands run before the queue is read, so all of these are still in it. */
    finish(old, 0, KVR_OK);          /* completed before the stop */
    finish(old, 0, KVR_RAIL_FAILED); /* failed because of it */
    arrive(old, 77);
    fake.log[0] = '\0';
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    assert_string_equal(fake.log, "open0 stop0 written0:ok arrived0/1:77 written1:epoch_ended "
                                  "written2:epoch_ended close0 closed0/1 insert0(a) insert0(a) ");
    assert_true(event(&fixture, &message));
    assert_int_equal(message.head.kind, KVR_GROUP_RECYCLED);
    assert_int_equal(message.recycled.status, KVR_OK);
    assert_int_equal(message.recycled.ended, 1);
    assert_int_equal(message.recycled.epoch, 2);
    after = kvr_group_address(fixture.group, 0);
    assert_int_equal(after.epoch, 2);
    assert_memory_not_equal(after.address, before.address, sizeof(before.address));
    assert_int_equal(kvr_group_outstanding(fixture.group), 0);
    arrive(fixture.rails[0].newest, 78);
    kvr_group_step(fixture.group, 3);
    assert_int_equal(fake.arrived_epoch, 2);
    assert_int_equal(kvr_group_counters(fixture.group, 0).recycles, 1);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    kvr_group_close(fixture.group);
}

static void group_ends_an_epoch_without_a_successor(void **state)
{
    struct group_fixture fixture;
    struct kvr_pair pair;
    struct kvr_group_message message;
    struct kvr_error refused;

    (void)state;
    fixture_open(&fixture, 1, 0, 64);
    peer_add(&fixture, 0, 1);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    fixture.rails[0].refuse_open = true;
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    assert_string_equal(fake.log, "stop0 written0:epoch_ended close0 closed0/1 ");
    assert_true(event(&fixture, &message));
    assert_int_equal(message.head.kind, KVR_GROUP_RECYCLED);
    assert_int_equal(message.recycled.status, KVR_SYSTEM);
    assert_true(event(&fixture, &message)); /* behind it: the pairs that break from there on */
    assert_int_equal(message.head.kind, KVR_GROUP_PAIR_BROKEN);
    kvr_group_refused(fixture.group, 0, &refused);
    assert_string_equal(refused.detail, "no endpoint");
    assert_int_equal(kvr_group_address(fixture.group, 0).bytes, 0);
    assert_int_equal(post(&fixture, 0, &pair), KVR_NO_RAIL);
    kvr_group_step(fixture.group, 2);
    fixture.rails[0].refuse_open = false;
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    assert_true(event(&fixture, &message));
    assert_int_equal(message.recycled.status, KVR_OK);
    assert_int_equal(message.recycled.epoch, 3);
    assert_non_null(strstr(fake.log, "closed0/2 ")); /* or its waiters wait for ever */
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    kvr_group_close(fixture.group);
}

#define BEFORE 100 /* commands before the GRANT: more than one step takes */

static void push(uint32_t kind, unsigned count)
{
    struct kvr_group_message message = {.head.kind = kind};

    for (unsigned i = 0; i < count; i++)
        assert_true(kvr_group_command(fake.group, &message));
}

static void grant_and_write(struct kvr_endpoint *endpoint)
{
    push(KVR_GROUP_KIND_USER, BEFORE);
    push(KVR_GROUP_KIND_USER + 1, 1);
    arrive(endpoint, 77);
}

static void recycle_grant_and_write(struct kvr_endpoint *endpoint)
{
    push(KVR_GROUP_RECYCLE, 1);
    push(KVR_GROUP_KIND_USER, BEFORE);
    push(KVR_GROUP_KIND_USER + 1, 1);
    arrive(endpoint, 78);
}

/* The GRANT is known before its write, and the write counts for the epoch that ends after it. */
static void check_order(const char *write)
{
    const char *command, *arrived, *closed = strstr(fake.log, "closed0/1 ");
    char granted[64];

    snprintf(granted, sizeof(granted), "command%u ", (unsigned)KVR_GROUP_KIND_USER + 1);
    command = strstr(fake.log, granted);
    arrived = strstr(fake.log, write);
    assert_true(command != NULL && arrived != NULL && command < arrived);
    assert_true(closed == NULL || arrived < closed);
}

/* A provider that copies arriving bytes can take long to read a queue: long enough for a slot to be
 * granted and written to meanwhile. Without the GRANT the write is one for an idle slot, and is
 * repeated only after the time of quiet. */
static void hears_first(uint32_t ring_entries)
{
    struct group_fixture fixture;

    fixture_open(&fixture, 1, 0, ring_entries);
    fake.while_polled = grant_and_write;
    assert_true(kvr_group_step(fixture.group, 1));
    check_order("arrived0/1:77 ");

    /* A recycling waits for the entries that were polled, and hides no GRANT behind it. */
    fixture_settle(&fixture, 2);
    fake.log[0] = '\0';
    fake.while_polled = recycle_grant_and_write;
    assert_true(kvr_group_step(fixture.group, 3));
    check_order("arrived0/1:78 ");
    fixture_settle(&fixture, 4);
    assert_non_null(strstr(fake.log, "closed0/1 "));
    kvr_group_close(fixture.group);
}

static void group_hears_of_a_grant_before_what_it_brings(void **state)
{
    (void)state;
    hears_first(256);
}

/* With any number of commands: none waits in the loop while its dependents have left. */
static void group_takes_more_commands_than_its_ring_has_room_for(void **state)
{
    (void)state;
    hears_first(8);
}

/* The loop grants until it hears that the epoch has ended. So a GRANT may stand behind the
 * recycling and still name the old epoch; its write waits in the queue that is read empty. */
static void group_hears_of_a_grant_behind_a_recycling(void **state)
{
    struct group_fixture fixture;

    (void)state;
    fixture_open(&fixture, 1, 0, 256);
    recycle_grant_and_write(fixture.rails[0].newest);
    assert_true(kvr_group_step(fixture.group, 1));
    fixture_settle(&fixture, 2);
    check_order("arrived0/1:78 ");
    assert_non_null(strstr(fake.log, "closed0/1 "));
    kvr_group_close(fixture.group);
}

/* A peer that comes while a rail is being recycled is inserted into the successor, once. */
static void group_adds_a_peer_behind_a_recycling(void **state)
{
    struct kvr_peer_rails rails = {
        .rail_count = 1, .rails = {{.rail = 0, .epoch = 1, .bytes = 1, .address = {'p'}}}};
    struct kvr_group_message add = {.head.kind = KVR_GROUP_PEER_ADD,
                                    .peer_rails = {.peer = 5, .rails = &rails}};
    struct group_fixture fixture;
    const char *inserted;
    struct kvr_pair pair;

    (void)state;
    fixture_open(&fixture, 1, 0, 256);
    fake.log_inserts = true;
    push(KVR_GROUP_RECYCLE, 1);
    push(KVR_GROUP_KIND_USER, BEFORE);
    assert_true(kvr_group_command(fixture.group, &add));
    assert_true(kvr_group_step(fixture.group, 1));
    fixture_settle(&fixture, 2);
    inserted = strstr(fake.log, "insert0(p)");
    assert_non_null(inserted);
    assert_null(strstr(inserted + 1, "insert0(p)"));
    assert_int_equal(post(&fixture, 5, &pair), KVR_OK);
    assert_int_equal(kvr_group_address(fixture.group, 0).epoch, 2);
    kvr_group_close(fixture.group);
}

static void group_counts_what_it_does_not_know(void **state)
{
    struct group_fixture fixture;
    struct kvr_pair pair;
    struct kvr_group_message message;
    struct kvr_completion late;

    (void)state;
    fixture_open(&fixture, 1, 0, 64);
    peer_add(&fixture, 0, 1);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    finish(fixture.rails[0].newest, 0, KVR_OK);
    late = fixture.rails[0].newest->queue[0];
    fake_push(fixture.rails[0].newest, late); /* the same completion twice */
    kvr_group_step(fixture.group, 2);
    assert_int_equal(fake.written_count[0], 1);
    assert_int_equal(kvr_group_counters(fixture.group, 0).stale, 1);
    /* Error entries without a write of ours are reported once an epoch. */
    for (unsigned i = 0; i < 3; i++)
        fake_push(fixture.rails[0].newest,
                  (struct kvr_completion){.kind = KVR_COMPLETION_FAILED, .status = KVR_PEER_LOST});
    kvr_group_step(fixture.group, 3);
    assert_true(event(&fixture, &message));
    assert_int_equal(message.head.kind, KVR_GROUP_RAIL_ERROR);
    assert_int_equal(message.rail_error.epoch, 1);
    assert_false(event(&fixture, &message));
    assert_int_equal(kvr_group_counters(fixture.group, 0).failures, 3);
    /* The endpoint's own end is worse. */
    for (unsigned i = 0; i < 2; i++)
        fake_push(fixture.rails[0].newest, (struct kvr_completion){.kind = KVR_COMPLETION_FAILED,
                                                                   .status = KVR_RAIL_FAILED});
    kvr_group_step(fixture.group, 4);
    assert_true(event(&fixture, &message));
    assert_int_equal(message.rail_error.status, KVR_RAIL_FAILED);
    assert_false(event(&fixture, &message));
    kvr_group_close(fixture.group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(group_failures_of_an_ended_epoch_break_nothing),
        cmocka_unit_test(pages_that_no_device_moves_break_nothing),
        cmocka_unit_test(group_reaches_a_rail_that_gets_its_endpoint_later),
        cmocka_unit_test(group_drops_a_peer),
        cmocka_unit_test(group_recycles_in_order),
        cmocka_unit_test(group_ends_an_epoch_without_a_successor),
        cmocka_unit_test(group_hears_of_a_grant_before_what_it_brings),
        cmocka_unit_test(group_takes_more_commands_than_its_ring_has_room_for),
        cmocka_unit_test(group_hears_of_a_grant_behind_a_recycling),
        cmocka_unit_test(group_adds_a_peer_behind_a_recycling),
        cmocka_unit_test(group_counts_what_it_does_not_know),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
