#include "fabric/shared_subnet.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/small_file.h"
#include "fabric/fabric_provider.h"

#define MTU_GOOD 4200 /* packets of 4,096 bytes, and RoCE's headers */

static int read_number(const char *folder, const char *interface, const char *name)
{
    char path[160];

    snprintf(path, sizeof(path), "%s/%s/%s", folder, interface, name);
    return (int)kvr_small_file_number(path);
}

static int read_arp_ignore(const char *interface)
{
    return read_number("/proc/sys/net/ipv4/conf", interface, "arp_ignore");
}

/* The kernel takes the larger of the two. */
static int arp_ignore_of(const char *interface)
{
    int all = read_arp_ignore("all"), own = read_arp_ignore(interface);

    return all > own ? all : own;
}

static bool find_mask(const struct ifaddrs *list, struct kvr_ip_port *port)
{
    for (const struct ifaddrs *at = list; at != NULL; at = at->ifa_next) {
        const struct sockaddr_in *address = (const struct sockaddr_in *)(void *)at->ifa_addr;
        const struct sockaddr_in *mask = (const struct sockaddr_in *)(void *)at->ifa_netmask;

        if (address == NULL || mask == NULL || address->sin_family != AF_INET ||
            address->sin_addr.s_addr != port->address || strcmp(at->ifa_name, port->interface) != 0)
            continue;
        port->mask = mask->sin_addr.s_addr;
        return true;
    }
    return false;
}

uint32_t kvr_ip_ports_read(const struct kvr_rail_facts *facts, uint32_t count,
                           struct kvr_ip_port *ret_ports, uint32_t capacity)
{
    struct ifaddrs *list;
    uint32_t found = 0;

    if (getifaddrs(&list) != 0)
        return 0;
    for (uint32_t i = 0; i < count && found < capacity; i++) {
        struct kvr_ip_port port = {.arp_ignore = 0};

        memcpy(port.interface, facts[i].interface, sizeof(port.interface));
        if (!kvr_provider_by_rdma_cm(facts[i].provider) ||
            inet_pton(AF_INET, facts[i].source, &port.address) != 1 || !find_mask(list, &port))
            continue;
        port.arp_ignore = arp_ignore_of(port.interface);
        port.mtu = (uint32_t)read_number("/sys/class/net", port.interface, "mtu");
        port.ethernet = read_number("/sys/class/net", port.interface, "type") == ARPHRD_ETHER;
        ret_ports[found++] = port;
    }
    freeifaddrs(list);
    return found;
}

static bool shares(const struct kvr_ip_port *a, const struct kvr_ip_port *b)
{
    return strcmp(a->interface, b->interface) != 0 &&
           ((a->address ^ b->address) & a->mask & b->mask) == 0 &&
           (a->arp_ignore == 0 || b->arp_ignore == 0);
}

static bool seen_before(const struct kvr_ip_port *ports, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++)
        if (strcmp(ports[i].interface, ports[index].interface) == 0)
            return true;
    return false;
}

static void odd_mtus(const struct kvr_ip_port *ports, uint32_t count, struct kvr_oddities *oddities)
{
    for (uint32_t i = 0; i < count; i++)
        if (ports[i].ethernet && ports[i].mtu > 0 && ports[i].mtu < MTU_GOOD &&
            !seen_before(ports, i))
            kvr_oddity_add(oddities, KVR_ODD_SMALL_MTU,
                           "%s has an MTU of %u, so that RoCE cannot send packets of 4,096 bytes",
                           ports[i].interface, ports[i].mtu);
}

static void odd_subnets(const struct kvr_ip_port *ports, uint32_t count,
                        struct kvr_oddities *oddities)
{
    for (uint32_t i = 0; i < count; i++) {
        char network[INET_ADDRSTRLEN] = "";
        struct in_addr address = {.s_addr = ports[i].address & ports[i].mask};
        const struct kvr_ip_port *other = NULL;
        uint32_t others = 0;

        for (uint32_t k = 0; k < count; k++) {
            if (!shares(&ports[i], &ports[k]))
                continue;
            other = &ports[k];
            others++;
        }
        if (other == NULL)
            continue;
        (void)inet_ntop(AF_INET, &address, network, sizeof(network));
        kvr_oddity_add(
            oddities, KVR_ODD_SHARED_SUBNET,
            "%s and %u other%s (%s) are in one subnet, %s, and answer ARP for each other: a "
            "connection may use the wrong card",
            ports[i].interface, others, others == 1 ? "" : "s", other->interface, network);
        return;
    }
}

void kvr_ip_ports_odd(const struct kvr_ip_port *ports, uint32_t count,
                      struct kvr_oddities *oddities)
{
    odd_mtus(ports, count, oddities);
    odd_subnets(ports, count, oddities);
}
