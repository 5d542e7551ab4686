/* Goal: a library calls its agent silent when the agent gives no sign of life, and at no other
 * time; a fetch of a silent agent gets FAILING once, and keeps its pages. Method: every row of the
 * table in client_silence.h, and every notice that may follow the library's own FAILING. */
#include "tests/support/check.h"

#include "client/client_silence.h"

#define BEAT  KVR_ENGINE_BEAT_NS
#define START (1000 * KVR_S)

static struct client_silence begun(kvr_ns sign)
{
    struct client_silence silence;

    client_silence_begin(&silence, START, sign);
    return silence;
}

/* Looks when one is due, until something is said or `end`. */
static client_silence_news look_until(struct client_silence *silence, kvr_ns end, kvr_ns sign,
                                      kvr_ns *ret_at)
{
    client_silence_news news = CLIENT_SILENCE_NONE;

    while (news == CLIENT_SILENCE_NONE && silence->due_at <= end) {
        *ret_at = silence->due_at;
        news = client_silence_look(silence, *ret_at, sign);
    }
    return news;
}

static void without_a_sign_for_three_beats_it_is_silent(void **state)
{
    struct client_silence silence = begun(START - BEAT / 2);
    kvr_ns at = 0;

    (void)state;
    assert_int_equal(client_silence_look(&silence, START + BEAT, START + BEAT / 2),
                     CLIENT_SILENCE_NONE);
    assert_int_equal(look_until(&silence, START + 60 * KVR_S, START + BEAT / 2, &at),
                     CLIENT_SILENCE_SILENT);
    assert_int_equal(at, START + BEAT / 2 + 3 * BEAT);
    assert_int_equal(silence.alive_at, START + BEAT / 2);
    assert_int_equal(look_until(&silence, at + 60 * KVR_S, START + BEAT / 2, &at),
                     CLIENT_SILENCE_NONE); /* it is said once */
}

static void signs_keep_it_from_being_silent(void **state)
{
    struct client_silence silence = begun(START);

    (void)state;
    for (kvr_ns now = START; now < START + 100 * KVR_S; now = silence.due_at)
        assert_int_equal(client_silence_look(&silence, now, now - BEAT), CLIENT_SILENCE_NONE);
}

static void a_sign_ends_the_silence(void **state)
{
    struct client_silence silence = begun(START);
    kvr_ns at = 0;

    (void)state;
    assert_int_equal(look_until(&silence, START + 60 * KVR_S, START, &at), CLIENT_SILENCE_SILENT);
    assert_true(silence.due_at - at <= BEAT); /* a sign is soon seen */
    assert_int_equal(client_silence_look(&silence, at + BEAT, at + BEAT / 2), CLIENT_SILENCE_BACK);
    assert_false(silence.silent);
    assert_int_equal(silence.alive_at, at + BEAT / 2);
    assert_int_equal(look_until(&silence, at + 60 * KVR_S, at + BEAT / 2, &at),
                     CLIENT_SILENCE_SILENT);
}

static void an_older_agent_is_never_silent(void **state)
{
    struct client_silence silence = begun(0);

    (void)state;
    assert_int_equal(silence.due_at, KVR_NEVER);
    for (kvr_ns now = START; now < START + 100 * KVR_S; now += KVR_S)
        assert_int_equal(client_silence_look(&silence, now, 0), CLIENT_SILENCE_NONE);
}

/* The agent's clock may count from elsewhere: a change is a sign all the same. */
static void a_clock_of_another_namespace_will_do(void **state)
{
    struct client_silence silence = begun(KVR_S);
    kvr_ns at = 0;

    (void)state;
    for (kvr_ns now = START + BEAT; now < START + 10 * BEAT; now += BEAT)
        assert_int_equal(client_silence_look(&silence, now, now - START), CLIENT_SILENCE_NONE);
    assert_int_equal(look_until(&silence, START + 60 * KVR_S, 9 * BEAT, &at),
                     CLIENT_SILENCE_SILENT);
    assert_int_equal(at, START + 12 * BEAT);
    silence = begun(START + 900 * KVR_S);
    assert_int_equal(client_silence_look(&silence, START + BEAT, START + 901 * KVR_S),
                     CLIENT_SILENCE_NONE);
    assert_int_equal(silence.alive_at, START + BEAT);
}

/* This process was away for a minute: whether the agent was, too, is not known yet. */
static void an_absence_of_this_process_does_not_count(void **state)
{
    struct client_silence silence = begun(START);
    kvr_ns at = START + 60 * KVR_S;

    (void)state;
    assert_int_equal(client_silence_look(&silence, at, START), CLIENT_SILENCE_NONE);
    assert_int_equal(silence.due_at, at + BEAT);
    assert_int_equal(client_silence_look(&silence, at + BEAT, at + BEAT / 2), CLIENT_SILENCE_NONE);

    silence = begun(START); /* the agent stays away: of the silence one beat was seen before */
    assert_int_equal(client_silence_look(&silence, at, START), CLIENT_SILENCE_NONE);
    assert_int_equal(client_silence_look(&silence, at + BEAT, START), CLIENT_SILENCE_NONE);
    assert_int_equal(client_silence_look(&silence, at + 2 * BEAT, START), CLIENT_SILENCE_SILENT);
    assert_int_equal(silence.alive_at, START);

    silence = begun(START); /* nearly silent before: it has a beat to give a sign */
    for (int i = 1; i <= 2; i++)
        assert_int_equal(client_silence_look(&silence, START + i * BEAT, START),
                         CLIENT_SILENCE_NONE);
    assert_int_equal(client_silence_look(&silence, START + 10 * BEAT, START), CLIENT_SILENCE_NONE);
    assert_int_equal(silence.due_at, START + 11 * BEAT);
    assert_int_equal(client_silence_look(&silence, START + 11 * BEAT, START),
                     CLIENT_SILENCE_SILENT);

    silence = begun(START); /* an engine that polls once a minute: a beat of each is seen */
    for (int i = 0; i < 2; i++, at += 60 * KVR_S)
        assert_int_equal(client_silence_look(&silence, at, START), CLIENT_SILENCE_NONE);
    assert_int_equal(client_silence_look(&silence, at, START), CLIENT_SILENCE_SILENT);
    at = START + 60 * KVR_S;

    silence = begun(START); /* a sign from within the absence is news, and the agent's latest */
    assert_int_equal(client_silence_look(&silence, at, START + KVR_S), CLIENT_SILENCE_NONE);
    assert_int_equal(silence.alive_at, START + KVR_S);
}

/* ---- a fetch --------------------------------------------------------------------------------- */

static void a_fetch_expires_at_its_deadline_while_silent(void **state)
{
    struct client_silence silence = begun(START);
    struct client_told told = {0}, failing = {.failing = true};
    struct kvr_notice notice;
    kvr_ns at = 0;

    (void)state;
    assert_false(client_silence_expires(&silence, &told, START, START + BEAT));
    (void)look_until(&silence, START + 60 * KVR_S, START, &at);
    assert_false(client_silence_expires(&silence, &told, at + 1, at));
    assert_true(client_silence_expires(&silence, &told, at, at));
    assert_true(client_silence_expires(&silence, &told, START, at));
    assert_false(client_silence_expires(&silence, &failing, START, at));
    assert_false(client_silence_expires(&silence, &told, KVR_NEVER, at));
    client_silence_expire(&silence, &told, at, 7, &notice);
    assert_int_equal(notice.kind, KVR_NOTICE_FAILING);
    assert_false(kvr_notice_terminal(notice.kind));
    assert_int_equal(notice.status, KVR_EXPIRED);
    assert_int_equal(notice.handle, 7);
    assert_non_null(strstr(notice.detail, "no sign of life for 3000 ms"));
    assert_false(client_silence_expires(&silence, &told, START, at)); /* it is said once */
}

static bool passes(struct client_told *told, kvr_notice_kind kind)
{
    struct kvr_notice notice = {.kind = kind};

    return client_told_take(told, 64, &notice) && notice.kind == kind;
}

static void after_its_own_failing_the_end_alone_is_told(void **state)
{
    struct client_told told = {.failing = true, .own = true};
    struct kvr_notice done = {
        .kind = KVR_NOTICE_DONE, .token_first = 16, .token_end = 48, .bytes = 5};

    (void)state;
    assert_false(passes(&told, KVR_NOTICE_FAILING));
    assert_false(passes(&told, KVR_NOTICE_LAYER_IN));
    assert_false(passes(&told, KVR_NOTICE_TAIL_IN));
    assert_false(passes(&told, KVR_NOTICE_ACCEPTED));
    assert_true(passes(&told, KVR_NOTICE_EXPIRED));
    assert_true(passes(&told, KVR_NOTICE_CANCELLED));
    assert_true(passes(&told, KVR_NOTICE_FAILED));
    assert_true(client_told_take(&told, 64, &done));
    assert_int_equal(done.kind, KVR_NOTICE_EXPIRED);
    assert_int_equal(done.status, KVR_EXPIRED);
    assert_int_equal(done.token_first, 48); /* the tokens before are right */
    assert_int_equal(done.token_end, 64);
    assert_true(done.detail[0] != '\0');
}

static void otherwise_all_is_told(void **state)
{
    struct client_told told = {0};

    (void)state;
    assert_true(passes(&told, KVR_NOTICE_ACCEPTED));
    assert_true(passes(&told, KVR_NOTICE_LAYER_IN));
    assert_true(passes(&told, KVR_NOTICE_DONE));
    assert_true(passes(&told, KVR_NOTICE_FAILING));
    assert_true(told.failing);
    assert_true(passes(&told, KVR_NOTICE_EXPIRED));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_sign_for_three_beats_it_is_silent),
        cmocka_unit_test(signs_keep_it_from_being_silent),
        cmocka_unit_test(a_sign_ends_the_silence),
        cmocka_unit_test(an_older_agent_is_never_silent),
        cmocka_unit_test(a_clock_of_another_namespace_will_do),
        cmocka_unit_test(an_absence_of_this_process_does_not_count),
        cmocka_unit_test(a_fetch_expires_at_its_deadline_while_silent),
        cmocka_unit_test(after_its_own_failing_the_end_alone_is_told),
        cmocka_unit_test(otherwise_all_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
