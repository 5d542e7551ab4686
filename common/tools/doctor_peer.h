/* `kvrail doctor --peer`: what would keep two hosts from working together. As for one host, facts
 * are read first (doctor_peer_read.c, doctor_peer_own.c), and the judgement is pure. */
#ifndef KVR_TOOLS_DOCTOR_PEER_H
#define KVR_TOOLS_DOCTOR_PEER_H

#include <jansson.h>

#include "tools/doctor.h"
#include "trace/report.h"

/* ---- facts ----------------------------------------------------------------------------------- */

/* One end: an agent, as the scheduler knows it, or this host. */
struct doctor_side {
    char name[KVR_NAME_BYTES]; /* the agent's, or "this host" */
    bool agent;                /* else `facts` is what this host has: no role, no --insecure */
    bool up;
    char state[KVR_NAME_BYTES]; /* of an agent: "up", "lost", "stopped" */
    double silent_s;
    bool traits_shown; /* the scheduler is new enough to show them */
    bool clock_heard;
    double clock_ahead_s; /* of the scheduler's */
    struct kvr_agent_facts facts;
};

struct doctor_pair {
    struct doctor_side ours, theirs;
    double clock_doubt_s; /* of the difference of both clocks, at least */
    struct doctor_dial {
        bool tried;
        struct kvr_error error;
        kvr_ns took;
    } dial; /* of the peer's control address */
};

/* Fills a side from the scheduler's answer to GET /api/v1/agents. KVR_NOT_FOUND: there is no such
 * agent; the sentence names those that there are. */
KVR_MUST_CHECK kvr_status doctor_side_read(const json_t *answer, const char *name,
                                           struct doctor_side *ret_side, struct kvr_error *error);
/* Fills a side from what this host has; the provider is --provider, or the peer's. ahead_s: of our
 * clock before the scheduler's, NAN where it is unknown. */
void doctor_side_own(const struct doctor_facts *facts, const char *provider, double ahead_s,
                     struct doctor_side *ret_side);

#define DOCTOR_DIAL_NS (2 * KVR_S)
/* Connects to "HOST:PORT" and hangs up. */
void doctor_dial(const char *address, kvr_ns patience, struct doctor_dial *ret_dial);

/* ---- findings -------------------------------------------------------------------------------- */

/* Adds the findings of a pair. */
void doctor_judge_pair(const struct doctor_pair *pair, struct doctor_findings *findings);

/* Its parts. */
void doctor_judge_pair_rails(const struct doctor_pair *pair, struct doctor_findings *findings);
void doctor_judge_pair_host(const struct doctor_pair *pair, struct doctor_findings *findings);
/* True, after a finding: the side does not report its traits. */
bool doctor_unreported(const struct doctor_side *side, bool reported, const char *check,
                       struct doctor_findings *findings);

#endif
