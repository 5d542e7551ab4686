/* Goal: an engine that has gone is reported for a while, and until reports arrive; the newest
 * first, never more than a report holds. Method: a book beside facts with attached engines. */
#include "tests/support/check.h"

#include <stdio.h>

#include "agent/core/gone_book.h"

static struct gone_book book;
static struct kvr_agent_facts facts;

static int setup(void **state)
{
    (void)state;
    memset(&book, 0, sizeof(book));
    return 0;
}

static void add(uint32_t number, kvr_ns now)
{
    struct kvr_engine_facts engine = {.region_count = number};

    gone_book_add(&book, &engine, now);
}

static void told(uint32_t attached, bool heard, kvr_ns now)
{
    memset(&facts, 0, sizeof(facts));
    facts.engine_count = attached;
    gone_book_tell(&book, now, heard, &facts);
    assert_int_equal(facts.engine_count, attached);
}

static void they_stand_behind_the_attached(void **state)
{
    (void)state;
    add(5, 1);
    add(6, 2);
    told(3, true, 2);
    assert_int_equal(facts.gone_count, 2);
    assert_int_equal(facts.engines[3].region_count, 6);
    assert_int_equal(facts.engines[4].region_count, 5);
}

static void they_are_told_for_a_while(void **state)
{
    (void)state;
    add(5, KVR_S);
    add(6, 2 * KVR_S);
    told(0, true, KVR_S + GONE_BOOK_KEPT_NS);
    assert_int_equal(facts.gone_count, 2);
    told(0, true, KVR_S + GONE_BOOK_KEPT_NS + 1);
    assert_int_equal(facts.gone_count, 1);
    assert_int_equal(facts.engines[0].region_count, 6);
    told(0, true, 9 * GONE_BOOK_KEPT_NS);
    assert_int_equal(facts.gone_count, 0);
}

static void they_wait_for_a_scheduler(void **state)
{
    kvr_ns heard = 9 * GONE_BOOK_KEPT_NS;

    (void)state;
    add(5, KVR_S);
    told(0, false, heard);
    assert_int_equal(facts.gone_count, 1);
    told(0, true, heard + GONE_BOOK_KEPT_NS);
    assert_int_equal(facts.gone_count, 1);
    told(0, true, heard + GONE_BOOK_KEPT_NS + 1);
    assert_int_equal(facts.gone_count, 0);
}

static void a_report_holds_so_many(void **state)
{
    (void)state;
    for (uint32_t i = 1; i <= KVR_ENGINES_MAX + 7; i++)
        add(i, i);
    told(0, true, KVR_S);
    assert_int_equal(facts.gone_count, KVR_ENGINES_MAX);
    assert_int_equal(facts.engines[0].region_count, KVR_ENGINES_MAX + 7);
    assert_int_equal(facts.engines[KVR_ENGINES_MAX - 1].region_count, 8);
    told(KVR_ENGINES_MAX - 2, true, KVR_S);
    assert_int_equal(facts.gone_count, 2);
    told(KVR_ENGINES_MAX, true, KVR_S);
    assert_int_equal(facts.gone_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(they_stand_behind_the_attached, setup),
        cmocka_unit_test_setup(they_are_told_for_a_while, setup),
        cmocka_unit_test_setup(they_wait_for_a_scheduler, setup),
        cmocka_unit_test_setup(a_report_holds_so_many, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
