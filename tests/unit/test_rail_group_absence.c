/* Goal: a process that was stopped posts nothing on waking before its peer has answered (rule 8).
 * Method: a rail group on a scripted fabric, and a clock that jumps. */
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

static void open_awake(struct bench *bench, kvr_ns now)
{
    bench_open_as(bench, &(struct kvr_group_options){.rail_count = 1,
                                                     .ring_entries = 64,
                                                     .absence_ns = ABSENCE,
                                                     .user = {.command = user_command,
                                                              .written = user_written,
                                                              .work = user_work,
                                                              .posting = user_posting,
                                                              .expecting = user_expecting}});
    posting = true;
    peer_add(bench, 0, 1);
    peer_add(bench, 1, 1);
    kvr_group_step(bench->group, now);
}

/* How often it was away by now; 0: nothing was told in this step. */
static uint64_t woke(struct bench *bench, kvr_ns now)
{
    struct kvr_group_message message;
    uint64_t absences = 0;

    kvr_group_step(bench->group, now);
    while (event(bench, &message)) {
        assert_int_equal(message.kind, KVR_GROUP_WOKE);
        assert_int_equal(absences, 0); /* told once */
        absences = message.a;
    }
    return absences;
}

static void prove(struct bench *bench, kvr_ns now, uint32_t peer, uint64_t absences)
{
    struct kvr_group_message message = {
        .kind = KVR_GROUP_PROVEN, .index = peer, .a = absences, .at = now};

    assert_true(kvr_group_command(bench->group, &message));
    kvr_group_step(bench->group, now);
}

static void absence_holds_back_what_is_posted(void **state)
{
    struct bench bench;
    struct kvr_pair pair;
    kvr_ns now = KVR_S;

    (void)state;
    open_awake(&bench, now);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    assert_true(kvr_group_wake_at(bench.group, now, KVR_S) <= now + ABSENCE / 4);
    assert_int_equal(woke(&bench, now += ABSENCE), 0);
    assert_int_equal(woke(&bench, now += ABSENCE + 1), 1);
    assert_int_equal(post(&bench, 0, &pair), KVR_AGAIN);
    assert_int_equal(post(&bench, 1, &pair), KVR_AGAIN);
    prove(&bench, now, 0, 1);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    assert_int_equal(post(&bench, 1, &pair), KVR_AGAIN); /* it has not answered */
    prove(&bench, now, 1, 1);
    assert_int_equal(post(&bench, 1, &pair), KVR_OK);
    finish_all(bench.rails[0].newest);
    kvr_group_close(bench.group);
}

/* The answer to the absence before says nothing about this one. */
static void absence_wants_its_own_answer(void **state)
{
    struct bench bench;
    struct kvr_pair pair;
    kvr_ns now = KVR_S;

    (void)state;
    open_awake(&bench, now);
    assert_int_equal(woke(&bench, now += 2 * ABSENCE), 1);
    assert_int_equal(woke(&bench, now += 2 * ABSENCE), 2);
    prove(&bench, now, 0, 1);
    assert_int_equal(post(&bench, 0, &pair), KVR_AGAIN);
    prove(&bench, now, 0, 2);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    finish_all(bench.rails[0].newest);
    kvr_group_close(bench.group);
}

/* Nothing was to be posted: it slept. Commands that were given before it was stopped tell. */
static void absence_is_not_sleep(void **state)
{
    struct kvr_group_message command = {.kind = KVR_GROUP_KIND_USER};
    struct bench bench;
    struct kvr_pair pair;
    kvr_ns now = KVR_S;

    (void)state;
    open_awake(&bench, now);
    posting = false;
    kvr_group_step(bench.group, now);
    assert_int_equal(woke(&bench, now += 100 * ABSENCE), 0);
    command.at = now;
    assert_true(kvr_group_command(bench.group, &command));
    assert_int_equal(woke(&bench, now + KVR_MS), 0);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);

    assert_true(kvr_group_command(bench.group, &command));
    assert_true(kvr_group_command(bench.group, &command));
    assert_int_equal(woke(&bench, now += 2 * ABSENCE), 1); /* for both */
    assert_int_equal(post(&bench, 0, &pair), KVR_AGAIN);
    finish_all(bench.rails[0].newest);
    kvr_group_close(bench.group);
}

/* The group slept, and the loop knows that it was no sleep. */
static void absence_is_told_by_the_loop(void **state)
{
    struct kvr_group_message away = {.kind = KVR_GROUP_AWAY, .a = KVR_S};
    struct bench bench;
    struct kvr_pair pair;
    kvr_ns now = KVR_S;

    (void)state;
    open_awake(&bench, now);
    posting = false;
    kvr_group_step(bench.group, now);
    now += 2 * ABSENCE;
    away.at = now;
    assert_true(kvr_group_command(bench.group, &away));
    assert_int_equal(woke(&bench, now), 1);
    assert_int_equal(post(&bench, 0, &pair), KVR_AGAIN);
    prove(&bench, now, 0, 1);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    finish_all(bench.rails[0].newest);
    kvr_group_close(bench.group);
}

/* A session that began after it has nothing to prove. */
static void absence_is_of_those_that_were_there(void **state)
{
    struct bench bench;
    struct kvr_pair pair;
    struct kvr_group_message message;
    kvr_ns now = KVR_S;

    (void)state;
    open_awake(&bench, now);
    assert_int_equal(woke(&bench, now += 2 * ABSENCE), 1);
    message = (struct kvr_group_message){.kind = KVR_GROUP_PEER_DROP, .index = 0, .at = now};
    assert_true(kvr_group_command(bench.group, &message));
    message = (struct kvr_group_message){
        .kind = KVR_GROUP_PEER_ADD, .index = 0, .pointer = &bench.peer_rails[0], .at = now};
    assert_true(kvr_group_command(bench.group, &message));
    kvr_group_step(bench.group, now);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    finish_all(bench.rails[0].newest);
    kvr_group_close(bench.group);
}

/* One that began before it has, although the group first hears of it now. */
static void absence_is_of_those_that_were_on_their_way(void **state)
{
    struct bench bench;
    struct kvr_pair pair;
    struct kvr_group_message message = {.kind = KVR_GROUP_PEER_DROP, .index = 0, .at = 2 * KVR_S};
    kvr_ns now = KVR_S;

    (void)state;
    open_awake(&bench, now);
    posting = false;
    kvr_group_step(bench.group, now);
    assert_true(kvr_group_command(bench.group, &message));
    kvr_group_step(bench.group, message.at);
    message.kind = KVR_GROUP_PEER_ADD;
    message.pointer = &bench.peer_rails[0];
    assert_true(kvr_group_command(bench.group, &message));
    now = message.at + 2 * ABSENCE;
    kvr_group_step(bench.group, now);
    assert_int_equal(post(&bench, 0, &pair), KVR_AGAIN);
    prove(&bench, now, 0, 1);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    finish_all(bench.rails[0].newest);
    kvr_group_close(bench.group);
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
