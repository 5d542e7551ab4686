/* What a trace of transfers (kvtrace.h) says beyond the tokens, times and blocks of requests. Each
 * transfer has its agents, page tables, prefix, times of layers, and perhaps a cancel. Faults are
 * what broke meanwhile.
 *
 * Each transfer of the trace is one request of the replay, of one rank: other ranks and other
 * attempts are requests of their own. A `request` record is played where no transfer names it. Read
 * once, before the engines are forked; from then on it never changes. */
#ifndef KVR_TOOLS_REPLAY_RECORDING_H
#define KVR_TOOLS_REPLAY_RECORDING_H

#include "base/clock.h"
#include "base/names.h"
#include "tools/replay/replay_agents.h"
#include "trace/trace_file.h"

#define REPLAY_RECORDED_GROUPS 3u /* KV groups of which page tables are kept */

/* Some of the recording's numbers. */
struct replay_numbers {
    size_t first;
    uint32_t count;
};

struct replay_recorded {
    bool transfer;                  /* by a transfer, and not only by a request */
    int64_t agents[REPLAY_ROLES];   /* numbers of the trace; KVTRACE_NONE */
    uint32_t numbers[REPLAY_ROLES]; /* of the given agents that stand for them */
    int32_t priority;
    uint64_t skip_tokens;
    kvr_ns deadline;             /* of the fetch; 0: not known */
    kvr_ns cancelled;            /* after the start; KVR_NEVER */
    kvr_role cancelled_by;       /* its engine asks for the end */
    struct replay_numbers ready; /* of each layer of the source: µs after the start, that rise */
    struct replay_numbers runs[REPLAY_ROLES][REPLAY_RECORDED_GROUPS]; /* [first page, count] */
};

struct replay_recorded_agent {
    kvr_role role;
    char name[KVR_NAME_BYTES];
    uint32_t given; /* number of the given agent that stands for it */
};

struct replay_recorded_fault {
    int64_t at_us, for_us; /* since the first request of the replay */
    int64_t agent;
    char kind[32];
};

struct replay_recording {
    struct replay_recorded *items; /* by the request's number in the trace; NULL: no recording */
    int64_t *numbers;
    struct replay_recorded_agent *agents;
    struct replay_recorded_fault *faults; /* by time */
    uint32_t item_count, agent_count, fault_count;
    size_t number_count;
    uint32_t transfer_count; /* that are played */
    uint32_t lone_count;     /* publishes and fetches that ended before they met: these are not */
    uint32_t page_tokens;    /* of the first geometry's first KV group; 0: not known */
};

/* At most `limit` requests; 0: all. Into an initialised, empty trace and a zeroed recording.
 * trace->problem says how the file was cut, where fewer than `limit` requests came before.
 * KVR_MALFORMED: a record is wrong. */
KVR_MUST_CHECK kvr_status replay_recording_read(const char *path, uint32_t limit,
                                                struct kvr_trace *trace,
                                                struct replay_recording *recording,
                                                struct kvr_error *error);
void replay_recording_done(struct replay_recording *recording);

/* Says which given agents stand for the recorded ones (replay_agents_map(), with *ret_shared by
 * role) and sets `numbers` of every item: in turn where the trace names no agent. */
KVR_MUST_CHECK kvr_status replay_recording_place(struct replay_recording *recording,
                                                 const struct kvr_trace *trace,
                                                 const struct replay_agents *agents,
                                                 uint32_t ret_shared[REPLAY_ROLES],
                                                 struct kvr_error *error);

#endif
