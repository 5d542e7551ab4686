/* The source agent's state machine: what its engines publish, until it may be freed.
 *
 * Pure: it is told events and the time, and acts through ports (agent/ports.h); no clock, socket,
 * thread or malloc. One thread, the loop's.
 *
 * A publish is what an engine offers: the pages of one request. It owns a set of consumers, an
 * offer for each target rank that wants it, and ends in exactly one SOURCE_FREE, when every
 * consumer has settled and no card can still read the pages. An offer may come first (a WANT
 * without a publish is parked until its deadline).
 *
 *   O_PARKED    WANT came, no publish yet
 *   O_OFFERED   matched: segments are planned and told as the engine announces them
 *   O_LIVE      GRANT came: a push job posts
 *   O_STOPPING  it failed or was cancelled: the group thread stops posting, then QUIET
 *   O_CLOSING   nothing is posted any more; waits for the completion of every accepted write
 *   O_TOMB      ended, not by LANDED; known for two heartbeat bounds, for late messages
 *
 *   publish.c  publishes, matching                  offer.c    WANT, matching, GRANT
 *   segment.c  PLAN, FINAL, TAIL                    lease.c    how long a publish waits
 *   settle.c   QUIET, LANDED, failures, SOURCE_FREE        lost.c     lost rails, MISSING, ROOM
 *   consumer.c who has come for it                 share.c    who will, and what each is given
 *   stage.c    in how small pieces it goes, and whether these are copied through staging memory
 *   digest.c   DIGEST                              move.c     other rails, another rail group
 *   owed.c     FAIL and QUIET, which wait for room */
#ifndef PREFILL_AGENT_OUTBOUND_H
#define PREFILL_AGENT_OUTBOUND_H

#include "agent/ended.h"
#include "agent/machine.h"
#include "agent/page_tables.h"
#include "base/pool.h"
#include "base/table.h"
#include "kv/fragment.h"
#include "prefill-agent/push.h"
#include "wire/loans.h"

struct outbound_options {
    kvr_ns silence_ns;       /* heartbeat bound */
    kvr_ns quiet_ns;         /* how long completions may be awaited from a dead peer */
    kvr_ns lease_default_ns; /* of a publish that names none */
    kvr_ns want_default_ns;  /* how long a WANT without deadline waits for its publish, and for its
                                end from there */
    uint32_t rail_count;
    struct kvr_rail_groups groups; /* of the rails; count 0: they are one */
    bool failover;                 /* another group carries on for one that is lost */
    struct kvr_write_limits limits;
    kvr_fragment_choice fragments; /* what to do about pieces below fragment_bytes_min */
    uint64_t fragment_bytes_min;
    struct kvr_fragment_costs costs;
    struct kvr_fragment_costs costs_local; /* over rails for this host alone, where cards are too */
};

struct watch {
    uint32_t word;
    uint64_t base, token_first, token_end;
};

/* A target rank that came for a publish. Its place stays its own: where its transfer has ended it
 * may come again, and takes nobody else's. */
struct consumer {
    struct kvr_uuid engine;
    uint32_t tp, pp;
    uint64_t offer; /* the last one that it came with */
    bool ended;     /* that one has */
    kvr_status status;
};

struct publish {
    uint64_t id, handle, key;
    uint32_t engine;
    char request[KVR_REQUEST_BYTES];
    uint32_t attempt;
    uint64_t tokens, token_end; /* upper bound; announced by watches so far */
    struct kvr_region_set *set;
    struct kvr_page_tables pages;
    struct watch *watches; /* grown in the given memory */
    uint32_t watch_count, watch_capacity;
    uint8_t *tail;
    uint32_t tail_bytes;
    bool has_tail, ended, engine_gone, accepted_told, failing;
    kvr_ns lease_ns, lease_end; /* KVR_NEVER once a consumer has come */
    bool lease_low_told;
    int32_t priority;
    uint32_t consumers;  /* target ranks that must have settled; 0: nobody has come yet, who says */
    bool consumers_said; /* by the engine: nobody who comes knows better */
    struct consumer come[KVR_CONSUMERS_MAX];
    uint32_t come_count, ended_count; /* of them, those whose last offer has ended */
    uint64_t bytes;
    uint32_t writes, retries;
    kvr_status status; /* outcome; the first failure */
    char detail[KVR_DETAIL_BYTES];
    const struct consumer *blamed; /* whose failure that is; NULL: nobody's who came */
    struct refusal {               /* of who asked for it and cannot have it */
        uint32_t count;
        kvr_status status; /* of the last one */
        char agent[KVR_NAME_BYTES], detail[KVR_DETAIL_BYTES];
    } refusal;
};
#define PUBLISH_REFUSALS_TOLD 8 /* to its engine; whoever goes on asking is only counted */

enum offer_state { O_PARKED, O_OFFERED, O_LIVE, O_STOPPING, O_CLOSING, O_TOMB };

struct offer {
    uint64_t id, nonce, publish;
    enum offer_state state;
    uint32_t peer;
    bool peer_gone, dated; /* dated: its fetch has a deadline */
    uint32_t place;        /* of its rank among those that came for the publish */
    char request[KVR_REQUEST_BYTES];
    uint32_t attempt;
    uint64_t key;
    struct kvr_uuid source_engine;
    uint64_t source_generation;
    uint32_t source_tp, source_pp;
    struct kvr_rank target;
    uint64_t tokens, skip_tokens;
    kvr_ns deadline, deadline_tomb; /* of a parked WANT, then of its fetch; the tombstone's */
    struct kvr_region_set *remote;
    struct kvr_page_tables pages; /* the target's */
    uint32_t *siblings; /* pp << 16 | tp: of this engine the target asks these; NULL: this alone */
    uint32_t sibling_count;
    int32_t priority; /* of the target's fetch and the source's publish together */
    /* Which ends are copied through staging memory (stage.c). */
    bool gathers, scatters;
    bool stage_waits; /* for that of our pages */
    /* Where the target can move our pages to its own itself (neighbour.c). */
    bool may_move, moves; /* as its WANT says; it will */
    bool look_waits,
        unseen;           /* for whether its device sees our pages; it does not, or nobody knows */
    uint64_t stage_bytes; /* it may land in the target's, of so many bytes, though it need not;
                             0: it may not */
    struct kvr_fragment_verdict fragments;
    struct kvr_write_limits limits;
    kvr_digest_mode digest;
    uint32_t gives;                      /* bit g: of KV group g, which both have */
    kvr_path path;                       /* of our pages that it needs */
    uint64_t pieces, fragment_bytes;     /* planned; the shortest piece where it is a fragment */
    uint64_t token_next[KVR_GROUPS_MAX]; /* behind the last segment; at first what is skipped */
    uint32_t watch_next, segment_count, chunk_count;
    uint64_t bytes;
    uint64_t position_end; /* of what is planned, in its share of the target's staging memory */
    uint32_t group;        /* of ours that posts */
    struct push_job *job;  /* made at GRANT, the group thread's from then on */
    /* Where the rails that were granted cannot be reached (move.c) */
    uint64_t granted;       /* bits of the target's rails */
    bool local;             /* those are for its host alone, and there are others */
    uint32_t groups_used;   /* bits of ours; the last is `group` */
    uint32_t asks;          /* NO_RAILs told */
    bool asked;             /* and not answered by a GRANT */
    struct push_move *move; /* NULL: none is under way */
    uint32_t move_group;    /* where it leads */
    bool moving;            /* it is the group thread's, and commands wait */
    uint32_t husks;         /* jobs of earlier groups that wait for their completions */
    bool job_closed;
    struct push_again *parked, *parked_last;       /* that wait */
    struct push_segment *segments, *segments_last; /* not yet handed over before GRANT */
    struct push_segment
        *telling; /* its PLANs wait for room to the peer; it is told before posted */
    uint32_t telling_group, telling_page; /* of KV group; the first page that was not told */
    bool plan_said, final_said;           /* the first PLAN, FINAL; final_told: TAIL, too */
    bool final_told, landed;
    const struct push_segment *hashed; /* whose digests are told next, once all was posted; NULL */
    uint32_t digest_end;               /* chunks whose digests were told */
    struct push_list *lists, *lists_last; /* of lost rails; they wait for room to the peer */
    struct kvr_epoch_count counts[KVR_EPOCHS_PER_TRANSFER]; /* the last told by the group */
    uint32_t count_count;
    bool counting;              /* in the middle of the group's counts */
    bool owes_fail, owes_quiet; /* FAIL, and then QUIET, waits for room to the peer */
    uint32_t round;
    uint64_t rails;
    uint32_t retries, writes;
    kvr_ns ask_at, no_rail_at, fence_at; /* when to ask for others, to give up; KVR_NEVER */
    kvr_status status;
    char detail[KVR_DETAIL_BYTES];
};

/* What nobody has published yet may be nonsense: one peer's WANTs for it take at most these shares
 * of the table of offers and of the memory, so that other peers find room. */
#define OUTBOUND_PARKED_MAX   (KVR_TRANSFERS_MAX / 4)
#define OUTBOUND_PARKED_SHARE 16

#define OUTBOUND_SIGHTS 32 /* of a peer that are remembered; else it is asked again */

struct outbound_peer {
    bool up;
    uint32_t group_count; /* of its rails */
    uint64_t same_host; /* bits of those that only agents of its host can write to; 0: we cannot */
    struct kvr_write_limits limits;
    char agent[KVR_NAME_BYTES];
    struct outbound_sight {
        bool known, sees;
        struct kvr_rank source, target; /* each rank has a device of its own */
        uint64_t version;               /* of the source's set of regions */
    } sights[OUTBOUND_SIGHTS];          /* whose pages its devices see */
    uint32_t sight_next;
    uint32_t parked;                 /* WANTs of it that wait for their publish */
    uint64_t parked_bytes;           /* of their page tables */
    kvr_ns repair_at[KVR_RAILS_MAX]; /* our rail has a broken pair to it: recycle then */
    struct outbound_lost { /* by group of ours: since when it has reached none of these rails */
        uint64_t granted;
        kvr_ns since; /* KVR_NEVER: it does, as far as anybody knows */
    } lost[KVR_RAIL_GROUPS_MAX];
};

/* While draining what was published is still fetched; this is for who wants anything else. */
#define OFFER_DRAINING "the source agent is shutting down, and nobody has published this request"

#define OUTBOUND_RETRY_NS KVR_S /* how often a rail without an endpoint is opened again */

struct outbound {
    struct outbound_options options;
    const struct kvr_ports *ports;
    struct kvr_buddy *memory;
    struct kvr_engines engines;
    struct kvr_pool publishes, offers;
    struct kvr_table by_handle, by_key, by_nonce;
    struct outbound_peer peers[KVR_PEERS_MAX];
    bool recycling[KVR_RAILS_MAX], recycle_wanted[KVR_RAILS_MAX];
    kvr_ns retry_at[KVR_RAILS_MAX]; /* no endpoint could be opened: try again then; or KVR_NEVER */
    kvr_ns renewed_at[KVR_RAILS_MAX]; /* its present endpoint was opened; 0: with the agent */
    bool draining;
    kvr_ns stage_retry_at; /* for host memory there was none to be had: not before then */
    uint32_t tombs, parked;
    kvr_ns awake_at; /* the last event or tick; ticks come while anything lives */
    struct kvr_ended ended;
    uint64_t recycles, sent_bytes, leases_expired;
};

KVR_MUST_CHECK kvr_status outbound_init(struct outbound *outbound,
                                        const struct outbound_options *options,
                                        const struct kvr_ports *ports, struct kvr_buddy *memory);

/* Events. Everything in a request or message from outside is checked here. */
void outbound_request(struct outbound *outbound, kvr_ns now, uint32_t engine,
                      const struct kvr_request *request);
void outbound_engine_down(struct outbound *outbound, kvr_ns now, uint32_t engine);
void outbound_peer_up(struct outbound *outbound, kvr_ns now, uint32_t peer,
                      const struct kvr_msg_hello *hello);
void outbound_peer_lost(struct outbound *outbound, kvr_ns now, uint32_t peer, kvr_status status,
                        const char *detail);
/* After ports.send said KVR_AGAIN: there is room again. */
void outbound_peer_writable(struct outbound *outbound, kvr_ns now, uint32_t peer);
void outbound_message(struct outbound *outbound, kvr_ns now, uint32_t peer,
                      const struct kvr_message *message);
void outbound_group(struct outbound *outbound, kvr_ns now, const struct kvr_group_message *message);
/* ports.region_register is done. */
void outbound_registered(struct outbound *outbound, kvr_ns now, uint64_t id, kvr_status status);
void outbound_tick(struct outbound *outbound, kvr_ns now);
/* The scheduler's, about whatever is published under that request and attempt: nobody will come for
 * it any more, or its lease is lease_ns from now on. What a target has asked for is left alone.
 * Returns how many publishes it met. */
uint32_t outbound_abandon(struct outbound *outbound, kvr_ns now, const char *request,
                          uint32_t attempt);
uint32_t outbound_renew(struct outbound *outbound, kvr_ns now, const char *request,
                        uint32_t attempt, kvr_ns lease_ns);
/* Takes no new publishes from here on. */
void outbound_drain(struct outbound *outbound);
void outbound_cancel_all(struct outbound *outbound, kvr_ns now, kvr_status status,
                         const char *detail);

/* Publishes and offers that have not ended, tombstones aside. */
static inline uint32_t outbound_live(const struct outbound *outbound)
{
    return outbound->publishes.used_count + outbound->offers.used_count - outbound->tombs;
}
/* What the engine's why answers, as JSON. */
void outbound_why(const struct outbound *outbound, uint32_t engine, uint64_t handle, char *json,
                  size_t capacity);
/* All of these, for who drives either kind of agent. */
struct kvr_machine outbound_machine(struct outbound *outbound);

/* ---- between the files of this folder ------------------------------------------------------ */

/* outbound.c */
/* Sends, or ends the session: a message that the protocol needs may not be lost. */
void outbound_tell_peer(struct outbound *outbound, uint32_t peer,
                        const struct kvr_message *message);
void outbound_send_needed(struct outbound *outbound, const struct offer *offer,
                          struct kvr_message *message); /* about the offer */
/* The same, of what can wait. KVR_AGAIN: it was not sent; outbound_peer_writable lets the offer go
 * on.
 */
KVR_MUST_CHECK kvr_status outbound_send_patient(struct outbound *outbound,
                                                const struct offer *offer,
                                                struct kvr_message *message);
/* To the offer's group; while a move is under way it waits. */
void outbound_group_command(struct outbound *outbound, struct offer *offer, uint32_t kind,
                            void *pointer);
/* Memory for each of them; false: for none. */
bool outbound_copies_take(struct outbound *outbound, size_t bytes, void *ret_copies[]);
/* publish.c */
void publish_open(struct outbound *outbound, kvr_ns now, uint32_t engine, uint64_t handle,
                  const struct kvr_req_source_open *open);
void publish_request(struct outbound *outbound, kvr_ns now, struct publish *publish,
                     const struct kvr_request *request);
void publish_fail(struct outbound *outbound, kvr_ns now, struct publish *publish, kvr_status status,
                  const char *detail);
void publish_check_free(struct outbound *outbound, kvr_ns now, struct publish *publish);
/* An offer for it that fails before it was matched: its own engine hears of it too. */
void publish_refuse(struct outbound *outbound, struct publish *publish, uint32_t peer,
                    const struct kvr_error *error);
struct publish *publish_find(const struct outbound *outbound, uint32_t engine, uint64_t handle);
struct publish *publish_match(const struct outbound *outbound, const struct offer *offer);
uint64_t match_key(const char *request, uint32_t attempt, const struct kvr_uuid *engine,
                   uint64_t generation, uint32_t tp, uint32_t pp);
/* A failure, if it is the first; no consumer that comes again mends it. */
void publish_blame(struct publish *publish, kvr_status status, const char *detail);
/* consumer.c */
/* KVR_EXISTS: its rank is served already; else what is against another consumer. */
KVR_MUST_CHECK kvr_status consumer_check(const struct offer *offer, const struct publish *publish,
                                         struct kvr_error *error);
/* Where the engine did not say how many there are, those that come do. */
KVR_MUST_CHECK kvr_status consumers_know(struct outbound *outbound, kvr_ns now,
                                         const struct offer *offer, struct publish *publish,
                                         struct kvr_error *error);
void consumer_comes(struct publish *publish, struct offer *offer);
void consumer_ends(struct publish *publish, const struct offer *offer);
/* lease.c */
void publish_renew(struct publish *publish, kvr_ns now);
void publish_lease_tick(struct outbound *outbound, kvr_ns now, struct publish *publish);
/* offer.c */
void want_received(struct outbound *outbound, kvr_ns now, uint32_t peer, uint64_t nonce,
                   const struct kvr_msg_want *want);
void pages_received(struct outbound *outbound, kvr_ns now, struct offer *offer,
                    const struct kvr_msg_pages *pages);
/* Its target may copy from our engine's memory: what it is told in PLAN is lent. */
bool offer_lends(const struct outbound *outbound, const struct offer *offer,
                 const struct publish *publish);
/* Bits of the rails that it names, of those that the offer may use. */
uint64_t granted_rails(const struct outbound *outbound, const struct offer *offer,
                       const struct kvr_msg_grant *grant);
void offer_granted(const struct outbound *outbound, struct offer *offer, uint64_t rails);
void grant_received(struct outbound *outbound, kvr_ns now, struct offer *offer,
                    const struct kvr_msg_grant *grant);
void offer_match(struct outbound *outbound, kvr_ns now, struct offer *offer,
                 struct publish *publish);
void offer_advance(struct outbound *outbound, kvr_ns now, struct offer *offer);
void offer_segments_hand(struct outbound *outbound, struct offer *offer);
void segment_free(struct outbound *outbound, struct push_segment *segment); /* with its plan */
/* Sets where its chunks lie in a share of the target's staging memory, behind what the offer has
 * there. */
KVR_MUST_CHECK kvr_status segment_position(struct outbound *outbound, struct offer *offer,
                                           struct push_segment *segment, uint64_t share_bytes,
                                           struct kvr_error *error);
/* settle.c */
void offer_fail(struct outbound *outbound, kvr_ns now, struct offer *offer, kvr_status status,
                const char *detail);
/* The target is done with it (KVR_OK), gave it up, or is gone. */
void offer_ended(struct outbound *outbound, kvr_ns now, struct offer *offer, kvr_status status,
                 const char *detail);
void offer_free(struct outbound *outbound, struct offer *offer);
void offer_unpark(struct outbound *outbound, const struct offer *offer);
void offer_group(struct outbound *outbound, kvr_ns now, struct offer *offer,
                 const struct kvr_group_message *message);
void offer_tick(struct outbound *outbound, kvr_ns now, struct offer *offer);
/* lost.c */
void offer_listed(struct outbound *outbound, struct offer *offer, struct push_list *list);
void offer_lists_tell(struct outbound *outbound, struct offer *offer); /* those that wait */
void offer_lists_drop(struct outbound *outbound, struct offer *offer);
void offer_list_lost(struct outbound *outbound, struct offer *offer); /* on closed endpoints */
void offer_no_rail(struct outbound *outbound, kvr_ns now, struct offer *offer);
void missing_received(struct outbound *outbound, kvr_ns now, struct offer *offer,
                      const struct kvr_msg_missing *missing);
void room_received(struct outbound *outbound, kvr_ns now, struct offer *offer,
                   const struct kvr_msg_room *room);
void epoch_ended(struct outbound *outbound, uint32_t peer, const struct kvr_msg_epoch_ended *ended);
void pair_broken(struct outbound *outbound, kvr_ns now, const struct kvr_group_message *message);
void outbound_rail_recycled(struct outbound *outbound, kvr_ns now,
                            const struct kvr_group_message *message);
void outbound_rail_recycle(struct outbound *outbound, uint32_t rail);
/* Recycles those of our rails whose time for it has come, for what is broken between them and the
 * peer. */
void outbound_repair(struct outbound *outbound, kvr_ns now, uint32_t peer);
void offer_event(struct outbound *outbound, kvr_ns now, const struct offer *offer,
                 kvr_event_kind kind);
/* owed.c */
void offer_fail_tell(struct outbound *outbound, struct offer *offer);
void offer_quiet_tell(struct outbound *outbound, struct offer *offer);
void offer_owed_tell(struct outbound *outbound, struct offer *offer); /* what waits for room */
static inline bool offer_owes(const struct offer *offer)
{
    return offer->owes_fail || offer->owes_quiet;
}
/* share.c */
/* How many target ranks of that engine could need something of this publish, by their sizes. */
uint32_t publish_consumers(const struct outbound *outbound, const struct publish *publish,
                           const struct offer *offer);
/* Of which KV groups this rank gives (bits): those that both have, but not what a sibling holds
 * alike that was chosen for this request and target rank. */
uint32_t offer_gives(const struct outbound *outbound, const struct offer *offer,
                     const struct publish *publish);
/* stage.c */
/* What it gives, the limits of its writes, and what is done about short pieces: recorded, or
 * KVR_INCOMPATIBLE, as the option says. */
KVR_MUST_CHECK kvr_status offer_way(struct outbound *outbound, struct offer *offer,
                                    const struct publish *publish, struct kvr_error *error);
/* The stage of our pages that it waited for is open, or cannot be. */
/* neighbour.c */
/* Whether the target will move our pages itself: offer->moves. True: that is being asked, and the
 * way is chosen later. */
bool offer_sight(struct outbound *outbound, struct offer *offer, const struct publish *publish);
void offer_looked(struct outbound *outbound, kvr_ns now, struct push_look *look);
void offer_stage_opened(struct outbound *outbound, kvr_ns now, struct offer *offer,
                        kvr_status status);
/* move.c */
bool offer_takes(const struct offer *offer, uint32_t kind); /* else it is to be parked */
void offer_park(struct outbound *outbound, struct offer *offer, uint32_t kind, void *pointer);
bool offer_may_ask(const struct outbound *outbound, const struct offer *offer);
void offer_ask(struct outbound *outbound, struct offer *offer);
void grant_again(struct outbound *outbound, kvr_ns now, struct offer *offer,
                 const struct kvr_msg_grant *grant);
void offer_moved(struct outbound *outbound, struct offer *offer, struct push_move *move);
void offer_move_drop(struct outbound *outbound, struct offer *offer); /* NULL is fine */
void offer_unreachable(struct outbound *outbound, kvr_ns now, struct offer *offer);
/* digest.c */
/* Everything of the transfer was posted once: what its bytes were, where the target asked. */
void offer_hashed(struct outbound *outbound, struct offer *offer,
                  const struct push_segment *segment);
void offer_digests_tell(struct outbound *outbound, struct offer *offer); /* what is left of them */

#endif
