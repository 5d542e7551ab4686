/* One transfer as the scheduler knows it: the events of both agents, merged.
 *
 * Events come from two agents, late, out of order between them, and after a crash perhaps never;
 * the merge gives the same row in any order. Pure: no clock, no memory, no I/O. */
#ifndef KVR_SCHEDULER_TRANSFER_H
#define KVR_SCHEDULER_TRANSFER_H

#include "base/clock.h"
#include "base/status.h"
#include "base/types.h"
#include "trace/event.h"

/* The order of the columns in the table `transfers`: X(symbol, the event that reports it). */
#define TRANSFER_STAGE_LIST(X)                                                                     \
    X(STAGE_OPENED, KVR_EVENT_OPENED)                                                              \
    X(STAGE_MATCHED, KVR_EVENT_MATCHED)                                                            \
    X(STAGE_GRANTED, KVR_EVENT_GRANTED)                                                            \
    X(STAGE_FIRST_READY, KVR_EVENT_FIRST_READY)                                                    \
    X(STAGE_LAST_READY, KVR_EVENT_LAST_READY)                                                      \
    X(STAGE_FIRST_POST, KVR_EVENT_FIRST_POST)                                                      \
    X(STAGE_LAST_POST, KVR_EVENT_LAST_POST)                                                        \
    X(STAGE_FIRST_LAND, KVR_EVENT_FIRST_LAND)                                                      \
    X(STAGE_LAST_LAND, KVR_EVENT_LAST_LAND)                                                        \
    X(STAGE_FAILING, KVR_EVENT_FAILING)                                                            \
    X(STAGE_ENDED, KVR_EVENT_ENDED)

typedef enum transfer_stage { TRANSFER_STAGE_LIST(KVR_SYMBOL) STAGE_END } transfer_stage;

/* X(symbol, name, live): live states in the order in which a transfer passes them. */
#define TRANSFER_STATE_LIST(X)                                                                     \
    X(STATE_OPENED, "opened", true)                                                                \
    X(STATE_MATCHED, "matched", true)                                                              \
    X(STATE_GRANTED, "granted", true)                                                              \
    X(STATE_FIRST_READY, "first_ready", true)                                                      \
    X(STATE_FIRST_POST, "first_post", true)                                                        \
    X(STATE_FIRST_LAND, "first_land", true)                                                        \
    X(STATE_LAST_READY, "last_ready", true)                                                        \
    X(STATE_LAST_POST, "last_post", true)                                                          \
    X(STATE_LAST_LAND, "last_land", true)                                                          \
    X(STATE_FAILING, "failing", true)                                                              \
    X(STATE_DONE, "done", false)                                                                   \
    X(STATE_FAILED, "failed", false)                                                               \
    X(STATE_CANCELLED, "cancelled", false)                                                         \
    X(STATE_EXPIRED, "expired", false)                                                             \
    X(STATE_LOST, "lost", false) /* its agents fell silent before they reported its end */

typedef enum transfer_state { TRANSFER_STATE_LIST(KVR_SYMBOL) STATE_END } transfer_state;

const char *transfer_stage_name(transfer_stage stage);
const char *transfer_state_name(transfer_state state);
bool transfer_state_live(transfer_state state);
bool transfer_state_from_name(const char *name, transfer_state *ret_state);
const char *transfer_role_name(kvr_role role); /* "source", "target" */

struct transfer_side {
    char agent[KVR_NAME_BYTES]; /* empty: unknown; the name that the peer reported, until it reports
                                   itself */
    uint64_t boot;              /* 0: it has not reported itself */
    uint64_t rails;             /* bit r: its rail r carried a part */
    kvr_path path;              /* of its pages */
    bool ended;                 /* outcome holds */
    bool lost;                  /* its agent is gone and will not report the end */
    kvr_status outcome;
    char detail[KVR_DETAIL_BYTES];
    int64_t at_ns[STAGE_END]; /* wall; 0: not seen */
};

struct transfer {
    int64_t ordinal;    /* 0: not stored yet */
    int64_t last_event; /* the newest row of its events, which the store sets; 0: none */
    uint64_t id;
    transfer_state state;
    kvr_status reason; /* KVR_OK while live and when done */
    char request[KVR_REQUEST_BYTES];
    char tenant[KVR_NAME_BYTES]; /* KVR_TENANT_DEFAULT until an agent names it: older ones do not */
    uint32_t attempt;
    struct kvr_uuid source_engine, target_engine;
    uint64_t tokens, skip_tokens, bytes;
    uint32_t layers, chunks, retries;
    struct kvr_place source_rank, target_rank;
    uint64_t pieces, fragment_bytes; /* of an event, as the members below */
    bool fragments_staged;
    struct kvr_event_way fragments_direct, fragments_copied;
    struct kvr_event_limits limits;
    bool renamed;       /* its request or its tenant is another one than when it was read */
    int64_t updated_ns; /* of its last event, by the scheduler's clock, which sets it */
    struct transfer_side sides[2]; /* by kvr_role */
};

/* Events under transfer 0 get an id that is equal for all events of one opening. An opening belongs
 * to one engine rank: ranks of one agent publish the same request each for itself. A fetch of
 * another tenant is no consumer of it. */
uint64_t transfer_opening_id(const char *agent, uint64_t boot, const struct kvr_event *event);

/* The opening of this side was reported under transfer 0, before the transfer had its number: its
 * times move here. A publish with several consumers gives them to the first of them only: true, the
 * row of the opening goes, unless it ended without a transfer. */
bool transfer_take_opening(struct transfer *transfer, kvr_role role,
                           const struct transfer *opening);
/* Adds what `agent` said at wall time at_ns. */
void transfer_merge(struct transfer *transfer, const char *agent, uint64_t boot,
                    const struct kvr_event *event, int64_t at_ns);
/* The agent of one side will not report again. */
void transfer_lose(struct transfer *transfer, kvr_role role, const char *detail);

const char *transfer_detail(const struct transfer *transfer); /* the sentence of its reason */
/* From opening to end by one agent's clock, the target's if it has both; negative: not known. */
int64_t transfer_duration_ns(const struct transfer *transfer);
int64_t transfer_opened_ns(const struct transfer *transfer); /* the earlier side; 0: not known */
kvr_path transfer_path(const struct transfer *transfer);     /* the less direct side's */
/* It is published, its pages are held, and no target is known. */
bool transfer_held(const struct transfer *transfer);
int64_t transfer_ended_ns(const struct transfer *transfer);

#endif
