/* The engine ranks attached to this agent, and the peers' engine ranks as their REGIONS told. Pure.
 *
 * An engine that is gone keeps its index, its regions and its shared page until the last publish or
 * fetch of it has ended, since a card may still read or write there. */
#ifndef KVR_AGENT_ENGINES_H
#define KVR_AGENT_ENGINES_H

#include "agent/ports.h"
#include "agent/region_set.h"
#include "base/buddy.h"

struct kvr_engine {
    bool used, attached;
    struct kvr_rank rank;
    struct kvr_compat compat;
    char name[KVR_NAME_BYTES];
    struct kvr_shared_page *page;
    struct kvr_region_set *set; /* the regions now; NULL before the first */
    uint32_t set_count;         /* sets alive, the present one included */
    struct kvr_region *
        *dropped; /* regions of older sets, released when only the present is alive */
    uint32_t dropped_count, dropped_capacity;
    uint32_t users; /* publishes or fetches that have not ended */
    uint64_t version;
    uint64_t told[KVR_PEERS_MAX]; /* version of the set that each peer was told; 0: none */
};

struct kvr_remote_engine {
    bool used;
    uint32_t peer;
    struct kvr_rank rank;
    struct kvr_compat compat;
    struct kvr_region_set *set;
};

/* A rank that has ended, and the peers that know of it and were not told (bits). */
struct kvr_gone_engine {
    struct kvr_rank rank;
    struct kvr_compat compat;
    uint64_t owed[KVR_PEERS_MAX / 64];
};

#define KVR_REMOTE_ENGINES_MAX 1024
#define KVR_ENGINES_GONE       64 /* ranks remembered after they ended, the oldest forgotten first */

struct kvr_engines {
    struct kvr_engine local[KVR_ENGINES_MAX];
    struct kvr_remote_engine remote[KVR_REMOTE_ENGINES_MAX];
    uint32_t remote_end; /* entries above are unused */
    struct kvr_gone_engine gone[KVR_ENGINES_GONE];
    uint32_t gone_next;
    struct kvr_buddy *memory;
    const struct kvr_ports *ports;
    bool target; /* we tell peers the keys of our regions */
};

void kvr_engines_init(struct kvr_engines *engines, struct kvr_buddy *memory,
                      const struct kvr_ports *ports, bool target);

/* An engine rank attached. KVR_EXISTS when the same rank is attached, of whatever generation. */
KVR_MUST_CHECK kvr_status kvr_engines_up(struct kvr_engines *engines, uint32_t index,
                                         const struct kvr_req_attach *attach,
                                         struct kvr_shared_page *page, struct kvr_error *error);
/* Takes the region; it comes back through ports.region_done. */
KVR_MUST_CHECK kvr_status kvr_engines_region_add(struct kvr_engines *engines, uint32_t index,
                                                 struct kvr_region *region,
                                                 struct kvr_error *error);
/* The region goes when nothing planned with it is left. */
KVR_MUST_CHECK kvr_status kvr_engines_region_drop(struct kvr_engines *engines, uint32_t index,
                                                  uint32_t region);
/* The engine is gone. Its users must end (the caller sees to it); then ports.engine_done. */
void kvr_engines_down(struct kvr_engines *engines, uint32_t index);

/* A publish or fetch begins and ends. */
static inline void kvr_engines_use(struct kvr_engines *engines, uint32_t index)
{
    engines->local[index].users++;
}
void kvr_engines_unuse(struct kvr_engines *engines, uint32_t index);
/* A reference to the present set, NULL when there is no region. Given back with set_release. */
struct kvr_region_set *kvr_engines_set_acquire(struct kvr_engines *engines, uint32_t index);
void kvr_engines_set_release(struct kvr_engines *engines, uint32_t index,
                             struct kvr_region_set *set);

/* For a table of what engines named by handles; whoever finds by it compares both. */
static inline uint64_t kvr_handle_key(uint32_t engine, uint64_t handle)
{
    return handle * 0x9e3779b97f4a7c15u ^ engine;
}

/* An OPEN names the handle of a request that has not ended: it is refused, and that one goes on.
 * What ends there is told of the handle, so this is no terminal notice. */
void kvr_engines_refuse_open(struct kvr_engines *engines, uint32_t index, uint64_t handle);

/* Index of the attached engine rank, or -1. */
int kvr_engines_find(const struct kvr_engines *engines, const struct kvr_uuid *engine, uint32_t tp,
                     uint32_t pp);
/* This generation of the rank was attached and has ended: nobody will publish for it any more. */
bool kvr_engines_gone(const struct kvr_engines *engines, const struct kvr_uuid *engine,
                      uint64_t generation, uint32_t tp, uint32_t pp);
/* Sends this set of our engine's regions to the peer unless it is the last that it was told. A
 * transfer tells its own set before it names it, so that both sides plan with the same. */
KVR_MUST_CHECK kvr_status kvr_engines_tell(struct kvr_engines *engines, uint32_t index,
                                           const struct kvr_region_set *set, uint32_t peer);
/* Its regions have more keys than they had: peers that know it are to be told again. */
void kvr_engines_changed(struct kvr_engines *engines, uint32_t index, struct kvr_region_set *set);
/* After ports.send said KVR_AGAIN: the peer is told of the ranks that have ended. */
void kvr_engines_writable(struct kvr_engines *engines, uint32_t peer);
/* The session with the peer ended: it knows nothing of ours, we forget its engines. */
void kvr_engines_peer_lost(struct kvr_engines *engines, uint32_t peer);

/* A peer's REGIONS. Everything in it is checked here. */
KVR_MUST_CHECK kvr_status kvr_engines_learn(struct kvr_engines *engines, uint32_t peer,
                                            const struct kvr_msg_regions *regions,
                                            struct kvr_error *error);
/* Between engines.c and engines_gone.c. The oldest that is remembered makes room; it ends, and
 * those that know of it are told; they were told of this life of it again, or (NULL) are gone. */
void kvr_engines_gone_add(struct kvr_engines *engines, const struct kvr_engine *engine);
void kvr_engines_gone_tell(struct kvr_engines *engines, struct kvr_engine *engine);
void kvr_engines_gone_forget(struct kvr_engines *engines, const struct kvr_rank *rank,
                             uint32_t peer);

/* NULL when the peer never told of this rank. */
struct kvr_remote_engine *kvr_engines_remote(struct kvr_engines *engines, uint32_t peer,
                                             const struct kvr_rank *rank);

#endif
