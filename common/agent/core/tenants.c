#include "agent/core/tenants.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define WHERE      "tenant"
#define LIST_BYTES 160 /* of names, in a sentence */

static void append(struct kvr_tenants *tenants, const char *name)
{
    struct kvr_tenant *tenant = &tenants->list[tenants->count++];

    memset(tenant, 0, sizeof(*tenant));
    snprintf(tenant->name, sizeof(tenant->name), "%s", name);
    tenant->weight = 1;
}

void kvr_tenants_init(struct kvr_tenants *tenants)
{
    tenants->count = 0;
    tenants->served = KVR_TENANTS_ALL;
    append(tenants, KVR_TENANT_DEFAULT);
}

kvr_status kvr_tenants_add(struct kvr_tenants *tenants, const char *name, struct kvr_error *error)
{
    if (kvr_tenants_find(tenants, name) != KVR_TENANT_NONE)
        return kvr_error_set(error, KVR_EXISTS, WHERE, "the tenant %s is named twice", name);
    if (tenants->count == KVR_TENANTS_MAX)
        return kvr_error_set(error, KVR_FULL, WHERE, "more than %d tenants", KVR_TENANTS_MAX);
    append(tenants, name);
    return KVR_OK;
}

uint32_t kvr_tenants_find(const struct kvr_tenants *tenants, const char *name)
{
    if (name[0] == '\0')
        name = KVR_TENANT_DEFAULT;
    for (uint32_t i = 0; i < tenants->count; i++)
        if (strcmp(tenants->list[i].name, name) == 0)
            return i;
    return KVR_TENANT_NONE;
}

void kvr_tenants_name(const struct kvr_tenants *tenants, uint32_t tenant,
                      char ret_name[KVR_NAME_BYTES])
{
    ret_name[0] = '\0';
    if (tenant != KVR_TENANT_NONE)
        memcpy(ret_name, tenants->list[tenant].name, KVR_NAME_BYTES);
}

static bool has(uint32_t bits, uint32_t tenant)
{
    return (bits >> tenant & 1) != 0;
}

/* As many names as fit. */
static const char *names_of(const struct kvr_tenants *tenants, uint32_t may, char list[LIST_BYTES])
{
    size_t used = 0;

    snprintf(list, LIST_BYTES, "none");
    for (uint32_t i = 0; i < tenants->count; i++) {
        const char *name = tenants->list[i].name;

        if (!has(may, i))
            continue;
        if (used + strlen(name) + sizeof(", …") >= LIST_BYTES) {
            snprintf(list + used, LIST_BYTES - used, ", …");
            break;
        }
        used +=
            (size_t)snprintf(list + used, LIST_BYTES - used, "%s%s", used > 0 ? ", " : "", name);
    }
    return list;
}

/* The first of these bits; KVR_TENANT_NONE: none. */
static uint32_t first_of(const struct kvr_tenants *tenants, uint32_t may)
{
    for (uint32_t i = 0; i < tenants->count; i++)
        if (has(may, i))
            return i;
    return KVR_TENANT_NONE;
}

kvr_status kvr_tenants_choose(const struct kvr_tenants *tenants, uint32_t may, const char *name,
                              uint32_t *ret_tenant, struct kvr_error *error)
{
    uint32_t tenant = name[0] != '\0' ? kvr_tenants_find(tenants, name) : first_of(tenants, may);
    char list[LIST_BYTES];

    if (tenant == KVR_TENANT_NONE || !has(may, tenant))
        return kvr_error_set(error, KVR_NOT_AUTHORIZED, WHERE,
                             "the engine may not act for the tenant '%.63s': this agent's --tenant "
                             "lets it act for %s",
                             name, names_of(tenants, may, list));
    if (!has(tenants->served, tenant))
        return kvr_error_set(error, KVR_NOT_AUTHORIZED, WHERE,
                             "this agent may not serve the tenant '%.63s': its --tls-certificate "
                             "no longer has that tenant",
                             tenants->list[tenant].name);
    *ret_tenant = tenant;
    return KVR_OK;
}

kvr_status kvr_tenant_take(const struct kvr_tenant *tenant, struct kvr_tenant_quota *quota,
                           uint64_t amount, const char *what, const char *option,
                           struct kvr_error *error)
{
    if (quota->limit != 0 && (amount > quota->limit || quota->used > quota->limit - amount)) {
        quota->refused++;
        return kvr_error_set(error, KVR_FULL, WHERE,
                             "the tenant %s has %" PRIu64 " %s, and %s of this agent lets it have "
                             "%" PRIu64 ": wait for some to end, or raise that",
                             tenant->name, quota->used, what, option, quota->limit);
    }
    quota->used += amount;
    return KVR_OK;
}

void kvr_tenant_give(struct kvr_tenant_quota *quota, uint64_t amount)
{
    assert(quota->used >= amount);
    quota->used -= amount;
}
