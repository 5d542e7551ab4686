/* The agents that a replay plays engines at, as its options give them: an engine process each. And
 * which of them stand for the agents of a recording. Plain values. */
#ifndef KVR_TOOLS_REPLAY_AGENTS_H
#define KVR_TOOLS_REPLAY_AGENTS_H

#include <sys/types.h>

#include "base/names.h"
#include "base/options.h"
#include "base/status.h"
#include "trace/event.h"

#define REPLAY_AGENTS_MAX 32u /* of each role */
#define REPLAY_ROLES      2u

struct replay_agent_options {
    struct kvr_option_list sockets[REPLAY_ROLES]; /* by kvr_role: PATH or NAME=PATH */
    struct kvr_option_list addresses;             /* of the sources */
    struct kvr_option_list pids;                  /* of the sources, then of the targets */
};

struct replay_agent {
    kvr_role role;
    uint32_t number;           /* among those of its role */
    char name[KVR_NAME_BYTES]; /* "" where no name was given */
    char socket[108];
    char address[128]; /* of a source: where decode-agents reach it */
    pid_t pid;         /* 0: not given */
};

struct replay_agents {
    struct replay_agent items[REPLAY_ROLES * REPLAY_AGENTS_MAX]; /* sources, then targets */
    uint32_t counts[REPLAY_ROLES];                               /* by kvr_role */
};

/* KVR_INVALID, with a sentence: too many, two of one name or socket, or counts that do not fit each
 * other. */
KVR_MUST_CHECK kvr_status replay_agents_read(const struct replay_agent_options *options,
                                             struct replay_agents *ret_agents,
                                             struct kvr_error *error);

static inline uint32_t replay_agent_count(const struct replay_agents *agents)
{
    return agents->counts[KVR_ROLE_SOURCE] + agents->counts[KVR_ROLE_TARGET];
}

/* The place in `items` of one of a role. */
static inline uint32_t replay_agent_at(const struct replay_agents *agents, kvr_role role,
                                       uint32_t number)
{
    return role == KVR_ROLE_SOURCE ? number : agents->counts[KVR_ROLE_SOURCE] + number;
}

/* How people know it: "prefill-0" where that is its given name, else "source", of several
 * "source-1". */
#define REPLAY_AGENT_LABEL_BYTES (KVR_NAME_BYTES + 16)
char *replay_agent_label(const struct replay_agents *agents, uint32_t at,
                         char text[REPLAY_AGENT_LABEL_BYTES]);

/* The agents of one transfer that says nothing of them: in turn, so that every source meets every
 * target. */
void replay_agents_in_turn(const struct replay_agents *agents, uint32_t turn,
                           uint32_t ret_numbers[REPLAY_ROLES]);

/* Says which given agent of a role stands for each of `count` recorded ones. A given agent with a
 * name stands for the recorded ones of that name. Those without a name stand for the others in
 * order, and again from the first where they are too few. KVR_NOT_FOUND, with a sentence: a given
 * name is no recorded one. *ret_shared counts recorded agents that share one with an earlier one.
 */
KVR_MUST_CHECK kvr_status replay_agents_map(const struct replay_agents *agents, kvr_role role,
                                            const char *const *names, uint32_t count,
                                            uint32_t *ret_numbers, uint32_t *ret_shared,
                                            struct kvr_error *error);

#endif
