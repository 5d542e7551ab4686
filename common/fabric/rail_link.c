#include "fabric/rail_link.h"

#include <net/if_arp.h>
#include <stdio.h>
#include <string.h>

#include "base/small_file.h"
#include "fabric/fabric_provider.h"

#define PATH_BYTES    320
#define PORTS_MAX     2   /* of one RDMA device */
#define GIDS_READ_MAX 256 /* as many as a port of mlx5 has */
#define PRIORITIES    8

static bool uses_kernel_tcp(const struct kvr_rail_facts *facts)
{
    const struct kvr_provider *provider = kvr_provider_find(facts->provider);

    return provider != NULL && provider->kernel_tcp;
}

/* Of RoCE and of TCP the interface's MTU bounds the packets; of EFA, and within a host, not. */
static bool has_interface(const struct kvr_rail_facts *facts)
{
    return facts->interface[0] != '\0' &&
           (uses_kernel_tcp(facts) || kvr_provider_by_rdma_cm(facts->provider));
}

static long long interface_number(const char *sys, const char *interface, const char *name)
{
    char path[PATH_BYTES];

    snprintf(path, sizeof(path), "%s/class/net/%s/%s", sys, interface, name);
    return kvr_small_file_number(path);
}

uint32_t kvr_rail_link_mtu(const char *sys, const struct kvr_rail_facts *facts)
{
    return has_interface(facts) ? (uint32_t)interface_number(sys, facts->interface, "mtu") : 0;
}

static kvr_link_kind kind_of_tcp(const char *sys, const char *interface)
{
    switch (interface_number(sys, interface, "type")) {
    case ARPHRD_ETHER:
        return KVR_LINK_ETHERNET;
    case ARPHRD_INFINIBAND:
        return KVR_LINK_IPOIB;
    default:
        return KVR_LINK_UNKNOWN;
    }
}

/* The GIDs of an interface on one port of an RDMA device. rdma_cm takes RoCE v2 where there is one,
 * unless configfs says otherwise, which is not readable for all. */
static kvr_link_kind kind_of_gids(const char *port, const char *interface)
{
    kvr_link_kind kind = KVR_LINK_UNKNOWN;
    char path[PATH_BYTES], text[64];

    for (int i = 0; i < GIDS_READ_MAX && kind != KVR_LINK_ROCE_V2; i++) {
        snprintf(path, sizeof(path), "%s/gid_attrs/ndevs/%d", port, i);
        if (!kvr_small_file_line(path, text, sizeof(text)) || strcmp(text, interface) != 0)
            continue;
        snprintf(path, sizeof(path), "%s/gid_attrs/types/%d", port, i);
        if (kvr_small_file_line(path, text, sizeof(text)))
            kind = strcmp(text, "RoCE v2") == 0 ? KVR_LINK_ROCE_V2 : KVR_LINK_ROCE_V1;
    }
    return kind;
}

static kvr_link_kind kind_of_rdma(const char *sys, const struct kvr_rail_facts *facts)
{
    kvr_link_kind kind = KVR_LINK_UNKNOWN;

    for (int i = 1; i <= PORTS_MAX && kind == KVR_LINK_UNKNOWN; i++) {
        char port[PATH_BYTES - 64], path[PATH_BYTES], layer[32];

        snprintf(port, sizeof(port), "%s/class/infiniband/%s/ports/%d", sys, facts->name, i);
        snprintf(path, sizeof(path), "%s/link_layer", port);
        if (!kvr_small_file_line(path, layer, sizeof(layer)))
            continue;
        kind = strcmp(layer, "InfiniBand") == 0 ? KVR_LINK_INFINIBAND
                                                : kind_of_gids(port, facts->interface);
    }
    return kind;
}

/* Both ends of a flow take part: the one that sees marks (notification point), and the one that
 * slows down (reaction point). mlx5 of NVIDIA's own packages has the files. */
static bool ecn_read(const char *sys, const char *interface, uint32_t *ret_priorities)
{
    static const char *const ends[] = {"roce_np", "roce_rp"};
    bool known = true;

    *ret_priorities = (1u << PRIORITIES) - 1;
    for (int i = 0; i < 2 * PRIORITIES && known; i++) {
        char path[PATH_BYTES], text[8];

        snprintf(path, sizeof(path), "%s/class/net/%s/ecn/%s/enable/%d", sys, interface,
                 ends[i / PRIORITIES], i % PRIORITIES);
        known = kvr_small_file_line(path, text, sizeof(text));
        if (known && text[0] != '1')
            *ret_priorities &= ~(1u << (i % PRIORITIES));
    }
    if (!known)
        *ret_priorities = 0;
    return known;
}

void kvr_rail_link_read(const char *sys, const struct kvr_rail_facts *facts,
                        struct kvr_link *ret_link)
{
    *ret_link = (struct kvr_link){.mtu = kvr_rail_link_mtu(sys, facts)};
    if (!has_interface(facts))
        return;
    ret_link->kind =
        uses_kernel_tcp(facts) ? kind_of_tcp(sys, facts->interface) : kind_of_rdma(sys, facts);
    if (ret_link->kind != KVR_LINK_ROCE_V1 && ret_link->kind != KVR_LINK_ROCE_V2)
        return;
    ret_link->pfc_known = kvr_link_pfc_read(facts->interface, &ret_link->pfc);
    ret_link->ecn_known = ecn_read(sys, facts->interface, &ret_link->ecn);
}
