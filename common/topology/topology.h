/* A host: NUMA nodes with their cores, and its devices (GPUs, network cards, interfaces) with their
 * place: the bridges of the PCI tree above each, and the node it is near. Read from this machine or
 * from a file that hwloc's `lstopo` wrote. Which rails a provider offers is fabric's to say
 * (kvr_fabric_list); rail_groups.h puts both together.
 *
 * Read once at start by whoever asks, then constant: any thread. Owned by the caller. */
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
    char model[KVR_NAME_BYTES]; /* as the PCI data base names it, or "" */
    char pci[16];               /* "0000:9d:00.0", or "" */
    uint16_t vendor, device;    /* of the PCI card */
    uint64_t speed_bps;         /* of the port; 0: nobody says */
    uint64_t pci_link_bps;      /* of its slot as it runs now; 0: nobody says */
    uint32_t node;              /* index in nodes, or KVR_NODE_UNKNOWN */
    bool down;                  /* the interface is off, or no port of the device is active */
    uint32_t bridge_count;      /* 0: not on PCI */
    uint64_t
        bridges[KVR_BRIDGES_MAX]; /* from the host bridge inwards; equal numbers: the same one */
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

/* xml: what `lstopo --of xml` wrote; NULL: this machine. */
KVR_MUST_CHECK kvr_status kvr_topology_read(const char *xml, struct kvr_topology **ret_topology,
                                            struct kvr_error *error);
void kvr_topology_free(struct kvr_topology *topology); /* NULL is fine */

const char *kvr_card_kind_name(kvr_card_kind kind);
/* The card with this PCI address or, without one, this name. NULL: none. */
const struct kvr_topology_card *kvr_topology_find_card(const struct kvr_topology *topology,
                                                       const char *pci, const char *name);
/* The card that a rail is on, by PCI address, else by interface. NULL: none. */
const struct kvr_topology_card *kvr_topology_card_of(const struct kvr_topology *topology,
                                                     const char *pci, const char *interface);

/* Where the way between two devices turns. */
typedef enum kvr_nearness {
    KVR_NEAR_SWITCH, /* below one bridge of the PCI tree: the processor sees nothing of it */
    KVR_NEAR_HOST,   /* in one host bridge */
    KVR_NEAR_NODE,   /* in one NUMA node, between two host bridges */
    KVR_NEAR_NOT,    /* in another NUMA node, or nobody knows where */
} kvr_nearness;

/* Smaller is nearer: links of the PCI tree on the way, and 10 for each of host bridge, node and
 * other node that it goes through. */
struct kvr_distance {
    kvr_nearness nearness;
    uint32_t distance;
};
struct kvr_distance kvr_topology_distance(const struct kvr_topology_card *a,
                                          const struct kvr_topology_card *b);
const char *kvr_nearness_name(kvr_nearness nearness); /* "switch", "host bridge", "node", "far" */

#endif
