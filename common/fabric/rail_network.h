/* The network of a rail as text, which two hosts can compare: rails in one network reach each other
 * without a router. It is the subnet of InfiniBand where that has a number of its own, else the IP
 * network.
 *
 * "" where the network says nothing of that: loopback and link-local addresses, which every host
 * has; and networks of one or two addresses, which join a card to its switch or router. */
#ifndef KVR_FABRIC_RAIL_NETWORK_H
#define KVR_FABRIC_RAIL_NETWORK_H

#include <stdint.h>

#include "base/types.h"

/* family: AF_INET or AF_INET6. address and mask are as on the wire, 4 or 16 bytes. The text is
 * "10.1.0.0/24" or "2001:db8:1::/64". */
void kvr_rail_network(int family, const uint8_t *address, const uint8_t *mask,
                      char ret_text[KVR_PLANE_BYTES]);

/* Puts a network of the same card behind those in `text`, after a comma: "10.1.0.0/24,10.2.0.0/24".
 * Nothing changes if `network` is "", is there already, or finds no room. */
void kvr_rail_network_add(char text[KVR_PLANE_BYTES], const char *network);

/* The subnet of a port of InfiniBand. `fabric` is libfabric's name for its fabric, which holds the
 * prefix of its GIDs: "IB-0xfec0000000000001". The network type of its card is "InfiniBand". Either
 * may be NULL. The text is "ib:fec0:0:0:1::/64".
 *
 * "" where that says nothing. A manager of subnets gives the default prefix if it is not
 * configured, so cards that do not reach each other have it too. A port of Ethernet (RoCE) gets the
 * name by its first GID, which is of one kind on one host and of another kind on the next. Other
 * providers name a fabric after themselves (efa), or after the IP network (tcp). */
void kvr_rail_subnet(const char *fabric, const char *network_type, char ret_text[KVR_PLANE_BYTES]);

#endif
