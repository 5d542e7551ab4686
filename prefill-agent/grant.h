/* GRANT: the target's slots, rails and staging memory; the job begins. Failover: other rails, or
 * another rail group, when the granted rails are lost. */
#ifndef PREFILL_AGENT_GRANT_H
#define PREFILL_AGENT_GRANT_H

#include "base/state.h"
#include "prefill-agent/push.h"
#include "wire/message.h"

struct outbound;
struct source_transfer;

struct source_grant {
    struct push_job *job;        /* the rail thread's, from GRANT until PUSH_CLOSED; NULL: none */
    uint32_t rail_group;         /* of ours, which posts */
    uint64_t rails;              /* bits of the target's rails */
    struct kvr_remote_key *keys; /* of the first GRANT that had any (push_job.h); NULL: none had */
    uint32_t slot_count;
    struct kvr_span_book
        *spans;             /* the rail thread's as the job is; NULL: not asked for, or no memory */
    uint64_t staging_quota; /* bytes of the target's staging memory; 0: its pages are written */
    /* Rule 11: of the engine's own words, while the pages are lent to a target that copies; or
     * NULL. */
    _Atomic uint64_t *revocation_word;
    bool local; /* the granted rails are for the target's host alone, and it has others */
};

void grant_received(struct outbound *outbound, struct source_transfer *transfer,
                    const struct kvr_msg_grant *grant);
/* Keeps the keys of the message until the transfer settles. KVR_MALFORMED: they are not those of
 * the target's regions. */
KVR_MUST_CHECK kvr_status grant_keys_take(const struct outbound *outbound,
                                          struct source_transfer *transfer,
                                          const struct kvr_msg_grant *grant,
                                          struct kvr_error *error);
/* Of the rails that the message names, those that the transfer may use (bits). */
uint64_t grant_rails_of(const struct outbound *outbound, const struct source_transfer *transfer,
                        const struct kvr_msg_grant *grant);
/* The transfer uses these rails from now on. */
void grant_take(const struct outbound *outbound, struct source_transfer *transfer, uint64_t rails);

enum source_failover_state {
    FAILOVER_SETTLED,     /* the granted rails carry the transfer, as far as is known */
    FAILOVER_ASKED,       /* NO_RAIL was sent; a GRANT answers it */
    FAILOVER_REGISTERING, /* our regions are registered with another rail group of ours */
    FAILOVER_MOVING,      /* the rail thread hands the job over, and commands wait */
    FAILOVER_STATES
};
enum source_failover_event {
    FAILOVER_ON_ASK,
    FAILOVER_ON_KEEP, /* the GRANT changes nothing, or no memory is left to change anything */
    FAILOVER_ON_REGISTER,
    FAILOVER_ON_MOVE,
    FAILOVER_ON_MOVED,
    FAILOVER_EVENTS
};

KVR_STATE_MACHINE(source_failover);

struct source_failover {
    enum source_failover_state state;
    uint32_t groups_used;       /* bits of our rail groups */
    uint32_t asks;              /* NO_RAILs sent */
    struct push_failover *move; /* NULL: none is under way */
    uint32_t next_group;        /* where it leads */
    uint32_t retiring_jobs;     /* of earlier rail groups; they wait for their completions */
    struct push_retransmit *parked, *parked_last; /* commands that wait */
    struct push_list *parked_lists, *parked_lists_last;
    kvr_ns ask_at, no_rail_at; /* when to ask for other rails, and to give up; KVR_NEVER */
};

/* Whether the rail thread takes the command now; else failover_park keeps it. */
bool failover_takes(const struct source_transfer *transfer, uint32_t kind);
void failover_park(struct outbound *outbound, struct source_transfer *transfer,
                   const union push_message *message);
/* The rail thread has no usable pair left. silent_from: since then nothing has come through. */
void failover_no_rail(struct outbound *outbound, struct source_transfer *transfer,
                      kvr_ns silent_from);
/* Our rail has a fresh endpoint. */
void failover_trial_begins(struct outbound *outbound, uint32_t rail);
void failover_rail_back(struct outbound *outbound, struct source_transfer *transfer);
/* GRANT again: the target named other rails. */
void failover_granted(struct outbound *outbound, struct source_transfer *transfer,
                      const struct kvr_msg_grant *grant);
/* The source's regions are registered with the other rail group, or cannot be. */
void failover_registered(struct outbound *outbound, struct source_transfer *transfer,
                         kvr_status status);
void failover_moved(struct outbound *outbound, struct source_transfer *transfer,
                    struct push_failover *move);
/* Asks the target for other rails, or gives up, when the time for it has come. */
void failover_tick(struct outbound *outbound, struct source_transfer *transfer);
void failover_drop(struct outbound *outbound, struct source_transfer *transfer);

#endif
