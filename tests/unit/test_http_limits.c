/* Goal: a connection beyond the limit in all or of its host is refused, an IPv6 network counts as
 * one host, and the log gets a line a second with a count. Method: the pure limits with given
 * addresses and times. */
#include "tests/support/check.h"

#include <arpa/inet.h>

#include "http/http_limits.h"

static uint64_t host_of(const char *text)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    struct sockaddr_in four = {.sin_family = AF_INET};

    if (inet_pton(AF_INET, text, &four.sin_addr) == 1)
        return http_limits_host((struct sockaddr *)&four);
    assert_int_equal(inet_pton(AF_INET6, text, &six.sin6_addr), 1);
    return http_limits_host((struct sockaddr *)&six);
}

static void a_host_is_an_address_or_a_network(void **state)
{
    (void)state;
    assert_true(host_of("10.0.0.1") == host_of("::ffff:10.0.0.1"));
    assert_true(host_of("10.0.0.1") != host_of("10.0.0.2"));
    assert_true(host_of("2001:db8:1:2::1") == host_of("2001:db8:1:2:ffff::1"));
    assert_true(host_of("2001:db8:1:2::1") != host_of("2001:db8:1:3::1"));
    assert_true(host_of("::1") != host_of("0.0.0.1"));
}

static void both_limits_hold(void **state)
{
    struct http_limits limits;

    (void)state;
    assert_int_equal(http_limits_init(&limits, 4, 2, 4), KVR_OK);
    http_limits_joined(&limits, 1);
    assert_int_equal(http_limits_reached(&limits, 1, 1), HTTP_LIMIT_END);
    http_limits_joined(&limits, 1);
    assert_int_equal(http_limits_reached(&limits, 2, 1), HTTP_LIMIT_PER_HOST);
    assert_int_equal(http_limits_reached(&limits, 2, 2), HTTP_LIMIT_END);
    http_limits_joined(&limits, 2);
    http_limits_joined(&limits, 3);
    assert_int_equal(http_limits_reached(&limits, 4, 4), HTTP_LIMIT_MAX);
    assert_int_equal(http_limits_reached(&limits, 4, 1), HTTP_LIMIT_PER_HOST);
    http_limits_left(&limits, 1);
    assert_int_equal(http_limits_reached(&limits, 3, 1), HTTP_LIMIT_END);
    http_limits_left(&limits, 1);
    http_limits_left(&limits, 2);
    http_limits_left(&limits, 3);
    assert_int_equal(limits.hosts.count, 0); /* nothing is kept of hosts that have left */
    http_limits_done(&limits);
}

static void no_limit_of_a_host_is_no_limit(void **state)
{
    struct http_limits limits;

    (void)state;
    assert_int_equal(http_limits_init(&limits, 100, 0, 100), KVR_OK);
    for (unsigned i = 0; i < 99; i++)
        http_limits_joined(&limits, 1);
    assert_int_equal(http_limits_reached(&limits, 99, 1), HTTP_LIMIT_END);
    assert_int_equal(http_limits_reached(&limits, 100, 1), HTTP_LIMIT_MAX);
    http_limits_done(&limits);
}

static void the_log_gets_a_line_a_second(void **state)
{
    struct http_limits limits;
    kvr_ns now = KVR_S;

    (void)state;
    assert_int_equal(http_limits_init(&limits, 1, 1, 1), KVR_OK);
    assert_int_equal(http_limits_say(&limits, false, now), 0);
    assert_int_equal(http_limits_say(&limits, true, now), 1);
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(http_limits_say(&limits, true, now + KVR_S - 1), 0);
    assert_int_equal(http_limits_say(&limits, false, now + KVR_S), 1000);
    assert_int_equal(http_limits_say(&limits, false, now + 9 * KVR_S), 0);
    assert_int_equal(http_limits_say(&limits, true, now + 9 * KVR_S), 1);
    http_limits_done(&limits);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_is_an_address_or_a_network),
        cmocka_unit_test(both_limits_hold),
        cmocka_unit_test(no_limit_of_a_host_is_no_limit),
        cmocka_unit_test(the_log_gets_a_line_a_second),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
