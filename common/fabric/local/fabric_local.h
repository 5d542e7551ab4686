/* Two agents of one host without a network: the target maps the source's memory and copies once.
 *
 * What a card would do the target's rail thread does, with helpers for long lists; commands and
 * outcomes go through memory that both share (local_ring.h), wakeups and descriptors through a
 * socket. Both agents must be of one user and in one network namespace. Nothing here trusts the
 * other process: it may write nonsense, stop or die at any time. */
#ifndef KVR_FABRIC_FABRIC_LOCAL_H
#define KVR_FABRIC_FABRIC_LOCAL_H

#include "fabric/fabric.h"

#define KVR_FABRIC_LOCAL "local" /* the provider, and its one rail */

/* Fills *ret_fabric; nothing to close. */
void kvr_fabric_local(struct kvr_fabric *ret_fabric);

/* Whether a process of this user on this host has the endpoint of that address. */
kvr_status kvr_fabric_local_reaches(const uint8_t *address, uint32_t bytes,
                                    struct kvr_error *error);

/* Its rail's facts. */
void kvr_fabric_local_facts(struct kvr_rail_facts *ret_facts);

#endif
