/* Goal: an address is read as its writer meant it, printed back the same, and refused where it has
 * no clear meaning. */
#include "tests/support/check.h"

#include <sys/socket.h>

#include "base/address.h"

static void address_reads_and_prints(void **state)
{
    static const struct {
        const char *text;
        int default_port;
        const char *host;
        uint16_t port;
        const char *printed;
    } cases[] = {
        {"10.0.0.7:18900", -1, "10.0.0.7", 18900, "10.0.0.7:18900"},
        {"[::1]:0", -1, "::1", 0, "[::1]:0"},
        {"[fe80::1]", 9, "fe80::1", 9, "[fe80::1]:9"},
        {"fe80::1", 9, "fe80::1", 9, "[fe80::1]:9"},
        {"node-7.rack_2.example:65535", -1, "node-7.rack_2.example", 65535,
         "node-7.rack_2.example:65535"},
        {"localhost", 80, "localhost", 80, "localhost:80"},
        {"127.0.0.2", 0, "127.0.0.2", 0, "127.0.0.2:0"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct kvr_address address;
        char text[KVR_ADDRESS_TEXT_BYTES];

        assert_int_equal(kvr_address_parse(cases[i].text, cases[i].default_port, NULL, &address),
                         KVR_OK);
        assert_string_equal(address.host, cases[i].host);
        assert_int_equal(address.port, cases[i].port);
        assert_string_equal(kvr_address_print(&address, text), cases[i].printed);
    }
}

static void address_refuses_nonsense(void **state)
{
    static const char *const cases[] = {
        "",        ":1",          "host",        "host:",
        "host:x",  "host:65536",  "host:-1",     "host:1x",
        "[::1",    "[::1]1",      "[1.2.3.4]:1", "[]:1",
        "1.2.3:1", "1.2.3.4.5:1", "256.1.1.1:1", "a b:1",
        "::1",     "1::2::3",     "host:000001", "-x:1",
        "../x:1",
    };
    char longest[600];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct kvr_address address = {.port = 77};
        struct kvr_error error = {.status = KVR_OK};

        assert_int_equal(kvr_address_parse(cases[i], -1, &error, &address), KVR_INVALID);
        assert_int_equal(error.status, KVR_INVALID);
        assert_int_equal(address.port, 77);
    }
    memset(longest, 'a', sizeof(longest));
    memcpy(longest + sizeof(longest) - 3, ":1", 3);
    assert_int_equal(kvr_address_parse(longest, -1, NULL, &(struct kvr_address){.port = 0}),
                     KVR_INVALID);
}

static void address_knows_loopback(void **state)
{
    static const struct {
        const char *host;
        bool loopback;
    } cases[] = {
        {"127.0.0.1", true},        {"127.9.9.9", true}, {"::1", true},      {"localhost", true},
        {"::ffff:127.0.0.1", true}, {"10.0.0.1", false}, {"example", false}, {"::", false},
        {"0.0.0.0", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct kvr_address address;

        assert_int_equal(kvr_address_parse(cases[i].host, 1, NULL, &address), KVR_OK);
        assert_int_equal(kvr_address_is_loopback(&address), cases[i].loopback);
    }
}

static void address_crosses_sockets(void **state)
{
    static const char *const cases[] = {"127.0.0.1:4711", "[2001:db8::7]:1"};
    struct kvr_address address;
    struct sockaddr_storage socket;
    socklen_t bytes;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char text[KVR_ADDRESS_TEXT_BYTES];

        assert_int_equal(kvr_address_parse(cases[i], -1, NULL, &address), KVR_OK);
        assert_int_equal(kvr_address_to_socket(&address, &socket, &bytes), KVR_OK);
        memset(&address, 0, sizeof(address));
        assert_int_equal(kvr_address_from_socket((struct sockaddr *)&socket, &address), KVR_OK);
        assert_string_equal(kvr_address_print(&address, text), cases[i]);
    }
    assert_int_equal(kvr_address_parse("name:1", -1, NULL, &address), KVR_OK);
    assert_int_equal(kvr_address_to_socket(&address, &socket, &bytes), KVR_UNSUPPORTED);
    socket.ss_family = AF_UNIX;
    assert_int_equal(kvr_address_from_socket((struct sockaddr *)&socket, &address),
                     KVR_UNSUPPORTED);
}

static void address_tells_owners_apart(void **state)
{
    (void)state;
    assert_true(kvr_address_network("10.0.0.1:80") == kvr_address_network("10.0.0.1:9999"));
    assert_true(kvr_address_network("10.0.0.1:80") == kvr_address_network("[::ffff:10.0.0.1]:81"));
    assert_true(kvr_address_network("10.0.0.1:80") != kvr_address_network("10.0.0.2:80"));
    assert_true(kvr_address_network("[2001:db8::1]:1") == kvr_address_network("[2001:db8::2:3]:1"));
    assert_true(kvr_address_network("[2001:db8::1]:1") !=
                kvr_address_network("[2001:db8:0:1::1]:1"));
    assert_true(kvr_address_network("no address") != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(address_reads_and_prints),   cmocka_unit_test(address_refuses_nonsense),
        cmocka_unit_test(address_knows_loopback),     cmocka_unit_test(address_crosses_sockets),
        cmocka_unit_test(address_tells_owners_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
