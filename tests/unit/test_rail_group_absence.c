/* Goal: a process that was stopped posts nothing after it resumes before its peer has answered
 * (rule 8). Method: a rail group on a scripted fabric, and a clock that jumps. */
#include "tests/support/check.h"

#include "tests/support/fake_group.h"

#define ABSENCE (1500 * KVR_MS)

static bool posting;

static void user_command(void *self, kvr_ns now, const struct kvr_group_message *message)
{
    (void)self, (void)now, (void)message;
}

static void user_written(void *self, kvr_ns now, uint64_t token, uint32_t count, kvr_status status)
{
    (void)self, (void)now, (void)token, (void)count, (void)status;
}

static bool user_work(void *self, kvr_ns now)
{
    (void)self, (void)now;
    return false;
}

static bool user_posting(void *self)
{
    (void)self;
    return posting;
}

static bool user_expecting(void *self)
{
    (void)self;
    return false;
}

static void open_awake(struct group_fixture *fixture, kvr_ns now)
{
    fixture_open_as(fixture, &(struct kvr_group_options){.rail_count = 1,
                                                         .ring_entries = 64,
                                                         .absence_ns = ABSENCE,
                                                         .user = {.command = user_command,
                                                                  .written = user_written,
                                                                  .work = user_work,
                                                                  .posting = user_posting,
                                                                  .expecting = user_expecting}});
    posting = true;
    peer_add(fixture, 0, 1);
    peer_add(fixture, 1, 1);
    kvr_group_step(fixture->group, now);
}

/* The number of absences so far; 0: this step reported none. */
static uint64_t woke(struct group_fixture *fixture, kvr_ns now)
{
    struct kvr_group_message message;
    uint64_t absences = 0;

    kvr_group_step(fixture->group, now);
    while (event(fixture, &message)) {
        assert_int_equal(message.head.kind, KVR_GROUP_RESUMED);
        assert_int_equal(absences, 0); /* reported once */
        absences = message.resumed.count;
    }
    return absences;
}

static void prove(struct group_fixture *fixture, kvr_ns now, uint32_t peer, uint64_t absences)
{
    struct kvr_group_message message = {
        .head = {.kind = KVR_GROUP_CONFIRMED, .at = now},
        .confirmed = {.peer = peer, .count = absences},
    };

    assert_true(kvr_group_command(fixture->group, &message));
    kvr_group_step(fixture->group, now);
}

static void absence_holds_back_what_is_posted(void **state)
{
    struct group_fixture fixture;
    struct kvr_pair pair;
    kvr_ns now = KVR_S;

    (void)state;
    open_awake(&fixture, now);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    assert_true(kvr_group_wake_at(fixture.group, now, KVR_S) <= now + ABSENCE / 4);
    assert_int_equal(woke(&fixture, now += ABSENCE), 0);
    assert_int_equal(woke(&fixture, now += ABSENCE + 1), 1);
    assert_int_equal(post(&fixture, 0, &pair), KVR_AGAIN);
    assert_int_equal(post(&fixture, 1, &pair), KVR_AGAIN);
    prove(&fixture, now, 0, 1);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    assert_int_equal(post(&fixture, 1, &pair), KVR_AGAIN); /* the peer has not answered */
    prove(&fixture, now, 1, 1);
    assert_int_equal(post(&fixture, 1, &pair), KVR_OK);
    finish_all(fixture.rails[0].newest);
    kvr_group_close(fixture.group);
}

/* An answer to the earlier absence does not confirm this one. */
static void absence_wants_its_own_answer(void **state)
{
    struct group_fixture fixture;
    struct kvr_pair pair;
    kvr_ns now = KVR_S;

    (void)state;
    open_awake(&fixture, now);
    assert_int_equal(woke(&fixture, now += 2 * ABSENCE), 1);
    assert_int_equal(woke(&fixture, now += 2 * ABSENCE), 2);
    prove(&fixture, now, 0, 1);
    assert_int_equal(post(&fixture, 0, &pair), KVR_AGAIN);
    prove(&fixture, now, 0, 2);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    finish_all(fixture.rails[0].newest);
    kvr_group_close(fixture.group);
}

/* Nothing was to be posted: the group slept. Commands from before the stop reveal the absence. */
static void absence_is_not_sleep(void **state)
{
    struct kvr_group_message command = {.head.kind = KVR_GROUP_KIND_USER};
    struct group_fixture fixture;
    struct kvr_pair pair;
    kvr_ns now = KVR_S;

    (void)state;
    open_awake(&fixture, now);
    posting = false;
    kvr_group_step(fixture.group, now);
    assert_int_equal(woke(&fixture, now += 100 * ABSENCE), 0);
    command.head.at = now;
    assert_true(kvr_group_command(fixture.group, &command));
    assert_int_equal(woke(&fixture, now + KVR_MS), 0);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);

    assert_true(kvr_group_command(fixture.group, &command));
    assert_true(kvr_group_command(fixture.group, &command));
    assert_int_equal(woke(&fixture, now += 2 * ABSENCE), 1); /* for both */
    assert_int_equal(post(&fixture, 0, &pair), KVR_AGAIN);
    finish_all(fixture.rails[0].newest);
    kvr_group_close(fixture.group);
}

/* The group slept, and the loop knows that the process was stopped. */
static void absence_is_told_by_the_loop(void **state)
{
    struct kvr_group_message away = {.head.kind = KVR_GROUP_SUSPENDED, .suspended.since = KVR_S};
    struct group_fixture fixture;
    struct kvr_pair pair;
    kvr_ns now = KVR_S;

    (void)state;
    open_awake(&fixture, now);
    posting = false;
    kvr_group_step(fixture.group, now);
    now += 2 * ABSENCE;
    away.head.at = now;
    assert_true(kvr_group_command(fixture.group, &away));
    assert_int_equal(woke(&fixture, now), 1);
    assert_int_equal(post(&fixture, 0, &pair), KVR_AGAIN);
    prove(&fixture, now, 0, 1);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    finish_all(fixture.rails[0].newest);
    kvr_group_close(fixture.group);
}

/* A session that began after the absence needs no confirmation. */
static void absence_is_of_those_that_were_there(void **state)
{
    struct group_fixture fixture;
    struct kvr_pair pair;
    struct kvr_group_message message;
    kvr_ns now = KVR_S;

    (void)state;
    open_awake(&fixture, now);
    assert_int_equal(woke(&fixture, now += 2 * ABSENCE), 1);
    message = (struct kvr_group_message){.head = {.kind = KVR_GROUP_PEER_DROP, .at = now}};
    assert_true(kvr_group_command(fixture.group, &message));
    message = (struct kvr_group_message){
        .head = {.kind = KVR_GROUP_PEER_ADD, .at = now},
        .peer_rails.rails = &fixture.peer_rails[0],
    };
    assert_true(kvr_group_command(fixture.group, &message));
    kvr_group_step(fixture.group, now);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    finish_all(fixture.rails[0].newest);
    kvr_group_close(fixture.group);
}

/* A session that began before the absence needs one, although the group learns of it only now. */
static void absence_is_of_those_that_were_on_their_way(void **state)
{
    struct group_fixture fixture;
    struct kvr_pair pair;
    struct kvr_group_message message = {.head = {.kind = KVR_GROUP_PEER_DROP, .at = 2 * KVR_S}};
    kvr_ns now = KVR_S;

    (void)state;
    open_awake(&fixture, now);
    posting = false;
    kvr_group_step(fixture.group, now);
    assert_true(kvr_group_command(fixture.group, &message));
    kvr_group_step(fixture.group, message.head.at);
    message.head.kind = KVR_GROUP_PEER_ADD;
    message.peer_rails.rails = &fixture.peer_rails[0];
    assert_true(kvr_group_command(fixture.group, &message));
    now = message.head.at + 2 * ABSENCE;
    kvr_group_step(fixture.group, now);
    assert_int_equal(post(&fixture, 0, &pair), KVR_AGAIN);
    prove(&fixture, now, 0, 1);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    finish_all(fixture.rails[0].newest);
    kvr_group_close(fixture.group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absence_holds_back_what_is_posted),
        cmocka_unit_test(absence_wants_its_own_answer),
        cmocka_unit_test(absence_is_not_sleep),
        cmocka_unit_test(absence_is_told_by_the_loop),
        cmocka_unit_test(absence_is_of_those_that_were_there),
        cmocka_unit_test(absence_is_of_those_that_were_on_their_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
