/* Goal: a fetch proves the secret of its request to each of its sources, for the session in which
 * WANT is sent, and keeps nothing of the secret. Method: inbound alone, with a record of its port's
 * calls; the proofs are computed anew here. */
#include "tests/support/check.h"

#include <stdio.h>

#include "decode-agent/fetch.h"
#include "decode-agent/transfer.h"
#include "tests/support/inbound_case.h"

static const struct kvr_secret secret = {{1, 2, 3, 4, 5, 6, 7, 8, 9}};

static int open_secretive(void **state)
{
    open_inbound(state);
    inbound.options.without_secret = false;
    return 0;
}

/* From peers 1 and 2. Returns the nonce of the first transfer. */
static uint64_t fetch_knowing(uint64_t handle, const struct kvr_secret *known)
{
    static struct kvr_source_address from[2];
    static const uint32_t ids[SMALL_PLANNED] = {1, 3, 5, 7};
    struct kvr_request open = {.kind = KVR_REQ_TARGET_OPEN, .handle = handle};
    struct kvr_request pages = {.kind = KVR_REQ_TARGET_PAGES, .handle = handle};
    uint64_t nonce = inbound.nonces.given + 1;

    for (uint32_t i = 0; i < 2; i++) {
        snprintf(from[i].agent, sizeof(from[i].agent), "%u", 1 + i);
        from[i].engine = machine_rank((uint8_t)(11 + i)).engine;
        from[i].generation = i; /* 0: any */
    }
    open.target_open = (struct kvr_req_target_open){.request = "r",
                                                    .attempt = 3,
                                                    .tokens = SMALL_PLANNED,
                                                    .sources = from,
                                                    .source_count = 2,
                                                    .secret = *known};
    pages.pages.ids = ids;
    pages.pages.id_count = SMALL_PLANNED;
    inbound_request(&inbound, now, 0, &open);
    inbound_request(&inbound, now, 0, &pages);
    return nonce;
}

static const struct kvr_msg_want *want_of(uint64_t nonce)
{
    for (uint32_t i = 0; i < machine_log.sent_count; i++)
        if (machine_log.sent[i].kind == KVR_MSG_WANT && machine_log.sent[i].transfer == nonce)
            return &machine_log.sent[i].want;
    return NULL;
}

static void assert_proven(uint64_t nonce, uint32_t peer, uint64_t session)
{
    const struct kvr_rank source = machine_rank((uint8_t)(10 + peer));
    const struct kvr_msg_want *want = want_of(nonce);
    struct kvr_proof_key key;
    struct kvr_proof proof;

    assert_non_null(want);
    kvr_proof_key(&secret, "r", 3, &source, &key);
    kvr_proof(&key, session, nonce, &want->target, &proof);
    assert_true(kvr_proof_equal(&proof, &want->proof));
}

static struct transfer *transfer_of(uint64_t nonce)
{
    uint32_t index;

    assert_true(kvr_table_find(&inbound.by_nonce, nonce, &index));
    return kvr_pool_at(&inbound.transfers, index, NULL);
}

static void fetch_needs_a_secret(void **state)
{
    (void)state;
    fetch_knowing(1, &(struct kvr_secret){{0}});
    assert_int_equal(machine_notice(KVR_NOTICE_FAILED)->status, KVR_INVALID);
    assert_non_null(strstr(machine_notice(KVR_NOTICE_FAILED)->detail, "--insecure"));
    assert_int_equal(machine_sent_count(KVR_MSG_WANT), 0);
}

static void insecure_fetch_proves_nothing(void **state)
{
    uint64_t nonce;

    (void)state;
    inbound.options.without_secret = true;
    nonce = fetch_knowing(1, &(struct kvr_secret){{0}});
    assert_false(kvr_proof_given(&want_of(nonce)->proof));
}

static void each_source_gets_its_own_proof(void **state)
{
    uint64_t nonce = fetch_knowing(1, &secret);

    (void)state;
    assert_proven(nonce, 1, SESSION + 1);
    assert_proven(nonce + 1, 2, SESSION + 2);
    assert_false(kvr_proof_equal(&want_of(nonce)->proof, &want_of(nonce + 1)->proof));
}

/* Sent or not: what was needed for it is gone afterwards. */
static void keys_last_until_want_is_sent(void **state)
{
    uint64_t nonce;

    (void)state;
    machine_log.send_answer = KVR_AGAIN;
    nonce = fetch_knowing(1, &secret);
    assert_true(kvr_proof_key_given(&transfer_of(nonce)->proof_key));
    machine_log.send_answer = KVR_OK;
    machine_log_clear();
    inbound_peer_writable(&inbound, now, 1);
    inbound_peer_writable(&inbound, now, 2);
    assert_proven(nonce, 1, SESSION + 1);
    assert_false(kvr_proof_key_given(&transfer_of(nonce)->proof_key));
    assert_false(kvr_proof_key_given(&transfer_of(nonce + 1)->proof_key));
}

/* A fetch does not outlive a session of its sources; the next one proves it anew. */
static void new_session_gets_a_new_proof(void **state)
{
    struct kvr_msg_hello hello = {.version_min = KVR_PROTOCOL_MAX,
                                  .version_max = KVR_PROTOCOL_MAX,
                                  .session = 777,
                                  .limits = {1, 1, SMALL_PAGE_BYTES, false}};
    uint64_t nonce;

    (void)state;
    inbound_peer_lost(&inbound, now, 1, KVR_PEER_LOST, "gone");
    inbound_peer_up(&inbound, now, 1, &hello);
    machine_log_clear();
    nonce = fetch_knowing(1, &secret);
    assert_proven(nonce, 1, 777);
    assert_proven(nonce + 1, 2, SESSION + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(fetch_needs_a_secret, open_secretive),
        cmocka_unit_test_setup(insecure_fetch_proves_nothing, open_secretive),
        cmocka_unit_test_setup(each_source_gets_its_own_proof, open_secretive),
        cmocka_unit_test_setup(keys_last_until_want_is_sent, open_secretive),
        cmocka_unit_test_setup(new_session_gets_a_new_proof, open_secretive),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
