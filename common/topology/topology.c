#include "topology/topology.h"

#include <hwloc.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PCI_CLASS_DISPLAY 0x03

static void copy_text(char *ret_text, size_t capacity, const char *text)
{
    snprintf(ret_text, capacity, "%s", text != NULL ? text : "");
}

static void add_cores(struct kvr_topology *topology, struct kvr_topology_node *node,
                      hwloc_const_cpuset_t cpuset)
{
    unsigned core;

    node->core_first = topology->core_count;
    hwloc_bitmap_foreach_begin(core, cpuset)
    {
        if (topology->core_count == KVR_CORES_MAX) {
            topology->truncated = true;
            break;
        }
        topology->cores[topology->core_count++] = (int)core;
    }
    hwloc_bitmap_foreach_end();
    node->core_count = topology->core_count - node->core_first;
}

static void read_nodes(struct kvr_topology *topology, hwloc_topology_t host)
{
    hwloc_obj_t object = NULL;

    while ((object = hwloc_get_next_obj_by_type(host, HWLOC_OBJ_NUMANODE, object)) != NULL) {
        struct kvr_topology_node *node;

        if (topology->node_count == KVR_NODES_MAX) {
            topology->truncated = true;
            return;
        }
        node = &topology->nodes[topology->node_count++];
        node->number = object->os_index;
        node->memory_bytes = object->attr->numanode.local_memory;
        add_cores(topology, node, object->cpuset);
    }
}

static uint32_t index_of_node(const struct kvr_topology *topology, unsigned number)
{
    for (uint32_t i = 0; i < topology->node_count; i++) {
        if (topology->nodes[i].number == number)
            return i;
    }
    return KVR_NODE_UNKNOWN;
}

/* A device near one node only: with several (or none said) every guess would be as good. */
static uint32_t near_node(const struct kvr_topology *topology, hwloc_topology_t host,
                          hwloc_obj_t device)
{
    hwloc_obj_t parent = hwloc_get_non_io_ancestor_obj(host, device);

    if (parent == NULL || parent->nodeset == NULL || hwloc_bitmap_weight(parent->nodeset) != 1)
        return KVR_NODE_UNKNOWN;
    return index_of_node(topology, (unsigned)hwloc_bitmap_first(parent->nodeset));
}

static struct kvr_topology_card *add_card(struct kvr_topology *topology, kvr_card_kind kind,
                                          const char *name)
{
    struct kvr_topology_card *card;

    if (topology->card_count == KVR_CARDS_MAX) {
        topology->truncated = true;
        return NULL;
    }
    card = &topology->cards[topology->card_count++];
    card->kind = kind;
    card->node = KVR_NODE_UNKNOWN;
    copy_text(card->name, sizeof(card->name), name);
    return card;
}

static void describe_pci(struct kvr_topology_card *card, hwloc_obj_t pci)
{
    const struct hwloc_pcidev_attr_s *attr = &pci->attr->pcidev;

    copy_text(card->model, sizeof(card->model), pci->name);
    snprintf(card->pci, sizeof(card->pci), "%04x:%02x:%02x.%x", attr->domain & 0xffff, attr->bus,
             attr->dev, attr->func & 0xf);
}

static hwloc_obj_t pci_of(hwloc_obj_t device)
{
    while (device != NULL && device->type != HWLOC_OBJ_PCI_DEVICE)
        device = device->parent;
    return device;
}

static void read_devices(struct kvr_topology *topology, hwloc_topology_t host)
{
    hwloc_obj_t object = NULL;

    while ((object = hwloc_get_next_osdev(host, object)) != NULL) {
        bool rdma = object->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS;
        struct kvr_topology_card *card;
        hwloc_obj_t pci;

        if (!rdma && object->attr->osdev.type != HWLOC_OBJ_OSDEV_NETWORK)
            continue;
        card = add_card(topology, rdma ? KVR_CARD_RDMA : KVR_CARD_INTERFACE, object->name);
        if (card == NULL)
            return;
        card->node = near_node(topology, host, object);
        pci = pci_of(object);
        if (pci != NULL)
            describe_pci(card, pci);
    }
    while ((object = hwloc_get_next_pcidev(host, object)) != NULL) {
        struct kvr_topology_card *card;

        if (object->attr->pcidev.class_id >> 8 != PCI_CLASS_DISPLAY)
            continue;
        card = add_card(topology, KVR_CARD_GPU, object->name);
        if (card == NULL)
            return;
        describe_pci(card, object);
        card->node = near_node(topology, host, object);
    }
}

static bool read_line(const char *interface, const char *file_name, char *ret_text, int capacity)
{
    char path[128];
    FILE *file;
    bool read;

    snprintf(path, sizeof(path), "/sys/class/net/%s/%s", interface, file_name);
    file = fopen(path, "re");
    if (file == NULL)
        return false;
    read = fgets(ret_text, capacity, file) != NULL;
    fclose(file);
    return read;
}

/* hwloc knows only what hangs on a bus: loopback, veth and the like come from the kernel's list,
 * and so does what every interface can do. */
static void read_interfaces(struct kvr_topology *topology)
{
    struct if_nameindex *list = if_nameindex();

    for (const struct if_nameindex *entry = list; entry != NULL && entry->if_index != 0; entry++) {
        const struct kvr_topology_card *known =
            kvr_topology_find_card(topology, "", entry->if_name);
        struct kvr_topology_card *card = (struct kvr_topology_card *)known;
        char text[32];

        if (card == NULL)
            card = add_card(topology, KVR_CARD_INTERFACE, entry->if_name);
        if (card == NULL)
            break;
        if (read_line(entry->if_name, "speed", text, sizeof(text)) && atoll(text) > 0)
            card->speed_bps = (uint64_t)atoll(text) * 1000000u; /* the kernel says Mb/s */
        /* IFF_UP; operstate says "unknown" of loopback. */
        if (read_line(entry->if_name, "flags", text, sizeof(text)))
            card->up = (strtoul(text, NULL, 16) & IFF_UP) != 0;
    }
    if_freenameindex(list);
}

kvr_status kvr_topology_read(struct kvr_topology **ret_topology, struct kvr_error *error)
{
    struct kvr_topology *topology = calloc(1, sizeof(*topology));
    hwloc_topology_t host;

    if (topology == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "topology", "no memory for the host's topology");
    if (hwloc_topology_init(&host) != 0) {
        free(topology);
        return kvr_error_set(error, KVR_NO_MEMORY, "topology", "hwloc cannot start");
    }
    hwloc_topology_set_io_types_filter(host, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    if (hwloc_topology_load(host) != 0) {
        hwloc_topology_destroy(host);
        free(topology);
        return kvr_error_set(error, KVR_SYSTEM, "topology",
                             "hwloc cannot read this host; is /sys mounted?");
    }
    read_nodes(topology, host);
    read_devices(topology, host);
    hwloc_topology_destroy(host);
    read_interfaces(topology);
    *ret_topology = topology;
    return KVR_OK;
}

void kvr_topology_free(struct kvr_topology *topology)
{
    free(topology);
}

const char *kvr_card_kind_name(kvr_card_kind kind)
{
    switch (kind) {
    case KVR_CARD_INTERFACE:
        return "interface";
    case KVR_CARD_RDMA:
        return "rdma";
    case KVR_CARD_GPU:
        return "gpu";
    }
    return "?";
}

const struct kvr_topology_card *kvr_topology_find_card(const struct kvr_topology *topology,
                                                       const char *pci, const char *name)
{
    for (uint32_t i = 0; i < topology->card_count; i++) {
        const struct kvr_topology_card *card = &topology->cards[i];

        if (pci[0] != '\0' ? strcmp(card->pci, pci) == 0 : strcmp(card->name, name) == 0)
            return card;
    }
    return NULL;
}

uint32_t kvr_topology_node_of(const struct kvr_topology *topology, const char *pci,
                              const char *interface)
{
    const struct kvr_topology_card *card = kvr_topology_find_card(topology, pci, interface);

    if (card == NULL && pci[0] != '\0')
        card = kvr_topology_find_card(topology, "", interface);
    if (card != NULL && card->node != KVR_NODE_UNKNOWN)
        return card->node;
    return topology->node_count == 1 ? 0 : KVR_NODE_UNKNOWN;
}
