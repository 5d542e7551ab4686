/* Which processes of this host may act for which tenants: from --tenant NAME[=OWNER[+OWNER…]],
 * where OWNER is user:NAME or group:NAME (or their numbers). Set once at start; then it is only
 * read. */
#ifndef KVR_AGENT_TENANT_ACCESS_H
#define KVR_AGENT_TENANT_ACCESS_H

#include "agent/core/tenants.h"
#include "agent/engine/engine_access.h"

struct kvr_tenant_access {
    uint32_t everyone; /* tenants that every engine may act for, a bit each */
    struct kvr_engine_access who[KVR_TENANTS_MAX]; /* of the others */
};

/* Fills both from the items of --tenant; without one there is KVR_TENANT_DEFAULT for all.
 * KVR_INVALID: the sentence begins with the option and its value. */
KVR_MUST_CHECK kvr_status kvr_tenant_access_read(const struct kvr_option_list *items,
                                                 struct kvr_tenant_access *ret_access,
                                                 struct kvr_tenants *ret_tenants,
                                                 struct kvr_error *error);

/* The tenants that this process may act for, a bit each; 0: none. `socket` is its connection. */
uint32_t kvr_tenant_access_of(const struct kvr_tenant_access *access, uint32_t count, int socket,
                              const struct kvr_engine_peer *peer);

#endif
