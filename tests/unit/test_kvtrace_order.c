/* Goal: records come back by time, and whole, also where they do not fit the memory. Those of one
 * moment come kind by kind, and else as they were put. Method: random records, put into much room
 * and into little, so that there are many parts in the temporary file. */
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/kvtrace_case.h"
#include "trace/kvtrace_order.h"
#include "trace/kvtrace_scan.h"

#define RECORDS 600

static struct kvr_error error;
static struct kvtrace_record record;
static struct kvtrace_text texts[RECORDS]; /* of the records, as they were put */

static void set_moment(struct kvtrace_record *one, int64_t at_us)
{
    int64_t *moments[] = {&one->request.at_us, &one->transfer.at_us, &one->fault.at_us,
                          &one->mark.at_us};

    *moments[one->kind == KVTRACE_REQUEST    ? 0
             : one->kind == KVTRACE_TRANSFER ? 1
             : one->kind == KVTRACE_FAULT    ? 2
                                             : 3] = at_us;
}

static void put_all(struct kvtrace_order *order)
{
    static const kvtrace_kind kinds[] = {KVTRACE_REQUEST, KVTRACE_TRANSFER, KVTRACE_FAULT,
                                         KVTRACE_MARK};
    struct kvr_rng rng;

    kvr_rng_init(&rng, 3);
    for (int i = 0; i < RECORDS; i++) {
        kvtrace_random(&rng, kinds[i % 4], &record);
        set_moment(&record, (int64_t)(kvr_rng_next(&rng) % 200) - 100);
        texts[i].count = 0;
        assert_null(kvtrace_print(&texts[i], &record));
        assert_int_equal(kvtrace_order_put(order, &record, &error), KVR_OK);
    }
}

static int place_of(const struct kvtrace_record *one)
{
    struct kvtrace_text text = {0};
    int found = -1;

    assert_null(kvtrace_print(&text, one));
    for (int i = 0; i < RECORDS && found < 0; i++)
        if (texts[i].count == text.count && memcmp(texts[i].at, text.at, text.count) == 0)
            found = i;
    free(text.at);
    return found;
}

static void come_back(size_t room)
{
    static bool came[RECORDS];
    const struct kvtrace_record *one;
    struct kvtrace_order *order;
    int64_t at_us, before_us = INT64_MIN;
    kvtrace_kind before_kind = KVTRACE_HEADER;
    int before_place = -1, count = 0;
    kvr_status status;

    memset(came, 0, sizeof(came));
    assert_int_equal(kvtrace_order_open(room, &order, &error), KVR_OK);
    put_all(order);
    while ((status = kvtrace_order_next(order, &one, &error)) == KVR_OK) {
        int place = place_of(one);

        assert_true(place >= 0);
        assert_false(came[place]);
        assert_int_equal(kvtrace_order_number(order), place);
        came[place] = true;
        count++;
        assert_true(kvtrace_moment(one, &at_us));
        assert_true(at_us >= before_us);
        if (at_us == before_us)
            assert_true(one->kind >= before_kind);
        if (at_us == before_us && one->kind == before_kind && one->kind == KVTRACE_REQUEST)
            assert_true(place > before_place);
        before_us = at_us;
        before_kind = one->kind;
        before_place = place;
    }
    assert_int_equal(status, KVR_NOT_FOUND);
    assert_int_equal(count, RECORDS);
    kvtrace_order_close(order);
}

static void records_come_by_time(void **state)
{
    (void)state;
    come_back(KVTRACE_ORDER_ROOM);
}

static void little_room_is_enough(void **state)
{
    (void)state;
    come_back(1);      /* each record is a part of its own */
    come_back(100000); /* longer parts */
}

static void the_record_before_stays(void **state)
{
    const struct kvtrace_record *a, *b, *c;
    struct kvtrace_order *order;

    (void)state;
    assert_int_equal(kvtrace_order_open(KVTRACE_ORDER_ROOM, &order, &error), KVR_OK);
    for (int i = 3; i > 0; i--) {
        kvtrace_clear(&record, KVTRACE_MARK);
        record.mark.at_us = i;
        assert_int_equal(kvtrace_order_put(order, &record, &error), KVR_OK);
    }
    assert_int_equal(kvtrace_order_next(order, &a, &error), KVR_OK);
    assert_int_equal(kvtrace_order_next(order, &b, &error), KVR_OK);
    assert_true(a->mark.at_us == 1 && b->mark.at_us == 2);
    kvtrace_order_keep(order);
    assert_int_equal(kvtrace_order_next(order, &c, &error), KVR_OK);
    assert_true(a->mark.at_us == 1 && c->mark.at_us == 3);
    kvtrace_order_close(order);
}

static void only_records_with_a_time_are_taken(void **state)
{
    struct kvtrace_order *order;

    (void)state;
    assert_int_equal(kvtrace_order_open(KVTRACE_ORDER_ROOM, &order, &error), KVR_OK);
    kvtrace_clear(&record, KVTRACE_AGENT);
    assert_int_equal(kvtrace_order_put(order, &record, &error), KVR_INVALID);
    assert_non_null(strstr(error.detail, "a record \"agent\" has no time"));
    kvtrace_order_close(order);
}

static void a_folder_that_is_not_there_is_named(void **state)
{
    struct kvtrace_order *order;

    (void)state;
    assert_int_equal(setenv("TMPDIR", "/nowhere", 1), 0);
    assert_int_equal(kvtrace_order_open(1, &order, &error), KVR_OK);
    kvtrace_clear(&record, KVTRACE_MARK);
    assert_int_equal(kvtrace_order_put(order, &record, &error), KVR_SYSTEM);
    assert_non_null(strstr(error.detail, "$TMPDIR"));
    assert_int_equal(unsetenv("TMPDIR"), 0);
    kvtrace_order_close(order);
}

static int release(void **state)
{
    (void)state;
    for (int i = 0; i < RECORDS; i++)
        free(texts[i].at);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_by_time),
        cmocka_unit_test(little_room_is_enough),
        cmocka_unit_test(the_record_before_stays),
        cmocka_unit_test(only_records_with_a_time_are_taken),
        cmocka_unit_test(a_folder_that_is_not_there_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, release);
}
