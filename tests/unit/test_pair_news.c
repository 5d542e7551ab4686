/* Goal: the log says once that a rail is slow to a peer or reaches it no more, and once that it
 * does again. Method: rows as the rail groups give them. */
#include "tests/support/check.h"

#include "agent/core/pair_news.h"

static struct pair_news news;
static struct pair_news_item items[KVR_RAILS_MAX];

static int fresh(void **state)
{
    (void)state;
    memset(&news, 0, sizeof(news));
    return 0;
}

static uint32_t told(const struct kvr_pair_facts *rows, uint32_t count)
{
    return pair_news_take(&news, 3, rows, count, items);
}

static void a_rail_is_lost_and_comes_back(void **state)
{
    struct kvr_pair_facts rows[] = {
        {.rail = 0, .target_rail = 0, .state = KVR_PAIR_WARM},
        {.rail = 1, .target_rail = 1, .state = KVR_PAIR_UP},
    };

    (void)state;
    assert_int_equal(told(rows, 2), 0);
    rows[1].state = KVR_PAIR_UNREACHABLE;
    strcpy(rows[1].detail, "its writes were silent for 3.0 s");
    assert_int_equal(told(rows, 2), 1);
    assert_int_equal(items[0].trouble, PAIR_LOST);
    assert_int_equal(items[0].rail, 1);
    assert_string_equal(items[0].detail, "its writes were silent for 3.0 s");
    assert_int_equal(told(rows, 2), 0);
    rows[1].state = KVR_PAIR_DOUBTED; /* tried again */
    assert_int_equal(told(rows, 2), 0);
    rows[1].state = KVR_PAIR_UP; /* nothing has come through yet */
    assert_int_equal(told(rows, 2), 0);
    rows[1].state = KVR_PAIR_WARM;
    assert_int_equal(told(rows, 2), 1);
    assert_int_equal(items[0].trouble, PAIR_FINE);
    assert_int_equal(told(rows, 2), 0);
}

static void a_rail_with_another_pair_is_not_lost(void **state)
{
    struct kvr_pair_facts rows[] = {
        {.rail = 0, .target_rail = 0, .state = KVR_PAIR_UNREACHABLE},
        {.rail = 0, .target_rail = 1, .state = KVR_PAIR_WARM},
        {.rail = 1, .target_rail = 1, .state = KVR_PAIR_SPARE},
    };

    (void)state;
    assert_int_equal(told(rows, 3), 0);
    rows[1].state = KVR_PAIR_DOUBTED;
    assert_int_equal(told(rows, 3), 1);
    assert_int_equal(items[0].rail, 0);
}

/* It is said when it gets worse, and not when it gets a little better. */
static void a_slow_rail_is_said_to_be_slow(void **state)
{
    struct kvr_pair_facts rows[] = {
        {.state = KVR_PAIR_UNREACHABLE},
        {.target_rail = 1, .state = KVR_PAIR_SLOW, .detail = "it delivers little"},
        {.target_rail = 2, .state = KVR_PAIR_SPARE},
    };

    (void)state;
    assert_int_equal(told(rows, 3), 1);
    assert_int_equal(items[0].trouble, PAIR_SLOW);
    assert_string_equal(items[0].detail, "it delivers little");
    assert_int_equal(told(rows, 3), 0);
    rows[1].state = KVR_PAIR_UNREACHABLE;
    assert_int_equal(told(rows, 3), 1);
    assert_int_equal(items[0].trouble, PAIR_LOST);
    rows[1].state = KVR_PAIR_SLOW;
    assert_int_equal(told(rows, 3), 0);
    rows[1].state = KVR_PAIR_WARMING; /* nothing has come through */
    assert_int_equal(told(rows, 3), 0);
    rows[1].state = KVR_PAIR_WARM;
    assert_int_equal(told(rows, 3), 1);
    assert_int_equal(items[0].trouble, PAIR_FINE);
    rows[1].state = KVR_PAIR_SLOW;
    assert_int_equal(told(rows, 3), 1);
    assert_int_equal(items[0].trouble, PAIR_SLOW);
}

static void another_session_begins_anew(void **state)
{
    struct kvr_pair_facts row = {.state = KVR_PAIR_UNREACHABLE};

    (void)state;
    assert_int_equal(told(&row, 1), 1);
    pair_news_forget(&news, 3);
    assert_int_equal(told(&row, 1), 1);
    assert_int_equal(items[0].trouble, PAIR_LOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_rail_is_lost_and_comes_back, fresh),
        cmocka_unit_test_setup(a_rail_with_another_pair_is_not_lost, fresh),
        cmocka_unit_test_setup(a_slow_rail_is_said_to_be_slow, fresh),
        cmocka_unit_test_setup(another_session_begins_anew, fresh),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
