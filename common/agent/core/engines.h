/* The engine ranks attached to this agent, and the peers' engine ranks from their REGIONS. Pure.
 *
 * An engine that has ended keeps its index, its regions and its shared page until its last publish
 * or fetch has ended, since a card may still read or write there. */
#ifndef KVR_AGENT_ENGINES_H
#define KVR_AGENT_ENGINES_H

#include "agent/core/ports.h"
#include "agent/core/region_set.h"
#include "agent/core/tenants.h"
#include "base/buddy.h"
#include "base/mutant.h"

struct kvr_engine {
    bool used, attached;
    struct kvr_rank rank;
    struct kvr_compat compat;
    char name[KVR_NAME_BYTES];
    struct kvr_shared_page *page;
    struct kvr_region_set *set; /* the regions now; NULL before the first */
    uint32_t set_count;         /* sets alive, the present one included */
    struct kvr_dropped_region {
        struct kvr_region *region;
        uint32_t number;
    } * dropped; /* regions of older sets, released when only the present is alive */
    uint32_t dropped_count, dropped_capacity;
    uint32_t users;   /* publishes or fetches that have not ended */
    uint32_t tenants; /* that it may act for, a bit each */
    uint64_t version;
    uint64_t told[KVR_PEERS_MAX]; /* version of the set that each peer was sent; 0: none */
    uint64_t words;               /* number of its revocation words, once it was offered; 0: none */
};

struct kvr_remote_engine {
    bool used;
    uint32_t peer;
    struct kvr_rank rank;
    struct kvr_compat compat;
    struct kvr_region_set *set;
    uint64_t words; /* number of its revocation words; 0: none */
};

/* A rank that has ended, and the peers that know it and have not been sent its end (bits). */
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
    bool target;            /* peers get the keys of our regions */
    uint32_t quota;         /* publishes or fetches of one engine; 0: any number */
    uint64_t quota_refused; /* opens beyond it */
    struct kvr_tenants tenants;
    uint64_t tenants_refused; /* opens for a tenant that the engine may not act for */
};

void kvr_engines_init(struct kvr_engines *engines, struct kvr_buddy *memory,
                      const struct kvr_ports *ports, bool target);

/* An engine rank attached. KVR_EXISTS when the same rank is attached, in any generation. KVR_STALE:
 * this generation or a later one has ended. */
KVR_MUST_CHECK kvr_status kvr_engines_up(struct kvr_engines *engines, uint32_t index,
                                         const struct kvr_req_attach *attach,
                                         struct kvr_shared_page *page, struct kvr_error *error);
/* Takes the region; it comes back through ports.region_done. Several layouts may lie in one region:
 * it is added with each of them, and comes back as often. */
KVR_MUST_CHECK kvr_status kvr_engines_region_add(struct kvr_engines *engines, uint32_t index,
                                                 const struct kvr_region_layout *layout,
                                                 struct kvr_region *region,
                                                 struct kvr_error *error);
/* The region goes when nothing planned with it is left. */
KVR_MUST_CHECK kvr_status kvr_engines_region_drop(struct kvr_engines *engines, uint32_t index,
                                                  uint32_t region);
/* The engine has ended. The caller ends its users; then ports.engine_done is called. */
void kvr_engines_down(struct kvr_engines *engines, uint32_t index);

/* Whether the engine may have one more publish or fetch, of the tenant with this name. *ret_tenant
 * is its number then (else KVR_TENANT_NONE). With KVR_OK it counts as one of the tenant's, until
 * kvr_engines_tenant_give. KVR_NOT_AUTHORIZED; KVR_FULL with a sentence that names the option,
 * which ends with `what`: "publishes" or "fetches". */
KVR_MUST_CHECK kvr_status kvr_engines_quota_take(struct kvr_engines *engines, uint32_t index,
                                                 const char *tenant, const char *what,
                                                 uint32_t *ret_tenant, struct kvr_error *error);
void kvr_engines_tenant_give(struct kvr_engines *engines, uint32_t tenant);
/* The peer's certificate serves the tenant; or there are no certificates. */
bool kvr_engines_peer_serves(const struct kvr_engines *engines, uint32_t peer, uint32_t tenant);

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

/* The key of an engine's handle in a table; a caller that finds an entry compares both values. */
static inline uint64_t kvr_handle_key(uint32_t engine, uint64_t handle)
{
    return handle * 0x9e3779b97f4a7c15u ^ engine;
}

/* Refuses an OPEN with the handle of a request that has not ended; that request goes on. The notice
 * is not terminal, because the handle's terminal notice is still to come. */
void kvr_engines_refuse_open(struct kvr_engines *engines, uint32_t index, uint64_t handle);

/* The engine that gives a transfer from this one its revocation word: itself (rule 11). */
static inline uint32_t kvr_engines_lender(uint32_t index)
{
    return KVR_MUTANT(words_of_another) ? 0 : index;
}

/* Index of the attached engine rank, or -1. */
int kvr_engines_find(const struct kvr_engines *engines, const struct kvr_uuid *engine, uint32_t tp,
                     uint32_t pp);
/* This generation of the rank was attached and has ended: it will publish nothing any more. */
bool kvr_engines_gone(const struct kvr_engines *engines, const struct kvr_uuid *engine,
                      uint64_t generation, uint32_t tp, uint32_t pp);
/* The largest generation of the rank that was attached and has ended; 0: none is remembered. */
uint64_t kvr_engines_last_generation(const struct kvr_engines *engines,
                                     const struct kvr_rank *rank);
/* Sends this set of our engine's regions to the peer, unless the peer has it as the latest. A
 * transfer sends its set before it names it, so that both sides plan with the same set. */
KVR_MUST_CHECK kvr_status kvr_engines_tell(struct kvr_engines *engines, uint32_t index,
                                           const struct kvr_region_set *set, uint32_t peer);
/* The regions of the set have got further keys: peers that know the set will be sent it again. */
void kvr_engines_changed(struct kvr_engines *engines, uint32_t index, struct kvr_region_set *set);
/* After ports.send said KVR_AGAIN: sends the peer the ranks that have ended. */
void kvr_engines_writable(struct kvr_engines *engines, uint32_t peer);
/* The session with the peer ended: it knows none of our engines, and its engines are forgotten. */
void kvr_engines_peer_lost(struct kvr_engines *engines, uint32_t peer);

/* A peer's REGIONS. Everything in it is checked here. */
KVR_MUST_CHECK kvr_status kvr_engines_learn(struct kvr_engines *engines, uint32_t peer,
                                            const struct kvr_msg_regions *regions,
                                            struct kvr_error *error);
/* Between engines.c and engines_gone.c. _add remembers a rank that ends; the oldest makes room.
 * _tell sends its end to the peers that know it. _forget: the peer was sent this life of the rank
 * again, or (NULL) the peer is gone. */
void kvr_engines_gone_add(struct kvr_engines *engines, const struct kvr_engine *engine);
void kvr_engines_gone_tell(struct kvr_engines *engines, struct kvr_engine *engine);
void kvr_engines_gone_forget(struct kvr_engines *engines, const struct kvr_rank *rank,
                             uint32_t peer);

/* NULL when the peer never sent this rank. */
struct kvr_remote_engine *kvr_engines_remote(struct kvr_engines *engines, uint32_t peer,
                                             const struct kvr_rank *rank);

#endif
