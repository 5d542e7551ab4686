/* A host: NUMA nodes with their cores, and devices (GPUs, network cards, interfaces) with their
 * place. The place is the bridges of the PCI tree above a device, and its node. Read from this
 * machine or from a file of hwloc's `lstopo`. The fabric lists the rails that a provider offers
 * (kvr_fabric_list); host_groups.h combines both.
 *
 * Read once at start, then constant: any thread may read it. The caller owns it. */
#ifndef KVR_TOPOLOGY_TOPOLOGY_H
#define KVR_TOPOLOGY_TOPOLOGY_H

#include "base/status.h"
#include "base/types.h"

#define KVR_NODES_MAX    64
#define KVR_CORES_MAX    1024 /* hardware threads that this process may run on */
#define KVR_CARDS_MAX    256
#define KVR_BRIDGES_MAX  12 /* above one device */
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

/* A card with an RDMA device and an interface is listed once for each, under one PCI address. */
struct kvr_topology_card {
    kvr_card_kind kind;
    char name[KVR_NAME_BYTES];
    char model[KVR_NAME_BYTES]; /* from the PCI database, or "" */
    char pci[16];               /* "0000:9d:00.0", or "" */
    uint16_t vendor, device;    /* of the PCI card */
    uint64_t speed_bps;         /* of the port; 0: unknown */
    uint64_t pci_link_bps;      /* of the slot at its present speed; 0: unknown */
    uint32_t node;              /* index in nodes, or KVR_NODE_UNKNOWN */
    bool down;                  /* the interface is off, or no port of the device is active */
    uint32_t bridge_count;      /* 0: not on PCI */
    uint64_t
        bridges[KVR_BRIDGES_MAX]; /* from the host bridge inwards; equal numbers: the same bridge */
};

struct kvr_topology {
    uint32_t node_count;
    struct kvr_topology_node nodes[KVR_NODES_MAX];
    uint32_t core_count;
    uint32_t core_threads;    /* hardware threads of one core */
    int cores[KVR_CORES_MAX]; /* the operating system's numbers, node by node; the hardware threads
                                 of one core beside each other */
    uint32_t card_count;
    struct kvr_topology_card cards[KVR_CARDS_MAX];
    bool truncated; /* there was more than fits */
    bool from_file;
};

/* xml: a file of `lstopo --of xml`; NULL: this machine. */
KVR_MUST_CHECK kvr_status kvr_topology_read(const char *xml, struct kvr_topology **ret_topology,
                                            struct kvr_error *error);
void kvr_topology_free(struct kvr_topology *topology); /* NULL is fine */

const char *kvr_card_kind_name(kvr_card_kind kind);
/* The card with this PCI address or, without one, this name. NULL: none. */
const struct kvr_topology_card *kvr_topology_find_card(const struct kvr_topology *topology,
                                                       const char *pci, const char *name);
/* The card of a rail, by PCI address, else by interface. NULL: none. */
const struct kvr_topology_card *kvr_topology_card_of(const struct kvr_topology *topology,
                                                     const char *pci, const char *interface);

/* The place where the way between two devices turns. */
typedef enum kvr_nearness {
    KVR_NEAR_SWITCH, /* below one bridge of the PCI tree: traffic does not reach the processor */
    KVR_NEAR_HOST,   /* in one host bridge */
    KVR_NEAR_NODE,   /* in one NUMA node, between two host bridges */
    KVR_NEAR_NOT,    /* in another NUMA node, or at an unknown place */
} kvr_nearness;

/* Smaller is nearer: links of the PCI tree on the way, and 10 for each host bridge, node and other
 * node on the way. */
struct kvr_distance {
    kvr_nearness nearness;
    uint32_t distance;
};
struct kvr_distance kvr_topology_distance(const struct kvr_topology_card *a,
                                          const struct kvr_topology_card *b);
const char *kvr_nearness_name(kvr_nearness nearness); /* "switch", "host bridge", "node", "far" */

#endif
