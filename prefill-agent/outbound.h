/* The source agent's state machine: what its engines publish, until each page may be freed.
 *
 * Pure: it takes events and the time, and acts through ports (agent/core/ports.h). No clock,
 * socket, thread or malloc. The loop thread runs it.
 *
 * A publish is what an engine gives away: the pages of one request. It has a set of consumers, one
 * source transfer for each target rank, and ends in exactly one SOURCE_FREE (rule 1): every
 * consumer has settled, and no card can still read the pages (rule 2). A WANT may come before its
 * publish; it is parked until its deadline.
 *
 * The files, in the order of the journey:
 *   outbound.c         requests, messages, rail threads, ticks: each to the file that handles it
 *   machine.c          the machine as the agent's shell and the simulator drive it
 *   why.c              what the machine knows of a publish, as JSON
 *   targets.c          sessions with target agents, and answers after an absence
 *   senders.c          SENDER: our endpoints, for targets that must know their senders
 *   sending.c          messages to target agents, commands to rail threads
 *   publish.c          a publish: opening, ending, SOURCE_FREE
 *   content.c          what a publish consists of: pages, watches, tail
 *   lease.c            how long a publish waits for targets that have not come
 *   source_transfer.c  a transfer from its WANT to its end: the hub, and its states
 *   match.c            WANT, SKIP, PAGES: which publish a target wants
 *   access.c           whether a WANT is of the tenant of its publish, and proves its secret
 *   parked.c           room for WANTs that come before their publish
 *   past.c             publishes that have ended, for targets that come later
 *   consumer.c         the target ranks that have come for a publish
 *   slice.c            how many target ranks will come, and which KV groups each is given
 *   path.c             how a transfer's bytes go: direct copy, staging memory or plain writes
 *   direct_copy.c      whether the target's device can read our device's pages itself
 *   announce.c         PLAN, FINAL, TAIL: segment by segment as the engine publishes
 *   segment.c          the memory of a segment, and its places in the target's staging memory
 *   grant.c            GRANT: the target's slots, rails and staging memory; the job begins
 *   (push.h            rail thread: posting)
 *   digest.c           DIGEST: hashes of the posted bytes
 *   retransmit.c       RAIL_LOST, MISSING, ROOM: what is posted again, and posted further
 *   rail_repair.c      broken pairs, ended epochs, fresh endpoints of our own
 *   failover.c         other rails, or another rail group, when the granted rails are lost
 *   settle.c           how a transfer ends: counts, QUIET, LANDED, completions
 *   pending.c          FAIL and QUIET that wait for room in the target's queue
 *   main.c             the program */
#ifndef PREFILL_AGENT_OUTBOUND_H
#define PREFILL_AGENT_OUTBOUND_H

#include "agent/core/ended.h"
#include "agent/core/machine.h"
#include "agent/core/rail_recycle.h"
#include "base/pool.h"
#include "base/table.h"
#include "kv/fragment.h"
#include "prefill-agent/past.h"
#include "prefill-agent/targets.h"
#include "trace/page_runs.h"

struct outbound_options {
    kvr_ns silence_ns;         /* heartbeat bound */
    kvr_ns quiet_ns;           /* how long completions may be awaited from a dead peer */
    kvr_ns lease_default_ns;   /* of a publish that names none */
    uint32_t engine_publishes; /* that one engine may have at once; 0: any number */
    uint32_t rail_count;
    struct kvr_rail_groups groups; /* of the rails; count 0: they are one */
    bool failover;                 /* another group carries on for one that is lost */
    bool without_secret;           /* --insecure: publishes and WANTs without a secret are taken */
    struct kvr_write_limits limits;
    struct kvr_spans_choice spans;
    struct kvr_pages_wish pages;   /* as it is at first */
    kvr_fragment_choice fragments; /* what to do about pieces below fragment_bytes_min */
    uint64_t fragment_bytes_min;
    struct kvr_fragment_costs costs;
    struct kvr_fragment_costs costs_local; /* over rails for this host alone, where cards are too */
};

struct outbound {
    struct outbound_options options;
    const struct kvr_ports *ports;
    struct kvr_buddy *memory;
    kvr_ns now; /* of the present event */
    struct kvr_engines engines;
    struct kvr_pool publishes, transfers;
    struct kvr_table by_handle, by_key, by_nonce;
    struct outbound_peer peers[KVR_PEERS_MAX];
    struct kvr_pages_wish pages;
    struct kvr_rail_recycle recycle;
    kvr_ns retry_at[KVR_RAILS_MAX]; /* no endpoint could be opened: try again then; or KVR_NEVER */
    kvr_ns renewed_at[KVR_RAILS_MAX]; /* its present endpoint was opened; 0: with the agent */
    const char *draining;             /* why it takes no new requests; NULL: it does */
    kvr_ns stage_retry_at; /* for host memory there was none to be had: not before then */
    uint32_t tombs, parked;
    uint64_t parked_bytes;  /* of all targets */
    uint64_t wants_refused; /* for want of room */
    kvr_ns awake_at;        /* the last request, message or tick; ticks come while anything lives */
    struct kvr_ended ended;
    struct past past;
    uint64_t leases_expired, wants_unproven;
    uint64_t wants_of_others; /* of another tenant than the publish, or than the peer serves */
};

KVR_MUST_CHECK kvr_status outbound_init(struct outbound *outbound,
                                        const struct outbound_options *options,
                                        const struct kvr_ports *ports, struct kvr_buddy *memory);

/* Events. Everything in a request or message from outside is checked (rule 9). */
void outbound_request(struct outbound *outbound, kvr_ns now, uint32_t engine,
                      const struct kvr_request *request);
void outbound_engine_down(struct outbound *outbound, kvr_ns now, uint32_t engine);
void outbound_message(struct outbound *outbound, kvr_ns now, uint32_t peer,
                      const struct kvr_message *message);
void outbound_group(struct outbound *outbound, kvr_ns now, const struct kvr_group_message *message);
/* ports.region_register or ports.region_stage is done. */
void outbound_registered(struct outbound *outbound, kvr_ns now, uint64_t id, kvr_status status);
void outbound_tick(struct outbound *outbound, kvr_ns now);
/* Takes no new publishes from here on. */
/* As kvr_machine.drain. */
void outbound_drain(struct outbound *outbound, const char *why);
void outbound_cancel_all(struct outbound *outbound, kvr_ns now, kvr_status status,
                         const char *detail);

/* Publishes and transfers that have not ended, tombstones aside. */
static inline uint32_t outbound_live(const struct outbound *outbound)
{
    return outbound->publishes.used_count + outbound->transfers.used_count - outbound->tombs;
}

/* why.c: what the engine's why answers, as JSON. */
void outbound_why(const struct outbound *outbound, uint32_t engine, uint64_t handle, char *json,
                  size_t capacity);
/* machine.c: the same calls for the shell of either kind of agent. */
struct kvr_machine outbound_machine(struct outbound *outbound);

#endif
