/* libfabric behind the fabric contract. Reads every attribute from the provider and assumes none.
 */
#ifndef KVR_FABRIC_FABRIC_OFI_H
#define KVR_FABRIC_FABRIC_OFI_H

#include "fabric/fabric.h"

/* Fills *ret_fabric; nothing to close. */
void kvr_fabric_ofi(struct kvr_fabric *ret_fabric);

/* Rails that a provider offers on this host: fills at most capacity facts, returns how many there
 * are. 0 with a sentence in *error when there is none. */
unsigned kvr_fabric_ofi_list(const char *provider, struct kvr_rail_facts *ret_facts,
                             unsigned capacity, struct kvr_error *error);

/* Before a rail is looked for: libfabric is to start no driver of GPUs, which would take memory of
 * theirs (FI_HMEM). A user's own setting stays. */
void kvr_fabric_ofi_host_only(void);

/* "1.17.0", of the library that is loaded; "none". */
const char *kvr_fabric_ofi_version(void);

#endif
