/* The IP network of a rail as text, which two hosts can compare: rails in one network reach each
 * other without a router.
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

#endif
