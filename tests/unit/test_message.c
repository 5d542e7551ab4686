/* Goal: every message survives the wire unchanged, and no bytes from outside do harm.
 * Method: random messages of each kind there and back; each cut at every byte; each with random
 * bytes changed; hand-made frames that break one limit each. */
#include "tests/support/check.h"
#include "tests/support/messages.h"

#include "wire/kvrail.pb-c.h"

static struct kvr_message_decoder *decoder;
static struct messages_memory memory;
static uint8_t frame[KVR_FRAME_BYTES_MAX];

static int open_decoder(void **state)
{
    (void)state;
    decoder = kvr_message_decoder_open();
    return decoder == NULL;
}

static int close_decoder(void **state)
{
    (void)state;
    kvr_message_decoder_close(decoder);
    return 0;
}

static size_t encode(const struct kvr_message *message)
{
    size_t bytes = 0;

    assert_int_equal(kvr_message_encode(message, frame, sizeof(frame), &bytes), KVR_OK);
    return bytes;
}

static void message_there_and_back(void **state)
{
    uint64_t cases = check_cases(100, 2000);
    struct kvr_message sent, received;
    struct kvr_error error;

    (void)state;
    for (uint64_t seed = 1; seed <= cases; seed++) {
        struct kvr_rng rng;

        kvr_rng_init(&rng, seed);
        for (int kind = KVR_MSG_HELLO; kind < KVR_MSG_KIND_END; kind++) {
            messages_random(&rng, (kvr_message_kind)kind, seed % 10 == 0 ? 100 : 3, &memory, &sent);
            size_t bytes = encode(&sent);

            assert_int_equal(kvr_message_decode(decoder, frame, bytes, &received, &error), KVR_OK);
            if (!messages_equal(&sent, &received))
                fail_msg("seed %d: %s came back different", (int)seed,
                         kvr_message_name((kvr_message_kind)kind));
        }
    }
}

static void message_largest_fits_a_frame(void **state)
{
    struct kvr_message sent = {.kind = KVR_MSG_PLAN, .sequence = UINT64_MAX};
    struct kvr_message received;
    struct kvr_error error;

    (void)state;
    for (uint32_t i = 0; i < KVR_RUNS_PER_MESSAGE; i++)
        memory.page_runs[i] = (struct kvr_page_run){i % 2 ? 0 : 0x80000000u, UINT32_MAX};
    sent.plan.runs = memory.page_runs;
    sent.plan.run_count = KVR_RUNS_PER_MESSAGE;
    sent.plan.source.tp = sent.plan.source.pp = UINT32_MAX - 1;
    sent.plan.source.tp_size = sent.plan.source.pp_size = UINT32_MAX;
    size_t bytes = encode(&sent);

    assert_int_equal(kvr_message_decode(decoder, frame, bytes, &received, &error), KVR_OK);
    assert_true(messages_equal(&sent, &received));
    assert_int_equal(kvr_message_encode(&sent, frame, bytes - 1, &bytes), KVR_TOO_LARGE);
}

/* A cut frame is refused, or (where the cut is between two fields) is a message of smaller content.
 * The decoder never reads past its end: the copy is exactly as long as the cut. */
static void message_cut_at_every_byte(void **state)
{
    struct kvr_message sent, received;
    struct kvr_error error;
    struct kvr_rng rng;

    (void)state;
    kvr_rng_init(&rng, 7);
    for (int kind = KVR_MSG_HELLO; kind < KVR_MSG_KIND_END; kind++) {
        messages_random(&rng, (kvr_message_kind)kind, 1, &memory, &sent);
        size_t bytes = encode(&sent), step = bytes / 4000 + 1;

        for (size_t cut = 0; cut < bytes; cut += step) {
            uint8_t *copy = malloc(cut + 1);

            memcpy(copy + 1, frame, cut);
            kvr_status status = kvr_message_decode(decoder, copy + 1, cut, &received, &error);
            assert_true(status == KVR_OK || status == KVR_MALFORMED);
            free(copy);
        }
    }
}

static void message_changed_bytes(void **state)
{
    uint64_t cases = check_cases(2000, 50000);
    struct kvr_message sent, received;
    struct kvr_error error;
    struct kvr_rng rng;

    (void)state;
    kvr_rng_init(&rng, 11);
    for (uint64_t i = 0; i < cases; i++) {
        messages_random(&rng, (kvr_message_kind)kvr_rng_between(&rng, 1, KVR_MSG_KIND_END - 1), 1,
                        &memory, &sent);
        size_t bytes = encode(&sent);

        for (uint64_t changes = kvr_rng_between(&rng, 1, 4); changes > 0; changes--)
            frame[kvr_rng_below(&rng, bytes)] = (uint8_t)kvr_rng_next(&rng);
        kvr_status status = kvr_message_decode(decoder, frame, bytes, &received, &error);
        if (status == KVR_OK)
            (void)messages_equal(&received,
                                 &received); /* reads everything that the message points to */
    }
}

static void expect_malformed(const uint8_t *bytes, size_t count, const char *words)
{
    struct kvr_message received;
    struct kvr_error error = {0};

    assert_int_equal(kvr_message_decode(decoder, bytes, count, &received, &error), KVR_MALFORMED);
    if (strstr(error.detail, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error.detail, words);
}

static void expect_frame_malformed(Kvrail__Control__Frame *broken, const char *words)
{
    assert_true(kvrail__control__frame__get_packed_size(broken) <= sizeof(frame));
    expect_malformed(frame, kvrail__control__frame__pack(broken, frame), words);
}

static void message_limits_are_checked(void **state)
{
    Kvrail__Control__Frame broken = KVRAIL__CONTROL__FRAME__INIT;
    Kvrail__Control__Tail tail = KVRAIL__CONTROL__TAIL__INIT;
    Kvrail__Control__Missing missing = KVRAIL__CONTROL__MISSING__INIT;
    Kvrail__Control__Runs runs = KVRAIL__CONTROL__RUNS__INIT;
    Kvrail__Control__Grant grant = KVRAIL__CONTROL__GRANT__INIT;
    Kvrail__Control__Hello hello = KVRAIL__CONTROL__HELLO__INIT;
    Kvrail__Control__Want want = KVRAIL__CONTROL__WANT__INIT;
    static uint32_t numbers[KVR_RUNS_PER_MESSAGE + 1];
    static int32_t steps[KVR_RUNS_PER_MESSAGE + 1];
    static uint8_t bytes[KVR_TAIL_BYTES_MAX + 1];
    char long_name[KVR_REQUEST_BYTES + 1];

    (void)state;
    memset(long_name, 'x', KVR_REQUEST_BYTES);
    long_name[KVR_REQUEST_BYTES] = '\0';
    expect_malformed(frame, 0, "kind");
    expect_malformed((const uint8_t *)"GET / HTTP/1.1\r\n\r\n", 18, "no message");

    broken.body_case = KVRAIL__CONTROL__FRAME__BODY_TAIL;
    broken.tail = &tail;
    tail.bytes = (ProtobufCBinaryData){sizeof(bytes), bytes};
    expect_frame_malformed(&broken, "tail of 65537 bytes");

    broken.body_case = KVRAIL__CONTROL__FRAME__BODY_MISSING;
    broken.missing = &missing;
    missing.runs = &runs;
    runs = (Kvrail__Control__Runs){runs.base, 2, steps, 1, numbers};
    expect_frame_malformed(&broken, "2 steps and 1 counts");
    runs.n_step = runs.n_count = KVR_RUNS_PER_MESSAGE + 1;
    expect_frame_malformed(&broken, "32769 steps");

    broken.body_case = KVRAIL__CONTROL__FRAME__BODY_GRANT;
    broken.grant = &grant;
    grant.slots = numbers;
    grant.n_slots = KVR_TRANSFER_SLOTS_MAX + 1;
    expect_frame_malformed(&broken, "slots has 65 entries");
    grant.n_slots = 1;
    numbers[0] = KVR_SLOTS;
    expect_frame_malformed(&broken, "slot 65536");

    broken.body_case = KVRAIL__CONTROL__FRAME__BODY_HELLO;
    broken.hello = &hello;
    hello.agent = long_name;
    expect_frame_malformed(&broken, "agent is 128 bytes long: at most 63");
    hello.agent = (char *)"\x1b[2J";
    expect_frame_malformed(&broken, "agent is not printable");

    broken.body_case = KVRAIL__CONTROL__FRAME__BODY_WANT;
    broken.want = &want;
    want.request = long_name;
    expect_frame_malformed(&broken, "request is 128 bytes long: at most 127");
    want.request = (char *)"r";
    want.source_engine = (ProtobufCBinaryData){15, bytes};
    expect_frame_malformed(&broken, "source_engine is 15 bytes");
}

/* Code that counts an engine's ranks relies on this refusal. */
static void message_of_a_rank_outside_its_engine_is_malformed(void **state)
{
    struct kvr_message sent = {.kind = KVR_MSG_REGIONS};

    (void)state;
    expect_malformed(frame, encode(&sent), "tp is not below tp_size");
    sent.regions.rank = (struct kvr_rank){.tp_size = 2, .pp = 1, .pp_size = 1};
    expect_malformed(frame, encode(&sent), "pp not below pp_size");
}

static void message_unknown_kind_is_refused(void **state)
{
    const uint8_t future[] = {0xfa, 0x07, 0x00}; /* field 127, an empty message */

    (void)state;
    expect_malformed(future, sizeof(future), "kind that this version does not know");
}

static void message_unknown_status_is_internal(void **state)
{
    Kvrail__Control__Frame odd = KVRAIL__CONTROL__FRAME__INIT;
    Kvrail__Control__Reason reason = KVRAIL__CONTROL__REASON__INIT;
    struct kvr_message received;
    struct kvr_error error;

    (void)state;
    odd.body_case = KVRAIL__CONTROL__FRAME__BODY_FAIL;
    odd.fail = &reason;
    reason.status = -12345;
    reason.detail = (char *)"line\nbreak \xff and \xc3\xa9";
    size_t bytes = kvrail__control__frame__pack(&odd, frame);

    assert_int_equal(kvr_message_decode(decoder, frame, bytes, &received, &error), KVR_OK);
    assert_int_equal(received.reason.status, KVR_INTERNAL);
    assert_string_equal(received.reason.detail, "line?break ? and \xc3\xa9");
}

/* 1 MiB of tiny unknown fields would make protobuf-c take twenty times as much. */
static void message_memory_is_bounded(void **state)
{
    (void)state;
    for (size_t i = 0; i + 2 < sizeof(frame); i += 3) {
        frame[i] = 0xf8; /* field 31, a varint: 0 */
        frame[i + 1] = 0x01;
        frame[i + 2] = 0x00;
    }
    expect_malformed(frame, sizeof(frame) - sizeof(frame) % 3, "no message");
}

static void message_broken_ones_are_not_encoded(void **state)
{
    struct kvr_message message = {.kind = KVR_MSG_WANT};
    size_t bytes = 0;

    (void)state;
    memset(message.want.request, 'x', sizeof(message.want.request)); /* no NUL */
    assert_int_equal(kvr_message_encode(&message, frame, sizeof(frame), &bytes), KVR_INVALID);
    message.want.request[3] = '\n';
    message.want.request[4] = '\0';
    assert_int_equal(kvr_message_encode(&message, frame, sizeof(frame), &bytes), KVR_INVALID);
    message = (struct kvr_message){.kind = KVR_MSG_GRANT, .grant = {.rail_count = UINT32_MAX}};
    assert_int_equal(kvr_message_encode(&message, frame, sizeof(frame), &bytes), KVR_INVALID);
    message = (struct kvr_message){.kind = KVR_MSG_KIND_END};
    assert_int_equal(kvr_message_encode(&message, frame, sizeof(frame), &bytes), KVR_INVALID);
}

static void message_renumbered(void **state)
{
    struct kvr_message sent = {.kind = KVR_MSG_CANCEL, .transfer = 5, .sequence = 1}, received;
    struct kvr_error error;
    size_t bytes = encode(&sent);

    (void)state;
    kvr_message_renumber(frame, 0x0123456789abcdef);
    assert_int_equal(kvr_message_decode(decoder, frame, bytes, &received, &error), KVR_OK);
    assert_true(received.sequence == 0x0123456789abcdef && received.transfer == 5);
}

static void message_names(void **state)
{
    (void)state;
    assert_string_equal(kvr_message_name(KVR_MSG_WANT), "WANT");
    assert_string_equal(kvr_message_name(KVR_MSG_UNKNOWN), "UNKNOWN");
    assert_string_equal(kvr_message_name(KVR_MSG_KIND_END), "?");
    assert_false(kvr_message_numbered(KVR_MSG_BEAT));
    assert_true(kvr_message_numbered(KVR_MSG_REGIONS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message_there_and_back),
        cmocka_unit_test(message_largest_fits_a_frame),
        cmocka_unit_test(message_cut_at_every_byte),
        cmocka_unit_test(message_changed_bytes),
        cmocka_unit_test(message_limits_are_checked),
        cmocka_unit_test(message_of_a_rank_outside_its_engine_is_malformed),
        cmocka_unit_test(message_unknown_kind_is_refused),
        cmocka_unit_test(message_unknown_status_is_internal),
        cmocka_unit_test(message_memory_is_bounded),
        cmocka_unit_test(message_broken_ones_are_not_encoded),
        cmocka_unit_test(message_renumbered),
        cmocka_unit_test(message_names),
    };

    return cmocka_run_group_tests_name("message", tests, open_decoder, close_decoder);
}
