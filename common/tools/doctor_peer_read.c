/* An agent's facts for `kvrail doctor --peer`, from the scheduler's JSON. What is missing there
 * stays zero: a scheduler may be older. */
#include <string.h>

#include "base/text.h"
#include "tools/doctor_peer.h"

static void get_text(const json_t *object, const char *key, char *ret_text, size_t capacity)
{
    const char *text = json_string_value(json_object_get(object, key));

    kvr_text_show(text != NULL ? text : "", capacity, ret_text);
}

static uint64_t get_count(const json_t *object, const char *key)
{
    json_int_t count = json_integer_value(json_object_get(object, key));

    return count > 0 ? (uint64_t)count : 0;
}

/* null: no limit. */
static uint64_t get_limit(const json_t *object, const char *key)
{
    return json_is_null(json_object_get(object, key)) ? UINT64_MAX : get_count(object, key);
}

/* False: it is null. */
static bool get_priorities(const json_t *object, const char *key, uint32_t *ret_bits)
{
    const json_t *list = json_object_get(object, key), *number;
    size_t index;

    json_array_foreach(list, index, number)
    {
        json_int_t bit = json_is_integer(number) ? json_integer_value(number) : -1;

        if (bit >= 0 && bit < 32)
            *ret_bits |= 1u << bit;
    }
    return json_is_array(list);
}

static void get_host_traits(const json_t *object, struct kvr_host_traits *traits)
{
    const json_t *synchronised = json_object_get(object, "clock_synchronised");
    const json_t *ports = json_object_get(object, "rail_ports");

    traits->reported = json_is_object(object);
    if (!traits->reported)
        return;
    get_text(object, "libfabric", traits->libfabric, sizeof(traits->libfabric));
    traits->files_limit = get_limit(object, "open_files");
    traits->lockable_bytes = get_limit(object, "lockable_bytes");
    traits->clock_known = json_is_boolean(synchronised);
    traits->clock_synchronised = json_is_true(synchronised);
    traits->clock_error_us =
        (uint64_t)(json_number_value(json_object_get(object, "clock_error_seconds")) * 1e6 + 0.5);
    traits->rail_port_first = (uint32_t)json_integer_value(json_array_get(ports, 0));
    traits->rail_port_last = (uint32_t)json_integer_value(json_array_get(ports, 1));
}

static void get_rail_traits(const json_t *object, struct kvr_rail_traits *traits)
{
    char name[KVR_NAME_BYTES];

    traits->reported = json_is_object(object);
    if (!traits->reported)
        return;
    get_text(object, "plane", traits->plane, sizeof(traits->plane));
    get_text(object, "network", traits->network, sizeof(traits->network));
    get_text(object, "link", name, sizeof(name));
    traits->link.kind = kvr_link_from_name(name);
    traits->link.mtu = (uint32_t)get_count(object, "mtu");
    traits->link.pfc_known = get_priorities(object, "pfc", &traits->link.pfc);
    traits->link.ecn_known = get_priorities(object, "ecn", &traits->link.ecn);
    get_text(object, "device_memory", name, sizeof(name));
    traits->device_path = kvr_path_from_name(name);
    traits->pins_memory = json_is_true(json_object_get(object, "pins_memory"));
}

static void get_rail(const json_t *object, struct kvr_rail_snapshot *rail)
{
    char state[KVR_NAME_BYTES];

    get_text(object, "name", rail->name, sizeof(rail->name));
    get_text(object, "provider", rail->provider, sizeof(rail->provider));
    get_text(object, "address", rail->address, sizeof(rail->address));
    get_text(object, "state", state, sizeof(state));
    if (!kvr_rail_state_from_name(state, &rail->state))
        rail->state = KVR_RAIL_UP;
    rail->speed_bps = get_count(object, "speed_bits_per_second");
    get_rail_traits(json_object_get(object, "traits"), &rail->traits);
}

static void get_facts(const json_t *agent, struct kvr_agent_facts *facts)
{
    const json_t *rails = json_object_get(agent, "rails"), *rail;
    char role[KVR_NAME_BYTES];
    size_t index;

    get_text(agent, "role", role, sizeof(role));
    facts->role = strcmp(role, "prefill") == 0 ? KVR_ROLE_SOURCE : KVR_ROLE_TARGET;
    get_text(agent, "version", facts->version, sizeof(facts->version));
    get_text(agent, "host", facts->host, sizeof(facts->host));
    get_text(agent, "listen", facts->listen, sizeof(facts->listen));
    get_text(agent, "provider", facts->provider, sizeof(facts->provider));
    facts->secure = json_is_false(json_object_get(agent, "insecure"));
    get_host_traits(json_object_get(agent, "traits"), &facts->traits);
    json_array_foreach(rails, index, rail)
    {
        if (facts->rail_count < KVR_RAILS_MAX)
            get_rail(rail, &facts->rails[facts->rail_count++]);
    }
}

static void get_side(const json_t *agent, struct doctor_side *side)
{
    const json_t *ahead = json_object_get(agent, "clock_ahead_seconds");

    get_text(agent, "name", side->name, sizeof(side->name));
    get_text(agent, "state", side->state, sizeof(side->state));
    side->agent = true;
    side->up = strcmp(side->state, "up") == 0;
    side->silent_s = json_number_value(json_object_get(agent, "silent_seconds"));
    side->traits_shown = json_object_get(agent, "traits") != NULL;
    side->clock_heard = json_is_number(ahead);
    side->clock_ahead_s = json_number_value(ahead);
    get_facts(agent, &side->facts);
}

/* "decode-0, prefill-0 and 6 more" */
static kvr_status name_others(const json_t *agents, const char *name, struct kvr_error *error)
{
    const char *names[DOCTOR_NAMES_SHOWN] = {NULL};
    char text[DOCTOR_NAMES_BYTES];
    const json_t *agent;
    size_t index;

    if (json_array_size(agents) == 0)
        return kvr_error_set(error, KVR_NOT_FOUND, "scheduler",
                             "the scheduler knows no agent '%s', nor any other", name);
    json_array_foreach(agents, index, agent)
    {
        const char *other = json_string_value(json_object_get(agent, "name"));

        if (index < DOCTOR_NAMES_SHOWN)
            names[index] = other != NULL ? other : "?";
    }
    doctor_names_show(names, (uint32_t)json_array_size(agents), text);
    return kvr_error_set(error, KVR_NOT_FOUND, "scheduler",
                         "the scheduler knows no agent '%s'; it knows %s", name, text);
}

kvr_status doctor_side_read(const json_t *answer, const char *name, struct doctor_side *ret_side,
                            struct kvr_error *error)
{
    const json_t *agents = json_object_get(answer, "agents"), *agent;
    size_t index;

    if (!json_is_array(agents))
        return kvr_error_set(error, KVR_MALFORMED, "scheduler", "the answer has no list of agents");
    json_array_foreach(agents, index, agent)
    {
        const char *text = json_string_value(json_object_get(agent, "name"));

        if (text == NULL || strcmp(text, name) != 0)
            continue;
        memset(ret_side, 0, sizeof(*ret_side));
        get_side(agent, ret_side);
        return KVR_OK;
    }
    return name_others(agents, name, error);
}
