/* Tenants: what the options say about them, and what certificates do. */
#include <stdio.h>
#include <string.h>

#include "agent/agent_state.h"
#include "base/log.h"
#include "base/option_value.h"

#define WHERE "tenant"

/* The items of one list, each NAME=VALUE, of a tenant that --tenant names. */
struct quota_option {
    const char *name; /* "tenant-bytes" */
    const struct kvr_option_list *items;
    kvr_option_type type;
    uint64_t max;
    void (*set)(struct kvr_tenant *tenant, uint64_t value);
};

static void set_requests(struct kvr_tenant *tenant, uint64_t value)
{
    tenant->requests.limit = value;
}

static void set_bytes(struct kvr_tenant *tenant, uint64_t value)
{
    tenant->bytes.limit = value;
}

static void set_weight(struct kvr_tenant *tenant, uint64_t value)
{
    tenant->weight = (uint32_t)value;
}

static kvr_status quota_read(const struct quota_option *option, const char *item,
                             struct kvr_tenants *tenants, struct kvr_error *error)
{
    const char *equals = strchr(item, '=');
    struct kvr_option row = {.name = option->name,
                             .type = option->type,
                             .min = 1,
                             .max = option->max,
                             .bytes = sizeof(uint64_t)};
    char name[KVR_OPTION_ITEM_BYTES];
    struct kvr_error why = {0};
    uint64_t value = 0;
    uint32_t tenant;

    snprintf(name, sizeof(name), "%.*s", equals != NULL ? (int)(equals - item) : 0, item);
    tenant = name[0] != '\0' ? kvr_tenants_find(tenants, name) : KVR_TENANT_NONE;
    if (equals == NULL)
        return kvr_error_set(error, KVR_INVALID, WHERE, "--%s %.100s: it must be TENANT=VALUE",
                             option->name, item);
    if (tenant == KVR_TENANT_NONE)
        return kvr_error_set(error, KVR_INVALID, WHERE,
                             "--%s %.100s: no --tenant of this agent has that name", option->name,
                             item);
    if (kvr_option_value_set(&row, equals + 1, &value, &why) != KVR_OK)
        return kvr_error_set(error, KVR_INVALID, WHERE, "--%s %.60s: the value %.120s",
                             option->name, item, why.detail);
    option->set(&tenants->list[tenant], value);
    return KVR_OK;
}

kvr_status agent_tenants_quotas(const struct kvr_tenants_config *config,
                                struct kvr_tenants *tenants, struct kvr_error *error)
{
    const struct quota_option options[] = {
        {"tenant-publishes", &config->publishes, KVR_OPTION_TYPE_COUNT, KVR_PUBLISHES_MAX,
         set_requests},
        {"tenant-fetches", &config->fetches, KVR_OPTION_TYPE_COUNT, KVR_FETCHES_MAX, set_requests},
        {"tenant-bytes", &config->bytes, KVR_OPTION_TYPE_SIZE, 0, set_bytes},
        {"tenant-weight", &config->weights, KVR_OPTION_TYPE_COUNT, KVR_TENANT_WEIGHT_MAX,
         set_weight},
    };

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        for (uint32_t item = 0; item < options[i].items->count; item++)
            KVR_TRY(quota_read(&options[i], options[i].items->items[item], tenants, error));
    return KVR_OK;
}

/* The tenants that a certificate serves, a bit each. */
static uint32_t served_by(const struct kvr_tenants *tenants, const struct kvr_identity *identity)
{
    uint32_t served = 0;

    for (uint32_t i = 0; i < tenants->count; i++)
        if (kvr_identity_serves(identity, tenants->list[i].name))
            served |= UINT32_C(1) << i;
    return served;
}

/* The first that our own certificate does not serve; NULL: it serves all. */
static const char *unserved(const struct kvr_tenants *tenants)
{
    for (uint32_t i = 0; i < tenants->count; i++)
        if ((tenants->served >> i & 1) == 0)
            return tenants->list[i].name;
    return NULL;
}

kvr_status agent_tenants_open(struct kvr_agent *agent, struct kvr_error *error)
{
    const char *missing;

    KVR_TRY(kvr_tenant_access_read(&agent->config->tenants.list, &agent->tenant_access,
                                   &agent->tenants, error));
    KVR_TRY(agent_tenants_quotas(&agent->config->tenants, &agent->tenants, error));
    if (agent->credentials == NULL)
        return KVR_OK;
    agent->tenants.served =
        served_by(&agent->tenants, kvr_credentials_identity(agent->credentials));
    missing = unserved(&agent->tenants);
    if (missing == NULL)
        return KVR_OK;
    if (agent->config->tenants.list.count == 0)
        return kvr_error_set(error, KVR_INVALID, WHERE,
                             "--tls-certificate serves other tenants than " KVR_TENANT_DEFAULT
                             ", which is the one of an agent without --tenant: name them by "
                             "--tenant");
    return kvr_error_set(
        error, KVR_INVALID, WHERE,
        "--tenant %s: --tls-certificate does not serve that tenant: issue one with "
        "it as an organizational unit of the subject (kvrail certificates issue "
        "--tenant %s)",
        missing, missing);
}

void agent_tenants_renewed(struct kvr_agent *agent)
{
    struct kvr_tenants *tenants = &agent->machine.engines->tenants;
    const char *missing;

    tenants->served = served_by(tenants, kvr_credentials_identity(agent->credentials));
    missing = unserved(tenants);
    if (missing != NULL)
        kvr_log_warning("the new --tls-certificate does not serve the tenant %s: its requests are "
                        "refused from here on",
                        missing);
}

uint32_t agent_peer_tenants(void *self, uint32_t peer)
{
    const struct kvr_agent *agent = self;
    const struct kvr_identity *identity = kvr_peers_identity(agent->peers, peer);

    if (agent->credentials == NULL)
        return KVR_TENANTS_ALL;
    return identity != NULL ? served_by(&agent->machine.engines->tenants, identity) : 0;
}
