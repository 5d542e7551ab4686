/* Several providers in one agent: cards for peers on any host, and `local` for those of its own.
 *
 * Each rail is of the provider that its options name, and what is opened on it goes to the same. */
#ifndef KVR_FABRIC_FABRIC_MIXED_H
#define KVR_FABRIC_FABRIC_MIXED_H

#include "fabric/fabric.h"

/* Fills *ret_fabric; nothing to close. */
void kvr_fabric_mixed(struct kvr_fabric *ret_fabric);

#endif
