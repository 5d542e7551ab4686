/* Goal: with certificates a session belongs to an identity: another name is refused at either side,
 * a revoked peer loses its session, and a certificate that ends costs the connection alone. Method:
 * two tables of peers on one loop with certificates of a small CA. */
#include "tests/support/check.h"
#include "tests/support/folder.h"

#include <time.h>

#include "tests/support/certificates.h"
#include "tests/support/peer_probe.h"

static char folder[FOLDER_BYTES];
static struct authority ca;
static unsigned serial;

static struct kvr_credentials *credentials_of(const char *name, const char *crl)
{
    struct kvr_tls_config config = certificates_config(folder, name, "ca", crl);
    struct kvr_credentials *credentials;

    assert_int_equal(kvr_credentials_open(&config, &credentials, NULL), KVR_OK);
    return credentials;
}

static int begin_secure(void **state)
{
    folder_make(folder);
    authority_make(&ca, folder, "ca");
    certificate_make(&ca, "p", &(struct certificate_shape){.uri = "kvrail://f/prefill/source"});
    serial =
        certificate_make(&ca, "d", &(struct certificate_shape){.uri = "kvrail://f/decode/target"});
    certificate_make(&ca, "e", &(struct certificate_shape){.uri = "kvrail://f/decode/other"});
    crl_make(&ca, "crl", NULL, 0);
    source_credentials = credentials_of("p", "crl");
    target_credentials = credentials_of("d", NULL);
    return begin_patient(state);
}

static int end_secure(void **state)
{
    int result = end(state);

    kvr_credentials_close(source_credentials);
    kvr_credentials_close(target_credentials);
    authority_done(&ca);
    return result != 0 ? result : folder_remove(folder);
}

static void peers_meet(void **state)
{
    uint32_t peer = meet();

    (void)state;
    for (uint32_t i = 1; i <= 50; i++)
        assert_int_equal(send_counter(&target, peer, i, 10), KVR_OK);
    LOOP_UNTIL(&loop, source.came == 50);
    assert_true(source.in_order);
    assert_int_equal(source.refused + target.refused, 0);
}

/* A prefill-agent of the fleet that calls itself otherwise: nothing that was queued goes to it. */
static void another_name_in_welcome(void **state)
{
    uint32_t peer;

    (void)state;
    strcpy(source.hello.agent, "other");
    peer = dial(address);
    assert_int_equal(send_counter(&target, peer, 1, 10), KVR_OK);
    LOOP_UNTIL(&loop, target.lost == 1);
    expect_lost(&target, KVR_REFUSED, "its certificate names source");
    assert_int_equal(target.refusal, KVR_TLS_NAME);
    run_for(50);
    assert_int_equal(source.came, 0);
    assert_int_equal(target.up, 0);
}

static void another_name_in_hello(void **state)
{
    (void)state;
    strcpy(target.hello.agent, "other");
    (void)dial(address);
    LOOP_UNTIL(&loop, source.turned_away == 1);
    assert_int_equal(source.refusal, KVR_TLS_NAME);
    assert_non_null(strstr(source.detail, "its certificate names target"));
    LOOP_UNTIL(&loop, target.lost == 1);
    assert_int_equal(target.status, KVR_REFUSED);
    assert_int_equal(source.up, 0);
}

/* Another decode-agent of the fleet sends the HELLO of one that has a session: name and boot. */
static void hello_replayed_by_another_identity(void **state)
{
    struct kvr_credentials *kept = target_credentials;
    uint32_t peer = meet(), strange;
    struct probe thief;

    (void)state;
    target_credentials = credentials_of("e", NULL);
    open_table(&thief, &loop, "target", target.hello.boot);
    assert_int_equal(kvr_peers_dial(thief.peers, address, &strange, NULL), KVR_OK);
    LOOP_UNTIL(&loop, source.turned_away == 1);
    assert_int_equal(source.refusal, KVR_TLS_NAME);
    assert_non_null(strstr(source.detail, "its certificate names other"));
    /* Under its own name it gets a session of its own. */
    strcpy(thief.hello.agent, "other");
    LOOP_UNTIL(&loop, thief.lost == 1);
    assert_int_equal(kvr_peers_dial(thief.peers, address, &strange, NULL), KVR_OK);
    LOOP_UNTIL(&loop, thief.up == 1 && source.up == 2);
    assert_int_equal(send_counter(&target, peer, 1, 10), KVR_OK);
    LOOP_UNTIL(&loop, source.came == 1);
    assert_int_equal(source.lost + target.lost, 0);
    kvr_peers_close(thief.peers);
    run_for(50);
    kvr_credentials_close(target_credentials);
    target_credentials = kept;
}

static void revoked_peer_loses_its_session(void **state)
{
    struct kvr_error error;

    (void)state;
    (void)meet();
    kvr_peers_judge(source.peers);
    run_for(20);
    assert_int_equal(source.lost, 0);
    crl_make(&ca, "crl", &serial, 1);
    assert_int_equal(kvr_credentials_reload(source_credentials, &error), KVR_CREDENTIALS_CHANGED);
    kvr_peers_judge(source.peers);
    LOOP_UNTIL(&loop, source.lost == 1 && target.lost == 1);
    expect_lost(&source, KVR_REFUSED, "is revoked");
    assert_int_equal(source.refusal, KVR_TLS_REVOKED);
}

/* All have certificates of another CA by then. */
static void connection_of_a_former_ca_is_replaced(void **state)
{
    uint32_t peer = meet();
    struct authority next;

    (void)state;
    authority_make(&next, folder, "ca"); /* over the old one */
    certificate_make(&next, "p", &(struct certificate_shape){.uri = "kvrail://f/prefill/source"});
    certificate_make(&next, "d", &(struct certificate_shape){.uri = "kvrail://f/decode/target"});
    crl_make(&next, "crl", NULL, 0);
    assert_int_equal(kvr_credentials_reload(target_credentials, NULL), KVR_CREDENTIALS_CHANGED);
    assert_int_equal(kvr_credentials_reload(source_credentials, NULL), KVR_CREDENTIALS_CHANGED);
    kvr_peers_judge(source.peers);
    assert_int_equal(source.refusal, KVR_TLS_UNKNOWN_CA);
    for (uint32_t i = 1; i <= 20; i++)
        assert_int_equal(send_counter(&target, peer, i, 10), KVR_OK);
    LOOP_UNTIL(&loop, source.came == 20);
    assert_true(source.in_order);
    assert_int_equal(source.lost + target.lost, 0);
    assert_int_equal(source.up, 1);
    authority_done(&next);
}

static void expired_connection_is_replaced(void **state)
{
    uint32_t peer = meet();

    (void)state;
    assert_int_equal(send_counter(&target, peer, 1, 10), KVR_OK);
    LOOP_UNTIL(&loop, source.came == 1);
    kvr_peers_expire(source.peers, time(NULL)); /* not yet */
    assert_int_equal(source.refused, 0);
    kvr_peers_expire(source.peers, time(NULL) + 2 * 86400);
    assert_int_equal(source.refusal, KVR_TLS_EXPIRED);
    for (uint32_t i = 2; i <= 20; i++)
        assert_int_equal(send_counter(&target, peer, i, 10), KVR_OK);
    LOOP_UNTIL(&loop, source.came == 20);
    assert_true(source.in_order);
    assert_int_equal(source.lost + target.lost, 0);
    assert_int_equal(source.up, 1);
}

#define secure_test(function) cmocka_unit_test_setup_teardown(function, begin_secure, end_secure)

int main(void)
{
    const struct CMUnitTest tests[] = {
        secure_test(peers_meet),
        secure_test(another_name_in_welcome),
        secure_test(another_name_in_hello),
        secure_test(hello_replayed_by_another_identity),
        secure_test(revoked_peer_loses_its_session),
        secure_test(connection_of_a_former_ca_is_replaced),
        secure_test(expired_connection_is_replaced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
