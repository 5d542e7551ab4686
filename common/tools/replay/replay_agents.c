#include "tools/replay/replay_agents.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char where[] = "replay";

static const struct {
    const char *label, *option, *kind;
} roles[] = {{"source", "--source-socket", "prefill-agent"},
             {"target", "--target-socket", "decode-agent"}};

/* ---- options --------------------------------------------------------------------------------- */

/* The text before "=" is a name, unless it has a slash: then the path has that sign. */
static kvr_status split(const char *option, const char *item, struct replay_agent *agent,
                        struct kvr_error *error)
{
    const char *sign = strchr(item, '='), *slash = strchr(item, '/');
    const char *path = sign != NULL && (slash == NULL || sign < slash) ? sign + 1 : item;
    size_t name_bytes = path > item ? (size_t)(path - item) - 1 : 0;

    if (path[0] == '\0' || (path > item && name_bytes == 0))
        return kvr_error_set(error, KVR_INVALID, where, "%s is '%s', but must be PATH or NAME=PATH",
                             option, item);
    if (name_bytes >= sizeof(agent->name) || strlen(path) >= sizeof(agent->socket))
        return kvr_error_set(error, KVR_INVALID, where,
                             "%s is '%s', but a name has at most %zu bytes and a path %zu", option,
                             item, sizeof(agent->name) - 1, sizeof(agent->socket) - 1);
    snprintf(agent->name, sizeof(agent->name), "%.*s", (int)name_bytes, item);
    snprintf(agent->socket, sizeof(agent->socket), "%s", path);
    return KVR_OK;
}

static kvr_status check_twins(const struct replay_agents *agents, uint32_t at,
                              struct kvr_error *error)
{
    const struct replay_agent *agent = &agents->items[at];

    for (uint32_t i = at - agent->number; i < at; i++) {
        if (strcmp(agents->items[i].socket, agent->socket) == 0)
            return kvr_error_set(error, KVR_INVALID, where, "%s has '%s' twice",
                                 roles[agent->role].option, agent->socket);
        if (agent->name[0] != '\0' && strcmp(agents->items[i].name, agent->name) == 0)
            return kvr_error_set(error, KVR_INVALID, where, "%s gives two agents the name '%s'",
                                 roles[agent->role].option, agent->name);
    }
    return KVR_OK;
}

/* Of those that check_pids() took; 0: not given. */
static pid_t pid_at(const struct kvr_option_list *pids, uint32_t at)
{
    return at < pids->count ? (pid_t)strtoul(pids->items[at], NULL, 10) : 0;
}

static kvr_status read_role(const struct replay_agent_options *options, kvr_role role,
                            struct replay_agents *agents, struct kvr_error *error)
{
    const struct kvr_option_list *sockets = &options->sockets[role];

    for (uint32_t i = 0; i < sockets->count; i++) {
        uint32_t at = replay_agent_at(agents, role, i);
        struct replay_agent *agent = &agents->items[at];

        *agent =
            (struct replay_agent){.role = role, .number = i, .pid = pid_at(&options->pids, at)};
        KVR_TRY(split(roles[role].option, sockets->items[i], agent, error));
        KVR_TRY(check_twins(agents, at, error));
        if (role == KVR_ROLE_SOURCE)
            snprintf(agent->address, sizeof(agent->address), "%.127s", options->addresses.items[i]);
    }
    return KVR_OK;
}

/* A signal to 0 or to a negative number would go to many processes; process 1 is the host's. */
static bool is_pid(const char *text)
{
    unsigned long number = strtoul(text, NULL, 10); /* ULONG_MAX where that is too small for it */

    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0' && number >= 2 &&
           number <= INT_MAX;
}

static kvr_status check_pids(const struct kvr_option_list *pids, uint32_t agent_count,
                             struct kvr_error *error)
{
    for (uint32_t i = 0; i < pids->count; i++) {
        if (!is_pid(pids->items[i]))
            return kvr_error_set(error, KVR_INVALID, where,
                                 "--agent-pids has '%s', which is no process id of an agent: give "
                                 "numbers from 2 to %d",
                                 pids->items[i], INT_MAX);
    }
    if (pids->count > agent_count)
        return kvr_error_set(error, KVR_INVALID, where,
                             "--agent-pids has %u processes, but there are %u agents", pids->count,
                             agent_count);
    return KVR_OK;
}

kvr_status replay_agents_read(const struct replay_agent_options *options,
                              struct replay_agents *ret_agents, struct kvr_error *error)
{
    uint32_t addresses = options->addresses.count, sources = options->sockets[0].count;

    for (int role = 0; role < (int)REPLAY_ROLES; role++) {
        if (options->sockets[role].count > REPLAY_AGENTS_MAX)
            return kvr_error_set(error, KVR_INVALID, where, "%s is given %u times, but at most %u",
                                 roles[role].option, options->sockets[role].count,
                                 REPLAY_AGENTS_MAX);
        ret_agents->counts[role] = options->sockets[role].count;
    }
    if (addresses != sources)
        return kvr_error_set(error, KVR_INVALID, where,
                             "--source-agent is given %u time%s and --source-socket %u: each "
                             "prefill-agent needs both, in the same order",
                             addresses, addresses == 1 ? "" : "s", sources);
    KVR_TRY(check_pids(&options->pids, replay_agent_count(ret_agents), error));
    KVR_TRY(read_role(options, KVR_ROLE_SOURCE, ret_agents, error));
    return read_role(options, KVR_ROLE_TARGET, ret_agents, error);
}

char *replay_agent_label(const struct replay_agents *agents, uint32_t at,
                         char text[REPLAY_AGENT_LABEL_BYTES])
{
    const struct replay_agent *agent = &agents->items[at];

    if (agent->name[0] != '\0')
        snprintf(text, REPLAY_AGENT_LABEL_BYTES, "%s", agent->name);
    else if (agents->counts[agent->role] > 1)
        snprintf(text, REPLAY_AGENT_LABEL_BYTES, "%s-%u", roles[agent->role].label, agent->number);
    else
        snprintf(text, REPLAY_AGENT_LABEL_BYTES, "%s", roles[agent->role].label);
    return text;
}

/* ---- placement ------------------------------------------------------------------------------- */

void replay_agents_in_turn(const struct replay_agents *agents, uint32_t turn,
                           uint32_t ret_numbers[REPLAY_ROLES])
{
    uint32_t sources = agents->counts[KVR_ROLE_SOURCE], targets = agents->counts[KVR_ROLE_TARGET];

    ret_numbers[KVR_ROLE_SOURCE] = turn % sources;
    ret_numbers[KVR_ROLE_TARGET] = (turn % sources + turn / sources) % targets;
}

/* Of the given agents of a role; the count where none has that name. */
static uint32_t find_given(const struct replay_agents *agents, kvr_role role, const char *name)
{
    uint32_t at = 0;

    while (at < agents->counts[role] &&
           strcmp(agents->items[replay_agent_at(agents, role, at)].name, name) != 0)
        at++;
    return name[0] != '\0' ? at : agents->counts[role];
}

static kvr_status check_names(const struct replay_agents *agents, kvr_role role,
                              const char *const *names, uint32_t count, struct kvr_error *error)
{
    for (uint32_t i = 0; i < agents->counts[role]; i++) {
        const char *name = agents->items[replay_agent_at(agents, role, i)].name;
        uint32_t at = 0;

        while (name[0] != '\0' && at < count && strcmp(names[at], name) != 0)
            at++;
        if (name[0] != '\0' && at == count)
            return kvr_error_set(error, KVR_NOT_FOUND, where,
                                 "%s names '%s', but the trace has no %s of that name",
                                 roles[role].option, name, roles[role].kind);
    }
    return KVR_OK;
}

/* Those that stand for any recorded agent; all of them where each has a name. */
static uint32_t list_nameless(const struct replay_agents *agents, kvr_role role,
                              uint32_t ret_numbers[REPLAY_AGENTS_MAX])
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < agents->counts[role]; i++)
        if (agents->items[replay_agent_at(agents, role, i)].name[0] == '\0')
            ret_numbers[count++] = i;
    if (count > 0)
        return count;
    for (; count < agents->counts[role]; count++)
        ret_numbers[count] = count;
    return count;
}

kvr_status replay_agents_map(const struct replay_agents *agents, kvr_role role,
                             const char *const *names, uint32_t count, uint32_t *ret_numbers,
                             uint32_t *ret_shared, struct kvr_error *error)
{
    uint32_t nameless[REPLAY_AGENTS_MAX], next = 0;
    uint32_t nameless_count = list_nameless(agents, role, nameless);
    bool used[REPLAY_AGENTS_MAX] = {false};

    assert(nameless_count > 0); /* there is an agent of each role */
    KVR_TRY(check_names(agents, role, names, count, error));
    *ret_shared = 0;
    for (uint32_t i = 0; i < count; i++) {
        ret_numbers[i] = find_given(agents, role, names[i]);
        if (ret_numbers[i] == agents->counts[role])
            ret_numbers[i] = nameless[next++ % nameless_count];
        *ret_shared += used[ret_numbers[i]];
        used[ret_numbers[i]] = true;
    }
    return KVR_OK;
}
