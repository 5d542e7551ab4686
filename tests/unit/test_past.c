/* Goal: the ends of publishes are found by key until they are too many or too old. */
#include "tests/support/check.h"

#include <stdio.h>

#include "prefill-agent/past.h"

static struct past past;

static int open_past(void **state)
{
    static uint8_t memory[4 << 20] __attribute__((aligned(64)));
    static struct kvr_buddy buddy;

    (void)state;
    kvr_buddy_init(&buddy, memory, sizeof(memory));
    return past_init(&past, &buddy) == KVR_OK ? 0 : -1;
}

static void add(uint64_t key, kvr_status status, kvr_ns at)
{
    struct past_publish ended = {.key = key, .status = status, .at = at};

    snprintf(ended.request, sizeof(ended.request), "r%llu", (unsigned long long)key);
    past_add(&past, &ended);
}

static void the_last_end_counts(void **state)
{
    (void)state;
    assert_null(past_find(&past, 7, 1));
    add(7, KVR_CANCELLED, 1);
    add(7, KVR_EXPIRED, 2);
    assert_int_equal(past_find(&past, 7, 3)->status, KVR_EXPIRED);
    assert_string_equal(past_find(&past, 7, 3)->request, "r7");
    past_forget(&past, 7);
    past_forget(&past, 7);
    assert_null(past_find(&past, 7, 3));
}

static void an_end_grows_old(void **state)
{
    (void)state;
    add(7, KVR_CANCELLED, 100);
    assert_non_null(past_find(&past, 7, 100 + PAST_TIME - 1));
    assert_null(past_find(&past, 7, 100 + PAST_TIME));
}

/* Two rounds of the ring, with some keys that come again or are forgotten in between. */
static void the_oldest_goes_first(void **state)
{
    (void)state;
    for (uint64_t key = 1; key <= 2 * PAST_MAX; key++) {
        add(key, KVR_CANCELLED, key);
        if (key % 5 == 0)
            add(key - 3, KVR_ABORTED, key);
        if (key % 7 == 0)
            past_forget(&past, key);
    }
    assert_null(past_find(&past, 1, 1));
    assert_null(past_find(&past, 7, 1));
    assert_non_null(past_find(&past, 2 * PAST_MAX, 1));
    assert_int_equal(past_find(&past, 2 * PAST_MAX - 5, 1)->status, KVR_ABORTED);
    assert_true(past.by_key.count <= PAST_MAX);
}

static void without_memory_there_is_none(void **state)
{
    static uint8_t memory[1 << 16] __attribute__((aligned(64)));
    struct kvr_buddy buddy;

    (void)state;
    kvr_buddy_init(&buddy, memory, sizeof(memory));
    assert_int_equal(past_init(&past, &buddy), KVR_NO_MEMORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_last_end_counts, open_past),
        cmocka_unit_test_setup(an_end_grows_old, open_past),
        cmocka_unit_test_setup(the_oldest_goes_first, open_past),
        cmocka_unit_test(without_memory_there_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
