/* Messages between the loop thread and a rail group's thread, and from one group to another.
 *
 * The rings copy one size, struct kvr_group_message. `head.kind` says which member of its union
 * holds. Kinds from KVR_GROUP_KIND_USER on belong to the layer that works on top of the rails. That
 * layer declares a union of its own (union push_message at the source, union land_message at the
 * target). One member is the struct kvr_group_message that the rings carry. The other has the same
 * head and the layer's typed members.
 *
 * A pointer in a message hands its object over with the message. */
#ifndef KVR_RAIL_GROUP_MESSAGE_H
#define KVR_RAIL_GROUP_MESSAGE_H

#include "base/pair_states.h"
#include "fabric/fabric.h"

enum kvr_group_kind {
    /* loop → group */
    KVR_GROUP_PEER_ADD = 1, /* peer_rails, given back by PEER_ADDED */
    KVR_GROUP_PEER_RAIL,    /* peer_rail: a successor, given back by PEER_RAIL_SET */
    KVR_GROUP_PEER_DROP,    /* peer_drop: the peer's addresses go; answered by PEER_DROPPED */
    KVR_GROUP_RECYCLE,      /* recycle: answered by RECYCLED */
    KVR_GROUP_PAIR_RENEW,   /* pair_renew: tries the peer's address anew; no answer */
    KVR_GROUP_CONFIRMED,    /* confirmed: the session holds, the peer may be written to */
    KVR_GROUP_SUSPENDED,    /* suspended: the loop finds that this process was stopped */
    KVR_GROUP_SENDER,       /* sender: an endpoint of a peer will write to ours, given back by
                               SENDER_SET. PEER_DROP forgets it */
    KVR_GROUP_SENDER_KNOWN, /* sender_known: the peer's endpoints know this one of ours */
    KVR_GROUP_PAIRS_ASK,    /* pairs_ask: what the group knows of its pairs with a peer, answered by
                               PAIR for some of them, then PAIRS_END */
    /* group → loop */
    KVR_GROUP_PEER_ADDED,    /* peer_rails */
    KVR_GROUP_PEER_RAIL_SET, /* peer_rail */
    KVR_GROUP_PEER_DROPPED,  /* peer_drop */
    KVR_GROUP_SENDER_SET,    /* sender. With a failure and without an address: a later endpoint of
                                ours does not know it */
    KVR_GROUP_RECYCLED, /* recycled. Messages about pairs that break with the successor follow it */
    KVR_GROUP_PAIR_BROKEN, /* pair_broken */
    KVR_GROUP_RAIL_ERROR,  /* rail_error: once an epoch, and once more if it is worse */
    KVR_GROUP_RESUMED,     /* resumed: this process was stopped for longer than absence_ns.
                           Nothing is posted to a peer before CONFIRMED */
    KVR_GROUP_PEER_WARM,   /* peer_warm: once, when every pair with the peer has carried a write
                              or has failed. Without a pair: all have failed so far, and another
                              one follows when a pair has carried a write. Never without
                              warm-up */
    KVR_GROUP_PAIR,        /* pair */
    KVR_GROUP_PAIRS_END,   /* pairs_end */
    KVR_GROUP_KIND_USER = 100,
};

struct kvr_peer_rails {
    uint32_t rail_count;
    struct kvr_rail_address rails[KVR_RAILS_MAX];
    char unreachable[KVR_DETAIL_BYTES]; /* of PEER_ADDED with KVR_NO_RAIL: why, or "" */
};

struct kvr_pair {
    uint32_t rail;        /* ours */
    uint32_t target_rail; /* the peer's */
    uint32_t epoch;       /* of the peer's rail */
};

/* Every message begins with these. */
struct kvr_group_head {
    uint32_t kind;
    uint32_t group; /* a command's addressee; an event's sender */
    kvr_ns at;      /* of a command: when the loop gave it; 0: unknown */
};

#define KVR_GROUP_USER_BYTES 48

/* What the kinds carry. `status` is the answer's. */
struct kvr_group_peer_rails {
    uint32_t peer;
    kvr_status status;
    struct kvr_peer_rails *rails;
};

struct kvr_group_peer_rail {
    uint32_t peer;
    kvr_status status;
    struct kvr_rail_address *address;
};

struct kvr_group_peer_drop {
    uint32_t peer;
    kvr_status status;
};

struct kvr_group_sender {
    uint32_t peer;
    uint32_t rail; /* the peer's */
    kvr_status status;
    uint64_t serial; /* the loop's number of this SENDER */
    struct kvr_rail_address *address;
};

struct kvr_group_sender_known {
    uint32_t peer;
    uint32_t rail; /* ours */
    uint32_t epoch;
};

struct kvr_group_recycle {
    uint32_t rail; /* ours */
};

struct kvr_group_recycled {
    uint32_t rail;
    uint32_t ended;    /* the epoch that ended */
    uint32_t epoch;    /* the new one; kvr_group_address has its address */
    kvr_status status; /* else no successor could be opened: kvr_group_refused says why */
};

struct kvr_group_suspended {
    kvr_ns since; /* when the loop was here last */
};

struct kvr_group_resumed {
    uint64_t count; /* how often this process was found to have been stopped */
};

struct kvr_group_confirmed {
    uint32_t peer;
    uint64_t count; /* of the RESUMED that this answers */
};

struct kvr_group_pair_renew {
    uint32_t peer;
    uint32_t rail; /* ours */
};

struct kvr_group_pair_broken {
    uint32_t peer;
    kvr_status status;
    struct kvr_pair pair;
    bool proven; /* a write has come through to that address of the peer before */
    bool shared; /* another pair of our rail works: a fresh endpoint would cost it its writes */
    bool fresh;  /* no spare pair, and silent since one of its endpoints was replaced */
};

struct kvr_group_rail_error {
    uint32_t rail; /* ours */
    uint32_t epoch;
    kvr_status status; /* of an entry of its queue that names no write of ours: KVR_PEER_LOST, a
                          peer's has broken off; else the endpoint is of no more use. KVR_FULL: the
                          rail has worn out, or writes that go nowhere hold its window */
};

struct kvr_group_peer_warm {
    uint32_t peer;
    uint32_t pairs;  /* those that have carried a write */
    kvr_ns added_at; /* when its PEER_ADD was run */
};

struct kvr_group_pairs_ask {
    uint32_t peer;
    uint32_t first; /* 0, or `next` of the answer before */
};

struct kvr_group_pair {
    uint32_t peer;
    uint16_t rail, target_rail; /* ours, and the peer's */
    kvr_pair_state state;
    kvr_status why;     /* in trouble: how its last write ended, or why there can be none */
    uint64_t bytes;     /* that came through, since PEER_ADD, as the numbers below */
    kvr_ns since;       /* it is in this state */
    kvr_ns rests_until; /* SLOW: it is not tried before; 0: it does not rest */
    uint32_t breaks;    /* how often it came into doubt, or broke without */
    uint32_t renewals;  /* endpoints of either end that were replaced */
};

struct kvr_group_pairs_end {
    uint32_t peer;
    uint32_t next; /* there are more pairs from here on; 0: no more */
};

struct kvr_group_message {
    struct kvr_group_head head;
    union {
        struct kvr_group_peer_rails peer_rails;
        struct kvr_group_peer_rail peer_rail;
        struct kvr_group_peer_drop peer_drop;
        struct kvr_group_sender sender;
        struct kvr_group_sender_known sender_known;
        struct kvr_group_recycle recycle;
        struct kvr_group_recycled recycled;
        struct kvr_group_suspended suspended;
        struct kvr_group_resumed resumed;
        struct kvr_group_confirmed confirmed;
        struct kvr_group_pair_broken pair_broken;
        struct kvr_group_pair_renew pair_renew;
        struct kvr_group_rail_error rail_error;
        struct kvr_group_peer_warm peer_warm;
        struct kvr_group_pairs_ask pairs_ask;
        struct kvr_group_pair pair;
        struct kvr_group_pairs_end pairs_end;
        uint8_t user[KVR_GROUP_USER_BYTES];
    };
};

#endif
