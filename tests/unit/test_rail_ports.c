/* Goal: the range gives the port that rested longest, and none that is open, held by another
 * program or closed a moment ago. Method: a book of ports and a clock by hand. */
#include "tests/support/check.h"

#include "fabric/rail_ports.h"

#define REST (12 * KVR_S)

static struct port_book book;
static struct port_set taken;
static struct port_shortage shortage;

static int clean(void **state)
{
    (void)state;
    memset(&book, 0, sizeof(book));
    memset(&taken, 0, sizeof(taken));
    return 0;
}

static uint16_t choose(uint16_t first, uint16_t last, unsigned start, kvr_ns now)
{
    struct kvr_rail_ports ports = {first, last};

    return port_book_choose(&book, &ports, start, now, REST, &taken, &shortage);
}

static void ranges_are_read(void **state)
{
    static const char *const bad[] = {"",     "9500",    "9500-",     "-9500",       "9500-9499",
                                      "0-10", "1-65536", "9500:9600", "9500-9600,1", " 1-2",
                                      "a-b",  "+1-2",    "1--2",      "1-2x",        "000001-2"};
    struct kvr_rail_ports ports;
    struct kvr_error error;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(kvr_rail_ports_parse(bad[i], &ports, &error), KVR_INVALID);
        assert_non_null(strstr(error.detail, "as in 9500-9599"));
    }
    assert_int_equal(kvr_rail_ports_parse("1-65535", &ports, &error), KVR_OK);
    assert_int_equal(kvr_rail_ports_count(&ports), 65535);
    assert_int_equal(kvr_rail_ports_parse("9500-9500", &ports, &error), KVR_OK);
    assert_int_equal(kvr_rail_ports_count(&ports), 1);
    ports = (struct kvr_rail_ports){0};
    assert_int_equal(kvr_rail_ports_count(&ports), 0);
}

static void unused_ports_come_first_in_a_circle(void **state)
{
    static const uint16_t wanted[] = {9502, 9503, 9500, 9501};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(choose(9500, 9503, 6, KVR_S), wanted[i]);
        port_book_open(&book, wanted[i]);
        port_book_close(&book, wanted[i],
                        KVR_S); /* this port would rest: the others are better anyhow */
    }
}

static void what_is_open_or_taken_is_left_out(void **state)
{
    (void)state;
    port_book_open(&book, 9500);
    port_set_add(&taken, 9501);
    assert_int_equal(choose(9500, 9502, 0, KVR_S), 9502);
    port_book_open(&book, 9502);
    assert_int_equal(choose(9500, 9502, 0, KVR_S), 0);
    assert_int_equal(shortage.open, 2);
    assert_int_equal(shortage.taken, 1);
    assert_int_equal(shortage.resting, 0);
    assert_int_equal(choose(65535, 65535, 3, KVR_S), 65535);
}

static void the_longest_unused_comes_back_after_its_rest(void **state)
{
    kvr_ns now = KVR_S;

    (void)state;
    for (uint16_t port = 9500; port < 9503; port++) {
        port_book_open(&book, port);
        now += KVR_S;
    }
    port_book_close(&book, 9502, now);
    port_book_close(&book, 9501, now + KVR_S);
    assert_int_equal(choose(9500, 9502, 0, now + KVR_S), 0);
    assert_int_equal(shortage.resting, 2);
    assert_int_equal(shortage.open, 1);
    assert_int_equal(choose(9500, 9502, 0, now + REST - 1), 0);
    assert_int_equal(choose(9500, 9502, 0, now + REST), 9502);
    assert_int_equal(choose(9500, 9502, 0, now + KVR_S + REST), 9501); /* opened before 9502 */
}

/* Every port of a small range is used once before any is used again, and never within its rest. */
static void a_small_range_goes_round(void **state)
{
    kvr_ns now = 1, last[4] = {0};
    uint16_t current = choose(9500, 9503, 1, now);

    (void)state;
    port_book_open(&book, current);
    for (unsigned turn = 0; turn < 1000; turn++) {
        uint16_t next;

        now += REST / 3 + 1;
        next = choose(9500, 9503, 1, now);
        assert_int_not_equal(next, 0);
        assert_int_not_equal(next, current);
        assert_true(last[next - 9500] == 0 || now - last[next - 9500] >= REST);
        port_book_open(&book, next);
        port_book_close(&book, current, now);
        last[current - 9500] = now;
        assert_int_equal(next, 9500 + (current - 9500 + 1) % 4);
        current = next;
    }
}

static void a_kernels_port_is_fresh_after_others(void **state)
{
    (void)state;
    assert_true(port_book_fresh(&book, 40000, 2));
    port_book_open(&book, 40000);
    assert_false(port_book_fresh(&book, 40000, 0));
    port_book_close(&book, 40000, 0);
    for (uint16_t port = 1; port <= 2; port++) {
        assert_false(port_book_fresh(&book, 40000, 2));
        port_book_open(&book, port);
    }
    assert_false(port_book_fresh(&book, 40000, 2));
    port_book_open(&book, 3);
    assert_true(port_book_fresh(&book, 40000, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(ranges_are_read, clean),
        cmocka_unit_test_setup(unused_ports_come_first_in_a_circle, clean),
        cmocka_unit_test_setup(what_is_open_or_taken_is_left_out, clean),
        cmocka_unit_test_setup(the_longest_unused_comes_back_after_its_rest, clean),
        cmocka_unit_test_setup(a_small_range_goes_round, clean),
        cmocka_unit_test_setup(a_kernels_port_is_fresh_after_others, clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
