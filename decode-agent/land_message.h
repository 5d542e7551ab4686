/* Messages between the loop and the landings of a rail group, and between rail groups.
 *
 * The loop thread makes a landing and all that it points to. LAND_OPEN, LAND_SEGMENT, LAND_QUIET,
 * LAND_FILTER, LAND_DIGEST and LAND_KEYS_OPEN hand them over. LAND_CLOSED gives back the landing
 * with its segments and digests; LAND_QUIET_TAKEN, LAND_FILTERED and LAND_KEYS_CLOSED give back
 * theirs. */
#ifndef DECODE_AGENT_LAND_MESSAGE_H
#define DECODE_AGENT_LAND_MESSAGE_H

#include <assert.h>

#include "kv/plan.h"
#include "rail_group/rail_group.h"

struct landing;
struct landing_keys;

struct landing_segment {
    struct landing_segment *next;      /* land's */
    struct landing_segment *loop_next; /* the loop's list of the same segments */
    struct kvr_plan *plan;
    uint32_t segment, chunk_first;
    uint32_t *left; /* for each layer of the plan the chunks that are not here yet; land's */
    /* For each chunk its position in the landing's quota of the stage's memory
     * (kvr_plan_positions); NULL where nothing is staged. And the end of the last. */
    uint64_t *positions, position_end;
    uint32_t group;     /* the plan's KV group; this and all that follows are the loop's */
    bool *held;         /* for each layer: it arrived, and is not announced while tainted */
    bool *in;           /* for each layer: it arrived, and nothing can overwrite it */
    uint32_t layers_in; /* layers that are in */
};

/* What the source says that it posted, in a round. */
struct landing_quiet {
    uint32_t round, count;
    bool closed_only; /* the source does not say: only closed epochs count as quiet */
    struct kvr_epoch_count counts[KVR_EPOCHS_PER_TRANSFER];
};

/* Which of the chunks that a source lost are here. */
struct landing_filter {
    uint32_t asked_count; /* runs[capacity …]: what to look at; every chunk below KVR_SLOT_CHUNKS ×
                             slot_count of the landing */
    uint32_t run_count;   /* runs[0 …]: the answer */
    uint32_t capacity;    /* at least the number of chunks asked for */
    uint32_t rail, epoch; /* the source gave up what it posted there */
    uint64_t *again;      /* for landing_arrivals.again: bits as many as the landing's; or NULL */
    struct kvr_chunk_run runs[];
};

/* Digests of chunks [chunk_first, chunk_first + chunk_count) that kvr_digest_covers() names. */
struct landing_digest {
    struct landing_digest *next; /* land's */
    uint32_t chunk_first, chunk_count, value_count;
    uint64_t values[];
};

enum land_kind {
    /* loop → group; `landing`: the landing's index */
    LAND_OPEN = KVR_GROUP_KIND_USER, /* opened: its slots are live from here */
    LAND_SEGMENT,                    /* segment */
    LAND_FINAL,                      /* chunks: in all */
    LAND_QUIET,                      /* quiet: what the source posted; replaces an older one */
    LAND_QUIET_VOID, /* quiet is void until the next LAND_QUIET (a MISSING or ROOM was sent) */
    LAND_FILTER,     /* filter: which of these chunks are not here */
    LAND_SUSPECTS, /* suspects; answered for every (rail, epoch) that is neither even nor closed: by
                      LAND_SUSPECT, or by one LAND_COMING when the peer's last write there came less
                      than suspects.quiet_ns ago. While quiet is void: by nothing */
    LAND_DIGEST,   /* digest: what the bytes of some chunks must hash to */
    LAND_VERIFY,   /* all chunks and all digests are here: hash what landed */
    LAND_CLOSE,    /* the slots are dead from here */
    /* loop → the landing's group, or another one: keys, on rails of that group */
    LAND_KEYS_OPEN,
    LAND_KEYS_CLOSE, /* nothing of the transfer can land any more */
    /* loop → another rail group: writes of the landing arrive over its rails too */
    LAND_FORWARD, /* forward: hand over what arrives for its slots. The landing is borrowed until
                     LAND_FORWARD_ENDED */
    LAND_FORWARD_END, /* forward: no more will come for its slots */
    /* group → group */
    LAND_HANDED,          /* arrival */
    LAND_EPOCH_CLOSED,    /* epoch: behind all that was handed over from it */
    LAND_FORWARD_DRAINED, /* behind all that was handed over */
    /* group → loop */
    LAND_FIRST,       /* the first chunk arrived */
    LAND_LAYER,       /* layer: all its chunks are here */
    LAND_ALL,         /* chunks: how many. Every chunk of the transfer is here */
    LAND_IS_QUIET,    /* round: of the LAND_QUIET that holds: nothing can still arrive */
    LAND_QUIET_TAKEN, /* quiet: no longer used */
    LAND_FILTERED,    /* filter: runs replaced by those that are missing */
    LAND_SUSPECT,     /* epoch */
    LAND_COMING,      /* writes were arriving a moment ago: ask again later */
    LAND_BAD,         /* chunks arrived that the transfer does not have; sent once, like REVOKED */
    LAND_REVOKED,     /* a chunk was copied, perhaps after its source took the pages back */
    LAND_VERIFIED,    /* every chunk that has a digest has the right bytes */
    LAND_CORRUPT,     /* chunk: its bytes are not the source's */
    LAND_FORWARD_ENDED, /* nothing more comes from that group */
    LAND_ROOM,          /* position: staged bytes before it are in the pages */
    LAND_KEYS_OPENED,   /* keys; their `error` says whether they are open */
    LAND_KEYS_CLOSED,   /* keys: no longer used. Also without LAND_KEYS_CLOSE, before LAND_ALL */
    LAND_COPY_FAILED, /* what arrived could not be copied into the pages: LAND_ALL will not come */
    LAND_CLOSED,      /* closed */
    LAND_STRANGERS,   /* epoch: more arrived there that no landing expects than may; no landing's */
};

/* What the kinds carry. */
struct land_suspects {
    kvr_ns quiet_ns;
    uint64_t at_once; /* bits of rails: no LAND_COMING for these, */
    uint64_t later;   /* and no LAND_SUSPECT for these */
};

struct land_forward {
    const struct landing *landing;
    uint32_t home; /* the landing's group */
};

struct land_arrival {
    uint32_t rail, epoch;
    uint64_t immediate;
};

struct land_epoch {
    uint32_t rail, epoch;
};

struct land_layer {
    uint32_t segment;
    uint32_t layer; /* index in the segment's plan */
    kvr_ns at;      /* its last chunk landed */
};

struct land_closed {
    struct landing *landing;
    uint64_t arrivals; /* in all */
    uint64_t rails;    /* bit r: rail r carried a part */
};

/* A message between the loop and a landing, or from group to group (see rail_group_message.h).
 * `head.kind` is an enum land_kind, and says which member of the inner union holds. */
union land_message {
    struct kvr_group_message any; /* as the rings carry it */
    struct {
        struct kvr_group_head head;
        uint32_t landing;
        uint64_t transfer; /* its nonce */
        union {
            struct landing *opened;
            struct landing_segment *segment;
            uint32_t chunks, chunk, round;
            uint64_t position;
            struct landing_quiet *quiet;
            struct landing_filter *filter;
            struct landing_digest *digest;
            struct land_suspects suspects;
            struct land_forward forward;
            struct landing_keys *keys;
            struct land_arrival arrival;
            struct land_epoch epoch;
            struct land_layer layer;
            struct land_closed closed;
        };
    };
};
static_assert(sizeof(union land_message) == sizeof(struct kvr_group_message),
              "a ring carries one size");

static inline union land_message land_message_of(const struct kvr_group_message *message)
{
    return (union land_message){.any = *message};
}

/* LAND_MESSAGE(LAND_FINAL, .chunks = 3). Its sender adds the landing: inbound_group_command(),
 * land_report(). */
#define LAND_MESSAGE(what, ...) ((union land_message){.head.kind = (what), ##__VA_ARGS__})

#endif
