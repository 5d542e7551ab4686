/* `kvrail topo --json`. null: unknown. */
#include "tools/topo.h"

#include "fabric/ofi/fabric_ofi.h"

static json_t *node_json(const struct kvr_topology *topology, uint32_t node)
{
    return node == KVR_NODE_UNKNOWN ? json_null()
                                    : json_integer((json_int_t)topology->nodes[node].number);
}

static json_t *limit_json(uint64_t bytes)
{
    return bytes > INT64_MAX ? json_null() : json_integer((json_int_t)bytes);
}

static json_t *text_or_null(const char *text)
{
    return text[0] != '\0' ? json_string(text) : json_null();
}

static json_t *group_rails_json(const struct topo *topo, const struct kvr_host_group *group)
{
    json_t *rails = json_array();

    for (uint32_t i = 0; i < group->rail_count; i++) {
        const struct kvr_host_rail *rail = &topo->groups.rails[group->rails[i].rail];
        struct kvr_distance distance = group->rails[i].distance;

        json_array_append_new(
            rails,
            json_pack("{s:s, s:o, s:s, s:o, s:i, s:s, s:b}", "name", rail->name, "pci",
                      text_or_null(rail->pci), "provider", rail->provider, "speed_gbps",
                      rail->speed_bps > 0 ? json_real((double)rail->speed_bps / 1e9) : json_null(),
                      "distance", (int)distance.distance, "nearness",
                      kvr_nearness_name(distance.nearness), "down", rail->down));
    }
    return rails;
}

static json_t *groups_json(const struct topo *topo)
{
    json_t *groups = json_array();

    for (uint32_t i = 0; i < topo->groups.group_count; i++) {
        const struct kvr_host_group *group = &topo->groups.groups[i];
        json_t *cores = json_array();

        for (uint32_t k = 0; k < group->core_count; k++)
            json_array_append_new(cores, json_integer(group->cores[k]));
        json_array_append_new(
            groups,
            json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "gpu",
                      group->gpu != NULL ? json_integer(group->gpu_number) : json_null(), "gpu_pci",
                      group->gpu != NULL ? json_string(group->gpu->pci) : json_null(), "numa",
                      node_json(topo->topology, group->node), "cores", cores, "shares_group",
                      group->owner != i ? json_integer(group->owner) : json_null(), "rails",
                      group_rails_json(topo, group)));
    }
    return groups;
}

static json_t *warnings_json(const struct kvr_oddities *oddities)
{
    json_t *warnings = json_array();
    char text[TOPO_ODDITY_BYTES];

    for (uint32_t i = 0; i < oddities->count; i++)
        json_array_append_new(warnings, json_string(topo_oddity_text(&oddities->list[i], text)));
    return warnings;
}

static json_t *nodes_json(const struct kvr_topology *topology)
{
    json_t *nodes = json_array();

    for (uint32_t i = 0; i < topology->node_count; i++)
        json_array_append_new(nodes,
                              json_pack("{s:i, s:I, s:i}", "node", (int)topology->nodes[i].number,
                                        "memory_bytes", (json_int_t)topology->nodes[i].memory_bytes,
                                        "cores", (int)topology->nodes[i].core_count));
    return nodes;
}

static json_t *cards_json(const struct kvr_topology *topology)
{
    json_t *cards = json_array();

    for (uint32_t i = 0; i < topology->card_count; i++) {
        const struct kvr_topology_card *card = &topology->cards[i];

        json_array_append_new(cards,
                              json_pack("{s:s, s:s, s:s, s:s, s:I, s:o, s:b}", "kind",
                                        kvr_card_kind_name(card->kind), "name", card->name, "model",
                                        card->model, "pci", card->pci, "speed_bits_per_second",
                                        (json_int_t)card->speed_bps, "node",
                                        node_json(topology, card->node), "down", card->down));
    }
    return cards;
}

static json_t *writes_json(kvr_writes writes)
{
    return writes == KVR_WRITES_UNKNOWN
               ? json_null()
               : json_string(writes == KVR_WRITES_RDMA ? "rdma" : "emulated");
}

static json_t *trial_json(const struct topo_trial *trial)
{
    char text[TOPO_TRIAL_BYTES];

    return topo_trial_text(trial, text) ? json_string(text) : json_null();
}

static json_t *device_json(const struct kvr_rail_facts *rail, const struct topo_trial *trial)
{
    static const kvr_path paths[] = {KVR_PATH_DMABUF, KVR_PATH_HMEM, KVR_PATH_LOCAL,
                                     KVR_PATH_STAGED};
    struct kvr_path_choice choice;
    json_t *against = json_object();

    topo_device_path(rail, trial, &choice);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        if (paths[i] != choice.path)
            json_object_set_new(against, kvr_path_name(paths[i]),
                                json_string(kvr_path_why_text(choice.why[paths[i]])));
    return json_pack("{s:s, s:o, s:o}", "path", kvr_path_name(choice.path), "not", against, "trial",
                     trial_json(trial));
}

static void add_rails_json(json_t *array, const struct topo *topo, const struct topo_provider *list)
{
    const struct kvr_topology *topology = topo->topology;

    for (unsigned i = 0; i < list->listed; i++) {
        const struct kvr_rail_facts *rail = &list->rails[i];
        const struct kvr_topology_card *card =
            kvr_topology_card_of(topology, rail->pci, rail->interface);

        json_array_append_new(
            array,
            json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:o, s:i, s:i, s:o, s:o, s:b, s:o}",
                      "provider", rail->provider, "provider_path", rail->provider_path, "name",
                      rail->name, "interface", rail->interface, "address", rail->source, "pci",
                      rail->pci, "speed_bits_per_second", (json_int_t)rail->speed_bps, "node",
                      node_json(topology, card != NULL ? card->node : KVR_NODE_UNKNOWN),
                      "pieces_local", (int)rail->write.pieces_local, "pieces_remote",
                      (int)rail->write.pieces_remote, "write_bytes_max",
                      limit_json(rail->write.bytes_max), "writes", writes_json(rail->writes),
                      "same_host_only", rail->same_host_only, "device_memory",
                      device_json(rail, &topo->trials[rail - topo->rails])));
    }
}

static json_t *gpus_json(const struct topo *topo)
{
    static const char *const orders[KVR_ORDERS] = {[KVR_ORDER_UNKNOWN] = "unknown",
                                                   [KVR_ORDER_KEPT] = "ordered",
                                                   [KVR_ORDER_FLUSHED] = "flushed",
                                                   [KVR_ORDER_NONE] = "staged"};
    json_t *gpus = json_array();

    for (unsigned i = 0; i < topo->gpu_count; i++)
        json_array_append_new(
            gpus, json_pack("{s:s, s:s, s:b, s:I, s:I}", "pci", topo->gpus[i].gpu.pci,
                            "card_writes", orders[topo->gpus[i].order], "mps", topo->gpus[i].mps,
                            "memory_bytes", (json_int_t)topo->gpus[i].memory.total_bytes,
                            "used_bytes", (json_int_t)topo->gpus[i].memory.used_bytes));
    return gpus;
}

json_t *topo_json(const struct topo *topo)
{
    json_t *rails = json_array();

    for (unsigned i = 0; i < topo->provider_count; i++)
        add_rails_json(rails, topo, &topo->providers[i]);
    return json_pack("{s:o, s:o, s:s, s:o, s:o, s:o, s:o}", "groups", groups_json(topo), "warnings",
                     warnings_json(&topo->oddities), "libfabric", kvr_fabric_ofi_version(), "nodes",
                     nodes_json(topo->topology), "cards", cards_json(topo->topology), "rails",
                     rails, "gpus", gpus_json(topo));
}
