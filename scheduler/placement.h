/* Which prefill-agent and which decode-agent a request had best use: all pairs of agents, ranked by
 * the time that its KV cache would need between them.
 *
 * Pure: no clock, no lock, no I/O. The caller brings the agents, the state of the rails between
 * them, and the measured speeds. */
#ifndef KVR_SCHEDULER_PLACEMENT_H
#define KVR_SCHEDULER_PLACEMENT_H

#include "scheduler/fleet.h"
#include "scheduler/speeds.h"

#define PLACEMENT_MODELS_MAX   8 /* of one agent; more are not looked at */
#define PLACEMENT_REASONS_MAX  6
#define PLACEMENT_REASON_BYTES 160

struct placement_agent {
    char name[KVR_NAME_BYTES], host[KVR_NAME_BYTES];
    kvr_role role;
    agent_state state;
    bool drained;
    uint32_t transfers_live;
    uint32_t rails, rails_up;
    double bytes_per_second; /* of its rails that are up, by their links; 0: not known */
    uint32_t model_count;
    char models[PLACEMENT_MODELS_MAX][KVR_NAME_BYTES]; /* of its engines, each once */
};

/* The source's pairs of rails with one target, as the source reports them. */
struct placement_reach {
    uint32_t pairs, warm, troubled, unreachable; /* pairs 0: it has reported none */
};

struct placement_ask {
    uint64_t tokens;
    const char *model; /* NULL: any that both have */
};

struct placement {
    const struct placement_agent *source, *target;
    struct placement_reach reach;
    struct speeds_figures measured; /* transfers 0: nothing */
    const char *model;       /* that both have; NULL: no engine has attached to one of them */
    uint64_t bytes;          /* of the request's KV cache; 0: not known */
    double bytes_per_second; /* that one transfer has when nothing else is in flight; 0 */
    double seconds;          /* expected; 0: not known */
    int grade;               /* of seconds: pairs of one grade are compared otherwise */
};

/* What the fleet has in common: for pairs that were not measured themselves. */
struct placement_common {
    double bytes_per_token, bytes_per_second; /* means of the measured pairs; 0: none */
    double share;                             /* of its links' speed that a measured pair has */
};

void placement_agent_from(const struct agent_view *view, struct placement_agent *ret_agent);

/* Why no request can go to that agent, as placement_refused. */
const char *placement_agent_refused(const struct placement_agent *agent, char *text);
/* Why no request can go that way, as a sentence without a full stop; NULL: one can. text has
 * PLACEMENT_REASON_BYTES. */
const char *placement_refused(const struct placement *pair, const struct placement_ask *ask,
                              char *text);
/* Sets *ret_model. False: no engines of one model, of that which is asked for. */
bool placement_model(const struct placement_agent *source, const struct placement_agent *target,
                     const char *model, const char **ret_model);
/* Takes a pair into the means, where it was measured; *count: how many were taken before. */
void placement_common_take(struct placement_common *common, uint64_t *count,
                           const struct placement *pair);
/* Fills in bytes, bytes_per_second and seconds. */
void placement_estimate(struct placement *pair, const struct placement_common *common,
                        const struct placement_ask *ask);
/* The better one first; for qsort. */
int placement_compare(const void *a, const void *b);
/* Why it has its place: sentences without a full stop. Returns how many. */
uint32_t placement_reasons(const struct placement *pair, int64_t wall_ns,
                           char reasons[PLACEMENT_REASONS_MAX][PLACEMENT_REASON_BYTES]);

#endif
