/* Goal: an agent's notes about a transfer are read as they were, a database keeps their meaning,
 * and damaged bytes are refused without a read past them.
 * Method: books out and in; the bytes of one by heart; every cut and every wrong bit of it, in
 * memory of exactly that size (the sanitizers watch). */
#include "tests/support/check.h"

#include <stdlib.h>

#include "base/rng.h"
#include "trace/spans.h"

#define END (1000 * KVR_S)

static union {
    struct kvr_span_book book;
    uint8_t room[sizeof(struct kvr_span_book) + KVR_LAYERS_MAX * sizeof(struct kvr_layer_span)];
} notes;

static struct kvr_span_book *open_book(uint32_t layer_first, uint32_t layer_count)
{
    kvr_span_book_open(&notes.book, END - KVR_S, layer_first, layer_count);
    return &notes.book;
}

static int64_t us(kvr_ns time)
{
    return time == 0 ? KVR_SPAN_NEVER : (int64_t)((END - time) / KVR_US);
}

/* Layers in any order, some of them never; times are kept to a microsecond. */
static void notes_come_back_as_they_were(void **state)
{
    static struct kvr_spans spans;
    static uint8_t bytes[KVR_SPANS_BYTES_MAX];
    struct kvr_rng rng;

    (void)state;
    kvr_rng_init(&rng, 1);
    for (uint32_t round = 0; round < 500; round++) {
        uint32_t count = round == 0 ? KVR_LAYERS_MAX : (uint32_t)kvr_rng_next(&rng) % 100;
        uint32_t first = round == 0 ? 0 : (uint32_t)kvr_rng_next(&rng) % 100, rails = 0;
        struct kvr_span_book *book = open_book(first, count);
        kvr_role role = (kvr_role)(round % 2);
        size_t size;

        for (uint32_t i = 0; i < count; i++) {
            kvr_ns begins = END - kvr_rng_next(&rng) % END;

            if (i % 7 != 3)
                kvr_span_begins(book, first + i, begins);
            if (i % 5 != 2)
                kvr_span_ends(book, first + i, begins + kvr_rng_next(&rng) % (END - begins + 1));
        }
        for (uint32_t rail = 0; rail < KVR_RAILS_MAX; rail++)
            if (round == 0 || kvr_rng_next(&rng) % 4 == 0)
                book->rails[rail] = (struct kvr_rail_span){.bytes = kvr_rng_next(&rng) >> 1,
                                                           .writes = 1 + kvr_rng_next(&rng) % 1000,
                                                           .retries = kvr_rng_next(&rng) % 3};
        size = kvr_spans_pack(book, role, END, bytes);
        assert_true(size <= sizeof(bytes));
        assert_int_equal(kvr_spans_unpack(bytes, size, &spans), KVR_OK);
        assert_int_equal(spans.role, role);
        assert_int_equal(spans.layer_first, first);
        assert_int_equal(spans.layer_count, count);
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(spans.layers[i].begins_us, us(book->layers[i].begins));
            assert_int_equal(spans.layers[i].ends_us, us(book->layers[i].ends));
        }
        for (uint32_t rail = 0; rail < KVR_RAILS_MAX; rail++) {
            if (book->rails[rail].writes == 0)
                continue;
            assert_int_equal(spans.rails[rails].rail, rail);
            assert_memory_equal(&spans.rails[rails].carried, &book->rails[rail],
                                sizeof(book->rails[rail]));
            rails++;
        }
        assert_int_equal(spans.rail_count, rails);
    }
}

/* The longest that can be: every number is as long as it gets. */
static void the_longest_fits(void **state)
{
    static struct kvr_spans spans;
    static uint8_t bytes[KVR_SPANS_BYTES_MAX];
    struct kvr_span_book *book = open_book(0, KVR_LAYERS_MAX);
    size_t size;

    (void)state;
    for (uint32_t layer = 0; layer < KVR_LAYERS_MAX; layer++) {
        kvr_span_begins(book, layer, 1); /* longer ago than can be said */
        kvr_span_ends(book, layer, 2 * END);
    }
    for (uint32_t rail = 0; rail < KVR_RAILS_MAX; rail++)
        book->rails[rail] = (struct kvr_rail_span){INT64_MAX, INT64_MAX, UINT64_MAX};
    size = kvr_spans_pack(book, KVR_ROLE_TARGET, (kvr_ns)1 << 62, bytes);
    assert_true(size <= sizeof(bytes));
    assert_int_equal(kvr_spans_unpack(bytes, size, &spans), KVR_OK);
    assert_int_equal(spans.layers[0].begins_us, UINT32_MAX);
    assert_int_equal(spans.rails[KVR_RAILS_MAX - 1].carried.retries, UINT32_MAX);
    size = kvr_spans_pack(book, KVR_ROLE_TARGET, END, bytes);
    assert_int_equal(kvr_spans_unpack(bytes, size, &spans), KVR_OK);
    assert_int_equal(spans.layers[0].ends_us, 0); /* after the end */
}

static const uint8_t by_heart[] = {
    0x11, 0x03, 0x02,                   /* version 1, target; two layers from layer 3 */
    0xa1, 0x1f, 0xc8, 0x01,             /* 2,000 us before the end; 100 us later */
    0xe8, 0x07, 0x00,                   /* 500 us later; never */
    0x02,                               /* two rails */
    0x00, 0x05, 0x80, 0x80, 0x01, 0x00, /* rail 0: 5 writes, 16 KiB */
    0x07, 0x06, 0x80, 0x08, 0x01        /* rail 7: 6 writes, 1 KiB, a retry */
};

static struct kvr_span_book *book_by_heart(void)
{
    struct kvr_span_book *book = open_book(3, 2);

    kvr_span_begins(book, 3, END - 2000 * KVR_US);
    kvr_span_ends(book, 3, END - 1900 * KVR_US);
    kvr_span_begins(book, 4, END - 1400 * KVR_US);
    kvr_span_begins(book, 2, END); /* another layer: not noted */
    kvr_span_ends(book, 5, END);
    kvr_span_ends(NULL, 3, END);
    book->rails[0] = (struct kvr_rail_span){16384, 5, 0};
    book->rails[7] = (struct kvr_rail_span){1024, 6, 1};
    return book;
}

static void the_bytes_stay_as_they_are(void **state)
{
    uint8_t bytes[KVR_SPANS_BYTES_MAX];

    (void)state;
    assert_int_equal(kvr_spans_pack(book_by_heart(), KVR_ROLE_TARGET, END, bytes),
                     sizeof(by_heart));
    assert_memory_equal(bytes, by_heart, sizeof(by_heart));
}

static void damaged_bytes_are_refused(void **state)
{
    static struct kvr_spans spans;
    uint8_t *exact;

    (void)state;
    for (size_t count = 0; count <= sizeof(by_heart); count++) {
        exact = malloc(count > 0 ? count : 1);
        memcpy(exact, by_heart, count);
        assert_int_equal(kvr_spans_unpack(exact, count, &spans),
                         count == sizeof(by_heart) ? KVR_OK : KVR_MALFORMED);
        free(exact);
    }
    exact = malloc(sizeof(by_heart));
    for (size_t bit = 0; bit < 8 * sizeof(by_heart); bit++) {
        memcpy(exact, by_heart, sizeof(by_heart));
        exact[bit / 8] ^= (uint8_t)(1 << bit % 8);
        if (kvr_spans_unpack(exact, sizeof(by_heart), &spans) == KVR_OK)
            assert_true(spans.layer_first + spans.layer_count <= KVR_LAYERS_MAX &&
                        spans.rail_count <= KVR_RAILS_MAX);
    }
    free(exact);
}

static void what_no_agent_packs_is_refused(void **state)
{
    static struct kvr_spans spans;
    static const struct {
        size_t count;
        kvr_status status;
        uint8_t bytes[12];
    } cases[] = {
        {4, KVR_OK, {0x01, 0x00, 0x00, 0x00}},
        {4, KVR_UNSUPPORTED, {0x02, 0x00, 0x00, 0x00}},           /* a newer version */
        {4, KVR_MALFORMED, {0x21, 0x00, 0x00, 0x00}},             /* a bit without meaning */
        {5, KVR_MALFORMED, {0x01, 0x00, 0x00, 0x00, 0x00}},       /* a byte too many */
        {5, KVR_MALFORMED, {0x01, 0x81, 0x02, 0x00, 0x00}},       /* layer 257 */
        {6, KVR_MALFORMED, {0x01, 0xff, 0x01, 0x02, 0x00, 0x00}}, /* two layers from 255 */
        {6, KVR_MALFORMED, {0x01, 0x00, 0x01, 0x02, 0x00, 0x00}}, /* after the end */
        {8, KVR_MALFORMED, {0x01, 0x00, 0x00, 0x01, 0x30, 0x01, 0x00, 0x00}}, /* rail 48 */
        {8, KVR_MALFORMED, {0x01, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00}}, /* no writes */
        {12,
         KVR_MALFORMED,
         {0x01, 0x00, 0x00, 0x02, 0x01, 0x01, 0x00, 0x00, 0x01, 0x01, 0x00, 0x00}}, /* twice */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(kvr_spans_unpack(cases[i].bytes, cases[i].count, &spans), cases[i].status);
}

static void failed_and_slow_ones_are_always_sent(void **state)
{
    struct kvr_span_book *book = open_book(0, 0);
    struct kvr_spans_choice choice = {.every = 100, .slow_ns = 2 * KVR_S};
    struct kvr_event ended = {.at = END, .transfer = 4200, .outcome = KVR_OK};

    (void)state;
    assert_true(kvr_spans_wanted(&choice, book, &ended)); /* one of a hundred */
    ended.transfer = 4201;
    assert_false(kvr_spans_wanted(&choice, book, &ended));
    ended.at = END + KVR_S + 1;
    assert_true(kvr_spans_wanted(&choice, book, &ended)); /* slow */
    ended.at = END + KVR_S;
    assert_false(kvr_spans_wanted(&choice, book, &ended));
    ended.outcome = KVR_CANCELLED;
    assert_true(kvr_spans_wanted(&choice, book, &ended));
    choice.every = 0;
    assert_false(kvr_spans_wanted(&choice, book, &ended));
    choice.every = 1;
    assert_false(kvr_spans_wanted(&choice, NULL, &ended)); /* never granted, or no memory */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notes_come_back_as_they_were),
        cmocka_unit_test(the_longest_fits),
        cmocka_unit_test(the_bytes_stay_as_they_are),
        cmocka_unit_test(damaged_bytes_are_refused),
        cmocka_unit_test(what_no_agent_packs_is_refused),
        cmocka_unit_test(failed_and_slow_ones_are_always_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
