/* This host: NUMA nodes with their cores, and network cards and interfaces with the node that they
 * are near. What rails a provider offers is fabric's to say (kvr_fabric_ofi_list);
 * kvr_topology_node_of places each by the PCI address or the interface that it names.
 *
 * Read once at start by whoever asks, then constant: any thread. Owned by the caller. */
#ifndef KVR_TOPOLOGY_TOPOLOGY_H
#define KVR_TOPOLOGY_TOPOLOGY_H

#include "base/status.h"
#include "base/types.h"

#define KVR_NODES_MAX    64
#define KVR_CORES_MAX    1024 /* hardware threads that this process may run on */
#define KVR_CARDS_MAX    256
#define KVR_NODE_UNKNOWN UINT32_MAX

struct kvr_topology_node {
    uint32_t number; /* the operating system's */
    uint64_t memory_bytes;
    uint32_t core_first, core_count; /* in kvr_topology.cores */
};

typedef enum kvr_card_kind {
    KVR_CARD_INTERFACE, /* a network interface of the kernel: "eth0" */
    KVR_CARD_RDMA,      /* an RDMA device: "mlx5_0", "rdmap0s6" */
    KVR_CARD_GPU,
} kvr_card_kind;

struct kvr_topology_card {
    kvr_card_kind kind;
    char name[KVR_NAME_BYTES];
    char model[KVR_NAME_BYTES]; /* as the PCI data base names it, or "" */
    char pci[16];               /* "0000:9d:00.0", or "" */
    uint64_t speed_bps;         /* 0: nobody says */
    uint32_t node;              /* index in nodes, or KVR_NODE_UNKNOWN */
    bool up;                    /* of an interface */
};

struct kvr_topology {
    uint32_t node_count;
    struct kvr_topology_node nodes[KVR_NODES_MAX];
    uint32_t core_count;
    int cores[KVR_CORES_MAX]; /* the operating system's numbers, node by node */
    uint32_t card_count;
    struct kvr_topology_card cards[KVR_CARDS_MAX];
    bool truncated; /* there was more than fits */
};

KVR_MUST_CHECK kvr_status kvr_topology_read(struct kvr_topology **ret_topology,
                                            struct kvr_error *error);
void kvr_topology_free(struct kvr_topology *topology); /* NULL is fine */

const char *kvr_card_kind_name(kvr_card_kind kind);
/* The card with this PCI address or, without one, this name. NULL: none. */
const struct kvr_topology_card *kvr_topology_find_card(const struct kvr_topology *topology,
                                                       const char *pci, const char *name);
/* Index of the NUMA node near a rail; KVR_NODE_UNKNOWN where a card says nothing (virtual
 * interfaces). */
uint32_t kvr_topology_node_of(const struct kvr_topology *topology, const char *pci,
                              const char *interface);

#endif
