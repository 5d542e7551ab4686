/* Transfers that ended and bytes that moved in one step of time, by reason, tenant, agent, engine,
 * rail and pair of rails: amounts and histograms of times.
 *
 * A step is one of the scheduler's clock, that of `updated` of a transfer: agents' clocks differ,
 * and reports come late. Pure: no clock, no I/O. */
#ifndef KVR_SCHEDULER_ROLLUP_H
#define KVR_SCHEDULER_ROLLUP_H

#include <uthash.h>

#include "scheduler/transfer.h"
#include "trace/report.h"

/* The database has their numbers: a new one goes to the end. X(symbol, name) */
#define ROLLUP_KIND_LIST(X)                                                                        \
    X(ROLLUP_ALL, "all")                                                                           \
    X(ROLLUP_REASON, "reason")                                                                     \
    X(ROLLUP_TENANT, "tenant")                                                                     \
    X(ROLLUP_AGENT, "agent")   /* on either side */                                                \
    X(ROLLUP_ENGINE, "engine") /* on either side */                                                \
    X(ROLLUP_RAIL, "rail")     /* a row for each agent, as of pairs */                             \
    X(ROLLUP_PAIR, "pair")

typedef enum rollup_kind { ROLLUP_KIND_LIST(KVR_SYMBOL) ROLLUP_KIND_END } rollup_kind;

const char *rollup_kind_name(rollup_kind kind);
bool rollup_kind_from_name(const char *name, rollup_kind *ret_kind);
/* Its rows are those of one agent each; and it has no times. */
static inline bool rollup_kind_has_parts(rollup_kind kind)
{
    return kind == ROLLUP_RAIL || kind == ROLLUP_PAIR;
}

/* As the kinds; at most 8. */
#define ROLLUP_AMOUNT_LIST(X)                                                                      \
    X(ROLLUP_ENDED, "transfers") /* each once, as soon as its end is known */                      \
    X(ROLLUP_FAILED, "failed")   /* of them, those that are not done */                            \
    X(ROLLUP_BYTES, "bytes")     /* of done transfers; of a rail: posted or landed */              \
    X(ROLLUP_LAYERS, "layers")   /* of done transfers */                                           \
    X(ROLLUP_WRITES, "writes")   /* of a rail as the bytes; of transfers: chunks */                \
    X(ROLLUP_ERRORS, "errors")   /* of a rail: endpoints replaced, arrivals of no transfer */      \
    X(ROLLUP_REPEATS, "repeats") /* of a rail: posts refused for want of room; else retries */     \
    X(ROLLUP_BUSY, "busy")       /* of a rail: ns from post to completion, of all its writes */

typedef enum rollup_amount { ROLLUP_AMOUNT_LIST(KVR_SYMBOL) ROLLUP_AMOUNT_END } rollup_amount;

const char *rollup_amount_name(rollup_amount amount);

/* As the kinds; at most 8. X(symbol, name, side that measures it, from, to) */
#define ROLLUP_TIME_LIST(X)                                                                        \
    X(ROLLUP_TOTAL, "total", KVR_ROLE_TARGET, STAGE_OPENED, STAGE_ENDED)                           \
    X(ROLLUP_EXPOSED, "exposed", KVR_ROLE_SOURCE, STAGE_LAST_READY, STAGE_ENDED)                   \
    X(ROLLUP_MATCH, "match", KVR_ROLE_TARGET, STAGE_OPENED, STAGE_MATCHED)                         \
    X(ROLLUP_GRANT, "grant", KVR_ROLE_TARGET, STAGE_MATCHED, STAGE_GRANTED)                        \
    X(ROLLUP_READY, "ready", KVR_ROLE_SOURCE, STAGE_FIRST_READY, STAGE_LAST_READY)                 \
    X(ROLLUP_LAND, "land", KVR_ROLE_TARGET, STAGE_FIRST_LAND, STAGE_LAST_LAND)                     \
    X(ROLLUP_SETTLE, "settle", KVR_ROLE_TARGET, STAGE_LAST_LAND, STAGE_ENDED)

typedef enum rollup_time { ROLLUP_TIME_LIST(KVR_SYMBOL) ROLLUP_TIME_END } rollup_time;

const char *rollup_time_name(rollup_time time);

/* ---- histograms: four buckets for each power of two ---- */

#define ROLLUP_BUCKETS 108 /* the last one begins at 16 minutes, and has no end */

uint32_t rollup_bucket_of(int64_t ns);
int64_t rollup_bucket_begin(uint32_t bucket); /* ns; ROLLUP_BUCKETS: the end of the last but one */
uint64_t rollup_times_count(const uint32_t buckets[ROLLUP_BUCKETS]);
/* The ns that `percent` of the times do not exceed, by a straight line within the bucket: at most a
 * fifth of the time away. -1: there are no times. */
int64_t rollup_percentile(const uint32_t buckets[ROLLUP_BUCKETS], double percent);

/* ---- cells ---- */

/* Of a kind: nothing, the name of a reason, tenant or agent, 16 bytes of an engine, the number of a
 * rail, or a peer's name and both numbers of rails. Without bytes: the others, which were too many
 * to be told apart. */
struct rollup_key {
    uint8_t count;
    char bytes[KVR_NAME_BYTES + 1];
};

struct rollup_key rollup_key_text(const char *text);
struct rollup_key rollup_key_engine(const struct kvr_uuid *engine);
struct rollup_key rollup_key_rail(uint32_t rail);
struct rollup_key rollup_key_pair(const char *peer, uint32_t rail, uint32_t target_rail);

typedef uint32_t rollup_histograms[ROLLUP_TIME_END][ROLLUP_BUCKETS];

struct rollup_cell {
    UT_hash_handle hh;
    struct rollup_key key;
    uint64_t amounts[ROLLUP_AMOUNT_END];
    rollup_histograms *times; /* NULL: none yet */
};

/* ---- a transfer ---- */

/* What is new of it. */
struct rollup_news {
    bool ended;         /* it had not ended before */
    bool side_ended[2]; /* by role, as before */
};

#define ROLLUP_PLACES_MAX 7
struct rollup_place {
    rollup_kind kind;
    struct rollup_key key;
};
/* The cells that a transfer counts in; returns how many. */
uint32_t rollup_places_of(const struct transfer *transfer,
                          struct rollup_place places[ROLLUP_PLACES_MAX]);
/* Times are those of sides that ended well; by reason, all. False: no memory. */
bool rollup_add_transfer(struct rollup_cell *cell, rollup_kind kind,
                         const struct transfer *transfer, const struct rollup_news *news);

/* ---- rows ---- */

#define ROLLUP_CELLS_MAX 1024 /* of a row; more are counted together */

/* All cells of one kind (of one agent) in one step. Zeroed but for its name: empty. */
struct rollup_row {
    UT_hash_handle hh;
    struct rollup_name {
        uint32_t kind;
        char part[KVR_NAME_BYTES]; /* filled up with zeroes */
    } name;
    struct rollup_cell *cells;
    bool changed;  /* the owner's */
    bool unsorted; /* cells came since it was packed */
};

/* NULL: there is none. */
struct rollup_cell *rollup_row_find(const struct rollup_row *row, const struct rollup_key *key);
/* The cell with that key, which begins empty, or that of the others. NULL: no memory. */
struct rollup_cell *rollup_row_cell(struct rollup_row *row, const struct rollup_key *key);
void rollup_row_clear(struct rollup_row *row);

/* The rows of one step. Zeroed: empty. */
struct rollup_book {
    struct rollup_row *rows;
};

/* NULL: it is not there. */
struct rollup_row *rollup_book_find(const struct rollup_book *book, rollup_kind kind,
                                    const char *part);
/* It must not be there yet. NULL: no memory. */
struct rollup_row *rollup_book_add(struct rollup_book *book, rollup_kind kind, const char *part);
void rollup_book_clear(struct rollup_book *book);

#endif
