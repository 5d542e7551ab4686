/* The target agent's state machine: what its engines fetch, until it is theirs or given back.
 *
 * Pure: it is told events and the time, and acts through ports (agent/ports.h); no clock, socket,
 * thread or malloc. One thread, the loop's.
 *
 * A fetch is what an engine asks for: one request, from a list of source ranks, one transfer each.
 * Its pages are handed back by exactly one terminal notice, once no transfer of it can still land.
 *
 *   WAITING   for its peer to answer, for the page table
 *   WANTED    WANT was sent; nothing is granted, so nothing can land. After its PLAN: for slots
 *   LIVE      GRANT was sent: writes land
 *   DRAINING  it failed; the pages are held until nothing can land any more (rule 4)
 *   CLOSING   settled; the group thread is giving the landing back
 *
 *   reserve.c  fetches, page tables                 slots.c    who has slots, who waits for them
 *   grant.c    WANT, GRANT                          regrant.c  the rails of another group
 *   plan.c     PLAN, FINAL                          layers.c   layers, over all sources
 *   deliver.c  the tail, the one terminal
 *   fence.c    draining, MISSING, ending epochs
 *   share.c    staging memory, where cards cannot reach the pages, or write them in fragments only
 *   room.c     how far a source may write into it
 *   digest.c   DIGEST: whether the bytes are the source's   salvage.c  what a failed fetch has */
#ifndef DECODE_AGENT_INBOUND_H
#define DECODE_AGENT_INBOUND_H

#include "agent/ended.h"
#include "agent/machine.h"
#include "agent/page_tables.h"
#include "base/pool.h"
#include "base/table.h"
#include "decode-agent/land.h"
#include "device/staging_pool.h"

struct inbound_options {
    kvr_ns silence_ns;          /* heartbeat bound: a peer silent for so long is dead */
    kvr_ns quiet_ns;            /* how long counts may differ, and nothing come in, before an epoch
                                   is ended; five times that at most */
    kvr_ns deadline_default_ns; /* of a fetch that names none */
    uint32_t slot_count;        /* slots 1 … slot_count are granted */
    uint32_t rail_count;
    struct kvr_rail_groups groups; /* of the rails; count 0: they are one */
    bool failover;                 /* another group carries on for one that is lost */
    uint64_t nonce_seed;           /* random per boot: transfers are named from it */
    struct kvr_write_limits limits;
    uint64_t
        stage_bytes; /* of the stages that sources may have fragments scattered from; 0: none */
    kvr_digest_mode digest; /* what is hashed at least; a source may ask for more */
};

enum transfer_state { T_WAITING, T_WANTED, T_LIVE, T_DRAINING, T_CLOSING };

struct transfer {
    uint64_t id, nonce, fetch;
    enum transfer_state state;
    struct kvr_source_address source;
    uint32_t place; /* among the fetch's sources */
    uint32_t peer;
    bool peer_up, peer_gone;
    struct kvr_write_limits limits; /* the minimum of both agents' */
    struct kvr_region_set *remote;  /* the source rank's regions, from its first PLAN on */
    uint32_t loan;                  /* as the PLANs name it; 0: nothing is lent */
    bool local; /* we copy from the source's memory, and could go without (options.groups) */
    uint32_t slots_needed; /* the most that it may need; known before WANT */
    uint16_t slots[KVR_TRANSFER_SLOTS_MAX];
    uint32_t slot_count;
    uint64_t *bits;          /* a bit for each chunk that the slots can name; comes with them */
    uint32_t group;          /* of ours where it lands */
    uint32_t granted;        /* the group whose rails the last GRANT named */
    uint32_t guests;         /* bits of other groups over whose rails it may come */
    uint32_t lands_open;     /* of those and its own, once it closes */
    bool regranting;         /* other rails are being made ready for it, */
    bool registered;         /* and are; the GRANT may wait for room */
    struct landing *landing; /* NULL before GRANT */
    uint64_t *taken;         /* as bits, for a landing that is staged */
    bool scatters;    /* what lands is copied from staging memory: cards cannot reach the pages, or
                         the source's PLANs say so */
    bool stage_waits; /* for that memory */
    uint64_t stage_bytes; /* of it, as its WANT said: it need not, but may be scattered; 0: no */
    bool may_move, moves; /* we could move its pages ourselves, as its WANT said; and we do */
    uint64_t share_offset, share_bytes; /* of it; 0 bytes: none */
    bool share_waits;                   /* for a share: for its memory first, then in a queue */
    struct inbound_pool *share_queue;   /* where it waits; NULL: in none */
    struct transfer *share_before, *share_behind; /* its neighbours there */
    bool share_whole;         /* it has room for all that the transfer may bring */
    uint64_t position_end;    /* in it, of what is planned (kvr_plan_positions) */
    uint64_t room_free, room; /* in the pages up to here; the source may write up to here */
    struct landing_segment *segments, *segments_last;
    uint32_t segment_count, chunk_count; /* planned so far */
    uint64_t bytes;
    struct kvr_page_table planned; /* the source's pages of the PLAN that is coming in */
    uint32_t planning_group;
    bool planning;
    uint64_t token_next[KVR_GROUPS_MAX]; /* behind the last segment; at first what is skipped */
    uint32_t pages_told[KVR_GROUPS_MAX]; /* of each page table, by PAGES */
    bool final_seen, has_tail, tail_seen, all_in;
    struct kvr_msg_final final;
    kvr_digest_mode digest; /* the larger of what both agents ask */
    uint32_t digest_end;    /* chunks whose digests were told */
    bool verifying, verified;
    bool reading;        /* its pages, to verify them */
    bool tainted, quiet; /* quiet: of the present round */
    uint32_t round;      /* of the last MISSING or ROOM; 0: none */
    uint32_t retries;
    struct kvr_epoch_count epochs[KVR_RAILS_MAX]; /* of each rail that it may be written on, the
                                                     latest: what a fence must see closed */
    uint32_t epoch_count;
    bool source_failed, settled;
    kvr_ns quiet_at; /* when the source's QUIET of this round came: */
    uint32_t quiet_round;
    kvr_ns suspect_at, drain_at; /* KVR_NEVER: not waited for */
    kvr_status status;           /* why it fails; KVR_OK */
    char detail[KVR_DETAIL_BYTES];
    uint64_t rails;
};

struct fetch {
    uint64_t id, handle;
    uint32_t engine;
    char request[KVR_REQUEST_BYTES];
    uint32_t attempt;
    int32_t priority;
    kvr_digest_mode digest; /* what its engine asks to be hashed */
    uint64_t tokens, skip_tokens;
    kvr_ns deadline;
    struct kvr_region_set *set;
    struct kvr_page_tables pages;
    uint64_t skips[KVR_GROUPS_MAX]; /* of each group, what of [0, tokens) is not fetched */
    bool wanted;                    /* a WANT has named them */
    struct fetch_layers *layers;    /* from the first PLAN on */
    uint32_t transfer_count, settled_count, closed_count;
    uint64_t transfers[KVR_SOURCES_MAX];
    bool slots_known, slots_reserved, accepted_told, engine_gone, failing_told, ended;
    bool watched; /* a word of its engine's page tells of its layers */
    uint32_t landed_word;
    uint64_t landed_base;
    uint64_t token_end;   /* smallest that a source published */
    uint64_t salvage_end; /* [skip_tokens, salvage_end) is right in every transfer that settled */
    uint64_t bytes;
    uint32_t writes, retries;
    kvr_status status;
    char detail[KVR_DETAIL_BYTES];
    uint64_t serial;       /* larger for every later fetch */
    uint64_t next_waiting; /* fetches that wait for slots, oldest first */
    bool waiting;
};

struct inbound_peer {
    bool up, same_host; /* same_host: it could be copied from */
    struct kvr_write_limits limits;
    kvr_digest_mode digest;
    uint64_t unproven; /* the probe after an absence of ours that it has not answered; 0: none */
    char agent[KVR_NAME_BYTES];
};

#define INBOUND_RETRY_NS KVR_S /* how often a rail without an endpoint is opened again */

struct inbound_rail {
    uint32_t epoch;
    struct kvr_rail_address address; /* of a later epoch than the first */
    bool recycling;
    uint32_t wanted; /* epoch that is to end; 0: none */
    kvr_ns retry_at; /* no endpoint could be opened: try again then. KVR_NEVER: it has one */
};

struct inbound {
    struct inbound_options options;
    const struct kvr_ports *ports;
    struct kvr_buddy *memory;
    struct kvr_engines engines;
    struct kvr_pool fetches, transfers;
    struct kvr_table by_nonce, by_handle; /* → index in the pool */
    struct inbound_peer peers[KVR_PEERS_MAX];
    struct inbound_rail rails[KVR_RAILS_MAX];
    uint16_t *free_slots; /* a queue: oldest first */
    uint32_t free_first, free_count;
    uint64_t waiting_first;
    struct inbound_pool { /* the staging memory of a stage, while anybody has or wants a share */
        struct inbound_pool *next;
        const struct kvr_stage *stage;
        struct kvr_staging_pool shares;
        struct transfer *first, *last; /* that wait, in the order of their fetches */
        uint64_t looked;               /* the last shares_advance that came by */
    } * pools;
    uint64_t share_looks;
    uint64_t nonce_next, serial_next, probes;
    bool draining;
    kvr_ns stage_retry_at; /* for host memory there was none to be had: not before then */
    /* counters for pages and metrics */
    struct kvr_ended ended;
    uint64_t recycles, landed_bytes, skipped_bytes, digest_mismatches;
};

/* All memory comes from `memory`, now and later. KVR_NO_MEMORY when it is too small. */
KVR_MUST_CHECK kvr_status inbound_init(struct inbound *inbound,
                                       const struct inbound_options *options,
                                       const struct kvr_ports *ports, struct kvr_buddy *memory);

/* Events. Everything in a request or message from outside is checked here. */
void inbound_request(struct inbound *inbound, kvr_ns now, uint32_t engine,
                     const struct kvr_request *request);
void inbound_engine_down(struct inbound *inbound, kvr_ns now, uint32_t engine);
void inbound_peer_up(struct inbound *inbound, kvr_ns now, uint32_t peer,
                     const struct kvr_msg_hello *hello);
void inbound_peer_lost(struct inbound *inbound, kvr_ns now, uint32_t peer, kvr_status status,
                       const char *detail);
void inbound_peer_writable(struct inbound *inbound, kvr_ns now, uint32_t peer);
void inbound_message(struct inbound *inbound, kvr_ns now, uint32_t peer,
                     const struct kvr_message *message);
void inbound_group(struct inbound *inbound, kvr_ns now, const struct kvr_group_message *message);
/* ports.region_register is done. */
void inbound_registered(struct inbound *inbound, kvr_ns now, uint64_t id, kvr_status status);
void inbound_tick(struct inbound *inbound, kvr_ns now);
/* Takes no new fetches from here on. */
void inbound_drain(struct inbound *inbound);
/* Ends what is still live, with this reason. */
void inbound_cancel_all(struct inbound *inbound, kvr_ns now, kvr_status status, const char *detail);

/* Fetches and transfers that have not ended; 0: nothing to tick for. */
static inline uint32_t inbound_live(const struct inbound *inbound)
{
    return inbound->fetches.used_count + inbound->transfers.used_count;
}
/* What the engine's why answers, as JSON. */
void inbound_why(const struct inbound *inbound, uint32_t engine, uint64_t handle, char *json,
                 size_t capacity);
/* All of these, for who drives either kind of agent. */
struct kvr_machine inbound_machine(struct inbound *inbound);

/* ---- between the files of this folder ------------------------------------------------------ */

/* inbound.c */
/* Sends, or ends the session: a message that the protocol needs may not be lost. */
void inbound_tell_peer(struct inbound *inbound, uint32_t peer, const struct kvr_message *message);
void inbound_send_needed(struct inbound *inbound, const struct transfer *transfer,
                         struct kvr_message *message); /* about the transfer */
void inbound_group_command(struct inbound *inbound, const struct transfer *transfer, uint32_t kind,
                           uint64_t a, void *pointer); /* to the transfer's group */
/* reserve.c */
void fetch_open(struct inbound *inbound, kvr_ns now, uint32_t engine, uint64_t handle,
                const struct kvr_req_target_open *open);
void fetch_pages(struct inbound *inbound, kvr_ns now, struct fetch *fetch,
                 const struct kvr_req_pages *pages);
void fetch_advance(struct inbound *inbound, kvr_ns now, struct fetch *fetch);
/* Its deadline has passed. */
void fetch_expire(struct inbound *inbound, kvr_ns now, struct fetch *fetch);
void fetch_check_freed(struct inbound *inbound, struct fetch *fetch);
struct fetch *fetch_of(const struct inbound *inbound, const struct transfer *transfer);
struct fetch *fetch_find(const struct inbound *inbound, uint32_t engine, uint64_t handle);
/* slots.c */
/* What the whole fetch may need. False: more than there is, and it failed. */
bool slots_count(struct inbound *inbound, kvr_ns now, struct fetch *fetch);
/* The fetch has something to land: slots and bitmaps for all of it, or its place in the queue. */
void slots_want(struct inbound *inbound, kvr_ns now, struct fetch *fetch);
void slots_release(struct inbound *inbound, kvr_ns now, struct transfer *transfer);
/* The source's regions are known: reserves what they need beyond what was thought. */
KVR_MUST_CHECK kvr_status slots_refine(struct inbound *inbound, struct transfer *transfer,
                                       struct kvr_error *error);
void waiting_advance(struct inbound *inbound, kvr_ns now);
void waiting_remove(struct inbound *inbound, struct fetch *fetch);
/* share.c */
/* NULL: its pages are written, or the stage is not open yet. */
struct kvr_stage *transfer_stage(const struct inbound *inbound, const struct transfer *transfer);
/* For WANT: how large the staging memory is that a source may have it scattered from. */
uint64_t transfer_stage_bytes(const struct inbound *inbound, kvr_ns now,
                              const struct transfer *transfer);
/* neighbour.c */
/* For WANT: its pages are our device's, and we could move a neighbour's to them. */
bool transfer_may_move(const struct inbound *inbound, const struct transfer *transfer);
/* Its PLANs are not for staging memory: we do. False: that was not agreed. */
bool transfer_move(struct transfer *transfer);
/* What a PLAN's limits say of it; the first begins to open the stage. */
KVR_MUST_CHECK kvr_status transfer_scatter(struct inbound *inbound, struct transfer *transfer,
                                           const struct kvr_msg_plan *plan,
                                           struct kvr_error *error);
void transfer_stage_opened(struct inbound *inbound, kvr_ns now, struct transfer *transfer,
                           kvr_status status);
/* True when it needs no staging memory, or has it now. False: it waits, or has failed. */
bool share_take(struct inbound *inbound, kvr_ns now, struct transfer *transfer);
void share_give(struct inbound *inbound, struct transfer *transfer);
void shares_advance(struct inbound *inbound, kvr_ns now);
/* LAND_ROOM is told after so many bytes; 0: never, the share has room for all. */
uint64_t share_step(const struct transfer *transfer);
/* Where the chunks of the transfer's next segment lie in its share. Fine without one. */
KVR_MUST_CHECK kvr_status segment_positions(struct inbound *inbound, struct transfer *transfer,
                                            struct landing_segment *segment,
                                            struct kvr_error *error);
/* room.c */
/* What ends at this position or before is in its pages. */
void room_landed(struct inbound *inbound, struct transfer *transfer, uint64_t position_end);
/* Tells the source of more room, where there is any and nothing that was posted twice can land. */
void room_check(struct inbound *inbound, struct transfer *transfer);
/* grant.c */
void transfer_grant(struct inbound *inbound, kvr_ns now, struct transfer *transfer);
void rails_grant(struct inbound *inbound, struct transfer *transfer);
void want_send(struct inbound *inbound, kvr_ns now, struct transfer *transfer);
void pages_send(struct inbound *inbound, struct transfer *transfer);
/* plan.c */
void plan_received(struct inbound *inbound, kvr_ns now, struct transfer *transfer,
                   const struct kvr_msg_plan *plan);
void final_received(struct inbound *inbound, kvr_ns now, struct transfer *transfer,
                    const struct kvr_msg_final *final);
/* regrant.c */
void no_rail_received(struct inbound *inbound, struct transfer *transfer);
void regrant_tell(struct inbound *inbound, struct transfer *transfer); /* what waits for room */
void guests_leave(struct inbound *inbound, struct transfer *transfer);
/* layers.c */
/* The source gives nothing of this group. */
KVR_MUST_CHECK kvr_status layers_none(struct inbound *inbound, struct transfer *transfer,
                                      uint32_t group, struct kvr_error *error);
/* The source gives of this group what the plan names; of its first plan or any other. When every
 * source has said what it gives, and together it is not what the target has: KVR_INCOMPATIBLE. */
KVR_MUST_CHECK kvr_status layers_planned(struct inbound *inbound, struct transfer *transfer,
                                         uint32_t group, const struct kvr_plan *plan,
                                         struct kvr_error *error);
/* No group of the fetch is given by this source. */
bool layers_give_nothing(const struct fetch *fetch, const struct transfer *transfer);
/* Whether it was said that the source gives the group, or gives nothing of it. */
bool layers_decided(const struct fetch *fetch, const struct transfer *transfer, uint32_t group,
                    bool none);
void layer_landed(struct inbound *inbound, struct transfer *transfer, uint32_t segment,
                  uint32_t layer);
void layers_release(struct inbound *inbound, struct transfer *transfer);
void layers_close(struct inbound *inbound, struct fetch *fetch);
/* How many of the target rank's layers there are, and how many of the first are in place for all
 * tokens that are published. */
uint32_t layers_all(const struct fetch *fetch);
uint32_t layers_whole(const struct fetch *fetch);
/* landed.c */
void fetch_watch(struct inbound *inbound, kvr_ns now, struct fetch *fetch,
                 const struct kvr_req_watch *watch);
/* What the word says, after a layer has come or the fetch has ended. */
void landed_tell(struct inbound *inbound, const struct fetch *fetch);
/* deliver.c */
void tail_received(struct inbound *inbound, kvr_ns now, struct transfer *transfer,
                   const struct kvr_msg_tail *tail);
/* Whether what has landed may be told: nothing can land any more where it was posted twice, and the
 * source has answered since we were away. */
bool transfer_trusted(const struct inbound *inbound, const struct transfer *transfer);
/* What keeps it from being told, in a word for `why`: "absence" of ours, or "repeats"; "": nothing.
 */
const char *transfer_held_by(const struct inbound *inbound, const struct transfer *transfer);
void transfer_check_done(struct inbound *inbound, kvr_ns now, struct transfer *transfer);
void transfer_settle(struct inbound *inbound, kvr_ns now, struct transfer *transfer);
void transfer_closed(struct inbound *inbound, kvr_ns now, struct transfer *transfer);
/* Ends the fetch with a reason; its transfers end with the same. Idempotent. */
void fetch_fail(struct inbound *inbound, kvr_ns now, struct fetch *fetch, kvr_status status,
                const char *detail);
void transfer_event(struct inbound *inbound, kvr_ns now, const struct transfer *transfer,
                    kvr_event_kind kind);
/* salvage.c */
/* Of a transfer that has settled: all tokens from the skipped ones up to here are in place. */
uint64_t transfer_salvage(const struct inbound *inbound, const struct transfer *transfer);
/* digest.c */
void digest_received(struct inbound *inbound, kvr_ns now, struct transfer *transfer,
                     const struct kvr_msg_digest *digest);
/* True when the bytes are known to be right, or nobody asks; else they are being looked at. */
bool transfer_verified(struct inbound *inbound, struct transfer *transfer);
void transfer_corrupt(struct inbound *inbound, kvr_ns now, struct transfer *transfer,
                      uint32_t chunk);
/* fence.c */
void transfer_fail(struct inbound *inbound, kvr_ns now, struct transfer *transfer,
                   kvr_status status, const char *detail);
void transfer_fence(struct inbound *inbound, kvr_ns now, struct transfer *transfer);
void quiet_received(struct inbound *inbound, kvr_ns now, struct transfer *transfer,
                    const struct kvr_msg_quiet *quiet);
void rail_lost_received(struct inbound *inbound, kvr_ns now, struct transfer *transfer,
                        const struct kvr_msg_rail_lost *lost);
void filtered(struct inbound *inbound, kvr_ns now, struct transfer *transfer,
              const struct landing_filter *filter);
void is_quiet(struct inbound *inbound, kvr_ns now, struct transfer *transfer, uint32_t round);
void suspects_check(struct inbound *inbound, kvr_ns now, struct transfer *transfer);
void inbound_rail_recycle(struct inbound *inbound, uint32_t rail, uint32_t epoch);
void rails_tell(struct inbound *inbound, uint32_t peer);
void inbound_rail_recycled(struct inbound *inbound, kvr_ns now,
                           const struct kvr_group_message *message);
void transfer_epoch_add(struct transfer *transfer, uint32_t rail, uint32_t epoch);

#endif
