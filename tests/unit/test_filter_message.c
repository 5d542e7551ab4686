/* Goal: every message of the filter's protocol comes back as it was, and nothing else is a message.
 * Method: one of each kind; each byte of it changed where a change makes it wrong; addresses as
 * libfabric names endpoints. */
#include "tests/support/check.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "filter/filter_message.h"

static const struct kvr_filter_address four = {4, {10, 0, 0, 8}}, six = {6, {0xfd, [15] = 1}};

static struct kvr_filter_message sample(kvr_filter_kind kind)
{
    struct kvr_filter_message message = {.kind = kind};

    if (kind >= KVR_FILTER_GUARD && kind <= KVR_FILTER_PEER_GONE)
        message.address = kind % 2 == 0 ? four : six;
    if (kind >= KVR_FILTER_GUARD && kind <= KVR_FILTER_PORT_GONE)
        message.first = message.last = 9500;
    if (kind == KVR_FILTER_GUARD)
        message.last = 9563;
    if (kind == KVR_FILTER_HELLO || kind >= KVR_FILTER_COMMIT)
        message.value = 0x0102030405060708;
    return message;
}

static bool of_agent(kvr_filter_kind kind)
{
    return kind <= KVR_FILTER_COMMIT;
}

static void messages_come_back(void **state)
{
    (void)state;
    for (kvr_filter_kind kind = KVR_FILTER_HELLO; kind < KVR_FILTER_KIND_END; kind++) {
        struct kvr_filter_message message = sample(kind), back;
        uint8_t bytes[KVR_FILTER_MESSAGE_BYTES];

        kvr_filter_encode(&message, bytes);
        assert_int_equal(kvr_filter_decode(bytes, of_agent(kind), &back), KVR_OK);
        assert_int_equal(back.kind, kind);
        assert_int_equal(kvr_filter_address_compare(&back.address, &message.address), 0);
        assert_int_equal(back.first, message.first);
        assert_int_equal(back.last, message.last);
        assert_int_equal(back.value, message.value);
        assert_int_equal(kvr_filter_decode(bytes, !of_agent(kind), &back), KVR_MALFORMED);
    }
}

static void wrong(kvr_filter_kind kind, unsigned offset, uint8_t byte)
{
    struct kvr_filter_message message = sample(kind), back;
    uint8_t bytes[KVR_FILTER_MESSAGE_BYTES];

    kvr_filter_encode(&message, bytes);
    bytes[offset] = byte;
    assert_int_equal(kvr_filter_decode(bytes, of_agent(kind), &back), KVR_MALFORMED);
}

static void nothing_else_is_a_message(void **state)
{
    (void)state;
    wrong(KVR_FILTER_HELLO, 0, 0);
    wrong(KVR_FILTER_HELLO, 0, KVR_FILTER_KIND_END);
    wrong(KVR_FILTER_HELLO, 1, 4);
    wrong(KVR_FILTER_HELLO, 3, 1);
    wrong(KVR_FILTER_HELLO, 8, 1);
    wrong(KVR_FILTER_PEER, 3, 1);
    wrong(KVR_FILTER_PEER, 6, 1);
    wrong(KVR_FILTER_PEER, 7, 1);
    wrong(KVR_FILTER_PEER, 31, 1);
    wrong(KVR_FILTER_PEER, 1, 0);
    wrong(KVR_FILTER_PEER, 1, 5);
    wrong(KVR_FILTER_PORT, 4, 0);       /* a port's last is its first */
    wrong(KVR_FILTER_GUARD, 4, 0);      /* the last before the first */
    wrong(KVR_FILTER_PORT_GONE, 12, 1); /* IPv4 has four bytes */
    wrong(KVR_FILTER_COMMIT, 1, 6);
}

static void addresses_of_endpoints_are_read(void **state)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(9501)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(9502)};
    struct kvr_filter_address address;
    char text[48];
    uint16_t port;

    (void)state;
    assert_false(kvr_filter_address_from((uint8_t *)&in, sizeof(in), &address, &port)); /* any */
    in.sin_addr.s_addr = htonl(0x0a000008);
    assert_true(kvr_filter_address_from((uint8_t *)&in, sizeof(in), &address, &port));
    assert_int_equal(kvr_filter_address_compare(&address, &four), 0);
    assert_int_equal(port, 9501);
    assert_false(kvr_filter_address_from((uint8_t *)&in, sizeof(in) - 1, &address, &port));
    assert_false(kvr_filter_address_from((uint8_t *)&in, 1, &address, &port));
    kvr_filter_address_print(&four, text);
    assert_string_equal(text, "10.0.0.8");
    assert_false(kvr_filter_address_from((uint8_t *)&in6, sizeof(in6), &address, &port));
    assert_int_equal(inet_pton(AF_INET6, "::ffff:10.0.0.8", &in6.sin6_addr), 1);
    assert_true(kvr_filter_address_from((uint8_t *)&in6, sizeof(in6), &address, &port));
    assert_int_equal(kvr_filter_address_compare(&address, &four), 0);
    assert_int_equal(port, 9502);
    assert_int_equal(inet_pton(AF_INET6, "fd00::1", &in6.sin6_addr), 1);
    assert_true(kvr_filter_address_from((uint8_t *)&in6, sizeof(in6), &address, &port));
    assert_int_equal(kvr_filter_address_compare(&address, &six), 0);
    kvr_filter_address_print(&six, text);
    assert_string_equal(text, "fd00::1");
}

static void refusals_have_sentences(void **state)
{
    (void)state;
    for (uint64_t i = 0; i <= KVR_FILTER_REFUSAL_END; i++)
        assert_true(strlen(kvr_filter_refusal_text(i)) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_come_back),
        cmocka_unit_test(nothing_else_is_a_message),
        cmocka_unit_test(addresses_of_endpoints_are_read),
        cmocka_unit_test(refusals_have_sentences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
