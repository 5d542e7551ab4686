/* What both replayed engines have: a connection to their agent, a region of pages, a socket to the
 * router, and one loop that sleeps until one of them has something to say.
 *
 * Layers of one kind are one KV group, and have pages and page tables of their own; each run of
 * such layers is a region.
 *
 * An engine is one process with one thread. Everything long (filling, checking) is cut into slices
 * by `step`, so that events are taken within a fraction of a millisecond and their times are true.
 * When the agent is lost, the engine says so to the router; with --reconnect it opens a new
 * connection, under a new generation, as soon as the agent listens again. */
#ifndef KVR_TOOLS_REPLAY_ENGINE_H
#define KVR_TOOLS_REPLAY_ENGINE_H

#include "client/kvrail.h"
#include "tools/replay/replay_message.h"
#include "tools/replay/replay_pages.h"

#define REPLAY_REQUESTS_MAX (2 * REPLAY_CONCURRENCY_MAX)

/* A request at an engine; the engine's own struct begins with it. */
struct replay_engine_request {
    uint32_t index;
    kvrail_handle handle; /* 0: no agent knows it */
    bool matched;         /* the agents know of both sides */
    bool terminal;        /* its last event has come */
    char secret[KVRAIL_SECRET_BYTES];
};

/* What differs between source and target. `self` is the engine's own struct, `request` its own
 * struct of a request. */
struct replay_engine_ops {
    size_t request_bytes;
    /* Keeps what START says; may be NULL. */
    void (*start)(void *request, const struct replay_message *message);
    /* Ends a request that no agent knows. */
    void (*give_up)(void *self, void *request, kvrail_status status);
    void (*event)(void *self, void *request, const struct kvrail_event *event);
    /* No event of it will come any more: it ends with agent_lost. */
    void (*lost)(void *self, void *request);
    /* Does one slice of work. Returns when to call it again: 0 at once, KVR_NEVER when only an
     * event or a message can bring more. */
    kvr_ns (*step)(void *self, kvr_ns now);
    /* After the last request: adds figures to the totals. May be NULL. */
    void (*end)(void *self, struct replay_message *totals);
};

struct replay_engine {
    const struct replay_setup *setup;
    const struct replay_engine_ops *ops;
    void *self;
    uint32_t at;                          /* place in setup->agents */
    const char *role;                     /* "source", "target" */
    char label[REPLAY_AGENT_LABEL_BYTES]; /* of the engine, for people */
    int router;
    struct replay_identity identity;
    struct kvrail *connection;             /* NULL while the agent is lost */
    struct kvrail_memory memory;           /* of all regions */
    struct kvrail_allocation *allocations; /* that it lies over; NULL: it is one */
    uint32_t allocation_count;
    struct kvrail_region regions[KVR_LAYERS_MAX];
    uint32_t region_count;
    uint16_t layer_regions[KVR_LAYERS_MAX]; /* of each layer */
    struct pages pages[MODEL_KINDS];        /* of each group */
    void *live[REPLAY_REQUESTS_MAX];        /* requests, oldest first */
    uint32_t live_count;
    bool finishing;      /* the router has nothing more */
    bool down_said;      /* REPLAY_DOWN was sent for this connection */
    bool blocked;        /* a call had no room: try again soon */
    kvr_ns reconnect_at; /* next attempt; 0: none */
    kvr_ns reconnect_until;
    double cpu_s_start;                         /* preparing memory is not the replay's */
    uint64_t tables_recorded, tables_otherwise; /* see struct replay_message */
};

/* Sets what all engines have: role, label, and the first members. Zeroes the others. */
void replay_engine_init(struct replay_engine *engine, const struct replay_setup *setup, uint32_t at,
                        int router, const struct replay_engine_ops *ops, void *self);
/* Connects, makes memory, and runs until the router has nothing more and all is settled, or is
 * gone. Returns the exit status; what failed was said to the router. */
int replay_engine_main(struct replay_engine *engine);
/* Takes a request out of the list, and frees it. */
void replay_engine_forget(struct replay_engine *engine, void *request);

/* Asks the agent to give a handle up. Without room it is not asked: the router asks again, and a
 * deadline ends it in the end. */
void replay_engine_cancel(struct replay_engine *engine, kvrail_handle handle, kvrail_status reason);

/* replay_allocations.c, where --allocation-bytes says so: engine->memory over so many, and a region
 * as the agent gets it. */
bool replay_allocations_make(struct replay_engine *engine, uint64_t bytes);
void replay_allocations_done(struct replay_engine *engine);
struct kvrail_region replay_region_lent(const struct replay_engine *engine, uint32_t index);

/* replay_memory.c: regions, and memory and pages for them. False: said to the router. */
bool replay_memory_make(struct replay_engine *engine);
void replay_memory_done(struct replay_engine *engine);

/* One page of one layer and part; part_index is its place in the layer's parts. */
uint8_t *replay_engine_page(const struct replay_engine *engine, uint32_t layer, uint32_t part_index,
                            uint32_t page);

/* Where one request's pages of one group lie. Those before `first` are not this request's own: of a
 * window or a state they are the spare page. */
struct replay_table {
    uint32_t *ids;
    uint32_t count, first;
};

/* tables: MODEL_KINDS of them, here and below. One for each group, for so many tokens; no pages are
 * taken yet. False without memory. */
bool replay_tables_make(const struct replay_setup *setup, uint32_t tokens,
                        struct replay_table *tables);
/* Takes pages from `first` on, where a recording has them; false, and nothing is taken, when there
 * are too few of any group. */
bool replay_tables_acquire(struct replay_engine *engine, uint32_t request,
                           struct replay_table *tables);
void replay_tables_release(struct replay_engine *engine, const struct replay_table *tables);
void replay_tables_free(struct replay_table *tables);

/* The two engines' processes, from fork() to their exit status. */
int replay_source_run(const struct replay_setup *setup, uint32_t at, int router);
int replay_target_run(const struct replay_setup *setup, uint32_t at, int router);

#endif
