/* Which rails a provider offers, and what each can do. */
#include "fabric/ofi/fabric_ofi_state.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/small_file.h"
#include "fabric/ofi/fabric_ofi.h"
#include "fabric/ofi/fabric_ofi_library.h"
#include "fabric/rail_network.h"

bool ofi_name_is_address(const char *name)
{
    uint8_t address[16];

    return inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
}

static struct fi_info *make_hints(const char *prov_name, bool device_memory)
{
    struct fi_info *hints = fi_allocinfo();

    if (hints == NULL)
        return NULL;
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG | FI_RMA | FI_WRITE | FI_REMOTE_WRITE;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->cq_data_size = sizeof(uint32_t); /* at least; the answer says how many */
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->fabric_attr->prov_name = strdup(prov_name);
    if (device_memory) {
        hints->caps |= FI_HMEM;
        hints->domain_attr->mr_mode |= FI_MR_HMEM;
    }
    return hints;
}

static int getinfo(const char *source, const struct fi_info *hints, struct fi_info **ret_list)
{
    return fi_getinfo(kvr_libfabric_api(), source, NULL, source != NULL ? FI_SOURCE : 0, hints,
                      ret_list);
}

/* A cache of registrations between us and the card (verbs has one) opens its memory to remote reads
 * and writes, even pages that we may only read. It keeps a registration after its release, under a
 * key that goes on working. We register once and keep the registration: a cache gains nothing. */
static void refuse_registration_cache(void)
{
    setenv("FI_MR_CACHE_MAX_COUNT", "0", 0);
}

/* Device memory is registered for cards alone. Where gdrcopy is there, libfabric would pin and map
 * all of it a second time, for copies by the processor that we never ask for. */
static void refuse_second_mapping(void)
{
    setenv("FI_HMEM_CUDA_USE_GDRCOPY", "0", 0);
}

/* Else ofi_rxm keeps a connection when the address of its peer is removed (1.17 to 2.6). For
 * ofi_peer_may_go() no other value will do. */
static void close_with_addresses(void)
{
    setenv("FI_AV_REMOVE_CLEANUP", "1", 1);
}

void kvr_fabric_ofi_host_only(void)
{
    setenv("FI_HMEM", "system", 0);
}

/* libfabric reads its environment once, at its first look-up, whichever provider that is for. */
static void prepare_environment(void)
{
    const struct kvr_provider *provider;

    refuse_registration_cache();
    refuse_second_mapping();
    close_with_addresses();
    for (unsigned i = 0; (provider = kvr_provider_at(i)) != NULL; i++) {
        const struct kvr_libfabric_facts *facts = &provider->libfabric;

        if (facts->environment != NULL)
            setenv(facts->environment, facts->environment_value, 0);
    }
}

uint64_t ofi_own_buffer_bytes(const struct kvr_provider *provider)
{
    const struct kvr_libfabric_facts *facts = &provider->libfabric;
    const char *value = facts->own_buffers > 0 ? getenv(facts->environment) : NULL;

    return value != NULL
               ? facts->own_buffers * (strtoull(value, NULL, 10) + facts->own_buffer_extra)
               : 0;
}

/* Link-local addresses need a scope that the other side does not know. */
static bool link_local(const struct fi_info *info)
{
    const struct sockaddr_in6 *address = info->src_addr;

    return info->addr_format == FI_SOCKADDR_IN6 && address != NULL &&
           IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr);
}

/* rdma_cm connects by IP addresses. Asked for a port of InfiniBand without one, libfabric fails
 * with the first connection. */
static bool lacks_ip(const struct fi_info *info)
{
    return info->addr_format == FI_SOCKADDR_IB;
}

static bool has_name(const struct kvr_libfabric_facts *facts, const char *prov_name)
{
    for (size_t i = 0; i < 2 && facts->prov_names[i] != NULL; i++) {
        if (strcmp(facts->prov_names[i], prov_name) == 0)
            return true;
    }
    return false;
}

/* This provider itself, not another that layers on it, and able to do what we need. */
bool ofi_usable(const struct kvr_provider *provider, const struct fi_info *info)
{
    const struct kvr_libfabric_facts *facts = &provider->libfabric;

    return has_name(facts, info->fabric_attr->prov_name) &&
           (facts->fabric_name == NULL ||
            strcmp(facts->fabric_name, info->fabric_attr->name) == 0) &&
           !link_local(info) && !lacks_ip(info) &&
           info->domain_attr->cq_data_size >= sizeof(uint32_t) &&
           (info->domain_attr->mr_mode & FI_MR_ENDPOINT) == 0;
}

/* *lacking: whether a card was left out that lacks an IP address. */
static void keep_usable(const struct kvr_provider *provider, struct fi_info **list, bool *lacking)
{
    struct fi_info **at = list;

    while (*at != NULL) {
        struct fi_info *info = *at;

        if (ofi_usable(provider, info)) {
            at = &info->next;
            continue;
        }
        *lacking |= has_name(&provider->libfabric, info->fabric_attr->prov_name) && lacks_ip(info);
        *at = info->next;
        info->next = NULL;
        fi_freeinfo(info);
    }
}

/* libfabric works as the API says that it is asked for, whatever its own version. */
static kvr_status check_api(const struct kvr_provider *provider, struct kvr_error *error)
{
    uint32_t since = provider->libfabric.api_since, api = kvr_libfabric_api();

    if (!FI_VERSION_LT(api, since))
        return KVR_OK;
    return kvr_error_set(error, KVR_UNSUPPORTED, "fabric",
                         "provider %s needs a kvrail that is built with libfabric 1.20 or later "
                         "(KVRAIL_LIBFABRIC_ROOT): this one asks for API %u.%u, and below %u.%u "
                         "libfabric sends and copies on some of its cards",
                         provider->name, FI_MAJOR(api), FI_MINOR(api), FI_MAJOR(since),
                         FI_MINOR(since));
}

/* Of the library that was found, which may be later than the one that kvrail was built with. */
static kvr_status check_library(const struct kvr_provider *provider, struct kvr_error *error)
{
    uint32_t since = provider->libfabric.library_since;

    if (!FI_VERSION_LT(fi_version(), since))
        return KVR_OK;
    return kvr_error_set(error, KVR_UNSUPPORTED, "fabric",
                         "provider %s needs libfabric %u.%u or later at run time, and this one is "
                         "%s: --libfabric names the folder of another; or both agents use provider "
                         "efa",
                         provider->name, FI_MAJOR(since), FI_MINOR(since),
                         kvr_fabric_ofi_version());
}

kvr_status ofi_getinfo(const char *name, const char *source, struct fi_info **ret_list,
                       struct kvr_error *error)
{
    const struct kvr_provider *provider = kvr_provider_find(name);
    int code = -FI_ENODATA;
    bool lacking = false;

    if (provider == NULL || provider->libfabric.prov_names[0] == NULL)
        return kvr_error_set(error, KVR_INVALID, "fabric",
                             "libfabric has no provider '%s' that kvrail knows; known are %s", name,
                             kvr_provider_choices());
    KVR_TRY(check_api(provider, error));
    prepare_environment();
    KVR_TRY(kvr_libfabric_load(error));
    KVR_TRY(check_library(provider, error));
    for (size_t i = 0; i < 2 && provider->libfabric.prov_names[i] != NULL; i++) {
        struct fi_info *hints = make_hints(provider->libfabric.prov_names[i], false), *list = NULL;

        if (hints == NULL)
            return kvr_error_set(error, KVR_NO_MEMORY, "fabric", "no memory for a look-up");
        code = getinfo(provider->libfabric.by_address ? source : NULL, hints, &list);
        fi_freeinfo(hints);
        if (code != 0)
            continue;
        keep_usable(provider, &list, &lacking);
        if (list != NULL) {
            *ret_list = list;
            return KVR_OK;
        }
    }
    (void)kvr_error_set(
        error, KVR_NOT_FOUND, "fabric",
        "libfabric %s offers no %s rail%s%s with RDMA writes and immediates on this host; %s",
        kvr_fabric_ofi_version(), name, source != NULL ? " at " : "", source != NULL ? source : "",
        lacking ? "its ports have addresses of InfiniBand alone: give each port an IP address "
                  "(IPoIB)"
                : "`fi_info` lists what there is");
    if (error != NULL)
        error->provider_code = code;
    return KVR_NOT_FOUND;
}

/* A card with several addresses has an entry for each. Those of IP may differ in padding. */
static bool same_source(const struct fi_info *a, const struct fi_info *b)
{
    if (a->addr_format != b->addr_format || a->src_addrlen != b->src_addrlen)
        return false;
    if (a->src_addr == NULL || b->src_addr == NULL)
        return a->src_addr == b->src_addr;
    return a->addr_format == FI_SOCKADDR_IN || a->addr_format == FI_SOCKADDR_IN6
               ? ofi_same_address(a->src_addr, b->src_addr)
               : memcmp(a->src_addr, b->src_addr, a->src_addrlen) == 0;
}

struct fi_info *ofi_getinfo_device(const struct kvr_provider *provider, const struct fi_info *info)
{
    struct fi_info *list = NULL, *found = NULL, *hints;

    hints =
        provider->libfabric.device_memory ? make_hints(info->fabric_attr->prov_name, true) : NULL;
    if (hints == NULL)
        return NULL;
    if (getinfo(NULL, hints, &list) != 0)
        list = NULL;
    for (const struct fi_info *at = list; at != NULL && found == NULL; at = at->next)
        if (ofi_usable(provider, at) && (at->caps & FI_HMEM) != 0 && same_source(at, info) &&
            strcmp(at->domain_attr->name, info->domain_attr->name) == 0)
            found = fi_dupinfo(at);
    fi_freeinfo(list);
    fi_freeinfo(hints);
    return found;
}

static void copy_text(char *ret_text, size_t capacity, const char *text)
{
    snprintf(ret_text, capacity, "%s", text != NULL ? text : "");
}

static void source_text(const struct fi_info *info, char ret_text[KVR_NAME_BYTES])
{
    const struct sockaddr_in *v4 = info->src_addr;
    const struct sockaddr_in6 *v6 = info->src_addr;

    ret_text[0] = '\0';
    if (info->src_addr == NULL)
        return;
    if (info->addr_format == FI_SOCKADDR_IN)
        inet_ntop(AF_INET, &v4->sin_addr, ret_text, KVR_NAME_BYTES);
    else if (info->addr_format == FI_SOCKADDR_IN6)
        inet_ntop(AF_INET6, &v6->sin6_addr, ret_text, KVR_NAME_BYTES);
    else if (info->addr_format == FI_ADDR_STR)
        copy_text(ret_text, KVR_NAME_BYTES, info->src_addr);
}

/* An address belongs to an interface when it lies in the network of one of its addresses: 127.0.0.2
 * is lo's although lo says 127.0.0.1/8. An exact match goes before a network. */
static bool interface_matches(const struct ifaddrs *entry, const struct fi_info *info, bool exact)
{
    const struct sockaddr_in *wanted4 = info->src_addr;
    const struct sockaddr_in6 *wanted6 = info->src_addr;
    int family = info->addr_format == FI_SOCKADDR_IN ? AF_INET : AF_INET6;

    if (entry->ifa_addr == NULL || entry->ifa_addr->sa_family != family)
        return false;
    if (family == AF_INET6) {
        const struct sockaddr_in6 *have = (const struct sockaddr_in6 *)(void *)entry->ifa_addr;

        return memcmp(&have->sin6_addr, &wanted6->sin6_addr, sizeof(have->sin6_addr)) == 0;
    }
    if (entry->ifa_netmask == NULL)
        return false;
    const struct sockaddr_in *have = (const struct sockaddr_in *)(void *)entry->ifa_addr;
    const struct sockaddr_in *mask = (const struct sockaddr_in *)(void *)entry->ifa_netmask;
    uint32_t bits = exact ? UINT32_MAX : mask->sin_addr.s_addr;

    return ((have->sin_addr.s_addr ^ wanted4->sin_addr.s_addr) & bits) == 0;
}

/* The network in which `address` is by an entry of its interface. */
static void network_of(const struct ifaddrs *entry, const struct sockaddr *address,
                       char ret_text[KVR_PLANE_BYTES])
{
    const struct sockaddr_in *address4 = (const void *)address, *mask4;
    const struct sockaddr_in6 *address6 = (const void *)address, *mask6;

    ret_text[0] = '\0';
    if (entry->ifa_netmask == NULL)
        return;
    mask4 = (const struct sockaddr_in *)(void *)entry->ifa_netmask;
    mask6 = (const struct sockaddr_in6 *)(void *)entry->ifa_netmask;
    if (address->sa_family == AF_INET)
        kvr_rail_network(AF_INET, (const uint8_t *)&address4->sin_addr,
                         (const uint8_t *)&mask4->sin_addr, ret_text);
    else if (address->sa_family == AF_INET6)
        kvr_rail_network(AF_INET6, address6->sin6_addr.s6_addr, mask6->sin6_addr.s6_addr, ret_text);
}

/* Behind the rail's own network those in which its card has other addresses. */
static void other_networks(const struct ifaddrs *list, struct kvr_rail_facts *facts)
{
    char network[KVR_PLANE_BYTES];

    for (const struct ifaddrs *entry = list; entry != NULL; entry = entry->ifa_next) {
        if (facts->network[0] == '\0' || entry->ifa_addr == NULL ||
            strcmp(entry->ifa_name, facts->interface) != 0)
            continue;
        network_of(entry, entry->ifa_addr, network);
        kvr_rail_network_add(facts->network, network);
    }
}

/* And the networks that its card is in. */
static void find_interface(const struct fi_info *info, struct kvr_rail_facts *facts)
{
    struct ifaddrs *list;

    if (info->src_addr == NULL ||
        (info->addr_format != FI_SOCKADDR_IN && info->addr_format != FI_SOCKADDR_IN6) ||
        getifaddrs(&list) != 0)
        return;
    for (int pass = 0; pass < 2 && facts->interface[0] == '\0'; pass++) {
        for (const struct ifaddrs *entry = list; entry != NULL; entry = entry->ifa_next) {
            if (interface_matches(entry, info, pass == 0)) {
                copy_text(facts->interface, sizeof(facts->interface), entry->ifa_name);
                network_of(entry, info->src_addr, facts->network);
                break;
            }
        }
    }
    other_networks(list, facts);
    freeifaddrs(list);
}

/* IP addresses of one network may lie in several subnets of InfiniBand, which have no way across.
 */
static void find_subnet(const struct fi_info *info, struct kvr_rail_facts *facts)
{
    const struct fi_link_attr *link = info->nic != NULL ? info->nic->link_attr : NULL;
    char subnet[KVR_PLANE_BYTES];

    kvr_rail_subnet(info->fabric_attr->name, link != NULL ? link->network_type : NULL, subnet);
    if (subnet[0] != '\0')
        copy_text(facts->network, sizeof(facts->network), subnet);
}

/* From sysfs, where libfabric does not know the card (tcp). */
static void read_card(struct kvr_rail_facts *facts)
{
    char path[256], link[256];
    long long megabits;
    ssize_t length;

    if (facts->interface[0] == '\0')
        return;
    snprintf(path, sizeof(path), "/sys/class/net/%s/device", facts->interface);
    length = readlink(path, link, sizeof(link) - 1);
    if (facts->pci[0] == '\0' && length > 0) {
        const char *last;
        unsigned domain, bus, device, function;

        link[length] = '\0';
        last = strrchr(link, '/');
        if (last != NULL && sscanf(last, "/%x:%x:%x.%x", &domain, &bus, &device, &function) == 4)
            snprintf(facts->pci, sizeof(facts->pci), "%04x:%02x:%02x.%x", domain & 0xffff,
                     bus & 0xff, device & 0xff, function & 0xf);
    }
    snprintf(path, sizeof(path), "/sys/class/net/%s/speed", facts->interface);
    megabits = facts->speed_bps == 0 ? kvr_small_file_number(path) : 0;
    if (megabits > 0)
        facts->speed_bps = (uint64_t)megabits * 1000000u;
}

static void read_nic(const struct fi_info *info, struct kvr_rail_facts *facts)
{
    const struct fid_nic *nic = info->nic;

    if (nic == NULL)
        return;
    if (nic->bus_attr != NULL && nic->bus_attr->bus_type == FI_BUS_PCI)
        snprintf(facts->pci, sizeof(facts->pci), "%04x:%02x:%02x.%x",
                 nic->bus_attr->attr.pci.domain_id, nic->bus_attr->attr.pci.bus_id,
                 nic->bus_attr->attr.pci.device_id, nic->bus_attr->attr.pci.function_id & 0xf);
    if (nic->link_attr != NULL)
        facts->speed_bps = nic->link_attr->speed;
}

static uint32_t to_u32(size_t value)
{
    return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

/* A limit of 0 in the attributes means that the provider does not say: one piece is always good. */
static uint32_t pieces(size_t advertised, unsigned known)
{
    uint32_t limit = advertised > 0 ? to_u32(advertised) : 1;

    if (known > 0 && known < limit)
        limit = known;
    return limit < KVR_IOV_MAX ? limit : KVR_IOV_MAX;
}

static uint64_t bytes_max(uint64_t advertised, uint64_t known)
{
    return known > 0 && known < advertised ? known : advertised;
}

/* A key of 64 bits that we choose, and addresses that count from the registration's first byte. */
static bool grant_keys(const struct kvr_libfabric_facts *known, const struct fi_domain_attr *domain)
{
    const int theirs = FI_MR_PROV_KEY | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_RAW;

    return known->memory_cheap && (domain->mr_mode & theirs) == 0 &&
           domain->mr_key_size >= sizeof(uint64_t);
}

void ofi_facts(const struct kvr_provider *provider, const struct fi_info *info,
               struct kvr_rail_facts *ret_facts)
{
    const struct kvr_libfabric_facts *known = &provider->libfabric;
    struct kvr_rail_facts facts = {
        .write =
            {
                .pieces_local = pieces(info->tx_attr->iov_limit, known->pieces_local),
                .pieces_remote = pieces(info->tx_attr->rma_iov_limit, known->pieces_remote),
                .bytes_max = bytes_max(info->ep_attr->max_msg_size, known->bytes_max),
                .outstanding_max = to_u32(info->tx_attr->size),
                .window_bytes = known->window_bytes,
                .doorbells = known->doorbells,
                .inject_bytes = to_u32(info->tx_attr->inject_size),
            },
        .immediate_bits = info->domain_attr->cq_data_size >= sizeof(uint64_t) ? 64 : 32,
        .progress_manual = info->domain_attr->data_progress == FI_PROGRESS_MANUAL,
        .needs_senders = known->needs_senders,
        .exposed = provider->exposed,
        .closes = provider->kernel_tcp || known->closes_removed,
        .rest_ns = known->rest_ns,
        .pins_memory = (info->domain_attr->mr_mode & FI_MR_ALLOCATED) != 0,
        .grant_keys = grant_keys(known, info->domain_attr),
    };

    copy_text(facts.provider, sizeof(facts.provider), provider->name);
    copy_text(facts.provider_path, sizeof(facts.provider_path), info->fabric_attr->prov_name);
    source_text(info, facts.source);
    find_interface(info, &facts);
    find_subnet(info, &facts);
    /* Asked for an address, 1.17 names the domain after itself; the interface says more. */
    if (facts.interface[0] != '\0' &&
        strcmp(info->domain_attr->name, info->fabric_attr->prov_name) == 0)
        copy_text(facts.name, sizeof(facts.name), facts.interface);
    else
        copy_text(facts.name, sizeof(facts.name), info->domain_attr->name);
    read_nic(info, &facts);
    read_card(&facts);
    *ret_facts = facts;
}
