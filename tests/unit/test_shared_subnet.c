/* Goal: several RoCE cards in one IP subnet are noticed where the kernel answers ARP for one on
 * another, and so are small MTUs. Method: ports by hand; lo of this host. */
#include "tests/support/check.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "fabric/shared_subnet.h"
#include "topology/host_groups.h"

static struct kvr_ip_port port(const char *interface, const char *address, const char *mask,
                               int arp_ignore)
{
    struct kvr_ip_port made = {.arp_ignore = arp_ignore};

    snprintf(made.interface, sizeof(made.interface), "%s", interface);
    assert_int_equal(inet_pton(AF_INET, address, &made.address), 1);
    assert_int_equal(inet_pton(AF_INET, mask, &made.mask), 1);
    return made;
}

static void cards_in_one_subnet_are_odd(void **state)
{
    struct kvr_ip_port ports[8];
    struct kvr_oddities odd = {0};

    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        char interface[16], address[16];

        snprintf(interface, sizeof(interface), "enp%us0", i);
        snprintf(address, sizeof(address), "10.0.%u.5", i);
        ports[i] = port(interface, address, "255.255.0.0", 0);
    }
    kvr_ip_ports_odd(ports, 8, &odd);
    assert_int_equal(odd.count, 1);
    assert_int_equal(odd.list[0].kind, KVR_ODD_SHARED_SUBNET);
    assert_non_null(strstr(odd.list[0].text, "enp0s0 and 7 others"));
    assert_non_null(strstr(odd.list[0].text, "10.0.0.0"));
    assert_non_null(strstr(kvr_odd_remedy(odd.list[0].kind), "arp_ignore=2"));
    assert_true(strlen(odd.list[0].text) < KVR_ODDITY_BYTES - 1);
    odd.count = 0;
    for (unsigned i = 0; i < 8; i++)
        ports[i].arp_ignore = 2;
    kvr_ip_ports_odd(ports, 8, &odd);
    assert_int_equal(odd.count, 0);
}

static void cards_with_subnets_of_their_own_are_not(void **state)
{
    struct kvr_ip_port ports[] = {port("eth0", "10.0.0.5", "255.255.255.0", 0),
                                  port("eth1", "10.0.1.5", "255.255.255.0", 0)};
    struct kvr_oddities odd = {0};

    (void)state;
    kvr_ip_ports_odd(ports, 2, &odd);
    assert_int_equal(odd.count, 0);
    kvr_ip_ports_odd(ports, 1, &odd);
    assert_int_equal(odd.count, 0);
    kvr_ip_ports_odd(ports, 0, &odd);
    assert_int_equal(odd.count, 0);
}

static void two_addresses_of_one_card_are_not(void **state)
{
    struct kvr_ip_port ports[] = {port("eth0", "10.0.0.5", "255.255.0.0", 0),
                                  port("eth0", "10.0.1.5", "255.255.0.0", 0)};
    struct kvr_oddities odd = {0};

    (void)state;
    kvr_ip_ports_odd(ports, 2, &odd);
    assert_int_equal(odd.count, 0);
}

static void a_small_mtu_of_roce_is_odd(void **state)
{
    struct kvr_ip_port ports[] = {
        port("eth0", "10.0.0.5", "255.255.255.0", 0), port("eth0", "10.0.0.6", "255.255.255.0", 0),
        port("eth1", "10.0.1.5", "255.255.255.0", 0), port("ib0", "10.0.2.5", "255.255.255.0", 0)};
    struct kvr_oddities odd = {0};

    (void)state;
    ports[0].ethernet = ports[1].ethernet = ports[2].ethernet = true;
    ports[0].mtu = ports[1].mtu = 1500;
    ports[2].mtu = 4200;
    ports[3].mtu = 2044; /* IPoIB */
    kvr_ip_ports_odd(ports, 4, &odd);
    assert_int_equal(odd.count, 1);
    assert_int_equal(odd.list[0].kind, KVR_ODD_SMALL_MTU);
    assert_non_null(strstr(odd.list[0].text, "eth0 has an MTU of 1500"));
}

/* rdma_cm resolves by ARP; tcp's sockets find their way by routes alone. */
static void only_cards_of_rdma_cm_are_read(void **state)
{
    struct kvr_rail_facts facts[] = {
        {.provider = "tcp", .interface = "lo", .source = "127.0.0.1"},
        {.provider = "verbs", .interface = "lo", .source = "127.0.0.1"},
        {.provider = "verbs", .interface = "lo", .source = "10.9.8.7"},
        {.provider = "efa", .interface = "", .source = "fi_addr_efa://[fe80::1]:0:0"}};
    struct kvr_ip_port ports[4];

    (void)state;
    assert_int_equal(kvr_ip_ports_read(facts, 4, ports, 4), 1);
    assert_string_equal(ports[0].interface, "lo");
    assert_int_equal(ports[0].mask, htonl(0xff000000));
    assert_true(ports[0].arp_ignore >= 0);
    assert_true(ports[0].mtu > 0);
    assert_false(ports[0].ethernet);
    assert_int_equal(kvr_ip_ports_read(facts, 4, ports, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cards_in_one_subnet_are_odd),
        cmocka_unit_test(cards_with_subnets_of_their_own_are_not),
        cmocka_unit_test(two_addresses_of_one_card_are_not),
        cmocka_unit_test(a_small_mtu_of_roce_is_odd),
        cmocka_unit_test(only_cards_of_rdma_cm_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
