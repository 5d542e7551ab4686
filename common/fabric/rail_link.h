/* What the kernel says of a rail's link: the interface's MTU, the type of RoCE's packets, and what
 * keeps RoCE from losing packets. It asks no tool of a vendor; what it cannot read is unknown. */
#ifndef KVR_FABRIC_RAIL_LINK_H
#define KVR_FABRIC_RAIL_LINK_H

#include "base/link.h"
#include "fabric/fabric.h"

#define KVR_SYS "/sys" /* a test has a folder of its own */

/* May wait for the kernel's lock of network configuration. */
void kvr_rail_link_read(const char *sys, const struct kvr_rail_facts *facts,
                        struct kvr_link *ret_link);
/* The MTU alone, without that lock. 0: unknown, or it says nothing of the rail's packets. */
uint32_t kvr_rail_link_mtu(const char *sys, const struct kvr_rail_facts *facts);

/* link_pfc.c */
/* The priorities of an interface with priority flow control, a bit each. False: its driver does not
 * say. */
bool kvr_link_pfc_read(const char *interface, uint32_t *ret_priorities);
/* The same from the kernel's answer (rtnetlink, DCB). Pure. */
bool kvr_link_pfc_parse(const void *answer, size_t bytes, uint32_t *ret_priorities);

#endif
