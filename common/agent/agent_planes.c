/* What each rail is connected to (rule 16): a label of the configuration, else its IP network. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "agent/agent_state.h"
#include "base/log.h"
#include "base/plain_name.h"

static kvr_status label_take(const char *label, const char *option, const char *given,
                             char ret_label[KVR_PLANE_BYTES], struct kvr_error *error)
{
    size_t bytes = strlen(label);

    if (bytes >= KVR_PLANE_BYTES || !kvr_plain_name(label, bytes))
        return kvr_error_set(error, KVR_INVALID, "rails",
                             "%s has '%s', but a plane has 1 to %d letters, digits, dots, hyphens "
                             "and underscores, and begins with a letter or digit",
                             option, given, KVR_PLANE_BYTES - 1);
    memcpy(ret_label, label, bytes + 1);
    return KVR_OK;
}

kvr_status agent_plane_split(const char *given, char ret_name[KVR_OPTION_ITEM_BYTES],
                             char ret_label[KVR_PLANE_BYTES], struct kvr_error *error)
{
    const char *at = strrchr(given, '@');
    char label[KVR_PLANE_BYTES] = "";

    if (at != NULL)
        KVR_TRY(label_take(at + 1, "--rail or --group", given, label, error));
    if (at == given)
        return kvr_error_set(error, KVR_INVALID, "rails", "'%s' names a plane and no card", given);
    snprintf(ret_name, KVR_OPTION_ITEM_BYTES, "%.*s",
             (int)(at != NULL ? (size_t)(at - given) : strlen(given)), given);
    memcpy(ret_label, label, sizeof(label));
    return KVR_OK;
}

void agent_plane_label(struct kvr_agent *agent, const struct kvr_rail *rail, const char *label)
{
    struct agent_planes *planes = &agent->planes;
    struct agent_plane_label *place = &planes->labels[planes->label_count];

    if (label[0] == '\0')
        return;
    planes->label_count++;
    place->rail = rail;
    snprintf(place->text, sizeof(place->text), "%s", label);
}

const char *agent_plane_label_of(const struct kvr_agent *agent, const struct kvr_rail *rail)
{
    const struct agent_planes *planes = &agent->planes;

    for (uint32_t i = 0; i < planes->label_count; i++)
        if (planes->labels[i].rail == rail)
            return planes->labels[i].text;
    return "";
}

static bool matches(const char *pattern, const struct kvr_rail_facts *facts)
{
    return fnmatch(pattern, facts->interface, 0) == 0 || fnmatch(pattern, facts->name, 0) == 0;
}

/* One PATTERN=PLANE, for the rails that have no label yet. */
static kvr_status pattern_use(struct kvr_agent *agent, const char *given, struct kvr_error *error)
{
    char pattern[KVR_OPTION_ITEM_BYTES], label[KVR_PLANE_BYTES] = "";
    const char *equals = strrchr(given, '=');
    uint32_t matched = 0;

    if (equals == NULL || equals == given)
        return kvr_error_set(error, KVR_INVALID, "rails",
                             "--plane is '%s', but must be PATTERN=PLANE, as in 'mlx5_[02]=red'",
                             given);
    KVR_TRY(label_take(equals + 1, "--plane", given, label, error));
    snprintf(pattern, sizeof(pattern), "%.*s", (int)(equals - given), given);
    for (uint32_t i = 0; i < agent->rail_count; i++) {
        const struct kvr_rail_facts *facts = agent->fabric.ops->rail_facts(agent->rails[i]);

        if (facts->same_host_only || !matches(pattern, facts))
            continue;
        matched++;
        if (agent_plane_label_of(agent, agent->rails[i])[0] == '\0')
            agent_plane_label(agent, agent->rails[i], label);
    }
    if (matched == 0)
        kvr_log_warning("--plane %s: no card that this agent uses matches", given);
    return KVR_OK;
}

kvr_status agent_planes_find(struct kvr_agent *agent, struct kvr_error *error)
{
    const struct kvr_option_list *patterns = &agent->config->planes;

    for (uint32_t i = 0; i < patterns->count; i++)
        KVR_TRY(pattern_use(agent, patterns->items[i], error));
    for (uint32_t i = 0; i < agent->rail_count; i++) {
        const char *label = agent_plane_label_of(agent, agent->rails[i]);

        snprintf(agent->planes.of[i], sizeof(agent->planes.of[i]), "%s",
                 label[0] != '\0' ? label
                                  : agent->fabric.ops->rail_facts(agent->rails[i])->network);
    }
    return KVR_OK;
}

kvr_other_planes agent_other_planes(const struct kvr_agent_config *config)
{
    if (strcmp(config->other_planes, "never") == 0)
        return KVR_OTHER_PLANES_NEVER;
    return strcmp(config->other_planes, "always") == 0 ? KVR_OTHER_PLANES_ALWAYS
                                                       : KVR_OTHER_PLANES_AS_NEEDED;
}
