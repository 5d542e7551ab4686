/* What the files of a rail group share. Private to rail_group*.c; everything is the group thread's
 * except what says otherwise. */
#ifndef KVR_FABRIC_RAIL_GROUP_STATE_H
#define KVR_FABRIC_RAIL_GROUP_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/chain.h"
#include "base/pool.h"
#include "base/ring.h"
#include "fabric/rail_group.h"
#include "fabric/rail_group_flight.h"
#include "fabric/rail_group_pace.h"

/* Any thread reads them, the group thread alone writes them. */
struct group_counters {
    _Atomic uint64_t writes, bytes, settled, arrivals, again, failures, recycles, stale;
    _Atomic uint64_t batches, post_ns, completion_ns;
};

static inline void group_count(_Atomic uint64_t *counter, uint64_t more)
{
    uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);

    atomic_store_explicit(counter, value + more, memory_order_relaxed);
}

static inline uint64_t group_settled(const struct group_counters *counters)
{
    return atomic_load_explicit(&counters->settled, memory_order_relaxed);
}

struct group_rail {
    struct kvr_rail *rail;
    struct kvr_endpoint *endpoint;   /* NULL: no successor could be opened */
    struct kvr_rail_address address; /* written under group->address_lock, as the next */
    struct kvr_error refused;        /* why no successor could be opened */
    struct kvr_write_facts limits;
    bool same_host;
    uint32_t writes_max;
    uint64_t bytes_max;
    uint32_t writes; /* accepted and not yet settled */
    uint64_t bytes;
    struct group_pace pace;
    bool unrung;     /* the last accepted write promised another one */
    bool error_told; /* in this epoch */
    struct group_counters counters;
};

typedef enum link_state {
    LINK_USABLE,
    LINK_BROKEN,  /* until our rail or the peer's has a new epoch */
    LINK_RETIRED, /* the address is no longer its peer's; waits for its writes in flight */
} link_state;

/* A pair at work: one address of a peer in the address table of one of our endpoints. */
struct group_link {
    uint64_t id;             /* of its slot in the pool */
    struct group_rail *rail; /* ours, of the pair */
    link_state state;
    uint32_t peer;
    struct kvr_pair pair;
    bool inserted; /* handle is valid on the rail's present endpoint */
    bool doubted;  /* it failed: until a write settles well, one at a time is risked on it */
    bool cold;     /* to be warmed up, unless somebody's write comes first */
    uint64_t handle;
    uint32_t writes; /* accepted and not yet settled */
    uint64_t bytes;
    struct group_pace pace;
    kvr_ns progress_at;     /* the last of its writes settled, or the first was accepted */
    uint32_t again_count;   /* in a row */
    uint64_t again_settled; /* rail's count of settled writes at the last AGAIN: there may be room
                               again when it has grown */
    kvr_ns again_until;
    uint64_t warming;              /* the warm-up write that is in flight; 0: none */
    struct kvr_remote_key scratch; /* of the peer's rail: where that goes */
};

/* A peer's groups and ours: see group_peer_add. */
#define GROUP_LINKS_MAX (2 * KVR_RAILS_MAX)

/* It may arrive there, and every piece has a local registration on our rail and a key on the
 * peer's. */
static inline bool group_link_reaches(const struct group_link *link,
                                      const struct kvr_group_post *post)
{
    if (post->rails != 0 && (post->rails >> link->pair.target_rail & 1) == 0)
        return false;
    if (post->filter.may != NULL && !post->filter.may(post->filter.self, &link->pair))
        return false;
    for (unsigned i = 0; i < post->piece_count; i++) {
        const struct kvr_group_piece *piece = &post->pieces[i];

        if (link->pair.rail >= piece->local->rail_count ||
            link->pair.target_rail >= piece->remote->rail_count)
            return false;
    }
    return true;
}

struct group_peer {
    bool known;
    uint32_t rail_count;
    struct kvr_rail_address rails[KVR_RAILS_MAX];
    uint32_t link_count;
    struct group_link *links[GROUP_LINKS_MAX];
    uint32_t turn;                 /* where the next search begins */
    struct group_link *batch_link; /* writes of one batch leave on one rail; or NULL */
    uint32_t batch_writes;         /* it has room for so many more, */
    uint64_t batch_bytes;          /* and so many bytes */
    uint64_t unproven;             /* the WOKE since which nothing is posted; 0: none */
    kvr_ns added_at;
    bool warm_told;
};

struct kvr_group {
    const struct kvr_fabric_ops *ops;
    struct kvr_group_user user;
    void (*wake)(void *self, uint32_t number);
    void *wake_self;
    kvr_ns now;                             /* of this step */
    kvr_ns (*clock)(void);                  /* NULL: nothing is timed */
    struct kvr_stamps *stamps;              /* or NULL */
    uint32_t number;                        /* among the agent's groups */
    uint32_t rail_first, rail_end;          /* of the agent's rails, those that are ours */
    struct group_rail rails[KVR_RAILS_MAX]; /* by the agent's numbers */
    struct group_peer *peers;               /* KVR_PEERS_MAX */
    struct kvr_error unreachable;           /* why an address was refused last */
    struct kvr_pool links;
    void *links_memory;
    struct group_flights flights;
    uint32_t batch_writes;
    bool eager, in_turn;
    struct kvr_region *scratch; /* a page for warm-up writes, from here and to here; or NULL */
    kvr_ns warm_at;             /* links may be cold, and no sooner be warmed; KVR_NEVER: none is */
    uint64_t outstanding;
    kvr_ns retry_at;   /* the first time at which a link that got AGAIN may be tried again */
    kvr_ns silence_ns; /* 0: silence is not looked for */
    kvr_ns silence_at; /* no link is silent for too long before */
    kvr_ns absence_ns; /* 0: absence is not looked for */
    kvr_ns stepped_at; /* the last step, if something may have been posted since; or 0 */
    kvr_ns woke_at;    /* the last absence ended then */
    uint64_t absences;
    struct kvr_chain commands;   /* loop → group */
    struct kvr_ring events;      /* group → loop */
    struct kvr_ring overflow;    /* of events; both ends are the group's */
    struct group_passes *passes; /* NULL: it is alone */
    kvr_ns moved_at;             /* the last step that moved anything */
    bool told;
    bool woken; /* since the last step it slept, or was about to */
    pthread_mutex_t address_lock;
};

/* rail_group.c */
/* Those that came while the rail's queue was read, before anybody is told what it held: among them
 * may be the one without which an arrival means nothing. Only its recycling waits, which would end
 * the epoch of what was read. KVR_RAILS_MAX: what was read is other groups'. */
void group_commands_late(struct kvr_group *group, uint32_t rail);

/* rail_group_pass.c */
bool group_passed_run(struct kvr_group *group);   /* true when anything had been passed to it */
bool group_passes_flush(struct kvr_group *group); /* false: some are kept */
bool group_passes_empty(struct kvr_group *group); /* nothing is kept, and nothing comes */
void group_passes_wake(struct kvr_group *group);  /* whom something was passed to */
void group_passes_close(struct kvr_group *group);
/* rail_group_peer.c */
void group_peer_add(struct kvr_group *group, const struct kvr_group_message *message);
void group_peer_rail(struct kvr_group *group, const struct kvr_group_message *message);
void group_peer_drop(struct kvr_group *group, const struct kvr_group_message *message);
void group_link_break(struct kvr_group *group, struct group_link *link, kvr_status status);
void group_link_remove(struct kvr_group *group, struct group_link *link);
void group_links_forget_endpoint(struct kvr_group *group, uint32_t rail);
void group_links_reinsert(struct kvr_group *group, uint32_t rail);
void group_links_silent(struct kvr_group *group); /* breaks those that are silent for too long */

/* rail_group_post.c */
/* One write on this link and no other, outside of any batch. KVR_AGAIN: the link waits; else it is
 * broken. */
kvr_status group_post_alone(struct kvr_group *group, struct group_link *link,
                            struct kvr_fabric_write *write);

/* rail_group_warm.c */
kvr_status group_scratch_open(struct kvr_group *group, const struct kvr_group_options *options,
                              struct kvr_error *error);
void group_scratch_close(struct kvr_group *group);
/* The link has just become usable. */
void group_link_cool(struct kvr_group *group, struct group_link *link,
                     const struct kvr_rail_address *address);
bool group_warm(struct kvr_group *group); /* true when a write was posted */
/* A link to the peer is no longer to be warmed up: tells the loop if it was the last. */
void group_peer_warmed(struct kvr_group *group, uint32_t index);

/* rail_group_absence.c */
void group_absence_check(struct kvr_group *group, kvr_ns since); /* 0: unknown */
void group_proven(struct kvr_group *group, const struct kvr_group_message *message);
kvr_ns group_absence_wake(const struct kvr_group *group, kvr_ns now);

/* rail_group_complete.c */
bool group_poll(struct kvr_group *group, uint32_t rail);
void group_read_empty(struct kvr_group *group, uint32_t rail, struct kvr_endpoint *stopped);
void group_settle_rail(struct kvr_group *group, uint32_t rail);

/* rail_group_choose.c */
bool group_link_waits(const struct kvr_group *group, const struct group_link *link);
kvr_status group_choose(struct kvr_group *group, struct group_peer *peer,
                        const struct kvr_group_post *post);

/* rail_group_recycle.c */
kvr_status group_endpoint_install(struct kvr_group *group, uint32_t rail,
                                  struct kvr_endpoint *endpoint, uint32_t epoch);
void group_recycle(struct kvr_group *group, uint32_t rail);

#endif
