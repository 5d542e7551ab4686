/* Goal: a target that does not prove the secret of a request gets nothing of it, takes no place of
 * its consumers, and learns nothing: not even whether there is such a request, or was. The source's
 * engine and the metric hear of it. Method: outbound alone, with a record of its port's calls; the
 * target of peer 1 has another secret, another session, transfer or rank in its proof, or none. */
#include "tests/support/check.h"

#include <stdio.h>

#include "prefill-agent/source_transfer.h"
#include "tests/support/outbound_case.h"

#define UNKNOWN "nobody-publishes-it"

static const struct kvr_secret secret = {{1, 2, 3, 4, 5, 6, 7, 8, 9}};
static const struct kvr_secret other_secret = {{1, 2, 3, 4, 5, 6, 7, 8, 10}};

static int open_secretive(void **state)
{
    open_outbound(state);
    outbound.options.without_secret = false;
    return 0;
}

static void publish(uint32_t consumers, const struct kvr_secret *its)
{
    struct kvr_request request = {
        .kind = KVR_REQ_SOURCE_OPEN,
        .source_open = {
            .request = "r", .tokens = SMALL_PLANNED, .consumers = consumers, .secret = *its}};

    ask(&request);
}

static struct kvr_message want_of(const char *request, uint32_t peer, uint64_t nonce)
{
    struct kvr_message message = {.kind = KVR_MSG_WANT, .transfer = nonce};
    struct kvr_msg_want *want = &message.want;

    snprintf(want->request, sizeof(want->request), "%s", request);
    want->source_engine = machine_rank(1).engine;
    want->source_generation = 1;
    want->target = machine_rank((uint8_t)(10 + peer));
    want->tokens = SMALL_PLANNED;
    want->deadline_ms = FETCH_DEADLINE / KVR_MS;
    return message;
}

static void prove(struct kvr_msg_want *want, const struct kvr_secret *known, uint64_t session,
                  uint64_t nonce)
{
    const struct kvr_rank source = machine_rank(1);
    struct kvr_proof_key key;

    kvr_proof_key(known, want->request, want->attempt, &source, &key);
    kvr_proof(&key, session, nonce, &want->target, &want->proof);
}

static void send_want(uint32_t peer, const struct kvr_message *message)
{
    outbound_message(&outbound, now, peer, message);
}

static void want_knowing(const char *request, uint32_t peer, uint64_t nonce,
                         const struct kvr_secret *known)
{
    struct kvr_message message = want_of(request, peer, nonce);

    prove(&message.want, known, SESSION + peer, nonce);
    send_want(peer, &message);
}

static void nothing_sent(void)
{
    assert_int_equal(machine_log.sent_count, 0);
    assert_int_equal(machine_log.command_count, 0);
}

/* ---- what is refused at once ------------------------------------------------------------------
 */

static void publish_needs_a_secret(void **state)
{
    (void)state;
    publish(1, &(struct kvr_secret){{0}});
    assert_int_equal(freed()->status, KVR_INVALID);
    assert_non_null(strstr(freed()->detail, "--insecure"));
    outbound.options.without_secret = true;
    machine_log_clear();
    publish(1, &(struct kvr_secret){{0}});
    assert_null(freed());
}

static void want_without_proof_is_refused(void **state)
{
    struct kvr_message message = want_of("r", 1, NONCE), unknown = want_of(UNKNOWN, 1, NONCE + 1);

    (void)state;
    publish(1, &secret);
    send_want(1, &message);
    assert_int_equal(machine_sent(KVR_MSG_CANCEL)->reason.status, KVR_NOT_AUTHORIZED);
    assert_int_equal(outbound.wants_unproven, 1);
    send_want(1, &unknown); /* and so it is where there is no such request */
    assert_int_equal(machine_sent_count(KVR_MSG_CANCEL), 2);
    assert_int_equal(outbound.transfers.used_count, 0);
    outbound.options.without_secret = true;
    send_want(1, &message);
    assert_int_equal(machine_notice_count(KVR_NOTICE_ACCEPTED), 1);
}

/* ---- what is given ----------------------------------------------------------------------------
 */

static void right_proof_is_taken(void **state)
{
    (void)state;
    publish(1, &secret);
    want_knowing("r", 0, NONCE, &secret);
    assert_int_equal(machine_notice_count(KVR_NOTICE_ACCEPTED), 1);
    assert_int_equal(machine_notice_count(KVR_NOTICE_TARGET_REFUSED), 0);
    assert_int_equal(outbound.wants_unproven, 0);
}

/* Also with --insecure: a secret that is named must be the right one. */
static void wrong_proof_is_wrong_without_security(void **state)
{
    (void)state;
    outbound.options.without_secret = true;
    publish(1, &secret);
    want_knowing("r", 1, NONCE, &other_secret);
    nothing_sent();
    assert_int_equal(machine_notice_count(KVR_NOTICE_ACCEPTED), 0);
    assert_int_equal(outbound.wants_unproven, 1);
}

/* ---- what a guesser gets ----------------------------------------------------------------------
 */

/* The engine hears once; the WANT waits, and takes no place: the owner's consumer comes. */
static void refused_silently(const struct kvr_message *message)
{
    uint32_t told = machine_notice_count(KVR_NOTICE_TARGET_REFUSED);

    send_want(1, message);
    nothing_sent();
    assert_int_equal(machine_notice_count(KVR_NOTICE_ACCEPTED), 0);
    assert_int_equal(machine_notice_count(KVR_NOTICE_TARGET_REFUSED), told + 1);
    assert_int_equal(machine_notice(KVR_NOTICE_TARGET_REFUSED)->status, KVR_NOT_AUTHORIZED);
    assert_string_equal(machine_notice(KVR_NOTICE_TARGET_REFUSED)->agent, "d1");
}

static void every_wrong_proof_waits(void **state)
{
    struct kvr_message wrong[5];

    (void)state;
    for (uint32_t i = 0; i < 5; i++) {
        wrong[i] = want_of("r", 1, NONCE + i);
        wrong[i].want.attempt = i == 3; /* of another attempt */
        prove(&wrong[i].want, i == 0 ? &other_secret : &secret, SESSION + (i == 1 ? 0 : 1),
              NONCE + (i == 2 ? 77 : i));
        wrong[i].want.attempt = 0;
    }
    wrong[4].want.proof.bytes[KVR_PROOF_BYTES - 1] ^= 1;
    publish(1, &secret);
    for (uint32_t i = 0; i < 5; i++)
        refused_silently(&wrong[i]);
    assert_int_equal(outbound.wants_unproven, 5);
    tick(KVR_S);
    assert_int_equal(outbound.wants_unproven, 5);
    want_knowing("r", 0, NONCE + 9, &secret);
    assert_int_equal(machine_notice_count(KVR_NOTICE_ACCEPTED), 1);
    publish_all();
    nothing_sent();
}

/* Everything that peer 1 is sent about it, from its WANT to the end. */
struct answers {
    uint32_t count;
    struct kvr_message sent[4];
    kvr_ns at[4];
};

static void listen(struct answers *answers)
{
    for (uint32_t i = 0; i < machine_log.sent_count; i++) {
        if (machine_log.sent_to[i] != 1)
            continue;
        assert_true(answers->count < 4);
        answers->at[answers->count] = now;
        answers->sent[answers->count] = machine_log.sent[i];
        answers->sent[answers->count++].transfer = 0;
    }
    machine_log_clear();
}

static struct answers answers_to(const char *request, uint64_t nonce)
{
    struct answers answers;
    kvr_ns began = now;

    memset(&answers, 0, sizeof(answers));
    machine_log_clear();
    want_knowing(request, 1, nonce, &other_secret);
    listen(&answers);
    while (now < began + FETCH_DEADLINE + SILENCE) {
        tick(KVR_S);
        listen(&answers);
    }
    for (uint32_t i = 0; i < answers.count; i++)
        answers.at[i] -= began;
    return answers;
}

static void same_answers(const struct answers *a, const struct answers *b)
{
    assert_true(a->count > 0);
    assert_int_equal(a->count, b->count);
    for (uint32_t i = 0; i < a->count; i++) {
        assert_int_equal(a->sent[i].kind, b->sent[i].kind);
        assert_int_equal(a->at[i], b->at[i]);
        if (a->sent[i].kind == KVR_MSG_QUIET) /* of no write at all */
            assert_int_equal(a->sent[i].quiet.count_count + b->sent[i].quiet.count_count, 0);
        else
            assert_memory_equal(&a->sent[i].reason, &b->sent[i].reason, sizeof(a->sent[i].reason));
    }
}

/* Published; with a consumer that has all of it; ended; while the agent drains. */
static void guesser_cannot_tell_what_there_is(void **state)
{
    struct answers unknown, known, taken, ended, draining;
    struct kvr_request cancel = {.kind = KVR_REQ_CANCEL};

    (void)state;
    outbound.options.lease_default_ns = 3600 * KVR_S;
    unknown = answers_to(UNKNOWN, NONCE);
    assert_int_equal(unknown.sent[0].kind, KVR_MSG_FAIL);
    assert_int_equal(unknown.sent[0].reason.status, KVR_NO_SOURCE);
    publish(1, &secret);
    known = answers_to("r", NONCE + 1);
    same_answers(&unknown, &known);
    want_knowing("r", 0, NONCE + 2, &secret);
    taken = answers_to("r", NONCE + 3);
    same_answers(&unknown, &taken);
    ask(&cancel);
    ended = answers_to("r", NONCE + 4);
    same_answers(&unknown, &ended);
    outbound_drain(&outbound, "this agent is shutting down");
    unknown = answers_to(UNKNOWN, NONCE + 5);
    draining = answers_to("r", NONCE + 6);
    same_answers(&unknown, &draining);
    assert_int_equal(draining.sent[0].reason.status, KVR_DRAINING);
}

/* A target that knows the secret gets the end at once (rule 10). */
static void owner_hears_of_the_end(void **state)
{
    struct kvr_request cancel = {.kind = KVR_REQ_CANCEL};

    (void)state;
    publish(1, &secret);
    ask(&cancel);
    machine_log_clear();
    want_knowing("r", 0, NONCE, &secret);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_CANCELLED);
}

/* ---- WANTs that come first --------------------------------------------------------------------
 */

static void parked_wants_are_checked_when_it_is_published(void **state)
{
    struct kvr_request cancel = {.kind = KVR_REQ_CANCEL};

    (void)state;
    want_knowing("r", 1, NONCE, &other_secret);
    want_knowing("r", 0, NONCE + 1, &secret);
    publish(1, &secret);
    assert_int_equal(machine_notice_count(KVR_NOTICE_ACCEPTED), 1);
    assert_int_equal(machine_notice_count(KVR_NOTICE_TARGET_REFUSED), 1);
    assert_int_equal(outbound.wants_unproven, 1);
    ask(&cancel); /* its end is none of the other's business */
    assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 1);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->transfer, NONCE + 1);
}

/* The attempt again, with another secret: the old one is worth nothing. */
static void secret_ends_with_the_publish(void **state)
{
    struct kvr_request cancel = {.kind = KVR_REQ_CANCEL};

    (void)state;
    publish(1, &secret);
    ask(&cancel);
    publish(1, &other_secret);
    machine_log_clear();
    want_knowing("r", 0, NONCE, &secret);
    nothing_sent();
    want_knowing("r", 1, NONCE + 1, &other_secret);
    assert_int_equal(machine_notice_count(KVR_NOTICE_ACCEPTED), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(publish_needs_a_secret, open_secretive),
        cmocka_unit_test_setup(want_without_proof_is_refused, open_secretive),
        cmocka_unit_test_setup(right_proof_is_taken, open_secretive),
        cmocka_unit_test_setup(wrong_proof_is_wrong_without_security, open_secretive),
        cmocka_unit_test_setup(every_wrong_proof_waits, open_secretive),
        cmocka_unit_test_setup(guesser_cannot_tell_what_there_is, open_secretive),
        cmocka_unit_test_setup(owner_hears_of_the_end, open_secretive),
        cmocka_unit_test_setup(parked_wants_are_checked_when_it_is_published, open_secretive),
        cmocka_unit_test_setup(secret_ends_with_the_publish, open_secretive),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
