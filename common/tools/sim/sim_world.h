/* A world in one process and in virtual time: agents, engines and the network between them, from
 * one seed. The agents' state machines and rail groups are the real ones; what is simulated is what
 * they stand on.
 *
 *   sim.c          the command: a world for each seed
 *   sim_world.c    time: the heap of events, a run from its first to its last moment
 *   sim_agent.c    an agent's process: its ports, its steps, its death and restart
 *   sim_group.c    its rail groups, each as its thread would step it
 *   sim_group_note.c  its messages, for the history of a failure
 *   sim_connection.c  bytes between two agents, in order, late, and lost from any byte on
 *   sim_peer.c     the real sessions over them: dialed, redialed, ended
 *   sim_accept.c   incoming connections: resumed, begun, refused
 *   sim_stage.c    devices, where cards do not reach an engine's pages
 *   sim_engine.c   an engine: its notices, its death
 *   sim_region.c   its regions: their memory and layouts, dropped and added
 *   sim_lodger.c   regions that lie in the memory of another
 *   sim_rank.c     how engines are divided into ranks, and which of them give to which
 *   sim_page.c     where its pages lie, and which request has which
 *   sim_reporter.c  what agents report, numbered, kept and sent again
 *   sim_scheduler.c  what the scheduler makes of it
 *   sim_script.c   what engines ask, in which order and when
 *   sim_proof.c    secrets and tenants of requests, and WANTs that do not prove them
 *   sim_keys.c     keys of one transfer alone: open when GRANT names them, closed when it ends
 *   sim_planes.c   rails in networks that do not reach each other: do writes stay in theirs?
 *   sim_grey.c     pairs that hang beside a pair that carries
 *   sim_ways.c     ways from one card to one card: lost, flapping, slow, or without answers
 *   sim_share.c    whether tenants share the rails by their weights
 *   sim_spans.c    the times of layers and the sums of rails that agents send with an end
 *   sim_order.c    what an operator asks of requests that wait for their targets
 *   sim_content.c  what every byte should be
 *   sim_check.c    what must hold at every moment
 *   sim_time.c     how long anything may take
 *   sim_verdict.c  what must hold at the end
 *   sim_fault.c    what can go wrong, and what has
 *   sim_strike.c   what strikes, and when
 *   sim_stranger.c  a program that reaches the rails' ports and is no peer
 *   sim_silence.c  agents and engines that stand still, and what an engine's library makes of that
 *   sim_death.c    engines and agents that die, drain or stop, and come back
 *   sim_history.c  the history, for a reader of a failure
 *   sim_host.c     a host with many cards, in virtual time: the speed that its rails allow
 *   sim_host_print.c  its result as a table or as JSON
 *
 * Everything is owned by struct sim_world and lives for one seed. One thread. */
#ifndef KVR_TOOLS_SIM_WORLD_H
#define KVR_TOOLS_SIM_WORLD_H

#include "base/rng.h"
#include "decode-agent/inbound.h"
#include "decode-agent/land.h"
#include "fabric/sim/fabric_sim.h"
#include "kv/ranks.h"
#include "prefill-agent/outbound.h"
#include "tools/sim/sim_fault.h"
#include "tools/sim/sim_history.h"
#include "tools/sim/sim_limits.h"
#include "tools/sim/sim_peer.h"
#include "tools/sim/sim_planes.h"
#include "tools/sim/sim_reporter.h"
#include "tools/sim/sim_share.h"
#include "tools/sim/sim_silence.h"
#include "tools/sim/sim_ways.h"

struct sim_world;
struct sim_scheduler;

struct sim_event {
    kvr_ns at;
    uint64_t order; /* equal times: as they were made */
    void (*run)(struct sim_world *world, const struct sim_event *event);
    void *object;
    uint64_t a, b;
};

/* ---- agents -------------------------------------------------------------------------------- */

struct sim_group {
    struct sim_agent *agent;
    uint32_t number;
    struct kvr_group *group;
    struct sim_stage *stage; /* between its cards and its engines' pages; NULL: they reach them */
    bool armed;
    kvr_ns at, held_until; /* held_until: its thread gets no core before */
    union {
        struct push *push;
        struct land *land;
    };
    struct sim_share share; /* a source's */
};

struct sim_agent {
    struct sim_world *world;
    uint32_t number;
    bool source, alive;
    bool staged; /* cards do not reach its engines' pages */
    bool stages; /* they do, but short pieces may be copied */
    uint64_t stage_bytes;
    uint32_t life; /* grows with every start: events of an older life are void */
    kvr_ns stopped_until, stopped_at, stopped_before; /* before: the end of the stop before */
    kvr_ns alive_at;                                  /* as its engines see it */
    kvr_ns heard_at[SIM_AGENTS]; /* when the latest was sent that came from each */
    struct sim_peer peers[SIM_PEERS];
    struct sim_reporter *reporter;
    char address[KVR_NAME_BYTES];
    uint64_t boot;
    struct kvr_write_limits limits;
    struct kvr_sim_host *host;
    struct kvr_fabric fabric;
    struct kvr_rail *rails[SIM_RAILS];
    uint32_t rail_count;
    struct sim_planes planes; /* a source's */
    struct kvr_rail_groups groups;
    struct sim_group group[SIM_GROUPS];
    bool loop_armed;
    struct kvr_ports ports;
    void *memory;
    struct kvr_buddy buddy;
    size_t used_at_start;
    void *hoard[SIM_HOARD]; /* memory taken away for a while */
    uint32_t hoard_count;
    struct kvr_machine machine;
    union { /* what it is */
        struct outbound *outbound;
        struct inbound *inbound;
    };
};

/* ---- engines ------------------------------------------------------------------------------- */

struct sim_place { /* what one byte of a region belongs to */
    uint32_t layer, page, part, offset;
};

struct sim_owner {
    uint32_t user; /* index of the publish or fetch + 1; 0: none */
    uint32_t logical;
};

struct sim_engine {
    struct sim_world *world;
    struct sim_agent *agent;
    bool alive, attached, released; /* released: the agent called engine_done */
    uint32_t number, index;         /* index: in its agent */
    struct kvr_rank rank;
    struct kvr_share share; /* layers and heads that it holds */
    uint32_t page_tokens;
    bool heads_outer; /* in a page */
    uint32_t region_count, page_count;
    struct kvr_region_layout layouts[SIM_REGIONS];
    uint8_t *memory[SIM_REGIONS];
    uint32_t lenders[SIM_REGIONS]; /* the region that brought its memory, most often itself */
    bool pooled; /* both KV groups may have one memory, with page ids that differ: sim_lodger.h */
    struct sim_owner owners[SIM_PAGES];
    struct kvr_region *regions[SIM_REGION_LIVES]; /* as the agent has them; NULL: done with */
    uint64_t region_serials[SIM_REGION_LIVES];    /* never given twice, as addresses are */
    uint32_t region_lives;
    bool region_changes;     /* a region is dropped and will come again */
    uint32_t layers_missing; /* bits: of that region */
    uint32_t rotor;
    struct kvr_shared_page *page;
    uint64_t promised[SIM_STREAMS]; /* what a word will be after all that was queued on it */
    struct sim_task *tasks_first, *tasks_last;
    struct sim_library library;
};

/* One layer of one segment, to be computed in its turn. */
struct sim_task {
    struct sim_task *next;
    struct sim_publish *publish;
    uint32_t segment, layer, word;
    uint64_t value;
};

/* ---- requests ------------------------------------------------------------------------------ */

struct sim_segment {
    uint64_t token_first, token_end, base;
    uint32_t word;
    bool queued; /* for computing */
};

struct sim_user { /* what a publish and a fetch have in common */
    struct sim_engine *engine;
    bool words_written;   /* the engine wrote over its own revocation words while it was open */
    uint64_t handle, key; /* key: of the contents */
    uint32_t pages[SIM_PAGES], page_count; /* the same in every KV group */
    uint32_t pages_told[SIM_KV_GROUPS];
    uint32_t tries; /* to get pages */
    bool open,
        ended;     /* the agent knows it; its terminal notice came, or its agent or engine died */
    bool accepted; /* the agent said that it has found its other side */
    bool end_held; /* its engine is stopped, and will read the terminal notice */
    bool orphan;   /* ended without a notice, because its agent or engine died */
    kvr_status outcome;
    uint64_t bytes; /* in its terminal notice */
    kvr_notice_kind terminal;
    uint32_t step;
    kvr_ns ended_at;
};

struct sim_publish {
    struct sim_user user;
    struct sim_request *request;
    uint64_t tokens;            /* bound given at open */
    kvr_ns lease_ns, lease_end; /* as it was renewed last */
    bool renewed;               /* by its engine, after LEASE_LOW */
    uint32_t consumers, segment_count;
    struct sim_segment segments[SIM_SEGMENTS];
    uint8_t tail[SIM_TAIL_BYTES];
    uint32_t tail_bytes;
    bool has_tail;
    bool disturbed; /* it may end otherwise than its targets */
    uint32_t life;  /* of its agent, when it ended */
};

struct sim_fetch {
    struct sim_user user;
    struct sim_request *request;
    uint64_t tokens, skip;
    bool held;          /* its source learns what is skipped after hold_ns */
    uint64_t skip_late; /* then */
    kvr_ns hold_ns;
    kvr_ns deadline;
    struct sim_publish *publishes[SIM_RANKS]; /* that it can only match, one of each source rank */
    uint32_t source_count;
    bool after;    /* opened when the fetch before it of the same rank has failed */
    bool twice;    /* its rank fetches it twice: the last fetch may be refused, no other rank */
    bool foreign;  /* it names another tenant than its request's */
    bool unproven; /* one of its WANTs did not prove the secret, or was foreign */
    bool corrupt;  /* a landed byte is not the source's: only DONE would be wrong */
    bool tail_seen, failing_seen;
    bool failing_held; /* its engine is stopped, and will see that it fails */
    struct client_told told;
    uint32_t granted; /* of its transfers */
    kvr_ns granted_at;
    bool watched; /* landed word `word` counts its layers, from landed_base on */
    uint32_t word;
    uint64_t landed_base;
    uint32_t layers_missing;                 /* bits: in no region when it was opened */
    uint64_t layer_in[SIM_LAYERS];           /* a bit for geometry.page_tokens: announced */
    uint64_t away[SIM_SOURCES][SIM_LAYERS];  /* the same: of that source, in a long stop */
    kvr_ns away_at[SIM_SOURCES][SIM_LAYERS]; /* when the last of them did */
};

struct sim_request {
    struct sim_world *world;
    uint32_t number;
    char name[KVR_REQUEST_BYTES];
    struct sim_publish publishes[SIM_PUBLISHES]; /* the first source_count: of all source ranks */
    uint32_t source_count, publish_count;
    struct sim_fetch fetches[SIM_CONSUMERS];
    uint32_t fetch_count;
};

/* ---- the world ----------------------------------------------------------------------------- */

struct sim_totals {
    uint64_t seeds, transfers, done, chunks;
    uint64_t lodgers; /* regions that were added in the memory of another */
    uint64_t injected[SIM_FAULT_COUNT];
    uint64_t mid[SIM_FAULT_COUNT]; /* seeds where it struck in mid transfer */
};

/* Memory that seeds use one after the other. */
struct sim_memory {
    void *tables[SIM_AGENTS];
    struct outbound *outbounds;
    struct inbound *inbounds;
    struct push *pushes;                           /* SIM_GROUPS of each source */
    struct land *lands;                            /* and of each target */
    struct kvr_revocation_words *revocation_words; /* SIM_ENGINES of each source, by index */
    struct kvr_message_decoder *decoder;
    void *sessions[SIM_AGENTS][SIM_PEERS];
    uint8_t *buffers[SIM_BUFFERS]; /* of connections, not in use */
    uint32_t buffer_count;
    struct sim_scheduler *scheduler;
};

struct sim_side {
    uint32_t tp_size, pp_size;
    uint32_t page_tokens;
    bool heads_outer;
};

struct sim_geometry {
    uint32_t layers, part_count, head_bytes, heads;
    uint32_t group_split; /* the first layer of the second KV group; layers: there is one */
    bool states;          /* the second KV group has one page a request */
    uint32_t page_tokens; /* the smaller of both sides': segments begin at its multiples */
    uint8_t parts[2];
    struct sim_side source, target;
};

struct sim_world {
    uint64_t seed;
    struct kvr_rng rng;
    kvr_ns now, last_injection, asked_at; /* asked: by an engine, or computed by one */
    uint64_t writes_then;                 /* accepted up to the later of both */
    struct sim_memory *memory;
    struct sim_totals *totals;
    struct kvr_sim_net *net;
    struct sim_geometry geometry;
    struct sim_agent agents[SIM_AGENTS];
    uint32_t source_count, target_count;
    struct sim_connection *connections;
    struct sim_stage *stages; /* of agents that are gone too */
    bool revocable; /* the target copies and a source stages: a failed write ends its transfer */
    bool target_copies; /* as with provider local; else cards copy */
    bool mixed;         /* cards do, and each group also has a rail where the target copies */
    bool needs_senders; /* cards take writes only from endpoints that they know */
    bool tagged;        /* 64 bits of an immediate arrive, else 32 */
    uint32_t guessed;   /* slots in use that a stranger named */
    struct sim_visit {  /* of strangers, that must end the epoch */
        uint32_t agent, life, rail, epoch;
    } visits[SIM_VISITS];
    uint32_t visit_count;
    bool neighbours;    /* of those worlds: most agents stage, and could move pages themselves */
    bool narrow;        /* rails have less room than all requests, which come at once, could use */
    bool many_groups;   /* agents divide their rails */
    bool failover;      /* one group carries on for another */
    kvr_ns apart_until; /* before that no agent can dial */
    uint32_t sessions_lost, unproven_count;
    uint64_t unproven[SIM_UNPROVEN]; /* transfers with a WANT without a proof, or foreign */
    bool lodgers;                    /* of most engines regions lie in the memory of another */
    uint32_t late_promille;          /* of the control channel's packets */
    struct sim_reporter *reporters;
    kvr_ns scheduler_back_at;
    uint64_t next_handle;
    struct sim_engine engines[SIM_ENGINES];
    uint32_t engine_count;
    uint64_t region_serial; /* the last */
    struct sim_request requests[SIM_REQUESTS];
    uint32_t request_count;
    struct sim_event *events; /* a heap */
    uint32_t event_count, event_capacity;
    uint64_t order, moments;
    kvr_ns message_ns, step_ns, compute_ns, latency_ns; /* mean delays */
    uint32_t busy;                 /* scripts and tasks that have not come to their end */
    uint64_t allowed, faults, mid; /* bits of sim_fault; mid: struck in mid transfer */
    struct sim_ways ways;
    uint64_t injected[SIM_FAULT_COUNT];
    bool ending, failed; /* ending: nothing strikes any more */
    char what[512];
    int failed_request; /* number, or -1 */
    struct sim_history history;
};

/* sim_world.c. False: something did not hold; world->what says it. */
bool sim_world_run(struct sim_world *world, uint64_t seed);
void sim_at(struct sim_world *world, kvr_ns at,
            void (*run)(struct sim_world *, const struct sim_event *), void *object, uint64_t a,
            uint64_t b);
/* A delay around the mean: often short, sometimes several times as long. */
kvr_ns sim_some(struct sim_world *world, kvr_ns mean);
/* The first failure counts. request: its number, or -1. */
void sim_fail(struct sim_world *world, int request, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* sim_proof.c */
void sim_secret(const struct sim_request *request, struct kvr_secret *ret_secret);
/* The tenant of the request, or the other one. */
const char *sim_tenant(const struct sim_request *request, bool foreign);
/* Of every agent, with weights by chance. */
void sim_tenants(struct kvr_rng *rng, struct kvr_tenants *ret_tenants);
/* NULL, or the fetch of a WANT that loses its proof: sim_proof_spoiled() follows if it is sent. */
struct sim_fetch *sim_proof_spoil(struct sim_agent *agent, uint32_t peer,
                                  struct kvr_message *message);
void sim_proof_spoiled(struct sim_fetch *fetch, uint64_t transfer);
/* A source says nothing to such a target but that its request is not published. */
void sim_proof_check_answer(struct sim_agent *agent, const struct kvr_message *message);

/* sim_agent.c */
void sim_agent_start(struct sim_agent *agent);
void sim_agent_die(struct sim_agent *agent);
void sim_agent_stop(struct sim_agent *agent); /* at the end of a world */
void sim_agent_wake(struct sim_agent *agent); /* its groups' threads */
void sim_agent_wake_loop(struct sim_agent *agent);
/* The event is of a life that has ended. */
bool sim_agent_void(const struct sim_agent *agent, const struct sim_event *event);
void sim_agent_note(struct sim_agent *agent, const char *what, uint64_t nonce, uint64_t a,
                    uint64_t b, uint64_t c, const char *detail);
/* The agent is stopped: the event comes again when it wakes. */
bool sim_agent_deferred(struct sim_agent *agent, const struct sim_event *event, kvr_ns now);
bool sim_agent_idle(const struct sim_agent *agent);
void sim_agent_check_empty(struct sim_agent *agent);
uint32_t sim_agent_live(const struct sim_agent *agent); /* what its end would wait for */

/* sim_group.c */
void sim_groups_open(struct sim_agent *agent);
void sim_group_close(struct sim_group *group);
void sim_group_wake(struct sim_group *group);
bool sim_group_listen(struct sim_group *group); /* the loop's; true: there was a message */
void sim_group_command(void *self, const struct kvr_group_message *message); /* self: its agent */
bool sim_warms_up(const struct sim_world *world); /* its pairs, before users' writes */
struct sim_group *sim_group_of(struct sim_agent *agent, uint32_t rail);
/* Those of its agent that are its own; NULL in the other places. */
void sim_group_rails(const struct sim_group *group, struct kvr_rail *ret_rails[SIM_RAILS]);
bool sim_group_idle(const struct sim_group *group);
void sim_group_check_empty(const struct sim_group *group);
/* sim_group_note.c */
void sim_group_note(const struct sim_group *group, const struct kvr_group_message *message);

/* sim_stage.c */
void sim_stage_open(struct sim_group *group);
kvr_ns sim_stage_next(const struct sim_group *group); /* when a copy ends; KVR_NEVER */
void sim_stage_choose(struct sim_agent *agent);
/* The pages of a region that cards reach, to be copied too. */
void sim_stage_give(struct sim_agent *agent, struct kvr_region *region);
kvr_status sim_stage_region(struct sim_group *group, const struct kvr_region_layout *layout,
                            void *base, struct kvr_region **ret_region, struct kvr_error *error);
void sim_region_release(struct sim_agent *agent, struct kvr_region *region); /* NULL is fine */
void sim_stage_lose(const struct kvr_region *region);                        /* its engine died */
bool sim_stage_has(const struct sim_agent *agent, const uint8_t *address);
/* The fetch with this part of a target's staging memory; NULL: none any more. */
struct sim_fetch *sim_stage_fetch(struct sim_agent *agent, const uint8_t *address);
void sim_stage_check_land(struct sim_world *world, const struct kvr_sim_access *access);
void sim_stage_check_empty(const struct sim_group *group);
void sim_stages_free(struct sim_world *world);

/* sim_engine.c */
/* Of the engine with that index in its source agent. */
struct kvr_revocation_words *sim_engine_words(const struct sim_agent *agent, uint32_t index);
/* A source engine that means harm writes over all the words that it can reach. */
void sim_engine_words_write(struct sim_engine *engine);
struct sim_engine *sim_engine_new(struct sim_world *world, struct sim_agent *agent,
                                  const struct kvr_rank *rank);
void sim_engine_attach(struct sim_engine *engine);
void sim_engine_detach(struct sim_engine *engine); /* it is gone, as its agent sees it */
void sim_engine_die(struct sim_engine *engine);
void sim_engine_notice(void *self, uint32_t index, const struct kvr_notice *notice); /* a port */
void sim_engine_note(const struct sim_engine *engine, const char *what, int request, uint64_t a,
                     uint64_t b, const char *detail);
/* The engine gets this event about one of its users. */
void sim_engine_told(struct sim_user *user, const struct kvr_notice *notice);
void sim_engine_agent_lost(struct sim_engine *engine);
/* It has layers of this KV group, besides those that are missing. */
bool sim_engine_has_group(const struct sim_engine *engine, uint32_t group, uint32_t layers_missing);
void sim_user_end(struct sim_user *user); /* its pages are the engine's again */
/* Users are numbered: publishes even, fetches odd. */
struct sim_user *sim_user_of(struct sim_world *world, uint32_t owner,
                             struct sim_publish **ret_publish, struct sim_fetch **ret_fetch);
/* *owner: 0 before the first call, then the number of the last user. NULL: there is no further one.
 */
struct sim_user *sim_user_next(struct sim_world *world, uint32_t *owner,
                               struct sim_publish **ret_publish, struct sim_fetch **ret_fetch);
/* That of an engine of this agent which has not been released; NULL. */
struct sim_user *sim_user_find(struct sim_agent *agent, uint32_t index, uint64_t handle,
                               struct sim_publish **ret_publish, struct sim_fetch **ret_fetch);
uint32_t sim_publish_owner(const struct sim_publish *publish);
uint32_t sim_fetch_owner(const struct sim_fetch *fetch);

/* sim_rank.c */
void sim_sides_choose(struct sim_world *world);
/* An engine with all of its ranks, at this agent and perhaps another of its side. */
void sim_ranks_begin(struct sim_world *world, struct sim_agent *agent);
bool sim_rank_first(const struct sim_engine *engine);
/* All ranks of the engine with this first rank; returns how many. */
uint32_t sim_ranks_of(struct sim_engine *first, struct sim_engine *ret_ranks[SIM_RANKS]);
bool sim_ranks_meet(const struct sim_engine *a, const struct sim_engine *b);

/* sim_script.c */
void sim_script_begin(struct sim_world *world);
void sim_ask(struct sim_engine *engine, const struct kvr_request *request);
/* It failed: its rank may fetch the request again. */
void sim_fetch_after(struct sim_fetch *fetch);
void sim_publish_again(struct sim_request *request, struct sim_engine *engine);

/* sim_order.c */
void sim_abandon(struct sim_world *world);
void sim_renew(struct sim_world *world);
void sim_lease_low(struct sim_publish *publish); /* its engine got LEASE_LOW */
void sim_check_lease_end(const struct sim_publish *publish);

uint64_t sim_key(const struct sim_request *request, uint64_t generation);
uint64_t sim_publish_end(const struct sim_publish *publish); /* behind its last token */

/* sim_content.c */
void sim_content_fill(struct sim_publish *publish, uint32_t layer, uint64_t token_first,
                      uint64_t token_end);
/* Whether these bytes of a page are what the contents of `key` are, tokens outside of
 * [token_first, token_end) left out. A state is that after token_end. */
bool sim_content_right(const struct sim_engine *engine, uint64_t key, const struct sim_place *place,
                       uint32_t logical, const uint8_t *bytes, uint32_t byte_count,
                       uint64_t token_first, uint64_t token_end);

/* sim_check.c, sim_time.c and sim_verdict.c */
void sim_check_read(struct sim_world *world, const struct kvr_sim_access *access);
void sim_check_land(struct sim_world *world, const struct kvr_sim_access *access);
struct kvr_sim_hooks sim_check_hooks(struct sim_world *world);
void sim_check_layer(struct sim_fetch *fetch, const struct kvr_notice *notice);
void sim_check_tail(struct sim_fetch *fetch, const struct kvr_notice *notice);
void sim_check_end(struct sim_fetch *fetch, uint64_t token_end);
/* What its word says beside that notice. */
void sim_check_landed(const struct sim_fetch *fetch, kvr_notice_kind kind);
void sim_check_salvage(struct sim_fetch *fetch, uint64_t token_first, uint64_t token_end);
void sim_check_world(struct sim_world *world);
/* From here on counts how long anything takes: what strikes does so until then; an engine asked. */
void sim_time_struck(struct sim_world *world, kvr_ns until);
void sim_time_asked(struct sim_world *world);
/* The deadline that a fetch names, 0 for its agent's: when its engine has said what it has, after
 * hold_ns, SIM_HURRY_NS are left, and the verdict counts on that. */
uint32_t sim_deadline_ms(uint32_t chosen_ms, kvr_ns hold_ns);
/* A publish or a fetch of this request, the other one NULL, got its terminal notice: in time? */
void sim_check_time(const struct sim_request *request, const struct sim_publish *publish,
                    const struct sim_fetch *fetch);

/* sim_fault.c, sim_strike.c and sim_death.c */
void sim_fault_begin(struct sim_world *world);    /* which faults this world has */
void sim_fault_schedule(struct sim_world *world); /* when each of them strikes */
void sim_fault_moved(struct sim_world *world);    /* other rails carry on with a transfer */
void sim_stranger(struct sim_world *world);       /* sim_stranger.c */
void sim_strangers_check(struct sim_world *world);
void sim_hoard_end(struct sim_agent *agent); /* its memory is free again */
kvr_ns sim_soon(struct sim_world *world);    /* a time from 1 us to 60 ms, any scale alike */
void sim_injected(struct sim_world *world, sim_fault fault);
void sim_disturb_all(struct sim_world *world); /* publishes may end otherwise than their targets */
bool sim_mid_transfer(const struct sim_world *world); /* one has some of its chunks, not all */
void sim_mended(struct sim_world *world);             /* what struck earlier ends now */
void sim_injected_until(struct sim_world *world, sim_fault fault, kvr_ns until);
void sim_fault_note(struct sim_world *world, sim_fault fault, kvr_ns until); /* it counts as one */
bool sim_user_lives(const struct sim_user *user); /* it may end yet, and its engine lives */
struct sim_agent *sim_agent_choose(struct sim_world *world); /* any */
bool sim_agent_stopped(const struct sim_agent *agent);
kvr_ns sim_short_or_long(struct sim_world *world, kvr_ns most);
void sim_engine_death(struct sim_world *world);
void sim_engine_death_soon(struct sim_engine *engine);
void sim_agent_death(struct sim_world *world);
void sim_drain(struct sim_world *world);
void sim_agent_stop_awhile(struct sim_world *world);
static inline bool sim_has(const struct sim_world *world, sim_fault fault)
{
    return (world->faults >> fault & 1) != 0;
}

#endif
