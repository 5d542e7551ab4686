/* What an agent reports of its host and rails for a comparison of two, as JSON. null: an older
 * agent reports none of it. */
#include "scheduler/api_json.h"

#define PRIORITIES 8 /* of Ethernet */

/* null: no limit. */
static json_t *limit_json(uint64_t limit)
{
    return limit == UINT64_MAX ? json_null() : json_count(limit);
}

static json_t *priorities_json(bool known, uint32_t bits)
{
    json_t *list = known ? json_array() : json_null();

    for (int i = 0; i < PRIORITIES && known; i++)
        if ((bits >> i & 1) != 0)
            json_array_append_new(list, json_integer(i));
    return list;
}

json_t *json_host_traits(const struct kvr_host_traits *traits)
{
    if (!traits->reported)
        return json_null();
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o}", "libfabric", json_text(traits->libfabric), "open_files",
        limit_json(traits->files_limit), "lockable_bytes", limit_json(traits->lockable_bytes),
        "clock_synchronised",
        traits->clock_known ? json_boolean(traits->clock_synchronised) : json_null(),
        "clock_error_seconds",
        traits->clock_synchronised ? json_real((double)traits->clock_error_us / 1e6) : json_null(),
        "rail_ports",
        traits->rail_port_first == 0 ? json_null()
                                     : json_pack("[I, I]", (json_int_t)traits->rail_port_first,
                                                 (json_int_t)traits->rail_port_last));
}

json_t *json_rail_traits(const struct kvr_rail_traits *traits)
{
    const struct kvr_link *link = &traits->link;

    if (!traits->reported)
        return json_null();
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "plane", json_text(traits->plane), "network",
        json_text(traits->network), "link", json_text(kvr_link_name(link->kind)), "mtu",
        link->mtu > 0 ? json_count(link->mtu) : json_null(), "pfc",
        priorities_json(link->pfc_known, link->pfc), "ecn",
        priorities_json(link->ecn_known, link->ecn), "device_memory",
        json_text(kvr_path_name(traits->device_path)), "pins_memory", traits->pins_memory);
}
