/* Rails: opened by provider and name, listed for people, and the table of everything else. */
#include "fabric/ofi/fabric_ofi.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/ofi/fabric_ofi_state.h"

const char *kvr_fabric_ofi_version(void)
{
    static const int anything = 0; /* 1.17 answers NULL where there is no datum to describe */

    return fi_tostr(&anything, FI_TYPE_VERSION);
}

kvr_status ofi_error(struct kvr_error *error, kvr_status status, ssize_t code, const char *call,
                     const struct kvr_rail *rail, const char *remedy)
{
    (void)kvr_error_set(error, status, "fabric", "rail %s (%s): %s failed: %s%s", rail->facts.name,
                        rail->facts.provider_path, call, fi_strerror((int)-code), remedy);
    if (error != NULL)
        error->provider_code = (int)code;
    return status;
}

/* 1.17 ignores a domain name in its hints, so the list is walked. IPv4 before IPv6, as listed. */
static bool info_has_name(const struct kvr_rail_facts *facts, const char *name)
{
    return name[0] == '\0' || strcmp(facts->name, name) == 0 ||
           strcmp(facts->interface, name) == 0 || strcmp(facts->source, name) == 0 ||
           (facts->pci[0] != '\0' && strcmp(facts->pci, name) == 0);
}

/* Opened able to register device memory only when that is wanted: a provider may work otherwise
 * then. */
static void take_device_memory(struct kvr_rail *rail)
{
    struct fi_info *info = ofi_getinfo_device(rail->provider, rail->info);

    if (info != NULL) {
        fi_freeinfo(rail->info);
        rail->info = info;
        ofi_facts(rail->provider, info, &rail->facts);
    }
    rail->facts.device = ofi_device_facts(rail->provider, info, fi_version());
}

static kvr_status pick(const struct kvr_rail_options *options, struct kvr_rail *rail,
                       struct kvr_error *error)
{
    const char *source = ofi_name_is_address(options->name) ? options->name : NULL;
    const struct kvr_provider *provider = kvr_provider_find(options->provider);
    struct fi_info *list = NULL;

    KVR_TRY(ofi_getinfo(options->provider, source, &list, error));
    for (const struct fi_info *info = list; info != NULL && rail->info == NULL; info = info->next) {
        ofi_facts(provider, info, &rail->facts);
        if (!info_has_name(&rail->facts, options->name))
            continue;
        rail->provider = provider;
        rail->info = fi_dupinfo(info);
    }
    fi_freeinfo(list);
    if (rail->info != NULL && options->device_emulated) {
        rail->device_emulated = true;
        rail->facts.device.hmem = KVR_WHY_NOTHING;
    } else if (rail->info != NULL && options->device_memory) {
        take_device_memory(rail);
    }
    if (rail->info != NULL)
        return KVR_OK;
    return kvr_error_set(
        error, KVR_NOT_FOUND, "fabric",
        "provider %s has no rail named '%s' (an address, an interface, a domain or "
        "a PCI address); `kvrail topo` lists what there is",
        options->provider, options->name);
}

/* While this process is stopped, the queue must hold the writes of all peers that are on the way to
 * an endpoint, and the endpoint's own. A larger queue would cost memory, and no card has it. */
#define QUEUE_ENTRIES_MAX 65536u

static uint32_t queue_entries(const struct kvr_rail *rail, const struct kvr_rail_options *options)
{
    uint64_t most = rail->facts.write.outstanding_max, entries;

    if (!rail->provider->libfabric.sized_queues || options->peers == 0)
        return 0;
    entries =
        options->window_writes > 0 && options->window_writes < most ? options->window_writes : most;
    entries *= (uint64_t)options->peers + 1;
    return entries < QUEUE_ENTRIES_MAX ? (uint32_t)entries : QUEUE_ENTRIES_MAX;
}

/* Whether a queue can be slept on is found out by opening one. */
static bool try_wait_fd(struct kvr_rail *rail)
{
    struct fid_cq *cq = NULL;
    int fd = -1;

    if (ofi_queue_open(rail, &cq, &fd) != 0)
        return false;
    fi_close(&cq->fid);
    return fd >= 0;
}

static void rail_close(struct kvr_rail *rail)
{
    if (rail == NULL)
        return;
    if (rail->domain != NULL) {
        ofi_memory_count_rail(rail, false);
        ofi_ports_count_rail(rail, false);
        fi_close(&rail->domain->fid);
    }
    if (rail->fabric != NULL)
        fi_close(&rail->fabric->fid);
    if (rail->info != NULL)
        fi_freeinfo(rail->info);
    pthread_mutex_destroy(&rail->lock);
    free(rail);
}

static kvr_status open_domain(struct kvr_rail *rail, struct kvr_error *error)
{
    int code;

    assert(rail->info != NULL); /* picked */
    code = fi_fabric(rail->info->fabric_attr, &rail->fabric, NULL);
    if (code != 0)
        return ofi_error(error, KVR_SYSTEM, code, "fi_fabric", rail, "");
    code = fi_domain(rail->fabric, rail->info, &rail->domain, NULL);
    if (code != 0)
        return ofi_error(error, KVR_SYSTEM, code, "fi_domain", rail, "");
    ofi_memory_count_rail(rail, true);
    ofi_ports_count_rail(rail, true);
    rail->facts.has_wait_fd = try_wait_fd(rail);
    rail->facts.pins_writable = ofi_memory_pins_writable(rail);
    ofi_options_try(rail);
    return KVR_OK;
}

static kvr_status rail_open(void *self, const struct kvr_rail_options *options,
                            struct kvr_rail **ret_rail, struct kvr_error *error)
{
    struct kvr_rail *rail = calloc(1, sizeof(*rail));
    kvr_status status;

    (void)self;
    if (rail == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "fabric", "no memory for a rail");
    pthread_mutex_init(&rail->lock, NULL);
    status = pick(options, rail, error);
    rail->immediate_mask = rail->facts.immediate_bits == 64 ? UINT64_MAX : UINT32_MAX;
    if (status == KVR_OK)
        rail->queue_entries = queue_entries(rail, options);
    if (status == KVR_OK && rail->provider->libfabric.injects)
        rail->inline_bytes = options->inline_bytes < rail->facts.write.inject_bytes
                                 ? options->inline_bytes
                                 : rail->facts.write.inject_bytes;
    if (status == KVR_OK && rail->provider->rail_ports) {
        rail->ports = options->ports;
        rail->port_rest = options->port_rest;
    }
    rail->acknowledges =
        status == KVR_OK && options->acknowledge && rail->provider->libfabric.completes_early;
    if (status == KVR_OK)
        status = ofi_congestion_choose(options->congestion, rail, error);
    if (status == KVR_OK)
        status = open_domain(rail, error);
    if (status != KVR_OK) {
        rail_close(rail);
        return status;
    }
    *ret_rail = rail;
    return KVR_OK;
}

static const struct kvr_rail_facts *rail_facts(const struct kvr_rail *rail)
{
    return &rail->facts;
}

/* Calls that make progress, under the rail's lock where the provider needs it. They clear errno:
 * libfabric's tcp reads errno also after a short read. An old EAGAIN there made it keep connections
 * of strangers, unwatched, until the endpoint's end. */
static kvr_status locked_write(struct kvr_endpoint *endpoint, const struct kvr_fabric_write *write)
{
    kvr_status status;

    ofi_lock(endpoint->rail);
    errno = 0;
    status = ofi_write(endpoint, write);
    ofi_unlock(endpoint->rail);
    return status;
}

static unsigned locked_poll(struct kvr_endpoint *endpoint, struct kvr_completion *ret_completions,
                            unsigned capacity)
{
    unsigned count;

    ofi_lock(endpoint->rail);
    errno = 0;
    count = ofi_poll(endpoint, ret_completions, capacity);
    ofi_unlock(endpoint->rail);
    return count;
}

/* It looks at the queue, too, where the provider cannot be asked. */
static bool locked_may_sleep(struct kvr_endpoint *endpoint)
{
    bool may;

    ofi_lock(endpoint->rail);
    errno = 0;
    may = ofi_endpoint_may_sleep(endpoint);
    ofi_unlock(endpoint->rail);
    return may;
}

static void locked_stop(struct kvr_endpoint *endpoint)
{
    struct kvr_rail *rail = endpoint->rail;

    ofi_lock(rail);
    ofi_endpoint_stop(endpoint);
    ofi_unlock(rail);
}

static void locked_close(struct kvr_endpoint *endpoint)
{
    struct kvr_rail *rail = endpoint->rail;

    ofi_lock(rail);
    ofi_endpoint_close(endpoint);
    ofi_unlock(rail);
}

static const struct kvr_fabric_ops ofi_ops = {
    .rail_open = rail_open,
    .rail_close = rail_close,
    .rail_facts = rail_facts,
    .memory_register = ofi_memory_register,
    .memory_release = ofi_memory_release,
    .memory_key = ofi_memory_key,
    .endpoint_open = ofi_endpoint_open,
    .endpoint_address = ofi_endpoint_address,
    .endpoint_stop = locked_stop,
    .endpoint_close = locked_close,
    .peer_insert = ofi_peer_insert,
    .peer_remove = ofi_peer_remove,
    .peer_close = ofi_peer_close,
    .write = locked_write,
    .poll = locked_poll,
    .endpoint_wait_fd = ofi_endpoint_wait_fd,
    .endpoint_may_sleep = locked_may_sleep,
};

void kvr_fabric_ofi(struct kvr_fabric *ret_fabric)
{
    ret_fabric->ops = &ofi_ops;
    ret_fabric->self = NULL;
}

/* One entry a domain: a card with several addresses is one rail. */
static bool listed(const struct kvr_rail_facts *facts, unsigned count, const char *name)
{
    for (unsigned i = 0; i < count; i++) {
        if (strcmp(facts[i].name, name) == 0)
            return true;
    }
    return false;
}

unsigned kvr_fabric_ofi_list(const char *provider, struct kvr_rail_facts *ret_facts,
                             unsigned capacity, struct kvr_error *error)
{
    const struct kvr_provider *known = kvr_provider_find(provider);
    struct fi_info *list = NULL;
    unsigned count = 0;

    if (ofi_getinfo(provider, NULL, &list, error) != KVR_OK)
        return 0;
    for (const struct fi_info *info = list; info != NULL && count < capacity; info = info->next) {
        struct fi_info *device_info;

        ofi_facts(known, info, &ret_facts[count]);
        if (listed(ret_facts, count, ret_facts[count].name))
            continue;
        device_info = ofi_getinfo_device(known, info);
        ret_facts[count++].device = ofi_device_facts(known, device_info, fi_version());
        if (device_info != NULL)
            fi_freeinfo(device_info);
    }
    fi_freeinfo(list);
    return count;
}
