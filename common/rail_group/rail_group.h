/* A rail group: the rails near one GPU, driven by one thread.
 *
 * This file is the logic, without a thread or a clock. `kvr_group_step` reads commands and polls
 * the rails' queues. It gives completions and arrivals to its user (push at the source, land at the
 * target), and lets the user post. rail_group_thread runs it on a pinned thread; the simulator
 * calls it in virtual time. The loop thread talks to it only through two rings of fixed messages.
 *
 * Rails are numbered over all groups of an agent, and so they are in every call and message here:
 * a group drives rails [rail_first, rail_first + rail_count).
 *
 * Pairs: a write leaves on a rail of ours and arrives on a rail of the peer. Our rails are paired
 * with those of each group of the peer by their planes (rail_pairs.h). Rails that reach other hosts
 * are paired apart from those that do not. A post names the rails that it may arrive on. Chunks go
 * to whichever pair has room, so a slow rail takes less. A far pair joins two planes: a write takes
 * it only where no near pair that works reaches what the post names.
 *
 * A pair is broken when one of its writes failed, or when its writes have been silent for
 * silence_ns. It stays broken until the peer's rail or our rail has a new epoch. A pair over which
 * no write has ever come through is also tried anew by PAIR_RENEW, through the same endpoint. From
 * then on it carries one write at a time, until one settles well.
 *
 * Warm-up: the first write of a pair is slow (tcp connects with it). So the group writes a few
 * bytes with slot 0 into the peer's scratch page, once for each epoch of either rail. The peer's
 * card acknowledges them: a dead address, or another program's, does not look warm. The user does
 * not see this write; when it fails the pair is broken. The loop gets one message for each peer,
 * when each of its pairs has carried a write or has failed.
 *
 * Memory: everything is allocated by kvr_group_open; step allocates nothing. */
#ifndef KVR_RAIL_GROUP_H
#define KVR_RAIL_GROUP_H

#include "base/stamps.h"
#include "fabric/region.h"
#include "kv/plan.h"
#include "rail_group/rail_group_message.h"
#include "rail_group/rail_pairs.h"

struct kvr_group;

/* How an agent's rails are divided: group g drives rails [first[g], first[g + 1]). */
struct kvr_rail_groups {
    uint32_t count;
    uint32_t first[KVR_RAIL_GROUPS_MAX + 1];
    uint64_t same_host;  /* bits of the rails that only agents of this host can write to, where each
                            group has other rails too */
    uint64_t tagged;     /* bits of the rails that take tags (rule 5) */
    uint64_t move_bytes; /* largest write that the target's device copies by itself; 0: no device
                            does */
};

/* The same_host rails of one group. */
static inline uint64_t kvr_rail_groups_same_host(const struct kvr_rail_groups *groups,
                                                 uint32_t group)
{
    uint64_t end = UINT64_C(1) << groups->first[group + 1];

    return groups->same_host & (end - (UINT64_C(1) << groups->first[group]));
}
static inline uint32_t kvr_rail_groups_of(const struct kvr_rail_groups *groups, uint32_t rail)
{
    uint32_t group = 0;

    while (group + 1 < groups->count && rail >= groups->first[group + 1])
        group++;
    return group;
}

struct kvr_group_piece {
    const struct kvr_region *local;
    const struct kvr_remote_region *remote;
    uint64_t local_offset, remote_offset; /* in the regions */
    uint64_t bytes;
    const struct kvr_remote_key *key; /* NULL: that of the rail in remote->keys */
};

/* Which pairs a post may leave over, beside what `rails` says. */
struct kvr_pair_filter {
    bool (*may)(const void *self, const struct kvr_pair *pair); /* NULL: over any */
    const void *self;
};

struct kvr_group_post {
    uint32_t peer;
    uint64_t immediate;
    const struct kvr_group_piece *pieces;
    unsigned piece_count;
    uint64_t token; /* comes back in `written` */
    uint64_t rails; /* bit r: it may arrive on the peer's rail r; 0: on any */
    struct kvr_pair_filter filter;
    bool more; /* the user has another write for this peer at hand */
};

/* What works on top of the rails. All calls come from step, on the group's thread. */
struct kvr_group_user {
    void *self;
    /* The group is about to be. May be NULL. */
    void (*opened)(void *self, struct kvr_group *group);
    void (*command)(void *self, kvr_ns now, const struct kvr_group_message *message);
    /* Once for every accepted post; posts of one token that end together are counted.
     * KVR_RAIL_FAILED: the write failed. KVR_COPY_FAILED: the target could not copy the pages; the
     * pair has not failed. KVR_EPOCH_ENDED: our endpoint was replaced, or the write failed after
     * the peer's endpoint was replaced or dropped. */
    void (*written)(void *self, kvr_ns now, uint64_t token, uint32_t count, kvr_status status);
    void (*arrived)(void *self, kvr_ns now, uint32_t rail, uint32_t epoch, uint64_t immediate);
    /* A write arrived, but our device could not copy its bytes: any part of them may be in place.
     * May be NULL. */
    void (*unmoved)(void *self, kvr_ns now, uint32_t rail, uint32_t epoch, uint64_t immediate);
    /* Our rail's epoch ended and its queue has been read empty: no arrival of it follows. */
    void (*epoch_closed)(void *self, kvr_ns now, uint32_t rail, uint32_t epoch);
    /* Posts what it can; true when it made progress. */
    bool (*work)(void *self, kvr_ns now);
    /* About to sleep (true): make the engines ring; false when there is work after all. Awake again
     * (false): the answer does not matter. May be NULL. */
    bool (*may_sleep)(void *self, bool asleep);
    /* The target may not have read all that came over the pair. May be NULL: it has read all. */
    bool (*unread)(void *self, uint32_t peer, const struct kvr_pair *pair);
    /* True while something may be posted: the group then looks at the clock often enough to see
     * that it was stopped. May be NULL: never. */
    bool (*posting)(void *self);
    /* True while the user waits for completions, arrivals or readiness that rings nothing: bounds
     * the sleep on providers without a descriptor. */
    bool (*expecting)(void *self);
    /* True while a device copies or will store a readiness word. A device rings nothing, so this
     * bounds the sleep on any provider. May be NULL: never. */
    bool (*copying)(void *self);
};

struct kvr_group_options {
    const struct kvr_fabric *fabric;
    struct kvr_rail *const *rails;   /* all of the agent's, open; stay the caller's */
    uint32_t rail_first, rail_count; /* those of this group */
    uint32_t number;                 /* of this group, among the agent's */
    /* Of the agent's rails, by their numbers; NULL: each is its rail's network. */
    const char (*planes)[KVR_PLANE_BYTES];
    kvr_other_planes other_planes; /* what far pairs are good for */
    uint32_t window_writes;        /* outstanding writes a rail; 0: what the provider takes */
    uint64_t window_bytes;         /* outstanding bytes a rail; 0: what suits it, or 16 MiB */
    uint32_t batch_writes;         /* at most, with one doorbell; 0: a default of 32 */
    uint32_t connections; /* of each rail, where the provider can close them; 0: any number */
    /* Take a scratch page for the peers' warm-up writes, and warm up every pair (see above). */
    bool warm_up;
    /* A pair is broken when its writes hang, or are all refused, for this time. Most providers
     * never report a dead link. 0: never. */
    kvr_ns silence_ns;
    kvr_ns absence_ns;         /* half of the heartbeat bound (rule 8); 0: never */
    uint32_t ring_entries;     /* of each ring, a power of two; 0: 4096; commands may be more */
    kvr_ns (*clock)(void);     /* to time posting with; NULL in virtual time */
    struct kvr_stamps *stamps; /* a measurement's, with this clock; or NULL */
    /* On another group's thread, after it has passed a message to this group, which may sleep.
     * NULL: this group never sleeps. */
    void (*wake)(void *self, uint32_t number);
    void *wake_self;
    struct kvr_group_user user;
};

/* Of a peer that no write has ever reached, by the silence bound. The first write of a pair may be
 * silent for `doubt` before other pairs are tried beside it, and for `trial` until the pair is
 * broken. A second is enough to connect and to lose a packet of that.
 *
 * Of any peer: a transfer without a pair waits for `soon`, and so long may a pair be silent on a
 * fresh endpoint after the peer was silent for the whole bound. */
static inline kvr_ns kvr_group_doubt(kvr_ns silence_ns)
{
    return silence_ns / 3;
}
static inline kvr_ns kvr_group_a_second(kvr_ns wait_ns, kvr_ns silence_ns)
{
    kvr_ns wait = wait_ns < KVR_S ? KVR_S : wait_ns;

    return wait < silence_ns ? wait : silence_ns;
}
static inline kvr_ns kvr_group_trial(kvr_ns silence_ns)
{
    return kvr_group_a_second(silence_ns / 4 * 3, silence_ns);
}
static inline kvr_ns kvr_group_soon(kvr_ns silence_ns)
{
    return kvr_group_a_second(silence_ns / 12 * 5, silence_ns);
}

/* The window of a rail where the options name none. */
uint64_t kvr_group_window_bytes(const struct kvr_rail_facts *facts);

KVR_MUST_CHECK kvr_status kvr_group_open(const struct kvr_group_options *options,
                                         struct kvr_group **ret_group, struct kvr_error *error);
void kvr_group_close(struct kvr_group *group); /* its thread has ended */

/* All groups of one agent, numbered as they lie here: from now on they pass each other messages,
 * each pair through a ring for either direction. Before their threads run; once. They are closed
 * together. */
KVR_MUST_CHECK kvr_status kvr_groups_join(struct kvr_group *const *groups, uint32_t count,
                                          struct kvr_error *error);
uint32_t kvr_group_count(const struct kvr_group *group); /* of the groups that were joined */
/* Rail thread, from any callback: message->head.group's user gets it as a command, behind all that
 * was passed to it from here before. Never blocks: what the ring cannot take is kept, and step
 * stops polling the rails until nothing is. */
void kvr_group_pass(struct kvr_group *group, const struct kvr_group_message *message);

/* Rail thread. One round of everything; true when anything moved. */
bool kvr_group_step(struct kvr_group *group, kvr_ns now);
/* Rail thread, from `work` or `command`. KVR_OK: accepted, *ret_pair says where. KVR_AGAIN: no
 * pair to this peer has room: come back after a completion. KVR_NO_RAIL: no pair is usable. */
KVR_MUST_CHECK kvr_status kvr_group_post(struct kvr_group *group, const struct kvr_group_post *post,
                                         struct kvr_pair *ret_pair);
/* Consecutive chunks of a plan, to one peer. */
struct kvr_group_run {
    uint32_t peer;
    uint64_t immediate;               /* of the first chunk; the next one's is larger by one */
    uint32_t count;                   /* ≥ 1; the cursor has this many before it */
    uint64_t token;                   /* comes back in `written`, once for each */
    uint64_t rails;                   /* as in kvr_group_post */
    struct kvr_pair_filter filter;    /* the same */
    struct kvr_region *const *locals; /* by the plan's source_layout */
    bool direct_copy;                 /* read from the regions' `moved` instead */
    const struct kvr_remote_region *remotes; /* by its target_layout */
    const struct kvr_remote_key *keys; /* the same, good on each rail; NULL: those of remotes */
    uint64_t *ret_bytes;               /* of the posted chunks; set with KVR_OK; or NULL */
};
/* Posts as many of the chunks as one batch takes, all over one pair: *ret_posted ≥ 1 with KVR_OK,
 * else 0. The cursor ends behind the accepted chunks. An agent posts page after page most of its
 * time; this costs a third of posting them one by one. */
KVR_MUST_CHECK kvr_status kvr_group_post_run(struct kvr_group *group,
                                             const struct kvr_group_run *run,
                                             struct kvr_plan_cursor *cursor, uint32_t *ret_posted,
                                             struct kvr_pair *ret_pair);
/* Rail thread: sends a message to the loop. Never blocks: what the ring cannot take waits in the
 * group's own overflow queue of fixed size, and step polls no rail until that queue is empty. */
void kvr_group_tell(struct kvr_group *group, const struct kvr_group_message *message);
/* Rail thread: a layer has passed this station. Does nothing without options.stamps. */
void kvr_group_stamp(const struct kvr_group *group, kvr_station station);
/* Rail thread: something waits until the writes over that pair end. Where the pair is broken and
 * they hang, RAIL_ERROR with FULL asks for a fresh endpoint; once in a heartbeat bound. */
void kvr_group_awaits(struct kvr_group *group, uint32_t peer, const struct kvr_pair *pair);
/* Rail thread, from `work` or `command`: registers memory on a rail of the group, and releases it.
 * These take memory of the heap. */
KVR_MUST_CHECK kvr_status kvr_group_memory_open(struct kvr_group *group, uint32_t rail,
                                                const struct kvr_memory_span *span,
                                                struct kvr_memory **ret_memory,
                                                struct kvr_error *error);
void kvr_group_memory_close(struct kvr_group *group, struct kvr_memory *memory);
/* Rail thread: since when nothing has come through to the peer, over whichever pair, although it
 * owes completions; now, if it owes none. */
kvr_ns kvr_group_silent_from(const struct kvr_group *group, uint32_t peer);
/* Writes accepted and not yet completed, all rails. */
uint64_t kvr_group_outstanding(const struct kvr_group *group);

/* Loop thread. The queue grows as needed. Whatever the loop sends to other threads or processes
 * after this call finds the command queued. False: there is no memory. */
bool kvr_group_command(struct kvr_group *group, const struct kvr_group_message *message);
/* Loop thread: the next message of the group; false: none. */
bool kvr_group_event(struct kvr_group *group, struct kvr_group_message *ret_message);
/* Any thread: the address and epoch of our rail now (epochs count from 1). */
struct kvr_rail_address kvr_group_address(const struct kvr_group *group, uint32_t rail);
/* Any thread: why the rail's last failed recycling could not open an endpoint. */
void kvr_group_refused(const struct kvr_group *group, uint32_t rail, struct kvr_error *ret_error);

/* Any thread: counters of one rail, each growing only. */
struct kvr_rail_counters {
    uint64_t writes, bytes, arrivals, again, failures, recycles, in_flight;
    uint64_t batches;       /* doorbells: writes / batches is the size of a batch */
    uint64_t post_ns;       /* spent in posting batches; 0 without a clock */
    uint64_t completion_ns; /* from post to completion, of all writes, to a step's accuracy: what it
                               grows by in a second is how many were in flight */
    uint64_t window_writes; /* how many may be in flight */
    uint64_t connections;   /* open now */
    uint64_t closed;        /* connections that had rested, because there were too many */
    uint64_t stale;         /* completions that name no write in flight */
};
struct kvr_rail_counters kvr_group_counters(const struct kvr_group *group, uint32_t rail);

/* What rail_group_thread needs to sleep. All on the group's thread. */
/* How often rails without a descriptor are polled while nothing is expected from them. After a
 * rest they are polled less often, because new work then begins with a command. */
#define KVR_GROUP_IDLE_POLL_NS (10 * KVR_MS)
#define KVR_GROUP_REST_NS      KVR_S
#define KVR_GROUP_REST_POLL_NS (100 * KVR_MS)
uint32_t kvr_group_rails(const struct kvr_group *group, uint32_t *ret_first); /* how many */
/* Bits of its rails on which 64 bits of an immediate arrive (rule 5). */
uint64_t kvr_group_tagged(const struct kvr_group *group);
uint32_t kvr_group_number(const struct kvr_group *group); /* as in its options */
int kvr_group_wait_fd(const struct kvr_group *group,
                      uint32_t rail); /* -1: none; changes on a recycle */
/* Asks the rings, every rail and at last the user. After true, kvr_group_awake must follow. */
bool kvr_group_may_sleep(struct kvr_group *group);
void kvr_group_awake(struct kvr_group *group);
/* When step must run again although nothing rings: KVR_NEVER, or a time; blind_ns is the distance
 * while something is expected from a rail without a descriptor. */
kvr_ns kvr_group_wake_at(const struct kvr_group *group, kvr_ns now, kvr_ns blind_ns);
/* True when the loop was sent a message since the last call. */
bool kvr_group_told(struct kvr_group *group);

#endif
