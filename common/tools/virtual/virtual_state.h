/* The world of one run: requests, engines, rail groups and cards, and the events to come. Private
 * to virtual_*.c.
 *
 *   virtual_run.c       the loop of events, arrivals, the router
 *   virtual_heap.c      the events to come
 *   virtual_prefill.c   prefill engines: queue, chunks, layers
 *   prefill_time.c      how long a layer takes
 *   virtual_decode.c    decode engines: admission, grant, decoding
 *   virtual_pool.c      pages of an engine, and their owners
 *   virtual_cut.c       the plan of each segment
 *   virtual_post.c      rail threads: which transfer posts next, and on which card
 *   virtual_cards.c     writes on their way, cards of both ends, landing
 *   rail_costs.c        the costs of writes and messages
 *   virtual_check.c     faults of the run itself
 *   virtual_figures.c   times, use of cards, digest
 *   virtual_record.c    the run as a trace of transfers
 *   virtual_options.c   options of both commands
 *   virtual_print.c     figures for people, and as JSON
 *   virtual.c           `kvrail replay --virtual`
 *
 *   plan_fleet.c        `kvrail plan-fleet`
 *   plan_fleet_grid.c   its grid, the fleet that is enough, the knee
 *   plan_fleet_print.c  the table and the plot, and JSON
 *   plan_fleet_html.c   the page
 */
#ifndef KVR_TOOLS_VIRTUAL_VIRTUAL_STATE_H
#define KVR_TOOLS_VIRTUAL_VIRTUAL_STATE_H

#include <sys/queue.h>
#include <xxhash.h>

#include "base/buddy.h"
#include "kv/plan.h"
#include "tools/virtual/virtual_heap.h"
#include "tools/virtual/virtual_pool.h"
#include "tools/virtual/virtual_run.h"

#define NO_NUMBER UINT32_MAX

typedef enum virtual_kind {
    EVENT_ARRIVAL, /* subject: a request of the trace */
    EVENT_LAYER,   /* a prefill engine: it has computed a layer */
    EVENT_GRANT,   /* a live request */
    EVENT_POST,    /* a source's rail group */
    EVENT_ARRIVE,  /* a packet: its first byte is at the target's card */
    EVENT_LAND,    /* a packet: its last byte is in place */
    EVENT_FREE,    /* a live request: the source has its pages back */
    EVENT_DECODED, /* a live request: its last token */
} virtual_kind;

/* A part of the prompt that is computed at once; the first one may have been in the source's cache.
 * Tokens
 * that the target has already are not moved. */
struct chunk {
    uint32_t token_first, token_end, move_first;
    kvr_ns start, layer_ns; /* layer l is ready at start + (l + 1) · layer_ns */
    uint32_t layer_writes;  /* of one rank; 0: nothing moves */
    uint64_t layer_bytes;
    struct kvr_plan *plan; /* until all has landed */
};

/* One layer of one chunk, of one lane. */
struct unit {
    kvr_ns ready, posted, landed;
    uint32_t left; /* writes that have not landed */
};

/* One rank to one rank. Where the ranks of an engine have groups of their own, one lane stands for
 * all of them: they are alike and share nothing. */
struct lane {
    uint32_t request, number;
    uint32_t source, target; /* groups */
    struct unit *units;
    uint32_t unit, unit_writes; /* where posting stands */
    uint32_t in_flight_packets, turns;
    uint64_t card_writes[VIRTUAL_RAILS_MAX], card_bytes[VIRTUAL_RAILS_MAX];
    bool queued, active;
    struct kvr_plan_cursor cursor;
    TAILQ_ENTRY(lane) link; /* of its group's ring */
};

struct request {
    uint32_t index; /* in the trace; number + 1 owns its pages */
    uint32_t prefill, decode;
    bool prefilled, granted, landed;
    struct pool_share source, target;
    struct chunk *chunks;
    uint32_t chunk_count, ready_units, chunk, layer; /* chunk, layer: computed next */
    struct lane *lanes;
    uint64_t writes_left; /* of all lanes */
    uint64_t bytes, writes;
    uint32_t skip_tokens, source_cached_tokens;
    kvr_ns arrived_at, started_at, offered_at, opened_at, granted_at, prefilled_at, landed_at,
        compute_ns;
    kvr_ns first_post, last_post, first_land;
    TAILQ_ENTRY(request) link; /* of a queue of its engine */
};

TAILQ_HEAD(requests, request);
TAILQ_HEAD(lanes, lane);

struct prefill_engine {
    struct pool pool;
    struct requests queue;
    struct request *current;
    kvr_ns free_at, backlog_ns, busy_ns;
};

struct decode_engine {
    struct pool pool;
    struct requests queue;
    uint32_t held;
    uint64_t tokens; /* of those held and waiting, for the router */
};

struct card {
    kvr_ns free_at;
    uint64_t writes, bytes, in_flight;
    kvr_ns busy_ns;
};

/* From one rail group to one other. */
struct link {
    uint64_t *in_flight;    /* bytes, of each card */
    struct lane *long_turn; /* it posts before others that have posted a while; or NULL */
};

/* The cards near one or more GPUs, and their thread. */
struct group {
    struct card *cards;
    struct lanes ring; /* source: those with something to post */
    uint32_t queued;
    uint32_t active; /* target: lanes that have something on the way, or to be posted */
    bool waking;     /* EVENT_POST is under way */
    uint32_t turn;
    kvr_ns thread_free, thread_busy_ns;
};

/* Writes of one unit on their way over one card. */
struct packet {
    uint32_t request, lane, unit, card;
    uint32_t writes, chunk; /* chunk: its number in the plan, of the first write */
    uint64_t bytes;
    kvr_ns sent, wire_ns; /* when the last byte left; how long a card needs for it */
    uint32_t next;        /* of the free ones */
};

struct world {
    const struct virtual_config *config;
    struct kvr_trace *trace;
    struct virtual_record *record;
    struct virtual_figures *figures;
    struct kvr_error *error;
    kvr_status status; /* not KVR_OK: the run ends */
    struct virtual_heap heap;
    kvr_ns now;
    struct prefill_engine *prefills;
    struct decode_engine *decodes;
    uint32_t prefill_count, decode_count, lanes, group_cards, host_groups;
    struct group *sources, *targets;
    struct card *cards; /* of all groups */
    struct link *links; /* source · target_count + target */
    uint64_t *links_in_flight;
    uint32_t source_count, target_count; /* groups */
    struct request **live;               /* by their index in the trace */
    uint32_t live_count;
    uint32_t arrived, routed; /* requests of the trace so far; those between wait for a place */
    struct packet *packets;
    uint32_t packet_room, packet_free;
    void *plan_memory;
    struct kvr_buddy buddy;
    struct kvr_region_layout layouts[2]; /* of a source and a target rank */
    uint64_t line_bps;
    XXH3_state_t *digest;
    bool own_groups; /* each GPU has cards of its own: a lane stands for all ranks of an engine */
    bool corrupted;
};

/* The first failure is kept. */
void world_fail(struct world *world, kvr_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void world_at(struct world *world, kvr_ns at, virtual_kind kind, uint32_t subject);

static inline const struct kvr_trace_request *asked(const struct world *world,
                                                    const struct request *request)
{
    return &world->trace->requests[request->index];
}

static inline const uint64_t *blocks_of(const struct world *world, const struct request *request)
{
    return kvr_trace_blocks(world->trace, asked(world, request));
}

/* The rail group of one lane's GPU. */
static inline uint32_t group_of(const struct world *world, uint32_t engine, uint32_t lane)
{
    uint32_t gpu = engine * world->config->tp + lane;

    return world->own_groups ? engine : gpu * world->host_groups / virtual_gpus(world->config);
}

static inline struct link *link_of(const struct world *world, const struct lane *lane)
{
    return &world->links[(size_t)lane->source * world->target_count + lane->target];
}

/* Time on the wire of a card. */
static inline kvr_ns wire_ns(const struct world *world, uint64_t bytes)
{
    return (bytes * 8 * KVR_S + world->line_bps / 2) / world->line_bps;
}

/* virtual_prefill.c */
void prefill_add(struct world *world, struct request *request);
/* Begins the next prompt, not before `from`. */
void prefill_next(struct world *world, uint32_t engine, kvr_ns from);
void prefill_layer(struct world *world, uint32_t engine);
/* How long the prompt would take there, beside what it has cached. */
kvr_ns prefill_estimate(const struct world *world, uint32_t engine,
                        const struct kvr_trace_request *request);
void prefill_free(struct world *world, struct request *request);

/* virtual_decode.c */
void decode_add(struct world *world, struct request *request);
void decode_next(struct world *world, uint32_t engine);
void decode_grant(struct world *world, struct request *request);
void decode_landed(struct world *world, struct request *request);
void decode_end(struct world *world, struct request *request);

/* virtual_cut.c */
void cut_init(struct world *world);
/* The plan of each chunk that moves. */
void cut_request(struct world *world, struct request *request);
void cut_free(struct world *world, struct request *request); /* any number of times */

/* virtual_post.c */
/* More is ready, or room came. */
void post_ready(struct world *world, struct request *request);
void post_wake(struct world *world, struct group *group);
void post_turn(struct world *world, uint32_t group);
/* The lane may have nothing on its way any more. */
void post_settle(struct world *world, struct lane *lane);

/* virtual_cards.c */
/* Puts a packet on the wire; its first byte leaves at `from`. */
void cards_send(struct world *world, const struct packet *packet, kvr_ns from);
void cards_arrive(struct world *world, uint32_t packet);
void cards_land(struct world *world, uint32_t packet);

/* virtual_check.c */
void check_owned(struct world *world, const struct request *request);
void check_content(struct world *world, const struct request *request, const struct packet *packet);
void check_end(struct world *world);
/* Plants the fault of --corrupt, once. */
void check_corrupt(struct world *world, struct request *request);

/* virtual_figures.c */
void figures_add(struct world *world, const struct request *request);
void figures_end(struct world *world);

/* virtual_record.c; world->record is there */
void record_begin(struct world *world);
void record_request(struct world *world, const struct request *request);

/* virtual_run.c */
void request_release(struct world *world, struct request *request);

#endif
