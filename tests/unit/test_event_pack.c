/* Goal: packed events are read as they were, a database keeps its meaning from version to version,
 * and damaged bytes are refused without a read past them.
 * Method: events out and in; the bytes of one pack by heart; every cut and every wrong bit of it,
 * in memory of exactly that size (the sanitizers watch). */
#include "tests/support/check.h"

#include "base/rng.h"
#include "scheduler/event_pack.h"

static const struct kvr_event ended = {.kind = KVR_EVENT_ENDED,
                                       .role = KVR_ROLE_TARGET,
                                       .peer = "prefill-0",
                                       .bytes = 4096,
                                       .retries = 3,
                                       .outcome = KVR_TIMED_OUT,
                                       .detail = "no write landed"};

static void is_same(const struct event_record *record, const struct kvr_event *event,
                    uint64_t sequence, int64_t at_ns)
{
    assert_int_equal(record->kind, event->kind);
    assert_int_equal(record->role, event->role);
    assert_true(record->sequence == sequence && record->at_ns == at_ns);
    assert_true(record->bytes == event->bytes && record->retries == event->retries);
    assert_int_equal(record->outcome, event->outcome);
    assert_string_equal(record->peer, event->peer);
    assert_string_equal(record->detail, event->detail);
}

/* Numbers and times go up, down and round; texts are of any length. */
static void events_come_back_as_they_were(void **state)
{
    enum { COUNT = 2000 };
    static struct kvr_event events[COUNT];
    static uint64_t sequences[COUNT];
    static int64_t times[COUNT];
    struct kvr_rng rng;
    struct event_pack pack = {0};
    struct event_unpack unpack;
    struct event_record record;

    (void)state;
    kvr_rng_init(&rng, 1);
    for (int i = 0; i < COUNT; i++) {
        struct kvr_event *event = &events[i];
        unsigned bits = (unsigned)kvr_rng_next(&rng) % 64 + 1;

        event->kind = (kvr_event_kind)(kvr_rng_next(&rng) % KVR_EVENT_KIND_END);
        event->role = (kvr_role)(i % 2);
        memset(event->peer, 'p', kvr_rng_next(&rng) % 3 * (sizeof(event->peer) - 1) / 2);
        memset(event->detail, 'd', i % 5 == 0 ? (size_t)i % sizeof(event->detail) : 0);
        event->bytes = i % 3 == 0 ? kvr_rng_next(&rng) >> (64 - bits) : 0;
        event->retries = i % 7 == 0 ? UINT32_MAX : 0;
        event->outcome = i % 4 == 0 ? KVR_INTERNAL : i % 4 == 1 ? KVR_AGAIN : KVR_OK;
        sequences[i] = kvr_rng_next(&rng) >> (64 - bits);
        times[i] = (int64_t)(kvr_rng_next(&rng) >> (64 - bits));
        assert_true(event_pack_add(&pack, event, sequences[i], times[i]));
    }
    unpack = (struct event_unpack){.bytes = pack.bytes, .count = pack.count};
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(event_unpack_next(&unpack, &record), KVR_OK);
        is_same(&record, &events[i], sequences[i], times[i]);
    }
    assert_int_equal(event_unpack_next(&unpack, &record), KVR_NOT_FOUND);
    event_pack_free(&pack);
}

/* A typical pack is small, and means the same in every version. */
static void the_bytes_stay_as_they_are(void **state)
{
    static const uint8_t wanted[] = {
        0x20, 0x0e, 0x80, 0x80, 0xd0, 0xe2, 0xc6, 0xbf, 0xce, 0x97, 0x2f,       /* opened, 7 */
        0x08, 'd',  'e',  'c',  'o',  'd',  'e',  '-',  '0',                    /* its peer */
        0x01, 0x02, 0x14, 0x02, 0x02, 0x14, 0x03, 0x02, 0x14, 0x04, 0x02, 0x14, /* to last_ready */
        0x05, 0x02, 0x14, 0x06, 0x02, 0x14, 0x07, 0x02, 0x14, 0x08, 0x02, 0x14, /* to last_land */
        0x09, 0x02, 0x14, 0x0a, 0x02, 0x14, 0x0b, 0x02, 0x14, /* failing, retry, ended */
        0xfb, 0x02, 0x13, 0x09, 'p',  'r',  'e',  'f',  'i',  'l',  'l',  '-',
        '0',  0x80, 0x20, 0x03, 0x0f, 0x0f, 'n',  'o',  ' ',  'w',  'r',  'i',
        't',  'e',  ' ',  'l',  'a',  'n',  'd',  'e',  'd'};
    struct event_pack pack = {0};
    struct kvr_event event = {.role = KVR_ROLE_SOURCE, .peer = "decode-0"};
    int64_t at_ns = 1700000000000000000;

    (void)state;
    for (int kind = 0; kind < KVR_EVENT_KIND_END; kind++) {
        event.kind = (kvr_event_kind)kind;
        assert_true(event_pack_add(&pack, &event, 7 + (uint64_t)kind, at_ns));
        at_ns += 10;
    }
    assert_true(event_pack_add(&pack, &ended, 7 + KVR_EVENT_KIND_END, at_ns - 20));
    assert_int_equal(pack.count, sizeof(wanted));
    assert_memory_equal(pack.bytes, wanted, sizeof(wanted));
    event_pack_free(&pack);
}

/* Reads until an end of any kind. */
static kvr_status read_all(const uint8_t *bytes, size_t count)
{
    struct event_unpack unpack = {.bytes = bytes, .count = count};
    struct event_record record;
    kvr_status status;

    do
        status = event_unpack_next(&unpack, &record);
    while (status == KVR_OK);
    return status;
}

static void damaged_bytes_are_refused(void **state)
{
    struct event_pack pack = {0};
    uint8_t *exact;

    (void)state;
    assert_true(event_pack_add(&pack, &ended, 1, 1700000000000000000));
    for (size_t count = 0; count <= pack.count; count++) {
        exact = malloc(count > 0 ? count : 1);
        memcpy(exact, pack.bytes, count);
        assert_int_equal(read_all(exact, count),
                         count == 0 || count == pack.count ? KVR_NOT_FOUND : KVR_MALFORMED);
        free(exact);
    }
    exact = malloc(pack.count);
    for (size_t bit = 0; bit < 8 * pack.count; bit++) {
        memcpy(exact, pack.bytes, pack.count);
        exact[bit / 8] ^= (uint8_t)(1 << bit % 8);
        (void)read_all(exact, pack.count); /* other events, or none: but no byte beyond */
    }
    free(exact);
    event_pack_free(&pack);
}

static void what_no_pack_has_is_refused(void **state)
{
    static const struct {
        size_t count;
        uint8_t bytes[16];
    } cases[] = {
        {3, {0x0c, 0x00, 0x00}},       /* no kind */
        {4, {0x00, 0x80, 0x00, 0x00}}, /* a number that is longer than it must be */
        {13,
         {0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 0x00}}, /* too large */
        {5, {0x20, 0x00, 0x00, 0x01, 0x00}},                         /* a text with an end in it */
        {5, {0x20, 0x00, 0x00, 0x40, 'p'}},                          /* longer than a name */
        {5, {0x20, 0x00, 0x00, 0x02, 'p'}},                          /* longer than the rest */
        {9, {0x80, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0x7f, 0x00}}, /* no outcome */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(read_all(cases[i].bytes, cases[i].count), KVR_MALFORMED);
    assert_int_equal(read_all((const uint8_t[]){0x00, 0x00, 0x00}, 3), KVR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_come_back_as_they_were),
        cmocka_unit_test(the_bytes_stay_as_they_are),
        cmocka_unit_test(damaged_bytes_are_refused),
        cmocka_unit_test(what_no_pack_has_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
