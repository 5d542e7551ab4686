/* Cards that connect by rdma_cm and have addresses in one IP subnet. Linux answers ARP for any
 * address of the host on every interface, unless arp_ignore is set: a peer then learns the wrong
 * card's address, and its connection uses that card, or none. */
#ifndef KVR_FABRIC_SHARED_SUBNET_H
#define KVR_FABRIC_SHARED_SUBNET_H

#include "fabric/fabric.h"
#include "topology/host_groups.h"

struct kvr_ip_port {
    char interface[KVR_NAME_BYTES];
    uint32_t address, mask; /* of IPv4, as on the wire */
    int arp_ignore;         /* in force on the interface; 0: it answers for others too */
};

/* The rails' ports with an IPv4 address, of providers that connect by rdma_cm; returns how many, at
 * most capacity. */
uint32_t kvr_ip_ports_read(const struct kvr_rail_facts *facts, uint32_t count,
                           struct kvr_ip_port *ret_ports, uint32_t capacity);
/* Adds an oddity for the first subnet that two of them share where one answers for the other. Pure.
 */
void kvr_ip_ports_odd(const struct kvr_ip_port *ports, uint32_t count,
                      struct kvr_oddities *oddities);

#endif
