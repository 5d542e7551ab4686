/* Sessions with target agents: their rails, what each device of theirs can read, and their answers
 * after an absence (rule 8). */
#ifndef PREFILL_AGENT_TARGETS_H
#define PREFILL_AGENT_TARGETS_H

#include "base/limits.h"
#include "kv/ranks.h"
#include "rail_group/rail_group.h"
#include "wire/message.h"

struct outbound;

/* Remembered of a peer; beyond them its device is probed again. */
#define OUTBOUND_VISIBILITIES 32

enum target_visibility {
    VISIBILITY_UNKNOWN,
    VISIBILITY_YES, /* the target rank's device sees the source rank's pages */
    VISIBILITY_NO
};

struct outbound_visibility {
    enum target_visibility visible;
    struct kvr_rank source, target; /* each rank has a device of its own */
    uint64_t version;               /* of the source's set of regions */
};

/* A rail group of ours that reaches none of the granted rails of a peer. */
struct outbound_lost {
    uint64_t granted; /* bits of those rails */
    kvr_ns since;     /* KVR_NEVER: the group reaches them, as far as is known */
    kvr_ns from;      /* since then nothing has come through; KVR_NEVER: a pair works */
    uint64_t tried;   /* bits of our rails that got a fresh endpoint after that */
    bool reached; /* in this session a transfer over the group ended well, or a pair came back */
};

struct outbound_peer {
    bool up;
    kvr_ns up_at;         /* when the session began */
    uint64_t session;     /* its number: proofs are for it alone */
    bool needs_senders;   /* one of its rails must know the endpoints that write to it */
    uint32_t group_count; /* of its rails */
    uint64_t same_host;   /* bits of its rails that only its host can write to; 0: we cannot */
    struct kvr_write_limits limits;
    char agent[KVR_NAME_BYTES];
    struct outbound_visibility visibilities[OUTBOUND_VISIBILITIES];
    uint32_t visibility_next;        /* the one that is overwritten next */
    uint32_t parked;                 /* its WANTs that wait for their publish */
    uint64_t parked_bytes;           /* of their page tables */
    kvr_ns repair_at[KVR_RAILS_MAX]; /* our rail has a broken pair to it: recycle then */
    kvr_ns renew_at[KVR_RAILS_MAX]; /* the same, but no write has ever come through: try the address
                                       anew then, or recycle where no other peer uses the rail */
    uint64_t shared; /* bits of our rails: other pairs of the rail worked when that one broke */
    uint32_t renewals[KVR_RAILS_MAX]; /* such trials, in this session, and recycles of those */
    struct outbound_lost lost[KVR_RAIL_GROUPS_MAX]; /* by rail group of ours */
    struct kvr_group_pair_broken broken;            /* the last pair that broke; status 0: none */
};

/* Events of the session. */
void outbound_peer_up(struct outbound *outbound, kvr_ns now, uint32_t peer,
                      const struct kvr_msg_hello *hello);
void outbound_peer_lost(struct outbound *outbound, kvr_ns now, uint32_t peer, kvr_status status,
                        const char *detail);
/* After ports.send returned KVR_AGAIN: there is room again. */
void outbound_peer_writable(struct outbound *outbound, kvr_ns now, uint32_t peer);

/* The loop runs again. After a long gap every rail thread is asked for a round trip (rule 8). */
void targets_awake(struct outbound *outbound);
/* A rail thread found that the process was stopped: every target is asked. */
void targets_probe(struct outbound *outbound, uint32_t group, uint64_t absences);
/* A target answered. */
void targets_alive(struct outbound *outbound, uint32_t peer, uint64_t token);

#endif
