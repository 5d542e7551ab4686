#include "agent/agent_needs.h"

#include <stdio.h>

#include "base/limits.h"
#include "base/need.h"
#include "wire/packet_socket.h"

/* Engines bring a socket, a page, a doorbell, a pidfd and regions each; peers and rails a few
 * descriptors. One packet may bring many. */
#define FILES_OF_ENGINE (6 + KVR_REGISTERING_MAX)
#define FILES_NEEDED                                                                               \
    (64 + KVR_PACKET_FDS_MAX + FILES_OF_ENGINE * KVR_ENGINES_MAX + 2 * KVR_PEERS_MAX +             \
     8 * KVR_RAILS_MAX)
#define LOCKED_ADVISED (1ull << 30)

uint64_t kvr_agent_files_needed(void)
{
    return FILES_NEEDED;
}

uint64_t kvr_agent_locked_advised(void)
{
    return LOCKED_ADVISED;
}

kvr_status kvr_agent_needs_files(struct kvr_error *error)
{
    return kvr_need_files(FILES_NEEDED, error);
}

kvr_status kvr_agent_needs_locked(const struct kvr_rail_facts *facts, struct kvr_error *error)
{
    char what[96];

    if (!facts->pins_memory)
        return KVR_OK;
    snprintf(what, sizeof(what), "provider %s pins every region, so larger ones will be refused",
             facts->provider);
    return kvr_need_locked(LOCKED_ADVISED, what, error);
}
