/* Reads a host with hwloc: this machine, or another one from a file. */
#include <errno.h>
#include <hwloc.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/small_file.h"
#include "base/text.h"
#include "topology/topology.h"

/* Classes and vendors of PCI. */
#define CLASS_NETWORK     0x02
#define CLASS_INFINIBAND  0x0c06
#define CLASS_DISPLAY     0x03
#define CLASS_VGA         0x0300
#define CLASS_ACCELERATOR 0x12
#define VENDOR_NVIDIA     0x10de
#define VENDOR_AMD        0x1002
#define PORT_ACTIVE       "4"

static void copy_text(char *ret_text, size_t capacity, const char *text)
{
    kvr_text_show(text != NULL ? text : "", capacity, ret_text);
}

/* In hwloc's order, which keeps the hardware threads of a core together. */
static void add_cores(struct kvr_topology *topology, struct kvr_topology_node *node,
                      hwloc_topology_t host, hwloc_const_cpuset_t cpuset)
{
    hwloc_obj_t unit = NULL;

    node->core_first = topology->core_count;
    while ((unit = hwloc_get_next_obj_inside_cpuset_by_type(host, cpuset, HWLOC_OBJ_PU, unit)) !=
           NULL) {
        if (topology->core_count == KVR_CORES_MAX) {
            topology->truncated = true;
            break;
        }
        topology->cores[topology->core_count++] = (int)unit->os_index;
    }
    node->core_count = topology->core_count - node->core_first;
}

static void read_nodes(struct kvr_topology *topology, hwloc_topology_t host)
{
    int cores = hwloc_get_nbobjs_by_type(host, HWLOC_OBJ_CORE);
    int threads = hwloc_get_nbobjs_by_type(host, HWLOC_OBJ_PU);
    hwloc_obj_t object = NULL;

    topology->core_threads = cores > 0 && threads > cores ? (uint32_t)(threads / cores) : 1;
    while ((object = hwloc_get_next_obj_by_type(host, HWLOC_OBJ_NUMANODE, object)) != NULL) {
        struct kvr_topology_node *node;

        if (topology->node_count == KVR_NODES_MAX) {
            topology->truncated = true;
            return;
        }
        node = &topology->nodes[topology->node_count++];
        node->number = object->os_index;
        node->memory_bytes = object->attr->numanode.local_memory;
        add_cores(topology, node, host, object->cpuset);
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

/* The node of a device near one node only. With several nodes, or none, each guess would be as
 * good. */
static uint32_t near_node(const struct kvr_topology *topology, hwloc_topology_t host,
                          hwloc_obj_t device)
{
    hwloc_obj_t parent = hwloc_get_non_io_ancestor_obj(host, device);

    if (parent == NULL || parent->nodeset == NULL || hwloc_bitmap_weight(parent->nodeset) != 1)
        return topology->node_count == 1 ? 0 : KVR_NODE_UNKNOWN;
    return index_of_node(topology, (unsigned)hwloc_bitmap_first(parent->nodeset));
}

static void read_bridges(struct kvr_topology_card *card, hwloc_obj_t device)
{
    uint32_t count = 0;

    for (hwloc_obj_t above = device->parent; above != NULL; above = above->parent)
        count += above->type == HWLOC_OBJ_BRIDGE;
    card->bridge_count = count < KVR_BRIDGES_MAX ? count : KVR_BRIDGES_MAX;
    for (hwloc_obj_t above = device->parent; above != NULL; above = above->parent) {
        if (above->type == HWLOC_OBJ_BRIDGE && --count < KVR_BRIDGES_MAX)
            card->bridges[count] = above->gp_index;
    }
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
    const char *model = hwloc_obj_get_info_by_name(pci, "PCIDevice");

    copy_text(card->model, sizeof(card->model), model != NULL ? model : pci->name);
    snprintf(card->pci, sizeof(card->pci), "%04x:%02x:%02x.%x", attr->domain & 0xffff, attr->bus,
             attr->dev, attr->func & 0xf);
    card->vendor = attr->vendor_id;
    card->device = attr->device_id;
    card->pci_link_bps = (uint64_t)((double)attr->linkspeed * 8e9); /* hwloc says GB/s */
}

static hwloc_obj_t pci_of(hwloc_obj_t device)
{
    while (device != NULL && device->type != HWLOC_OBJ_PCI_DEVICE)
        device = device->parent;
    return device;
}

/* An RDMA device without an active port. */
static bool ports_down(hwloc_obj_t device)
{
    char key[24];
    bool said = false;

    for (int port = 1; port <= 4; port++) {
        const char *state;

        snprintf(key, sizeof(key), "Port%dState", port);
        state = hwloc_obj_get_info_by_name(device, key);
        if (state != NULL && strcmp(state, PORT_ACTIVE) == 0)
            return false;
        said = said || state != NULL;
    }
    return said;
}

static struct kvr_topology_card *add_device(struct kvr_topology *topology, hwloc_topology_t host,
                                            kvr_card_kind kind, const char *name,
                                            hwloc_obj_t device)
{
    struct kvr_topology_card *card = add_card(topology, kind, name);
    hwloc_obj_t pci = pci_of(device);

    if (card == NULL)
        return NULL;
    card->node = near_node(topology, host, device);
    if (pci != NULL) {
        describe_pci(card, pci);
        read_bridges(card, pci);
    }
    return card;
}

static void read_network_devices(struct kvr_topology *topology, hwloc_topology_t host)
{
    hwloc_obj_t object = NULL;

    while ((object = hwloc_get_next_osdev(host, object)) != NULL) {
        bool rdma = object->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS;
        struct kvr_topology_card *card;

        if (!rdma && object->attr->osdev.type != HWLOC_OBJ_OSDEV_NETWORK)
            continue;
        card = add_device(topology, host, rdma ? KVR_CARD_RDMA : KVR_CARD_INTERFACE, object->name,
                          object);
        if (card == NULL)
            return;
        card->down = rdma && ports_down(object);
    }
}

/* A device that drives a screen (a server's VGA, a virtual machine's) is no GPU to compute on. */
static bool is_gpu(const struct hwloc_pcidev_attr_s *pci)
{
    bool known = pci->vendor_id == VENDOR_NVIDIA || pci->vendor_id == VENDOR_AMD;

    if (pci->class_id >> 8 == CLASS_ACCELERATOR)
        return known;
    return pci->class_id >> 8 == CLASS_DISPLAY && (known || pci->class_id != CLASS_VGA);
}

/* GPUs, and cards without a driver: their address is their only name. */
static void read_pci_devices(struct kvr_topology *topology, hwloc_topology_t host)
{
    hwloc_obj_t object = NULL;

    while ((object = hwloc_get_next_pcidev(host, object)) != NULL) {
        const struct hwloc_pcidev_attr_s *attr = &object->attr->pcidev;
        bool network = attr->class_id >> 8 == CLASS_NETWORK || attr->class_id == CLASS_INFINIBAND;
        struct kvr_topology_card *card = NULL;

        if (is_gpu(attr))
            card = add_device(topology, host, KVR_CARD_GPU, object->name, object);
        else if (network && object->io_first_child == NULL)
            card = add_device(topology, host, KVR_CARD_INTERFACE, "", object);
        if (card != NULL && card->name[0] == '\0')
            copy_text(card->name, sizeof(card->name), card->pci);
    }
}

static bool read_line(const char *interface, const char *file_name, char *ret_text, size_t capacity)
{
    char path[128];

    snprintf(path, sizeof(path), "/sys/class/net/%s/%s", interface, file_name);
    return kvr_small_file_line(path, ret_text, capacity);
}

static struct kvr_topology_card *find_interface(struct kvr_topology *topology, const char *name)
{
    for (uint32_t i = 0; i < topology->card_count; i++) {
        if (topology->cards[i].kind == KVR_CARD_INTERFACE &&
            strcmp(topology->cards[i].name, name) == 0)
            return &topology->cards[i];
    }
    return NULL;
}

/* hwloc knows only devices on a bus. Loopback, veth and the like come from the kernel's list, and
 * so do the abilities of every interface. */
static void read_interfaces(struct kvr_topology *topology)
{
    struct if_nameindex *list = if_nameindex();

    for (const struct if_nameindex *entry = list; entry != NULL && entry->if_index != 0; entry++) {
        struct kvr_topology_card *card = find_interface(topology, entry->if_name);
        char text[32];

        if (card == NULL)
            card = add_card(topology, KVR_CARD_INTERFACE, entry->if_name);
        if (card == NULL)
            break;
        if (read_line(entry->if_name, "speed", text, sizeof(text)) && atoll(text) > 0)
            card->speed_bps = (uint64_t)atoll(text) * 1000000u; /* the kernel says Mb/s */
        /* IFF_UP; operstate says "unknown" of loopback. */
        if (read_line(entry->if_name, "flags", text, sizeof(text)))
            card->down = (strtoul(text, NULL, 16) & IFF_UP) == 0;
        /* Without a signal on the cable it reads 0; with the interface off it cannot be read. */
        if (read_line(entry->if_name, "carrier", text, sizeof(text)) && text[0] == '0')
            card->down = true;
    }
    if_freenameindex(list);
}

/* Files do not have the speed of a card's port. These models are sold at one speed only. Sources:
 * the EFA driver's device table, the instances' published rates, and NVIDIA's data sheets. */
static void assume_speeds(struct kvr_topology *topology)
{
    static const struct {
        uint16_t vendor, device;
        uint64_t gbps;
    } models[] = {
        {0x1d0f, 0xefa0, 100}, /* EFA of p4d: 4 × 100 */
        {0x1d0f, 0xefa1, 100}, /* EFA v2, p5 and p5e: 32 × 100 */
        {0x1d0f, 0xefa2, 200}, /* EFA v3, p5en: 16 × 200; the id is believed, as is the next */
        {0x1d0f, 0xefa3, 400}, /* EFA v4, p6-b200: 8 × 400 */
        {0x15b3, 0x1021, 400}, /* ConnectX-7 */
        {0x15b3, 0x1023, 800}, /* ConnectX-8 */
    };

    for (uint32_t i = 0; i < topology->card_count; i++) {
        struct kvr_topology_card *card = &topology->cards[i];

        for (size_t k = 0; k < sizeof(models) / sizeof(models[0]); k++) {
            if (card->vendor == models[k].vendor && card->device == models[k].device)
                card->speed_bps = models[k].gbps * 1000000000u;
        }
    }
}

static kvr_status load(hwloc_topology_t host, const char *xml, struct kvr_error *error)
{
    hwloc_topology_set_io_types_filter(host, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    if (xml != NULL && access(xml, R_OK) != 0)
        return kvr_error_set(error, KVR_NOT_FOUND, "topology", "%s cannot be read: %s", xml,
                             strerror(errno));
    if (xml != NULL && hwloc_topology_set_xml(host, xml) != 0)
        return kvr_error_set(error, KVR_MALFORMED, "topology",
                             "%s is no topology: make it with `lstopo --of xml FILE`", xml);
    if (hwloc_topology_load(host) == 0)
        return KVR_OK;
    if (xml != NULL)
        return kvr_error_set(error, KVR_MALFORMED, "topology",
                             "%s cannot be loaded: make it with `lstopo --of xml FILE`", xml);
    return kvr_error_set(error, KVR_SYSTEM, "topology",
                         "hwloc cannot read this host; is /sys mounted?");
}

kvr_status kvr_topology_read(const char *xml, struct kvr_topology **ret_topology,
                             struct kvr_error *error)
{
    struct kvr_topology *topology = calloc(1, sizeof(*topology));
    hwloc_topology_t host;
    kvr_status status;

    if (topology == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "topology", "no memory for the host's topology");
    if (hwloc_topology_init(&host) != 0) {
        free(topology);
        return kvr_error_set(error, KVR_NO_MEMORY, "topology", "hwloc cannot start");
    }
    status = load(host, xml, error);
    if (status != KVR_OK) {
        hwloc_topology_destroy(host);
        free(topology);
        return status;
    }
    topology->from_file = xml != NULL;
    read_nodes(topology, host);
    read_network_devices(topology, host);
    read_pci_devices(topology, host);
    hwloc_topology_destroy(host);
    if (topology->from_file)
        assume_speeds(topology);
    else
        read_interfaces(topology);
    *ret_topology = topology;
    return KVR_OK;
}
