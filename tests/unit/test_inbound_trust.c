/* Goal: landed bytes are trusted while the source still lends its pages, while it still holds the
 * session after an absence of ours, and when its digests match. Method: as in test_inbound.c. */
#include "tests/support/check.h"

#include <stdio.h>

#include "tests/support/inbound_case.h"

/* ---- revocation words (rule 11) -------------------------------------------------------------- */

static const _Atomic uint64_t *shown; /* NULL: the peer shows no words */
static uint32_t revocation_words_taken;
static uint64_t words_asked;

static const _Atomic uint64_t *revocation_word_take(void *self, uint32_t peer, uint64_t words,
                                                    uint32_t number)
{
    (void)self, (void)peer, (void)number;
    words_asked = words;
    revocation_words_taken += shown != NULL;
    return shown;
}

static void revocation_word_return(void *self, const _Atomic uint64_t *word)
{
    (void)self;
    assert_ptr_equal(word, shown);
    revocation_words_taken--;
}

static void copies_here(struct kvr_ports *ports, const _Atomic uint64_t *word)
{
    *ports = machine_ports;
    ports->revocation_word_take = revocation_word_take;
    ports->revocation_word_return = revocation_word_return;
    inbound.ports = ports;
    shown = word;
}

static void what_was_revoked_fails_and_drains(void **state)
{
    _Atomic uint64_t word = 0;
    struct kvr_ports ports;
    uint64_t nonce;

    (void)state;
    copies_here(&ports, &word);
    nonce = fetch(1, 0, 1);
    plan(0, nonce);
    assert_true(granted(nonce));
    assert_int_equal(revocation_words_taken, 1);
    assert_int_equal(words_asked, machine_words_number(10)); /* as that engine's REGIONS said */
    group_says(nonce, LAND_REVOKED, 0, NULL);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILING)->status, KVR_REVOKED);
    assert_int_equal(machine_notice_count(KVR_NOTICE_FAILED), 0); /* writes may still come */
    quiet(0, nonce, 0);
    group_says(nonce, LAND_IS_QUIET, 0, NULL);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILED)->status, KVR_REVOKED);
    assert_int_equal(revocation_words_taken, 1); /* the landing still has it */
    group_closes(nonce);
    assert_int_equal(revocation_words_taken, 0);
}

static void a_source_that_shows_no_revocation_words_is_refused(void **state)
{
    struct kvr_ports ports;
    uint64_t nonce;

    (void)state;
    copies_here(&ports, NULL);
    nonce = fetch(1, 0, 1);
    plan(0, nonce);
    assert_false(granted(nonce));
    assert_int_equal(machine_notice(KVR_NOTICE_FAILED)->status, KVR_UNSUPPORTED);
    assert_int_equal(inbound.free_count, SLOTS);
    assert_int_equal(inbound_live(&inbound), 0);
}

/* ---- absences (rule 8) ----------------------------------------------------------------------- */

/* Layers that landed before the resume are announced once the source has answered (rules 8, 11). */
static void an_absence_holds_back_what_landed(void **state)
{
    struct kvr_group_message woke = {.head.kind = KVR_GROUP_RESUMED, .resumed.count = 4};
    struct kvr_message alive = {.kind = KVR_MSG_ALIVE};
    uint64_t nonce = fetch(1, 0, 1);
    char json[2000];

    (void)state;
    plan(0, nonce);
    final(0, nonce);
    inbound_group(&inbound, now, &woke);
    inbound_why(&inbound, 0, 1, json, sizeof(json));
    assert_non_null(strstr(json, "\"held_by\":\"absence\""));
    alive.probe.token = machine_sent(KVR_MSG_PROBE)->probe.token;
    woke.head.group = 1; /* another thread of ours was suspended too */
    inbound_group(&inbound, now, &woke);
    assert_int_equal(machine_sent_count(KVR_MSG_PROBE), 8);
    group_says(nonce, LAND_LAYER, 0, NULL);
    group_says(nonce, LAND_ALL, SMALL_CHUNKS, NULL);
    inbound_message(&inbound, now, 0, &alive); /* of an earlier absence */
    alive.probe.token = machine_sent(KVR_MSG_PROBE)->probe.token;
    inbound_message(&inbound, now, 1, &alive);     /* of another source */
    assert_int_equal(machine_log.notice_count, 1); /* accepted, and nothing since */
    inbound_message(&inbound, now, 0, &alive);
    assert_int_equal(machine_notice_count(KVR_NOTICE_LAYER_IN), 1);
    assert_int_equal(machine_notice_count(KVR_NOTICE_DONE), 1);
}

/* A source that gave up the session answers so, and nothing is DONE. */
static void an_absence_that_was_too_long_fails(void **state)
{
    struct kvr_group_message woke = {.head.kind = KVR_GROUP_RESUMED, .resumed.count = 1};
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    plan(0, nonce);
    final(0, nonce);
    inbound_group(&inbound, now, &woke);
    group_says(nonce, LAND_ALL, SMALL_CHUNKS, NULL);
    inbound_peer_lost(&inbound, now, 0, KVR_PEER_LOST, "it had given up this session");
    recycled(0, 1);
    recycled(1, 1);
    group_says(nonce, LAND_IS_QUIET, 0, NULL);
    assert_int_equal(machine_notice_count(KVR_NOTICE_DONE), 0);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILED)->status, KVR_PEER_LOST);
}

static void a_probe_is_answered(void **state)
{
    struct kvr_message probe = {.kind = KVR_MSG_PROBE, .probe = {.token = 9}};

    (void)state;
    inbound_message(&inbound, now, 2, &probe);
    assert_int_equal(machine_sent(KVR_MSG_ALIVE)->probe.token, 9);
    assert_int_equal(machine_log.sent_to[0], 2);
}

/* ---- digests (rule 6) ------------------------------------------------------------------------ */

static uint64_t all_in_with_digests(void)
{
    uint64_t nonce;

    inbound.options.digest = KVR_DIGEST_FULL;
    nonce = fetch(1, 0, 1);
    assert_int_equal(machine_sent(KVR_MSG_WANT)->want.digest, KVR_DIGEST_FULL);
    plan(0, nonce);
    final(0, nonce);
    group_says(nonce, LAND_ALL, SMALL_CHUNKS, NULL);
    return nonce;
}

static void digest(uint64_t nonce, uint32_t first, uint32_t count, uint32_t value_count)
{
    static const uint64_t values[SMALL_CHUNKS];
    struct kvr_message message = {.kind = KVR_MSG_DIGEST, .transfer = nonce};

    message.digest = (struct kvr_msg_digest){first, count, values, value_count};
    inbound_message(&inbound, now, 0, &message);
}

static void done_waits_for_the_digests(void **state)
{
    uint64_t nonce = all_in_with_digests();

    (void)state;
    assert_int_equal(machine_command_count(LAND_VERIFY), 0);
    digest(nonce, 0, 3, 3);
    assert_int_equal(machine_command_count(LAND_VERIFY), 0);
    digest(nonce, 3, SMALL_CHUNKS - 3, SMALL_CHUNKS - 3);
    assert_int_equal(machine_command_count(LAND_VERIFY), 1);
    assert_int_equal(machine_notice_count(KVR_NOTICE_DONE), 0);
    group_says(nonce, LAND_VERIFIED, 0, NULL);
    assert_int_equal(machine_notice_count(KVR_NOTICE_DONE), 1);
}

static void a_corrupt_chunk_is_no_success(void **state)
{
    uint64_t nonce = all_in_with_digests();

    (void)state;
    digest(nonce, 0, SMALL_CHUNKS, SMALL_CHUNKS);
    group_says(nonce, LAND_CORRUPT, 5, NULL);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILING)->status, KVR_DIGEST_MISMATCH);
    assert_non_null(strstr(machine_notice(KVR_NOTICE_FAILING)->detail, "chunk 5 of 8 (layer 1)"));
    assert_int_equal(machine_sent(KVR_MSG_CANCEL)->reason.status, KVR_DIGEST_MISMATCH);
    assert_int_equal(inbound.digest_mismatches, 1);
    assert_int_equal(machine_sent_count(KVR_MSG_LANDED), 0);
}

/* The strongest wish counts: of the fetch, of this agent or of the source's agent. */
static void a_fetch_asks_for_a_digest_of_its_own(void **state)
{
    static const kvr_digest_mode asked[][4] = {
        /* fetch, target's agent, source's agent, the mode in WANT */
        {KVR_DIGEST_OFF, KVR_DIGEST_OFF, KVR_DIGEST_OFF, KVR_DIGEST_OFF},
        {KVR_DIGEST_FULL, KVR_DIGEST_OFF, KVR_DIGEST_SAMPLE, KVR_DIGEST_FULL},
        {KVR_DIGEST_SAMPLE, KVR_DIGEST_FULL, KVR_DIGEST_OFF, KVR_DIGEST_FULL},
        {KVR_DIGEST_OFF, KVR_DIGEST_SAMPLE, KVR_DIGEST_FULL, KVR_DIGEST_FULL},
    };

    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        struct kvr_source_address from = {.agent = "0", .generation = 1};
        struct kvr_request open = {.kind = KVR_REQ_TARGET_OPEN, .handle = 1};

        open_inbound(state);
        inbound.options.digest = asked[i][1];
        inbound.peers[0].digest = asked[i][2];
        from.engine = machine_rank(10).engine;
        open.target_open.tokens = SMALL_PLANNED;
        open.target_open.skip_tokens = SMALL_PLANNED; /* it needs no pages */
        open.target_open.sources = &from;
        open.target_open.source_count = 1;
        open.target_open.digest = asked[i][0];
        snprintf(open.target_open.request, sizeof(open.target_open.request), "r");
        inbound_request(&inbound, now, 0, &open);
        assert_int_equal(machine_sent(KVR_MSG_WANT)->want.digest, asked[i][3]);
    }
}

static void digests_of_other_chunks_are_refused(void **state)
{
    static const uint32_t bad[][3] = {{1, 2, 2}, {0, 3, 2}, {0, 0, 0}, {0, SMALL_CHUNKS + 1, 8}};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        open_inbound(NULL);
        digest(all_in_with_digests(), bad[i][0], bad[i][1], bad[i][2]);
        assert_int_equal(machine_notice(KVR_NOTICE_FAILING)->status, KVR_MALFORMED);
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, open_inbound)
    const struct CMUnitTest tests[] = {
        CASE(what_was_revoked_fails_and_drains),
        CASE(a_source_that_shows_no_revocation_words_is_refused),
        CASE(an_absence_holds_back_what_landed),
        CASE(an_absence_that_was_too_long_fails),
        CASE(a_probe_is_answered),
        CASE(done_waits_for_the_digests),
        CASE(a_corrupt_chunk_is_no_success),
        CASE(digests_of_other_chunks_are_refused),
        CASE(a_fetch_asks_for_a_digest_of_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
