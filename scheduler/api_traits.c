/* What an agent reports of its host and rails, as JSON. null: an older
 * agent reports none of it. */
#include "scheduler/api_agents.h"

#define PRIORITIES 8 /* of Ethernet */

/* null: no limit. */
static void write_limit(struct json_writer *out, const char *key, uint64_t limit)
{
    if (limit == UINT64_MAX)
        json_writer_null(out, key);
    else
        json_writer_count(out, key, limit);
}

static void write_priorities(struct json_writer *out, const char *key, bool known, uint32_t bits)
{
    if (!known) {
        json_writer_null(out, key);
        return;
    }
    json_writer_array(out, key);
    for (uint32_t i = 0; i < PRIORITIES; i++)
        if ((bits >> i & 1) != 0)
            json_writer_count(out, NULL, i);
    json_writer_end_array(out);
}

static void write_clock(struct json_writer *out, const struct kvr_host_traits *traits)
{
    if (traits->clock_known)
        json_writer_boolean(out, "clock_synchronised", traits->clock_synchronised);
    else
        json_writer_null(out, "clock_synchronised");
    if (traits->clock_synchronised)
        json_writer_seconds(out, "clock_error_seconds",
                            (int64_t)kvr_min_u64(traits->clock_error_us, INT64_MAX / 1000) * 1000);
    else
        json_writer_null(out, "clock_error_seconds");
}

static void write_rail_ports(struct json_writer *out, const struct kvr_host_traits *traits)
{
    if (traits->rail_port_first == 0) {
        json_writer_null(out, "rail_ports");
        return;
    }
    json_writer_array(out, "rail_ports");
    json_writer_count(out, NULL, traits->rail_port_first);
    json_writer_count(out, NULL, traits->rail_port_last);
    json_writer_end_array(out);
}

static void write_node(struct json_writer *out, bool known, uint32_t node)
{
    if (known)
        json_writer_count(out, "node", node);
    else
        json_writer_null(out, "node");
}

static void write_gpus(struct json_writer *out, const struct kvr_host_traits *traits)
{
    json_writer_array(out, "gpus");
    for (uint32_t i = 0; i < traits->gpu_count; i++) {
        const struct kvr_gpu_traits *gpu = &traits->gpus[i];

        json_writer_object(out, NULL);
        json_writer_string(out, "pci", gpu->pci);
        json_writer_text(out, "model", gpu->model);
        write_node(out, gpu->node_known, gpu->node);
        json_writer_array(out, "groups");
        for (uint32_t group = 0; group < KVR_RAIL_GROUPS_MAX; group++)
            if ((gpu->groups >> group & 1) != 0)
                json_writer_count(out, NULL, group);
        json_writer_end_array(out);
        json_writer_end_object(out);
    }
    json_writer_end_array(out);
}

void api_write_host_traits(struct json_writer *out, const struct kvr_host_traits *traits)
{
    if (!traits->reported) {
        json_writer_null(out, "traits");
        return;
    }
    json_writer_object(out, "traits");
    json_writer_text(out, "libfabric", traits->libfabric);
    write_limit(out, "open_files", traits->files_limit);
    write_limit(out, "lockable_bytes", traits->lockable_bytes);
    write_clock(out, traits);
    write_rail_ports(out, traits);
    write_gpus(out, traits);
    json_writer_end_object(out);
}

void api_write_rail_traits(struct json_writer *out, const struct kvr_rail_traits *traits)
{
    const struct kvr_link *link = &traits->link;

    if (!traits->reported) {
        json_writer_null(out, "traits");
        return;
    }
    json_writer_object(out, "traits");
    json_writer_text(out, "plane", traits->plane);
    json_writer_text(out, "network", traits->network);
    json_writer_text(out, "link", kvr_link_name(link->kind));
    if (link->mtu > 0)
        json_writer_count(out, "mtu", link->mtu);
    else
        json_writer_null(out, "mtu");
    write_priorities(out, "pfc", link->pfc_known, link->pfc);
    write_priorities(out, "ecn", link->ecn_known, link->ecn);
    json_writer_text(out, "device_memory", kvr_path_name(traits->device_path));
    json_writer_boolean(out, "pins_memory", traits->pins_memory);
    write_node(out, traits->node_known, traits->node);
    json_writer_end_object(out);
}
