/* Providers by their name: libfabric's, and those of our own. */
#ifndef KVR_FABRIC_FABRIC_PROVIDER_H
#define KVR_FABRIC_FABRIC_PROVIDER_H

#include "fabric/fabric.h"

/* What --provider takes, everywhere. */
#define KVR_PROVIDERS "tcp|shm|local|verbs|efa"

/* What an agent's takes: local beside cards is for the peers of its host. */
#define KVR_PROVIDERS_MIXED KVR_PROVIDERS "|tcp+local|verbs+local|efa+local"

/* The part before "+local"; true: local comes beside it. */
bool kvr_provider_cards(const char *mixed, char ret_provider[16]);

/* Rails that an agent opens which is told none. shm: two. Its target copies all that it finds in an
 * endpoint's queue at once, and only when it is through can the source see that any of it ended and
 * write more; meanwhile the target copies what the other endpoint's queue has. */
uint32_t kvr_provider_rails(const char *provider);

/* Fills *ret_fabric; nothing to close. A name that nobody knows is refused by its rail_open. */
void kvr_fabric_of(const char *provider, struct kvr_fabric *ret_fabric);

/* Whose it is, and of which version: "libfabric 1.17.0", "kvrail 0.1.0". */
const char *kvr_fabric_version(const char *provider);

/* Rails that a provider offers on this host: fills at most capacity facts, returns how many there
 * are. 0 with a sentence in *error when there is none. */
unsigned kvr_fabric_list(const char *provider, struct kvr_rail_facts *ret_facts, unsigned capacity,
                         struct kvr_error *error);

#endif
