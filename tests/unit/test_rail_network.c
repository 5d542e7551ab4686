/* Goal: cards in one network have one text on every host, and networks that every host has, or that
 * join a card to its switch, have none. Method: addresses by hand. */
#include "tests/support/check.h"

#include <arpa/inet.h>

#include "fabric/rail_network.h"

static const char *network(const char *address, const char *mask)
{
    static char text[KVR_PLANE_BYTES];
    int family = strchr(address, ':') != NULL ? AF_INET6 : AF_INET;
    uint8_t bytes[16], bits[16];

    memset(text, '!', sizeof(text));
    assert_int_equal(inet_pton(family, address, bytes), 1);
    assert_int_equal(inet_pton(family, mask, bits), 1);
    kvr_rail_network(family, bytes, bits, text);
    return text;
}

static void cards_in_one_network_have_one_text(void **state)
{
    (void)state;
    assert_string_equal(network("10.1.2.3", "255.255.255.0"), "10.1.2.0/24");
    assert_string_equal(network("10.1.2.77", "255.255.255.0"), "10.1.2.0/24");
    assert_string_equal(network("10.1.2.77", "255.255.254.0"), "10.1.2.0/23");
    assert_string_equal(network("10.1.2.9", "255.255.255.252"), "10.1.2.8/30");
    assert_string_equal(network("fd00:1:2:3::9", "ffff:ffff:ffff:ffff::"), "fd00:1:2:3::/64");
    /* The longest there is. */
    assert_string_equal(network("2001:1db8:1111:2222:3333:4444:5555:6666",
                                "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffc"),
                        "2001:1db8:1111:2222:3333:4444:5555:6664/126");
}

static void others_have_none(void **state)
{
    (void)state;
    assert_string_equal(network("127.0.0.2", "255.0.0.0"), "");
    assert_string_equal(network("169.254.7.1", "255.255.0.0"), "");
    assert_string_equal(network("::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), "");
    assert_string_equal(network("fe80::12", "ffff:ffff:ffff:ffff::"), "");
    assert_string_equal(network("10.1.2.8", "255.255.255.254"), "");
    assert_string_equal(network("10.1.2.8", "255.255.255.255"), "");
    assert_string_equal(network("fd00::2", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe"), "");
    assert_string_equal(network("10.1.2.8", "0.0.0.0"), "");
    assert_string_equal(network("10.1.2.8", "255.0.255.0"), "");
}

static void networks_of_one_card_follow_each_other(void **state)
{
    char text[KVR_PLANE_BYTES] = "10.1.0.0/24";

    (void)state;
    kvr_rail_network_add(text, "");
    kvr_rail_network_add(text, "10.1.0.0/24");
    assert_string_equal(text, "10.1.0.0/24");
    kvr_rail_network_add(text, "10.1.0.0/2");
    kvr_rail_network_add(text, "10.1.0.0/2");
    assert_string_equal(text, "10.1.0.0/24,10.1.0.0/2");
    kvr_rail_network_add(text, "2001:1db8:1111:2222:3333::/80"); /* no room */
    kvr_rail_network_add(text, "2001:1db8:1:2::/64");
    kvr_rail_network_add(text, "10.9.0.0/16");
    assert_string_equal(text, "10.1.0.0/24,10.1.0.0/2,2001:1db8:1:2::/64");
}

static const char *subnet(const char *fabric, const char *network_type)
{
    static char text[KVR_PLANE_BYTES];

    memset(text, '!', sizeof(text));
    kvr_rail_subnet(fabric, network_type, text);
    return text;
}

static void subnets_with_a_number_are_told_apart(void **state)
{
    (void)state;
    assert_string_equal(subnet("IB-0xfec0000000000001", "InfiniBand"), "ib:fec0:0:0:1::/64");
    assert_string_equal(subnet("IB-0xfec0000000000002", "InfiniBand"), "ib:fec0:0:0:2::/64");
    assert_string_equal(subnet("IB-0xfe80000000000001", "InfiniBand"), "ib:fe80:0:0:1::/64");
    assert_string_equal(subnet("IB-0x1111222233334444", "InfiniBand"),
                        "ib:1111:2222:3333:4444::/64");
}

/* The default prefix, RoCE, and providers that name their fabric otherwise. */
static void names_that_say_nothing_are_no_subnets(void **state)
{
    (void)state;
    assert_string_equal(subnet("IB-0xfe80000000000000", "InfiniBand"), "");
    assert_string_equal(subnet("IB-0x0", "InfiniBand"), "");
    assert_string_equal(subnet("IB-0xfec0000000000001", "Ethernet"), "");
    assert_string_equal(subnet("IB-0xfec0000000000001", NULL), "");
    assert_string_equal(subnet(NULL, "InfiniBand"), "");
    assert_string_equal(subnet("IB-0x", "InfiniBand"), "");
    assert_string_equal(subnet("IB-0xfec0000000000001f", "InfiniBand"), "");
    assert_string_equal(subnet("IB-0x-1", "InfiniBand"), "");
    assert_string_equal(subnet("Ethernet-iWARP", "Ethernet"), "");
    assert_string_equal(subnet("efa", "Ethernet"), "");
    assert_string_equal(subnet("EFA-fe80000000000000", "Ethernet"), "");
    assert_string_equal(subnet("10.1.2.0/24", NULL), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cards_in_one_network_have_one_text),
        cmocka_unit_test(others_have_none),
        cmocka_unit_test(networks_of_one_card_follow_each_other),
        cmocka_unit_test(subnets_with_a_number_are_told_apart),
        cmocka_unit_test(names_that_say_nothing_are_no_subnets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
