/* IP interfaces of cards that connect by rdma_cm, and what is odd about them.
 *
 * Cards that have addresses in one IP subnet: Linux answers ARP for any address of the host on
 * every interface, unless arp_ignore is set. A peer then learns the wrong card's address, and its
 * connection uses that card, or none.
 *
 * A small MTU: RoCE takes the largest packet of 256, 512, 1,024, 2,048 or 4,096 bytes that fits
 * into the interface's MTU with its headers. */
#ifndef KVR_FABRIC_SHARED_SUBNET_H
#define KVR_FABRIC_SHARED_SUBNET_H

#include "fabric/fabric.h"
#include "topology/host_groups.h"

struct kvr_ip_port {
    char interface[KVR_NAME_BYTES];
    uint32_t address, mask; /* of IPv4, as on the wire */
    int arp_ignore;         /* in force on the interface; 0: it answers for others too */
    uint32_t mtu;           /* 0: unknown */
    bool ethernet; /* so that the MTU bounds RoCE's packets; those of InfiniBand do not care */
};

/* The rails' ports with an IPv4 address, of providers that connect by rdma_cm; returns how many, at
 * most capacity. */
uint32_t kvr_ip_ports_read(const struct kvr_rail_facts *facts, uint32_t count,
                           struct kvr_ip_port *ret_ports, uint32_t capacity);
/* Adds an oddity for each port with a small MTU, and for the first subnet that two of them share
 * where one answers for the other. Pure.
 */
void kvr_ip_ports_odd(const struct kvr_ip_port *ports, uint32_t count,
                      struct kvr_oddities *oddities);

#endif
