/* The tenants of an agent, and how much each may have at once. Processes (engine/tenant_access.h)
 * and certificates (tls/identity.h) decide which engines may act for a tenant; here both are bits.
 * Pure. */
#ifndef KVR_AGENT_TENANTS_H
#define KVR_AGENT_TENANTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/plain_name.h"
#include "base/status.h"

#define KVR_TENANT_NONE UINT32_MAX /* no tenant of this agent */
#define KVR_TENANTS_ALL UINT32_MAX /* a bit for each */

/* What one tenant has of something, and the most that it may have. */
struct kvr_tenant_quota {
    uint64_t used, limit; /* limit 0: any number */
    uint64_t refused;     /* times that it would have been more */
};

struct kvr_tenant {
    char name[KVR_NAME_BYTES];
    struct kvr_tenant_quota requests; /* publishes or fetches that have not ended */
    struct kvr_tenant_quota bytes;    /* of the pages that its publishes name */
    uint32_t weight;                  /* of its share of the rails, at least 1 */
};

struct kvr_tenants {
    uint32_t count;  /* at least 1 */
    uint32_t served; /* by the agent's own certificate, a bit each */
    struct kvr_tenant list[KVR_TENANTS_MAX];
};

/* KVR_TENANT_DEFAULT alone, without quotas. */
void kvr_tenants_init(struct kvr_tenants *tenants);
/* Appends one. KVR_EXISTS; KVR_FULL. */
KVR_MUST_CHECK kvr_status kvr_tenants_add(struct kvr_tenants *tenants, const char *name,
                                          struct kvr_error *error);
/* "" is KVR_TENANT_DEFAULT. KVR_TENANT_NONE: there is no such tenant. */
uint32_t kvr_tenants_find(const struct kvr_tenants *tenants, const char *name);
/* For events. "": KVR_TENANT_NONE. */
void kvr_tenants_name(const struct kvr_tenants *tenants, uint32_t tenant,
                      char ret_name[KVR_NAME_BYTES]);

/* The tenant of a request by an engine that may act for those of `may` (a bit each): that of this
 * name, or the first where it is "". KVR_NOT_AUTHORIZED, with a sentence that says for which the
 * engine may act. */
KVR_MUST_CHECK kvr_status kvr_tenants_choose(const struct kvr_tenants *tenants, uint32_t may,
                                             const char *name, uint32_t *ret_tenant,
                                             struct kvr_error *error);

/* Takes `amount` more of the quota. KVR_FULL: it would be too much, and that was counted. `what`
 * and `option` are for the sentence: "publishes that have not ended", "--tenant-publishes". */
KVR_MUST_CHECK kvr_status kvr_tenant_take(const struct kvr_tenant *tenant,
                                          struct kvr_tenant_quota *quota, uint64_t amount,
                                          const char *what, const char *option,
                                          struct kvr_error *error);
void kvr_tenant_give(struct kvr_tenant_quota *quota, uint64_t amount);

#endif
