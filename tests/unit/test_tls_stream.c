/* Goal: two streams agree whatever the pieces in which their bytes travel, and each certificate or
 * protocol that must not be believed ends the session with its reason at both sides. Method: both
 * ends in memory; a pipe between them that cuts at every byte; GnuTLS itself as the other side
 * where it must misbehave. */
#include "tests/support/folder.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <time.h>

#include "tests/support/certificates.h"
#include "tls/tls_stream.h"

#define PREFILL (1u << KVR_IDENTITY_PREFILL)
#define DECODE  (1u << KVR_IDENTITY_DECODE)

static char folder[FOLDER_BYTES];
static struct authority ca, other_ca;

/* One side. */
struct side {
    struct kvr_credentials *credentials;
    struct kvr_tls_stream *stream;
    kvr_status status; /* of the last step */
    struct kvr_error error;
    uint8_t got[200000];
    size_t got_bytes;
};

static void open_side(struct side *side, const char *name, const char *crl, bool server,
                      uint32_t roles)
{
    struct kvr_tls_config config = certificates_config(folder, name, "ca", crl);
    struct kvr_tls_stream_options options = {.server = server, .roles = roles};

    memset(side, 0, sizeof(*side));
    assert_int_equal(kvr_credentials_open(&config, &side->credentials, &side->error), KVR_OK);
    options.credentials = side->credentials;
    assert_int_equal(kvr_tls_stream_open(&options, &side->stream, &side->error), KVR_OK);
    side->status = KVR_AGAIN;
}

static void close_side(struct side *side)
{
    kvr_tls_stream_close(side->stream);
    kvr_credentials_close(side->credentials);
}

static void step(struct side *side)
{
    size_t bytes;

    if (side->status == KVR_REFUSED || side->status == KVR_PEER_LOST)
        return;
    side->status = kvr_tls_stream_handshake(side->stream, &side->error);
    while (side->status == KVR_OK) {
        side->status =
            kvr_tls_stream_read(side->stream, side->got + side->got_bytes,
                                sizeof(side->got) - side->got_bytes, &bytes, &side->error);
        if (side->status == KVR_OK)
            side->got_bytes += bytes;
    }
}

/* Carries at most `most` bytes; returns how many. */
static size_t carry(struct side *from, struct side *to, size_t most)
{
    size_t bytes;
    const uint8_t *output = kvr_tls_stream_output(from->stream, &bytes);
    uint8_t piece[4096];

    bytes = bytes < most ? bytes : most;
    bytes = bytes < sizeof(piece) ? bytes : sizeof(piece);
    if (bytes == 0)
        return 0;
    memcpy(piece, output, bytes);
    kvr_tls_stream_sent(from->stream, bytes);
    kvr_tls_stream_feed(to->stream, piece, bytes);
    step(to);
    return bytes;
}

/* Until nothing moves. */
static void settle(struct side *a, struct side *b, size_t most)
{
    step(a);
    step(b);
    while (carry(a, b, most) + carry(b, a, most) > 0)
        ;
}

static struct side client, server;

static void open_both(const char *client_name, const char *server_name)
{
    open_side(&client, client_name, NULL, false, PREFILL);
    open_side(&server, server_name, NULL, true, DECODE);
}

static void close_both(void)
{
    close_side(&client);
    close_side(&server);
}

static bool up(const struct side *side)
{
    return kvr_tls_stream_peer(side->stream) != NULL && side->status == KVR_AGAIN;
}

/* ---- what must work ---- */

static void every_length_of_pieces(void **state)
{
    static const size_t lengths[] = {1, 2, 3, 5, 7, 64, 1000, 4096};
    static uint8_t data[100000];

    (void)state;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * 31 + i / 251);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        size_t sent = 0;

        open_both("decode", "prefill");
        settle(&client, &server, lengths[i]);
        assert_true(up(&client) && up(&server));
        assert_string_equal(kvr_tls_stream_peer(server.stream)->name, "d");
        assert_string_equal(kvr_tls_stream_peer(client.stream)->name, "p");
        assert_true(kvr_tls_stream_peer_expiry(client.stream) > time(NULL));
        while (sent < sizeof(data)) {
            size_t now = kvr_tls_stream_write(client.stream, data + sent, sizeof(data) - sent);

            assert_true(now > 0); /* settled: there is room */
            sent += now;
            settle(&client, &server, lengths[i]);
        }
        assert_int_equal(server.got_bytes, sizeof(data));
        assert_memory_equal(server.got, data, sizeof(data));
        close_both();
    }
}

/* Two pieces, cut at every byte of the first 3,000 that the client and then the server send. */
static void every_point_of_one_cut(void **state)
{
    (void)state;
    for (size_t cut = 1; cut < 3000; cut += cut < 400 ? 1 : 13) {
        size_t moved = 0, bytes;

        open_both("decode", "prefill");
        step(&client);
        step(&server);
        do {
            size_t left = cut > moved ? cut - moved : 4096;

            bytes = carry(&client, &server, left);
            moved += bytes;
            bytes += carry(&server, &client, cut > moved ? cut - moved : 4096);
        } while (bytes > 0);
        assert_true(up(&client) && up(&server));
        close_both();
    }
}

/* The other side is silent after any byte: no step fails, and none is done. */
static void truncated_at_every_byte(void **state)
{
    static uint8_t flight[8192];
    const uint8_t *output;
    size_t bytes;

    (void)state;
    open_both("decode", "prefill");
    step(&client);
    output = kvr_tls_stream_output(client.stream, &bytes);
    memcpy(flight, output, bytes);
    close_both();
    for (size_t cut = 0; cut < bytes; cut++) {
        open_both("decode", "prefill");
        kvr_tls_stream_feed(server.stream, flight, cut);
        step(&server);
        assert_int_equal(server.status, KVR_AGAIN);
        assert_null(kvr_tls_stream_peer(server.stream));
        close_both();
    }
}

static void output_is_bounded(void **state)
{
    static uint8_t data[300000];
    size_t taken, bytes;

    (void)state;
    open_both("decode", "prefill");
    settle(&client, &server, 4096);
    taken = kvr_tls_stream_write(client.stream, data, sizeof(data));
    assert_true(taken >= 3 * KVR_TLS_RECORD_BYTES && taken < KVR_TLS_OUTPUT_BYTES);
    assert_int_equal(kvr_tls_stream_write(client.stream, data, KVR_TLS_RECORD_BYTES), 0);
    (void)kvr_tls_stream_output(client.stream, &bytes);
    assert_true(bytes <= KVR_TLS_OUTPUT_BYTES);
    settle(&client, &server, 4096);
    assert_int_equal(server.got_bytes, taken);
    close_both();
}

static void end_in_good_order(void **state)
{
    (void)state;
    open_both("decode", "prefill");
    settle(&client, &server, 4096);
    kvr_tls_stream_finish(client.stream);
    kvr_tls_stream_close(NULL);
    settle(&client, &server, 4096);
    assert_int_equal(server.status, KVR_PEER_LOST);
    assert_int_equal(kvr_tls_stream_refusal(server.stream), KVR_TLS_REFUSAL_END);
    close_both();
}

/* ---- what must be refused ---- */

static void refuses(const char *client_name, const char *server_name, bool by_server,
                    kvr_tls_refusal refusal, const char *words, const char *other_words)
{
    struct side *judge = by_server ? &server : &client, *other = by_server ? &client : &server;

    open_both(client_name, server_name);
    settle(&client, &server, 4096);
    assert_int_equal(judge->status, KVR_REFUSED);
    assert_null(kvr_tls_stream_peer(judge->stream));
    assert_int_equal(kvr_tls_stream_refusal(judge->stream), refusal);
    assert_int_equal(kvr_tls_stream_handshake(judge->stream, NULL), KVR_REFUSED); /* it stays so */
    if (strstr(judge->error.detail, words) == NULL)
        fail_msg("'%s' is not in: %s", words, judge->error.detail);
    assert_int_equal(other->status, KVR_REFUSED);
    assert_int_equal(kvr_tls_stream_refusal(other->stream), KVR_TLS_BY_PEER);
    if (strstr(other->error.detail, other_words) == NULL)
        fail_msg("'%s' is not in: %s", other_words, other->error.detail);
    close_both();
}

static void wrong_role_fleet_and_purpose(void **state)
{
    (void)state;
    refuses("prefill", "prefill", true, KVR_TLS_ROLE, "only decode may", "fleet or role");
    refuses("decode", "decode", false, KVR_TLS_ROLE, "only prefill may", "fleet or role");
    refuses("person", "prefill", true, KVR_TLS_ROLE, "the role client", "fleet or role");
    refuses("stranger", "prefill", false, KVR_TLS_FLEET, "fleet f, not of g", "fleet or role");
    refuses("serves", "prefill", true, KVR_TLS_PURPOSE, "not for this side", "wrong purpose");
    refuses("decode", "calls", false, KVR_TLS_PURPOSE, "not for this side", "wrong purpose");
}

/* Certificates that their own side would not start with: GnuTLS shows them. */
static int pass(gnutls_session_t session)
{
    (void)session;
    return 0;
}

struct raw {
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials;
    uint8_t in[65536], out[65536];
    size_t in_first, in_end, out_end;
};

static ssize_t raw_pull(gnutls_transport_ptr_t self, void *room, size_t bytes)
{
    struct raw *raw = self;

    if (raw->in_first == raw->in_end) {
        gnutls_transport_set_errno(raw->session, EAGAIN);
        return -1;
    }
    bytes = bytes < raw->in_end - raw->in_first ? bytes : raw->in_end - raw->in_first;
    memcpy(room, raw->in + raw->in_first, bytes);
    raw->in_first += bytes;
    return (ssize_t)bytes;
}

static int raw_pull_timeout(gnutls_transport_ptr_t self, unsigned ms)
{
    struct raw *raw = self;

    (void)ms;
    return raw->in_end > raw->in_first;
}

static ssize_t raw_push(gnutls_transport_ptr_t self, const void *bytes, size_t count)
{
    struct raw *raw = self;

    assert_true(count <= sizeof(raw->out) - raw->out_end);
    memcpy(raw->out + raw->out_end, bytes, count);
    raw->out_end += count;
    return (ssize_t)count;
}

static void raw_open(struct raw *raw, const char *name, const char *priorities, unsigned flags)
{
    char certificate[128], key[128];

    memset(raw, 0, sizeof(*raw));
    gnutls_certificate_allocate_credentials(&raw->credentials);
    if (name != NULL) {
        snprintf(certificate, sizeof(certificate), "%s/%s.pem", folder, name);
        snprintf(key, sizeof(key), "%s/%s.key", folder, name);
        assert_true(gnutls_certificate_set_x509_key_file(raw->credentials, certificate, key,
                                                         GNUTLS_X509_FMT_PEM) >= 0);
    }
    gnutls_certificate_set_verify_function(raw->credentials, pass);
    assert_int_equal(gnutls_init(&raw->session, flags | GNUTLS_NONBLOCK), 0);
    assert_int_equal(gnutls_priority_set_direct(raw->session, priorities, NULL), 0);
    gnutls_credentials_set(raw->session, GNUTLS_CRD_CERTIFICATE, raw->credentials);
    gnutls_transport_set_ptr(raw->session, raw);
    gnutls_transport_set_pull_function(raw->session, raw_pull);
    gnutls_transport_set_pull_timeout_function(raw->session, raw_pull_timeout);
    gnutls_transport_set_push_function(raw->session, raw_push);
}

static void raw_close(struct raw *raw)
{
    gnutls_deinit(raw->session);
    gnutls_certificate_free_credentials(raw->credentials);
}

static void raw_carry(struct raw *raw, struct side *side)
{
    size_t bytes;
    const uint8_t *output;

    kvr_tls_stream_feed(side->stream, raw->out, raw->out_end);
    step(side);
    raw->out_end = 0;
    output = kvr_tls_stream_output(side->stream, &bytes);
    raw->in_first = 0;
    raw->in_end = bytes;
    memcpy(raw->in, output, bytes);
    kvr_tls_stream_sent(side->stream, bytes);
}

/* Returns the result of the raw side's handshake, or of its first read. */
static int raw_shake(struct raw *raw, struct side *side)
{
    uint8_t byte;
    int result = GNUTLS_E_AGAIN;

    step(side);
    for (int i = 0; i < 8; i++) {
        raw_carry(raw, side);
        result = result == 0 ? (int)gnutls_record_recv(raw->session, &byte, 1)
                             : gnutls_handshake(raw->session);
        if (result < 0 && result != GNUTLS_E_AGAIN)
            break;
        if (result == GNUTLS_E_AGAIN && up(side) && raw->out_end == 0)
            return 0;
    }
    return result;
}

#define ONLY_13 "NORMAL:-VERS-ALL:+VERS-TLS1.3"

static void raw_client_refused(const char *name, const char *crl, const char *priorities,
                               kvr_tls_refusal refusal, const char *words, int alert)
{
    struct raw raw;

    open_side(&server, "prefill", crl, true, DECODE);
    raw_open(&raw, name, priorities, GNUTLS_CLIENT);
    assert_int_equal(raw_shake(&raw, &server), GNUTLS_E_FATAL_ALERT_RECEIVED);
    assert_int_equal(gnutls_alert_get(raw.session), alert);
    assert_int_equal(server.status, KVR_REFUSED);
    assert_int_equal(kvr_tls_stream_refusal(server.stream), refusal);
    if (strstr(server.error.detail, words) == NULL)
        fail_msg("'%s' is not in: %s", words, server.error.detail);
    assert_null(kvr_tls_stream_peer(server.stream));
    raw_close(&raw);
    close_side(&server);
}

static void bad_certificates_of_a_client(void **state)
{
    (void)state;
    raw_client_refused(NULL, NULL, ONLY_13, KVR_TLS_NO_CERTIFICATE, "no certificate",
                       GNUTLS_A_CERTIFICATE_REQUIRED);
    raw_client_refused("forged", NULL, ONLY_13, KVR_TLS_UNKNOWN_CA, "lead to the CA",
                       GNUTLS_A_UNKNOWN_CA);
    raw_client_refused("expired", NULL, ONLY_13, KVR_TLS_EXPIRED, "expired at",
                       GNUTLS_A_CERTIFICATE_EXPIRED);
    raw_client_refused("early", NULL, ONLY_13, KVR_TLS_EXPIRED, "not valid before",
                       GNUTLS_A_CERTIFICATE_EXPIRED);
    raw_client_refused("revoked", "crl", ONLY_13, KVR_TLS_REVOKED, "revoked",
                       GNUTLS_A_CERTIFICATE_REVOKED);
    raw_client_refused("stranger", NULL, ONLY_13, KVR_TLS_FLEET, "fleet g, not of f",
                       GNUTLS_A_ACCESS_DENIED);
    raw_client_refused("nameless", NULL, ONLY_13, KVR_TLS_NO_IDENTITY, "names no program",
                       GNUTLS_A_BAD_CERTIFICATE);
}

static void older_versions(void **state)
{
    (void)state;
    raw_client_refused("decode", NULL, "NORMAL:-VERS-ALL:+VERS-TLS1.2", KVR_TLS_PROTOCOL, "TLS 1.3",
                       GNUTLS_A_PROTOCOL_VERSION);
}

static void bad_certificates_of_a_server(void **state)
{
    static const struct {
        const char *name, *priorities;
        kvr_tls_refusal refusal;
    } cases[] = {
        {"forged-server", ONLY_13, KVR_TLS_UNKNOWN_CA},
        {"expired", ONLY_13, KVR_TLS_EXPIRED},
        {"nameless", ONLY_13, KVR_TLS_NO_IDENTITY},
        {"prefill", "NORMAL:-VERS-ALL:+VERS-TLS1.2", KVR_TLS_PROTOCOL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct raw raw;
        int result;

        open_side(&client, "decode", NULL, false, PREFILL);
        raw_open(&raw, cases[i].name, cases[i].priorities, GNUTLS_SERVER);
        gnutls_certificate_server_set_request(raw.session, GNUTLS_CERT_REQUIRE);
        result = raw_shake(&raw, &client);
        assert_true(result < 0);
        if (result != GNUTLS_E_FATAL_ALERT_RECEIVED)
            (void)gnutls_alert_send_appropriate(raw.session, result);
        raw_carry(&raw, &client); /* its last alert */
        assert_int_equal(client.status, KVR_REFUSED);
        assert_int_equal(kvr_tls_stream_refusal(client.stream), cases[i].refusal);
        raw_close(&raw);
        close_side(&client);
    }
}

/* ---- floods after the handshake ---- */

static void flood_of_key_updates(void **state)
{
    struct raw raw;
    unsigned sent = 0;

    (void)state;
    open_side(&server, "prefill", NULL, true, DECODE);
    raw_open(&raw, "decode", ONLY_13, GNUTLS_CLIENT);
    assert_int_equal(raw_shake(&raw, &server), 0);
    while (server.status == KVR_AGAIN && sent < 100) {
        assert_int_equal(gnutls_session_key_update(raw.session, GNUTLS_KU_PEER), 0);
        raw_carry(&raw, &server);
        sent++;
    }
    assert_int_equal(server.status, KVR_REFUSED);
    assert_int_equal(kvr_tls_stream_refusal(server.stream), KVR_TLS_FLOOD);
    assert_true(sent <= KVR_TLS_EXTRA_MAX + 1);
    raw_close(&raw);
    close_side(&server);
}

static void flood_of_tickets(void **state)
{
    gnutls_datum_t key;
    struct raw raw;
    unsigned sent = 0;

    (void)state;
    open_side(&client, "decode", NULL, false, PREFILL);
    raw_open(&raw, "prefill", ONLY_13, GNUTLS_SERVER | GNUTLS_NO_AUTO_SEND_TICKET);
    gnutls_certificate_server_set_request(raw.session, GNUTLS_CERT_REQUIRE);
    assert_int_equal(gnutls_session_ticket_key_generate(&key), 0);
    assert_int_equal(gnutls_session_ticket_enable_server(raw.session, &key), 0);
    assert_int_equal(raw_shake(&raw, &client), 0);
    while (client.status == KVR_AGAIN && sent < 100) {
        if (gnutls_session_ticket_send(raw.session, 1, 0) != 0)
            break;
        raw_carry(&raw, &client);
        sent++;
    }
    assert_true(sent <= KVR_TLS_EXTRA_MAX + 1);
    assert_int_equal(client.status, KVR_REFUSED);
    assert_int_equal(kvr_tls_stream_refusal(client.stream), KVR_TLS_FLOOD);
    gnutls_free(key.data);
    raw_close(&raw);
    close_side(&client);
}

/* No ticket comes from a server of ours, so nothing can be resumed. */
static void no_ticket_is_given(void **state)
{
    struct raw raw;
    gnutls_datum_t data;

    (void)state;
    open_side(&server, "prefill", NULL, true, DECODE);
    raw_open(&raw, "decode", ONLY_13, GNUTLS_CLIENT);
    assert_int_equal(raw_shake(&raw, &server), 0);
    assert_false(gnutls_session_get_flags(raw.session) & GNUTLS_SFLAGS_SESSION_TICKET);
    if (gnutls_session_get_data2(raw.session, &data) == 0) {
        struct raw again;

        open_side(&client, "prefill", NULL, true, DECODE);
        raw_open(&again, "decode", ONLY_13, GNUTLS_CLIENT);
        (void)gnutls_session_set_data(again.session, data.data, data.size);
        assert_int_equal(raw_shake(&again, &client), 0);
        assert_int_equal(gnutls_session_is_resumed(again.session), 0);
        raw_close(&again);
        close_side(&client);
        gnutls_free(data.data);
    }
    raw_close(&raw);
    close_side(&server);
}

/* ---- live sessions ---- */

static void later_revocation_is_found(void **state)
{
    struct kvr_error error = {0};
    unsigned serial =
        certificate_make(&ca, "late", &(struct certificate_shape){.uri = "kvrail://f/decode/l"});

    (void)state;
    crl_make(&ca, "late-crl", NULL, 0);
    open_side(&server, "prefill", "late-crl", true, DECODE);
    open_side(&client, "late", NULL, false, PREFILL);
    settle(&client, &server, 4096);
    assert_true(up(&client) && up(&server));
    assert_int_equal(kvr_tls_stream_check(server.stream, &error), KVR_TLS_REFUSAL_END);
    crl_make(&ca, "late-crl", &serial, 1);
    assert_int_equal(kvr_tls_stream_check(server.stream, &error),
                     KVR_TLS_REFUSAL_END); /* not read yet */
    assert_int_equal(kvr_credentials_reload(server.credentials, &error), KVR_CREDENTIALS_CHANGED);
    assert_int_equal(kvr_tls_stream_check(server.stream, &error), KVR_TLS_REVOKED);
    close_both();
}

static int group_begin(void **state)
{
    unsigned serial;

    (void)state;
    folder_make(folder);
    authority_make(&ca, folder, "ca");
    authority_make(&other_ca, folder, "other");
    certificate_make(&ca, "decode", &(struct certificate_shape){.uri = "kvrail://f/decode/d"});
    certificate_make(&ca, "prefill", &(struct certificate_shape){.uri = "kvrail://f/prefill/p"});
    certificate_make(&ca, "person", &(struct certificate_shape){.uri = "kvrail://f/client/c"});
    certificate_make(&ca, "stranger", &(struct certificate_shape){.uri = "kvrail://g/decode/d"});
    certificate_make(
        &ca, "serves",
        &(struct certificate_shape){.uri = "kvrail://f/decode/d", .only_server = true});
    certificate_make(
        &ca, "calls",
        &(struct certificate_shape){.uri = "kvrail://f/prefill/p", .only_client = true});
    certificate_make(&other_ca, "forged",
                     &(struct certificate_shape){.uri = "kvrail://f/decode/d"});
    certificate_make(&other_ca, "forged-server",
                     &(struct certificate_shape){.uri = "kvrail://f/prefill/p"});
    certificate_make(&ca, "expired",
                     &(struct certificate_shape){.uri = "kvrail://f/decode/d", .ends = -60});
    certificate_make(&ca, "early",
                     &(struct certificate_shape){.uri = "kvrail://f/decode/d", .begins = 600});
    certificate_make(&ca, "nameless", &(struct certificate_shape){.uri = NULL});
    serial =
        certificate_make(&ca, "revoked", &(struct certificate_shape){.uri = "kvrail://f/decode/d"});
    crl_make(&ca, "crl", &serial, 1);
    return 0;
}

static int group_end(void **state)
{
    (void)state;
    authority_done(&ca);
    authority_done(&other_ca);
    return folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length_of_pieces),
        cmocka_unit_test(every_point_of_one_cut),
        cmocka_unit_test(truncated_at_every_byte),
        cmocka_unit_test(output_is_bounded),
        cmocka_unit_test(end_in_good_order),
        cmocka_unit_test(wrong_role_fleet_and_purpose),
        cmocka_unit_test(bad_certificates_of_a_client),
        cmocka_unit_test(older_versions),
        cmocka_unit_test(bad_certificates_of_a_server),
        cmocka_unit_test(flood_of_key_updates),
        cmocka_unit_test(flood_of_tickets),
        cmocka_unit_test(no_ticket_is_given),
        cmocka_unit_test(later_revocation_is_found),
    };

    return cmocka_run_group_tests(tests, group_begin, group_end);
}
