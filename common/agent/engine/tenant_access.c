#include "agent/engine/tenant_access.h"

#include <string.h>

#include "base/account.h"

#define WHERE "tenant"
#define USER  "user:"
#define GROUP "group:"

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static kvr_status who_add(const char *item, const char *who, struct kvr_engine_access *access,
                          struct kvr_error *error)
{
    if (access->user_count == ENGINE_ACCESS_MAX || access->group_count == ENGINE_ACCESS_MAX)
        return kvr_error_set(error, KVR_INVALID, WHERE,
                             "--tenant %.100s: more than %d users or groups", item,
                             ENGINE_ACCESS_MAX);
    if (begins(who, USER)) {
        if (kvr_user_find(who + strlen(USER), &access->users[access->user_count++]))
            return KVR_OK;
        return kvr_error_set(error, KVR_INVALID, WHERE,
                             "--tenant %.100s: this host has no user '%.60s'", item,
                             who + strlen(USER));
    }
    if (begins(who, GROUP)) {
        if (kvr_group_find(who + strlen(GROUP), &access->groups[access->group_count++]))
            return KVR_OK;
        return kvr_error_set(error, KVR_INVALID, WHERE,
                             "--tenant %.100s: this host has no group '%.60s'", item,
                             who + strlen(GROUP));
    }
    return kvr_error_set(error, KVR_INVALID, WHERE,
                         "--tenant %.100s: '%.60s' is neither user:NAME nor group:NAME", item, who);
}

/* NAME[=OWNER[+OWNER…]] of the tenant with that number. */
static kvr_status item_read(const char *item, uint32_t number, struct kvr_tenant_access *access,
                            struct kvr_tenants *tenants, struct kvr_error *error)
{
    char text[KVR_OPTION_ITEM_BYTES], *rest = text, *who;
    const char *name;

    memcpy(text, item, strlen(item) + 1);
    name = strsep(&rest, "=");
    if (!kvr_plain_name(name, strlen(name)))
        return kvr_error_set(error, KVR_INVALID, WHERE,
                             "--tenant %.100s: a tenant's name must have " KVR_PLAIN_NAME_FORM,
                             item);
    if (kvr_tenants_add(tenants, name, error) != KVR_OK)
        return kvr_error_set(error, KVR_INVALID, WHERE, "--tenant %.100s: %.100s", item,
                             kvr_tenants_find(tenants, name) != KVR_TENANT_NONE
                                 ? "the tenant is named twice: join its owners by +"
                                 : "there are too many tenants");
    if (rest == NULL)
        access->everyone |= UINT32_C(1) << number;
    while ((who = strsep(&rest, "+")) != NULL)
        KVR_TRY(who_add(item, who, &access->who[number], error));
    return KVR_OK;
}

kvr_status kvr_tenant_access_read(const struct kvr_option_list *items,
                                  struct kvr_tenant_access *ret_access,
                                  struct kvr_tenants *ret_tenants, struct kvr_error *error)
{
    memset(ret_access, 0, sizeof(*ret_access));
    kvr_tenants_init(ret_tenants);
    if (items->count == 0) {
        ret_access->everyone = 1;
        return KVR_OK;
    }
    ret_tenants->count = 0;
    for (uint32_t i = 0; i < items->count; i++)
        KVR_TRY(item_read(items->items[i], i, ret_access, ret_tenants, error));
    return KVR_OK;
}

uint32_t kvr_tenant_access_of(const struct kvr_tenant_access *access, uint32_t count, int socket,
                              const struct kvr_engine_peer *peer)
{
    uint32_t may = access->everyone;

    for (uint32_t i = 0; i < count; i++)
        if (kvr_engine_access_names(&access->who[i], socket, peer))
            may |= UINT32_C(1) << i;
    return may;
}
