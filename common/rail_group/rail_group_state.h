/* What the files of a rail group share. Private to rail_group*.c and to their unit tests. The
 * group's thread owns everything, except where a comment says otherwise. */
#ifndef KVR_RAIL_GROUP_STATE_H
#define KVR_RAIL_GROUP_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/chain.h"
#include "base/pace.h"
#include "base/pool.h"
#include "base/ring.h"
#include "rail_group/rail_group.h"
#include "rail_group/rail_group_flight.h"
#include "rail_group/rail_group_link.h"

/* Any thread reads the counters; only the group's thread writes them. */
struct group_counters {
    _Atomic uint64_t writes, bytes, settled, arrivals, again, failures, recycles, stale;
    _Atomic uint64_t batches, post_ns, completion_ns, closed;
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
    bool same_host, needs_senders, tags;
    char plane[KVR_PLANE_BYTES];
    uint32_t writes_max;
    uint64_t bytes_max;
    _Atomic uint32_t connections; /* any thread reads it */
    uint32_t connections_max;     /* 0: any number, or the provider cannot close them */
    kvr_ns rest_ns;               /* before one is closed */
    uint32_t rested;              /* the link that has rested first, when last looked for, */
    kvr_ns rested_at;             /* and when */
    uint32_t writes;              /* accepted and not yet settled */
    uint64_t bytes;
    struct kvr_pace pace;
    bool unrung;           /* the last accepted write had `more` set: its doorbell has not rung */
    kvr_status error_told; /* in this epoch. KVR_OK: none */
    kvr_ns error_at;       /* the last error of the endpoint itself; 0: none yet */
    struct group_counters counters;
};

/* What PEER_WARM has announced. */
enum peer_warmth {
    PEER_COLD,   /* nothing yet */
    PEER_FAILED, /* that every pair has failed */
    PEER_WARM,   /* pairs that have carried a write */
};

struct group_peer {
    bool known;
    uint32_t rail_count;
    struct kvr_rail_address rails[KVR_RAILS_MAX];
    uint32_t link_count;
    uint32_t far_count; /* of them */
    struct group_link *links[GROUP_LINKS_MAX];
    bool spares_due;                      /* a pair broke: its rail may reach another one */
    uint32_t turn;                        /* where the next search begins */
    struct group_link *batch_link;        /* writes of one batch leave on one rail; or NULL */
    uint32_t batch_writes;                /* it has room for so many more, */
    uint64_t batch_bytes;                 /* and so many bytes */
    uint32_t known_epochs[KVR_RAILS_MAX]; /* of our rails: those that the peer's endpoints know */
    uint64_t unconfirmed;                 /* the RESUMED since which nothing is posted; 0: none */
    kvr_ns added_at;
    kvr_ns connects_until; /* one of its pairs connects until then; 0: none */
    enum peer_warmth warmth;
    kvr_ns rewarm_at;   /* pairs that have failed are not warmed up again before */
    kvr_ns rewarm_ns;   /* from the last failure until then */
    kvr_ns silent_from; /* since then it owes completions, and nothing has come through; 0: it owes
                           none */
    kvr_ns owed_at;     /* the last time when it owed one */
};

/* When step has something to do although nothing rings; KVR_NEVER: nothing. */
struct group_timers {
    kvr_ns retry_at;   /* the first time at which a link that got AGAIN may be tried again */
    kvr_ns silence_ns; /* 0: silence is not looked for */
    kvr_ns silence_at; /* no link is silent for too long before */
    kvr_ns surplus_at; /* a rail has more connections than it should, and some may have rested */
    kvr_ns warm_at; /* links may be cold, and are not warmed up before; KVR_NEVER: none is cold */
};

/* Whether this process was stopped for a while (rail_group_absence.c, rule 8). */
struct group_absence {
    kvr_ns bound_ns;   /* longer is an absence; 0: absence is not looked for */
    kvr_ns stepped_at; /* the last step, if something may have been posted since; or 0 */
    kvr_ns resumed_at; /* the last absence ended then */
    uint64_t count;
};

/* An endpoint of a peer that writes to ours. */
struct group_sender {
    uint64_t serial;
    uint32_t bytes;
    uint8_t address[KVR_ADDRESS_BYTES];
};

/* Those that our endpoints must know (rail_group_senders.c). */
struct group_senders {
    struct group_sender *slots;    /* by peer and the peer's rail; NULL: our rails need none */
    uint64_t *handles;             /* by slot and rail of ours */
    uint32_t rail_count;           /* of ours */
    uint64_t rails[KVR_PEERS_MAX]; /* bits of the peer's rails that have one */
};

/* Messages to and from the group. */
struct group_rings {
    struct kvr_chain commands;   /* loop → group */
    struct kvr_ring events;      /* group → loop */
    struct kvr_ring overflow;    /* of events; both ends are the group's */
    struct group_passes *passes; /* group → group; NULL: the group is alone */
    uint64_t recycles;           /* bits of rails: asked for, and not yet begun */
    bool told;                   /* events since the thread last woke the loop */
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
    struct kvr_region *scratch; /* a page for warm-up writes, from here and to here; or NULL */
    uint64_t outstanding;
    kvr_other_planes other_planes;
    bool spares_due; /* of a peer, at least */
    struct group_timers timers;
    struct group_absence absence;
    struct group_senders senders;
    struct group_rings rings;
    kvr_ns moved_at; /* the last step that moved anything */
    bool woken;      /* since the last step the thread slept, or was about to */
    pthread_mutex_t address_lock;
};

/* rail_group.c */
/* Runs the commands that came while a queue was read, before the user sees its entries: an arrival
 * may need one of them. RECYCLE is only noted: it would end the epoch of those entries. */
void group_commands_late(struct kvr_group *group);

/* rail_group_pass.c */
bool group_passed_run(struct kvr_group *group);   /* true when anything had been passed to it */
bool group_passes_flush(struct kvr_group *group); /* false: some are kept */
bool group_passes_empty(struct kvr_group *group); /* nothing is kept, and nothing comes */
void group_passes_wake(struct kvr_group *group);  /* the groups with new messages */
void group_passes_close(struct kvr_group *group);
/* rail_group_peer.c */
void group_peer_add(struct kvr_group *group, const struct kvr_group_message *message);
void group_peer_rail(struct kvr_group *group, const struct kvr_group_message *message);
void group_link_renew(struct kvr_group *group, struct group_link *link); /* it has no writes */
void group_pair_renew(struct kvr_group *group, const struct kvr_group_message *message);
void group_peer_drop(struct kvr_group *group, const struct kvr_group_message *message);
/* Of the same peer, plane and rail of ours as `like`. It is in *place before its address is
 * inserted, since the peer's links are looked through where that fails. */
void group_link_make(struct kvr_group *group, struct group_link **place,
                     const struct group_link *like, const struct kvr_rail_address *address);
void group_link_break(struct kvr_group *group, struct group_link *link, kvr_status status);
void group_link_retire(struct kvr_group *group, struct group_link *link);
void group_link_remove(struct kvr_group *group, struct group_link *link);
void group_links_forget_endpoint(struct kvr_group *group, uint32_t rail);
void group_links_reinsert(struct kvr_group *group, uint32_t rail);
/* rail_group_connections.c */
/* Before the first write of a link that is not connected. */
void group_link_connect(struct kvr_group *group, struct group_link *link);
/* When one more connection finds room on the rail: now, or later. */
kvr_ns group_rail_connects_at(struct kvr_group *group, struct group_rail *rail);
/* Of a link that is not connected. False, until a later time: another pair of its peer connects, or
 * no connection has rested for long enough. */
bool group_link_may_connect(struct kvr_group *group, const struct group_link *link);
/* Of connections beyond the bound, those that have rested since they were needed. */
void group_surplus_close(struct kvr_group *group);
/* It has no writes. False: the provider cannot just now. */
bool group_link_close(struct kvr_group *group, struct group_link *link);
void group_link_disconnected(struct group_link *link); /* its endpoint is gone */
/* rail_group_spare.c */
/* How long a spare pair may be silent before the next rail is tried. */
kvr_ns group_spare_silence(const struct kvr_group *group, const struct group_link *spare);
void group_spares_make(struct kvr_group *group); /* beside pairs that broke */
/* The pair has broken. If it worked, every rail is tried anew. */
void group_spare_due(struct kvr_group *group, const struct group_link *broken, bool worked);
/* The link is about to be tried anew: a spare one in vain so far is for the next rail. */
void group_spare_turn(struct kvr_group *group, struct group_link *link);
/* A pair of its rail works that is no spare. */
bool group_spare_rests(const struct group_peer *peer, const struct group_link *spare);
/* rail_group_slow.c */
/* How often the links are looked at while writes are on their way. */
kvr_ns group_look_ns(const struct kvr_group *group);
/* Breaks the link if it delivers far less than a sibling; returns when to look again. */
kvr_ns group_link_look(struct kvr_group *group, struct group_link *link);
/* All its writes have completed, the last of them perhaps before they came: asks for these. */
void group_link_ask(struct kvr_group *group, struct group_link *link);
/* A sibling carries what the link does not. */
bool group_link_has_sibling(const struct kvr_group *group, const struct group_link *link);
/* A warm-up has come through, after this time: the link is slow no more, or rests again. */
void group_slow_tried(struct kvr_group *group, struct group_link *link, kvr_ns took);
/* rail_group_silence.c */
/* The link owes something from now on: its silence counts. */
void group_silence_begins(struct kvr_group *group, struct group_link *link);
/* A write that asks has come through over the link. */
void group_silence_ends(struct kvr_group *group, const struct group_link *link);
/* It has owed completions for the silence bound, and no pair of it has answered. */
bool group_peer_is_silent(const struct kvr_group *group, const struct group_peer *peer);
/* The link is broken and has writes: it is tried anew when they have ended. */
void group_link_renews_later(struct kvr_group *group, struct group_link *link);
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
/* A user's write waits until this link, which is on trial, has carried a warm-up. */
void group_link_want(struct kvr_group *group, struct group_link *link);
/* A write of a cold link has come through. */
void group_link_warmed(struct kvr_group *group, struct group_link *link);
/* A write, which may have been the warm-up, was not copied; the link goes on. */
void group_link_uncopied(struct kvr_group *group, struct group_link *link, bool warm_up);
/* A warm link carries another warm-up: a connection that refused its last write cannot be closed.
 */
void group_link_rewarm(struct kvr_group *group, struct group_link *link);
/* The link has failed: it is warmed up again only after a while. */
void group_rewarm_later(struct kvr_group *group, const struct group_link *link);
bool group_warm(struct kvr_group *group); /* true when a write was posted */
/* One warm-up, whether the link is warm or not. */
void group_link_probe(struct kvr_group *group, struct group_link *link);
/* A link of the peer has changed: sends PEER_WARM when no pair is left to wait for. */
void group_peer_warmed(struct kvr_group *group, uint32_t index);

/* rail_group_senders.c */
kvr_status group_senders_open(struct kvr_group *group, uint32_t rail_count);
void group_senders_close(struct kvr_group *group);
void group_sender(struct kvr_group *group, const struct kvr_group_message *message);
void group_senders_drop(struct kvr_group *group, uint32_t peer);
/* The rail has a fresh endpoint: it learns all senders, before the loop names it to a peer. */
void group_senders_insert(struct kvr_group *group, uint32_t rail);
void group_sender_known(struct kvr_group *group, const struct kvr_group_message *message);
/* Whether the link must wait until the peer's endpoint knows ours. */
bool group_link_is_unknown(const struct kvr_group *group, const struct group_link *link,
                           const struct kvr_rail_address *address);

/* rail_group_absence.c */
void group_absence_check(struct kvr_group *group, kvr_ns since); /* 0: unknown */
void group_confirmed(struct kvr_group *group, const struct kvr_group_message *message);
kvr_ns group_absence_wake(const struct kvr_group *group, kvr_ns now);

/* rail_group_complete.c */
bool group_poll(struct kvr_group *group, uint32_t rail);
void group_read_empty(struct kvr_group *group, uint32_t rail, uint32_t epoch,
                      struct kvr_endpoint *stopped);
void group_settle_rail(struct kvr_group *group, uint32_t rail);

/* rail_group_choose.c */
bool group_link_waits(const struct kvr_group *group, const struct group_link *link);
kvr_status group_choose(struct kvr_group *group, struct group_peer *peer,
                        const struct kvr_group_post *post);

/* rail_group_planes.c */
/* Links to the peer's rails that only agents of its host write to, or to the others. */
void group_links_make(struct kvr_group *group, uint32_t index, bool same_host);
/* Of a link that is far or spare. False: one that it stands in for works. */
bool group_link_may_instead(const struct group_peer *peer, const struct group_link *link,
                            const struct kvr_group_post *post);
static inline bool group_link_may(const struct group_peer *peer, const struct group_link *link,
                                  const struct kvr_group_post *post)
{
    return (!link->far && !link->spare) || group_link_may_instead(peer, link, post);
}
/* The same for a warm-up, which is for every rail of a group of the peer. */
bool group_link_may_warm(const struct kvr_group *group, const struct group_link *link);

/* rail_group_report.c */
void group_pairs_report(struct kvr_group *group, const struct kvr_group_message *message);
/* The link may have come into another of the states that are reported: since now. */
void group_link_note(const struct kvr_group *group, struct group_link *link);

/* rail_group_recycle.c */
kvr_status group_endpoint_install(struct kvr_group *group, uint32_t rail,
                                  struct kvr_endpoint *endpoint, uint32_t epoch);
void group_recycle(struct kvr_group *group, uint32_t rail);

#endif
