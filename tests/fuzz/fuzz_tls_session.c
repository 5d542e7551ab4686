/* TLS on the control channel. The other side has a good certificate, finishes the handshake, and
 * misbehaves then: records that are cut, changed, lost or forged, changes of keys, alerts, an end
 * at any place. The input is a list of steps.
 *
 * No crash, no endless loop, bounded output; what is read is what was sent, in order; once a record
 * was changed on the way, nothing that comes after it is read. */
#include <assert.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/fuzz_credentials.h"
#include "tls/tls_stream.h"

#define FLIGHT_BYTES 262144u

struct input {
    const uint8_t *at, *end;
};

/* The side that misbehaves: GnuTLS itself, over two buffers. */
struct other {
    gnutls_session_t session;
    bool done;
    uint8_t in[FLIGHT_BYTES], out[FLIGHT_BYTES];
    size_t in_first, in_end, out_first, out_end;
};

static struct other other;
static struct kvr_tls_stream *stream;
static kvr_status status;
static bool tampered;
static bool deaf;                    /* the other side reads nothing */
static uint8_t sent_next, read_next; /* plaintext counts up */

static uint8_t take(struct input *input)
{
    return input->at < input->end ? *input->at++ : 0;
}

/* ---- the other side's bytes ---- */

static ssize_t pull(gnutls_transport_ptr_t self, void *room, size_t bytes)
{
    size_t there = other.in_end - other.in_first;

    (void)self;
    if (there == 0) {
        gnutls_transport_set_errno(other.session, EAGAIN);
        return -1;
    }
    bytes = bytes < there ? bytes : there;
    memcpy(room, other.in + other.in_first, bytes);
    other.in_first += bytes;
    return (ssize_t)bytes;
}

static int pull_timeout(gnutls_transport_ptr_t self, unsigned ms)
{
    (void)self;
    (void)ms;
    return other.in_end > other.in_first;
}

static ssize_t push(gnutls_transport_ptr_t self, const void *bytes, size_t count)
{
    (void)self;
    if (count > sizeof(other.out) - other.out_end) {
        gnutls_transport_set_errno(other.session, EAGAIN);
        return -1;
    }
    memcpy(other.out + other.out_end, bytes, count);
    other.out_end += count;
    return (ssize_t)count;
}

/* ---- our side ---- */

/* What the stream has to say goes to the other side. */
static void carry_back(void)
{
    size_t bytes, room = sizeof(other.in) - other.in_end;
    const uint8_t *output = kvr_tls_stream_output(stream, &bytes);

    assert(bytes <= KVR_TLS_OUTPUT_BYTES);
    if (deaf)
        return;
    if (other.in_first == other.in_end)
        other.in_first = other.in_end = 0;
    if (bytes <= room)
        memcpy(other.in + other.in_end, output, bytes);
    other.in_end += bytes <= room ? bytes : 0;
    kvr_tls_stream_sent(stream, bytes);
}

static void read_all(void)
{
    uint8_t room[997];
    size_t bytes;

    while (status == KVR_OK) {
        status = kvr_tls_stream_read(stream, room, sizeof(room), &bytes, NULL);
        if (status != KVR_OK)
            return;
        assert(bytes > 0 && bytes <= sizeof(room));
        for (size_t i = 0; i < bytes; i++)
            assert(room[i] == read_next++);
    }
}

static void feed(const uint8_t *bytes, size_t count)
{
    if (status != KVR_AGAIN || count == 0)
        return;
    kvr_tls_stream_feed(stream, bytes, count);
    status = kvr_tls_stream_handshake(stream, NULL);
    read_all();
    carry_back();
}

/* ---- steps ---- */

static void deliver(size_t most)
{
    size_t bytes = other.out_end - other.out_first;

    bytes = bytes < most ? bytes : most;
    feed(other.out + other.out_first, bytes);
    other.out_first += bytes;
    if (other.out_first == other.out_end)
        other.out_first = other.out_end = 0;
}

static void shake(void)
{
    for (int i = 0; i < 8 && !other.done && status == KVR_AGAIN; i++) {
        other.done = gnutls_handshake(other.session) == 0;
        deliver(FLIGHT_BYTES);
    }
}

/* Bytes that wait at the other side. */
static size_t waiting(void)
{
    return other.out_end - other.out_first;
}

static void change(struct input *input)
{
    size_t at = take(input) * 256u + take(input);
    uint8_t by = take(input);

    if (waiting() == 0 || by == 0)
        return;
    other.out[other.out_first + at % waiting()] ^= by;
    tampered = true;
}

static void lose(struct input *input)
{
    size_t count = 1 + take(input);

    if (count > waiting())
        return;
    other.out_first += count;
    tampered = true;
}

static void inject(struct input *input)
{
    uint8_t bytes[64];
    size_t count = take(input) % sizeof(bytes);

    for (size_t i = 0; i < count; i++)
        bytes[i] = take(input);
    tampered |= count > 0;
    feed(bytes, count);
}

static void say(struct input *input)
{
    uint8_t bytes[1024];
    size_t count = take(input) * 4u;

    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)(sent_next + i);
    if (count > 0 && gnutls_record_send(other.session, bytes, count) == (ssize_t)count)
        sent_next = (uint8_t)(sent_next + count);
}

static void answer(struct input *input)
{
    static const uint8_t bytes[KVR_TLS_RECORD_BYTES];

    if (kvr_tls_stream_peer(stream) != NULL)
        (void)kvr_tls_stream_write(stream, bytes, take(input) * 64u);
    carry_back();
}

static void hear(void)
{
    uint8_t bytes[4096];

    while (gnutls_record_recv(other.session, bytes, sizeof(bytes)) > 0)
        continue;
}

static void step(struct input *input)
{
    uint8_t kind = take(input) % 13;

    if (kind == 0)
        deliver(1 + take(input));
    else if (kind == 1 || kind == 2)
        deliver(FLIGHT_BYTES);
    else if (kind == 3)
        change(input);
    else if (kind == 4)
        lose(input);
    else if (kind == 5)
        inject(input);
    else if (kind == 6)
        answer(input);
    else if (kind == 12)
        deaf = take(input) % 2;
    else if (kind == 7)
        kvr_tls_stream_finish(stream);
    else if (!other.done)
        shake();
    else if (kind == 8)
        (void)gnutls_session_key_update(other.session, take(input) % 2 ? GNUTLS_KU_PEER : 0);
    else if (kind == 9)
        (void)gnutls_alert_send(other.session,
                                take(input) % 2 ? GNUTLS_AL_FATAL : GNUTLS_AL_WARNING,
                                (gnutls_alert_description_t)take(input));
    else if (kind == 10)
        hear();
    else
        say(input);
}

/* ---- a session ---- */

static void open_both(bool server)
{
    struct kvr_tls_stream_options options = {
        .credentials = fuzz_credentials(server), .server = server, .roles = UINT32_MAX};

    other = (struct other){0};
    status = KVR_AGAIN;
    tampered = deaf = false;
    sent_next = read_next = 0;
    if (kvr_tls_stream_open(&options, &stream, NULL) != KVR_OK ||
        gnutls_init(&other.session, (server ? GNUTLS_CLIENT : GNUTLS_SERVER) | GNUTLS_NONBLOCK |
                                        GNUTLS_NO_SIGNAL) != 0)
        abort();
    (void)gnutls_priority_set_direct(other.session, "NORMAL:-VERS-ALL:+VERS-TLS1.3", NULL);
    gnutls_credentials_set(other.session, GNUTLS_CRD_CERTIFICATE, fuzz_raw_credentials(!server));
    gnutls_certificate_server_set_request(other.session, GNUTLS_CERT_REQUEST);
    gnutls_transport_set_pull_function(other.session, pull);
    gnutls_transport_set_pull_timeout_function(other.session, pull_timeout);
    gnutls_transport_set_push_function(other.session, push);
    (void)!kvr_tls_stream_handshake(stream, NULL);
    carry_back();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, data + size};
    uint8_t begins = take(&input);

    open_both(begins & 1);
    if ((begins & 2) == 0) { /* else the steps shake hands, where they come to it */
        shake();
        assert(other.done && status == KVR_AGAIN && kvr_tls_stream_peer(stream) != NULL);
    }
    for (int steps = 0; steps < 200 && input.at < input.end; steps++)
        step(&input);
    deliver(FLIGHT_BYTES);
    if (!tampered && status == KVR_AGAIN && waiting() == 0 && other.done)
        assert(read_next == sent_next); /* nothing is lost */
    if (status == KVR_REFUSED) {        /* it stays so */
        if (kvr_tls_stream_peer(stream) == NULL)
            assert(kvr_tls_stream_handshake(stream, NULL) == KVR_REFUSED);
        else
            assert(kvr_tls_stream_read(stream, other.in, 1, &size, NULL) == KVR_REFUSED);
        assert(kvr_tls_stream_refusal(stream) != KVR_TLS_REFUSAL_END);
    }
    kvr_tls_stream_close(stream);
    gnutls_deinit(other.session);
    return 0;
}
