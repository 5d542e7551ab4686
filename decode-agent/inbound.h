/* The target agent's state machine: what its engines fetch, until the pages are the engine's or are
 * given back.
 *
 * Pure: it takes events and the time, and acts through ports (agent/core/ports.h). No clock,
 * socket, thread or malloc. The loop thread runs it.
 *
 * A fetch is what an engine asks for: one request, from a list of source ranks, one transfer each.
 * Exactly one terminal notice hands its pages back, once no transfer of it can still land (rule 1).
 *
 * The files, in the order of the journey:
 *   inbound.c          requests, messages, rail threads, ticks: each to the file that handles it
 *   machine.c          the machine as the agent's shell and the simulator drive it
 *   source_link.c      sessions with source agents, and their probes after an absence
 *   fetch.c            a fetch: opening, page tables, deadline
 *   senders.c          SENDER: endpoints of source agents that our endpoints must know
 *   transfer.c         a transfer: opening, settling, closing
 *   want.c             WANT, SKIP and PAGES to the source
 *   plan_intake.c      PLAN and FINAL from the source
 *   landing_path.c     into the pages, through staging memory, or as a direct copy
 *   staging_quota.c    staging memory of a transfer, and the queue for it
 *   room.c             ROOM: how far a source may write into its quota
 *   slots.c            slots and bitmaps, and the queue for them
 *   grant.c            GRANT: the source may write
 *   grant_keys.c       keys of one transfer alone, for GRANT
 *   regrant.c          GRANT again, over other rails
 *   land.c             rail thread: a bit a chunk, and counts of writes
 *   land_quiet.c       rail thread: whether a write can still arrive (QUIET)
 *   land_forward.c     rail thread: writes that arrive over another rail group
 *   land_keys.c        rail thread: the registrations of those keys
 *   land_stage.c       rail thread: copies from staging memory into the pages
 *   land_strangers.c   rail thread: arrivals that no landing expects
 *   land_verify.c      rail thread: hashing what landed
 *   layers.c           layers over all sources: LAYER_IN
 *   landed_word.c      the same as a word in shared memory, for a GPU
 *   trust.c            QUIET, and whether what landed may be announced
 *   missing.c          MISSING: decides which chunks the source posts again
 *   rail_epochs.c      ending the epochs of rails
 *   strangers.c        when a rail that strangers write to is renewed
 *   verify.c           DIGEST: whether the bytes are the source's
 *   deliver.c          TAIL, DONE, failure: what the engine is sent
 *   fence.c            a failed transfer drains until nothing can land
 *   salvage.c          what of a failed fetch is still right
 *   transfer_report.c  events for the scheduler
 *   sending.c          messages to source agents, commands to rail threads
 *   main.c             the program */
#ifndef DECODE_AGENT_INBOUND_H
#define DECODE_AGENT_INBOUND_H

#include "agent/core/ended.h"
#include "agent/core/machine.h"
#include "agent/core/rail_recycle.h"
#include "base/pool.h"
#include "base/table.h"
#include "device/staging_pool.h"
#include "trace/page_runs.h"
#include "wire/nonce.h"

struct inbound_options {
    kvr_ns silence_ns; /* heartbeat bound: a peer that is silent for so long is dead */
    kvr_ns quiet_ns; /* how long counts may differ without an arrival before an epoch is ended; five
                        times that at most */
    uint32_t engine_fetches;    /* that one engine may have at once; 0: any number */
    kvr_ns deadline_default_ns; /* of a fetch without a deadline */
    uint32_t slot_count;        /* so many are granted at once */
    uint32_t slot_last;         /* slots are numbers from 1 to this; 0: all of 16 bits */
    uint32_t rail_count;
    struct kvr_rail_groups groups;           /* of the rails; count 0: all rails are one group */
    bool failover;                           /* another rail group carries on for a lost one */
    bool without_secret;                     /* --insecure: fetches without a secret are taken */
    uint64_t nonce_key[KVR_NONCE_KEY_WORDS]; /* random for each boot: names of transfers */
    struct kvr_write_limits limits;
    struct kvr_spans_choice spans;
    struct kvr_pages_wish pages; /* as it is at first */
    uint64_t stage_bytes;        /* staging memory that sources may write fragments to; 0: none */
    kvr_digest_mode digest;      /* the least that is hashed; a source may ask for more */
};

/* The endpoint that writes from one rail of a source agent. */
struct inbound_sender {
    uint64_t serial;       /* of the last SENDER; 0: there was none in this session */
    uint32_t epoch, waits; /* waits: rail groups that have not answered */
};

struct inbound_peer {
    bool up, same_host; /* same_host: this agent could copy from its memory */
    uint64_t session;   /* its number: proofs are for it alone */
    struct kvr_write_limits limits;
    kvr_digest_mode digest;
    uint64_t unconfirmed; /* the probe after an absence of this agent that it has not answered; 0:
                             none */
    char agent[KVR_NAME_BYTES];
    struct inbound_sender senders[KVR_RAILS_MAX];
    bool has_senders;
};

/* Those that write to a rail and are no peers (strangers.c). */
struct inbound_strangers {
    uint32_t epoch;          /* that is to end for them; 0: none */
    kvr_ns wait, renewed_at; /* wait: after the last renewal for them. 0: there was none */
};

#define INBOUND_RETRY_NS KVR_S /* between two attempts to open a rail without an endpoint */

struct inbound_rail {
    uint32_t epoch;
    struct kvr_rail_address address; /* since the second epoch */
    uint32_t wanted;                 /* epoch that must end; 0: none */
    kvr_ns retry_at; /* when to try again to open an endpoint. KVR_NEVER: it has one */
    struct inbound_strangers strangers;
};

/* The staging memory of a stage, while a transfer has or wants a quota of it. */
struct staging_pool {
    struct staging_pool *next;
    const struct kvr_stage *stage;
    struct kvr_staging_pool quotas;
    struct transfer *first, *last; /* those that wait, in the order of their fetches */
    uint64_t visited;              /* the last round of staging_quotas_advance() that came by */
};

struct inbound {
    struct inbound_options options;
    const struct kvr_ports *ports;
    struct kvr_buddy *memory;
    kvr_ns now; /* of the present event */
    struct kvr_pages_wish pages;
    struct kvr_engines engines;
    struct kvr_pool fetches, transfers;
    struct kvr_table by_nonce, by_handle; /* → index in the pool */
    struct inbound_peer peers[KVR_PEERS_MAX];
    struct inbound_rail rails[KVR_RAILS_MAX];
    struct kvr_rail_recycle recycle;
    uint16_t *free_slots; /* a ring of slot_last places: the slot that rests longest is the first */
    uint32_t free_first;
    uint32_t free_count; /* slots that may still be granted */
    uint64_t waiting_first;
    struct staging_pool *pools;
    uint64_t quota_rounds;
    struct kvr_nonces nonces;
    uint64_t serial_next, probes, senders;
    const char *draining;  /* why it takes no new requests; NULL: it does */
    kvr_ns stage_retry_at; /* there was no staging memory for host pages: not before then */
    /* counters for pages and metrics */
    struct kvr_ended ended;
    uint64_t skipped_bytes, digest_mismatches;
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
/* As kvr_machine.drain. */
void inbound_drain(struct inbound *inbound, const char *why);
/* Fails every fetch, with this reason. */
/* An operator's order: the fetch of that transfer fails, with all of its transfers. Without a
 * number, each fetch of the request's attempt. Returns how many. */
uint32_t inbound_cancel(struct inbound *inbound, kvr_ns now, const struct kvr_order *order);
void inbound_cancel_all(struct inbound *inbound, kvr_ns now, kvr_status status, const char *detail);

/* Fetches and transfers that have not ended; 0: nothing to tick for. */
static inline uint32_t inbound_live(const struct inbound *inbound)
{
    return inbound->fetches.used_count + inbound->transfers.used_count;
}
/* What the engine's why answers, as JSON. */
void inbound_why(const struct inbound *inbound, uint32_t engine, uint64_t handle, char *json,
                 size_t capacity);
/* All of these, for code that drives either kind of agent. */
struct kvr_machine inbound_machine(struct inbound *inbound);

#endif
