/* The replayed decode engine, in three files. replay_target.c asks for requests and follows their
 * events. replay_target_pages.c gives them pages out of a pool that is mostly prefix cache.
 * replay_target_check.c checks every word that arrives. */
#ifndef KVR_TOOLS_REPLAY_TARGET_H
#define KVR_TOOLS_REPLAY_TARGET_H

#include "tools/replay/replay_cache.h"
#include "tools/replay/replay_engine.h"

typedef enum target_phase {
    TARGET_QUEUED, /* waits for pages */
    TARGET_CLEAN,  /* looks whether its pages are as they were left */
    TARGET_OPEN,   /* asks for the request */
    TARGET_SKIP,   /* says what it does not need of the other groups */
    TARGET_PAGES,  /* gives its pages */
    TARGET_MOVING, /* waits for layers; checks those that are in place */
    TARGET_SETTLE, /* its terminal event has come; checks what is left */
    TARGET_KEEP    /* hands pages to the cache, or back */
} target_phase;

/* Layers of pages that were announced and are to be checked. */
struct target_range {
    uint32_t layer_end, page_first, page_end;
    uint32_t layer, page; /* what is checked next */
};

struct target_request {
    struct replay_engine_request base; /* first */
    target_phase phase;
    struct replay_identity source; /* as the router passed it */
    kvrail_status status;          /* of the terminal event */
    struct replay_table tables[MODEL_KINDS];
    uint32_t kept;  /* pages of the first group that are the cache's, up to `first`; 0 where a
                       recording says what is skipped: nothing lies there then */
    uint32_t group; /* of the phase */
    bool *checked;  /* layer × pages of the first group, which has most, + page */
    struct target_range *ranges;
    uint32_t range_first, range_count, range_capacity;
    uint32_t cursor; /* of the phase */
    bool tail_in;
    struct replay_ended ended;
};

struct target {
    struct replay_engine engine;
    struct kvr_rng rng;        /* which token a sample looks at */
    struct cache cache;        /* of pages of the first group */
    bool *marked[MODEL_KINDS]; /* by page id: it holds the marks of a free page */
    uint32_t *block_ids;       /* scratch: pages of one block */
    uint32_t wrong_said;
    uint64_t late_pages, unannounced;
};

/* ---- pages ---------------------------------------------------------------------------------- */

/* One slice of finding room for the oldest request in the queue: true when there is more to do. */
bool target_admit(struct target *target, struct target_request *request);
/* One slice of looking whether the new pages are still as they were when they became free. True
 * when done. */
bool target_clean(struct target *target, struct target_request *request);
/* One slice of handing the request's pages on. True when done. */
bool target_keep(struct target *target, struct target_request *request);
/* Drops what the request holds in the pool without a look: it was never lent. */
void target_drop(struct target *target, struct target_request *request);
/* Empties the cache and looks at every page a last time. */
void target_inspect(struct target *target);

/* ---- checks --------------------------------------------------------------------------------- */

/* Remembers layers that an event says are in place. False without memory. */
bool target_announce(struct target *target, struct target_request *request,
                     const struct kvrail_event *event);
/* One slice of checking what was announced. True when nothing is left. */
bool target_check_announced(struct target *target, struct target_request *request);
/* Checks one slice of the pages that only DONE covers, and samples of the kept prefix. True
 * when done. */
bool target_check_rest(struct target *target, struct target_request *request);
void target_check_tail(struct target *target, struct target_request *request,
                       const struct kvrail_event *event);
/* Looks whether a block that the cache kept is as it arrived; a word here and there, or fully. */
void target_recheck_kept(struct target *target, const struct cache_entry *entry,
                         const uint32_t *ids, bool full);

/* Marks a page as free (content_mark); looks whether a free page still has its marks, which are
 * taken for gone from then on. */
void target_mark_free(struct target *target, uint32_t group, uint32_t id);
bool target_take_free(struct target *target, uint32_t group, uint32_t id);

#endif
