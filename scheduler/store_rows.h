/* Inside the store: its statements, how rows and columns meet, and what a kind of database does. */
#ifndef KVR_SCHEDULER_STORE_ROWS_H
#define KVR_SCHEDULER_STORE_ROWS_H

#include "scheduler/store_news.h"
#include "scheduler/store_sql.h"

/* One or several columns of a row, and the member that they are bound from or read into. */
typedef enum store_kind {
    STORE_INT,        /* a bool, a number of 32 bits, or one of 64 */
    STORE_ROWID,      /* int64_t; bound as NULL where it is 0, so that the database chooses it */
    STORE_TEXT,       /* the text itself; to read, an array of `bytes` */
    STORE_BORROWED,   /* only read: const char *, which the next row takes away */
    STORE_UUID,       /* struct kvr_uuid */
    STORE_BYTES,      /* struct store_bytes; read: which the next row takes away */
    STORE_STATE,      /* transfer_state, by its name, as all that follow */
    STORE_STATUS,     /* kvr_status */
    STORE_OUTCOME,    /* of a struct transfer_side; empty until it has ended */
    STORE_PATH,       /* kvr_path */
    STORE_ROLE,       /* kvr_role */
    STORE_RAIL_STATE, /* kvr_rail_state */
    STORE_ORDER,      /* kvr_order_kind */
    STORE_SKIPPED,    /* only read: not kept */
} store_kind;

struct store_bytes {
    const uint8_t *at;
    size_t count;
};

struct store_value {
    store_kind kind;
    void *at;
    size_t bytes; /* of one */
    int count;    /* of columns */
};

#define STORE_AT(kind, member)                                                                     \
    {                                                                                              \
        kind, (void *)(uintptr_t)(&(member)), sizeof(member), 1                                    \
    }
#define INT(member) STORE_AT(STORE_INT, member)
#define INTS(array)                                                                                \
    {                                                                                              \
        STORE_INT, (void *)(uintptr_t)(array), sizeof((array)[0]),                                 \
            (int)(sizeof(array) / sizeof((array)[0]))                                              \
    }
/* words: a pointer, or an array where it is read. */
#define TEXT(words)                                                                                \
    {                                                                                              \
        STORE_TEXT, (void *)(uintptr_t)(words), sizeof(words), 1                                   \
    }
#define SKIPPED                                                                                    \
    {                                                                                              \
        STORE_SKIPPED, NULL, 0, 1                                                                  \
    }

/* The columns of the tables, in their order. */
#define SIDE_VALUES(side)                                                                          \
    TEXT((side).agent), INT((side).boot), INT((side).rails), STORE_AT(STORE_OUTCOME, side),        \
        INT((side).lost), TEXT((side).detail), INTS((side).at_ns)
#define TRANSFER_VALUES(transfer, live)                                                            \
    STORE_AT(STORE_ROWID, (transfer)->ordinal), INT((transfer)->id),                               \
        STORE_AT(STORE_STATE, (transfer)->state), live,                                            \
        STORE_AT(STORE_STATUS, (transfer)->reason), TEXT((transfer)->request),                     \
        INT((transfer)->attempt), STORE_AT(STORE_UUID, (transfer)->source_engine),                 \
        STORE_AT(STORE_UUID, (transfer)->target_engine), INT((transfer)->tokens),                  \
        INT((transfer)->skip_tokens), INT((transfer)->bytes), INT((transfer)->layers),             \
        INT((transfer)->chunks), INT((transfer)->retries), INT((transfer)->updated_ns),            \
        SIDE_VALUES((transfer)->sides[KVR_ROLE_SOURCE]),                                           \
        SIDE_VALUES((transfer)->sides[KVR_ROLE_TARGET]), INT((transfer)->source_rank.tp),          \
        INT((transfer)->source_rank.pp), INT((transfer)->target_rank.tp),                          \
        INT((transfer)->target_rank.pp), INT((transfer)->pieces), INT((transfer)->fragment_bytes), \
        STORE_AT(STORE_PATH, (transfer)->sides[KVR_ROLE_SOURCE].path),                             \
        STORE_AT(STORE_PATH, (transfer)->sides[KVR_ROLE_TARGET].path),                             \
        INT((transfer)->fragments_staged), INT((transfer)->fragments_direct.writes),               \
        INT((transfer)->fragments_direct.ns), INT((transfer)->fragments_copied.writes),            \
        INT((transfer)->fragments_copied.ns), INT((transfer)->limits.pieces_local),                \
        INT((transfer)->limits.pieces_remote), INT((transfer)->limits.bytes),                      \
        INT((transfer)->limits.calibrated), TEXT((transfer)->tenant), INT((transfer)->last_event)
/* Behind agent and position, as the engine's. */
#define RAIL_VALUES(rail)                                                                          \
    TEXT((rail)->name), TEXT((rail)->provider), TEXT((rail)->address), INT((rail)->epoch),         \
        STORE_AT(STORE_RAIL_STATE, (rail)->state), INT((rail)->speed_bps), INT((rail)->bytes),     \
        INT((rail)->writes), INT((rail)->group)
#define ENGINE_VALUES(attached)                                                                    \
    TEXT((attached)->name), STORE_AT(STORE_UUID, (attached)->rank.engine),                         \
        INT((attached)->rank.generation), INT((attached)->rank.tp), INT((attached)->rank.tp_size), \
        INT((attached)->rank.pp), INT((attached)->rank.pp_size), TEXT((attached)->model),          \
        INT((attached)->region_count), INT((attached)->region_bytes), TEXT((attached)->geometry)
#define AGENT_VALUES(row, facts, counters)                                                         \
    TEXT((row)->name), INT((row)->boot), STORE_AT(STORE_ROLE, (facts)->role),                      \
        TEXT((facts)->version), TEXT((facts)->host), INT((facts)->pid), TEXT((facts)->listen),     \
        TEXT((facts)->provider), INT((facts)->transfers_live), INT((facts)->peers_up),             \
        INT((row)->dropped), counters, INT((row)->stopped), INT((row)->seen_ns),                   \
        INT((facts)->peers_warm), INT((facts)->secure), TEXT((facts)->scheduler),                  \
        TEXT((facts)->options)

/* The two arguments `values` and `count` below. */
#define STORE_VALUES(...)                                                                          \
    (const struct store_value[]){__VA_ARGS__},                                                     \
        sizeof((const struct store_value[]){__VA_ARGS__}) / sizeof(struct store_value)

/* ---- statements ---- */

/* The row that a visit stands on. */
struct store_row {
    const struct store_driver *driver;
    void *rows; /* of the driver */
    int at;
};
typedef void store_row_visit(const struct store_row *row, void *self);

/* Runs the statement, and calls `visit` (or NULL) for each row; false: the database fails. */
bool store_each(struct store *store, store_sql sql, const struct store_value *values, size_t count,
                store_row_visit *visit, void *self);
bool store_do(struct store *store, store_sql sql, const struct store_value *values, size_t count);
/* Of the last statement: rows that it has inserted, changed or removed. */
uint64_t store_changed(struct store *store);
void store_read(const struct store_row *row, const struct store_value *values, size_t count);

/* The id of the row that is inserted next; 0: the database chooses it. */
int64_t store_next_id(struct store *store);
/* After it was inserted with that one. */
int64_t store_new_id(struct store *store, int64_t id);

/* ---- what a kind of database does ---- */

#define STORE_PARAMETERS_MAX 80 /* of a statement; a transfer has 69 columns */

/* A parameter, or a column. */
typedef enum store_type {
    STORE_IS_NUMBER,
    STORE_IS_TEXT,
    STORE_IS_BYTES,
    STORE_IS_NUMBERS, /* PostgreSQL's alone: arrays (store_postgres_array.h) */
    STORE_IS_TEXTS,
    STORE_IS_MANY_BYTES,
} store_type;
struct store_parameter {
    store_type type;
    bool null;
    int64_t number;
    const void *at; /* text, which ends with 0, or bytes */
    size_t bytes;
};

/* store_news.h; NULL in the driver: there is one scheduler alone. */
struct store_news_driver {
    bool (*wanted)(struct store *store);
    bool (*add)(struct store *store, const struct store_news *news);
    bool (*read)(struct store *store, store_news_visit *visit, void *self);
    int64_t (*until)(struct store *store);
    bool (*lost)(struct store *store);
    bool (*leads)(struct store *store);
    bool (*prune)(struct store *store);
};

struct store_driver {
    struct store *(*close)(struct store *store);
    bool (*begin)(struct store *store);
    bool (*commit)(struct store *store);
    void (*rollback)(struct store *store);
    bool (*has_written)(struct store *store);
    bool (*run)(struct store *store, store_sql sql, const struct store_parameter *parameters,
                int count, store_row_visit *visit, void *self);
    uint64_t (*changed)(struct store *store);
    int64_t (*next_id)(struct store *store);
    int64_t (*new_id)(struct store *store, int64_t id);
    const char *(*problem)(struct store *store);
    health_problem (*trouble)(struct store *store);
    bool (*timed_out)(struct store *store);
    bool (*has_moved)(struct store *store);
    uint64_t (*size)(struct store *store);
    bool (*used)(struct store *store, uint64_t *ret_bytes);   /* NULL: not known */
    bool (*others_wrote)(struct store *store);                /* NULL: there are none */
    const char *(*journal_folder)(const struct store *store); /* NULL: it has none */
    /* NULL: a question costs no round trip. */
    bool (*expect)(struct store *store, const struct store_expected *rows);
    bool (*find_orders)(struct store *store, const struct store_start *starts, size_t count,
                        bool ret_has[]);
    const struct store_news_driver *news;
    /* NULL: ended transfers are removed one by one. */
    bool (*drop_period)(struct store *store, int64_t before_ns, uint64_t states[STATE_END],
                        uint64_t *ret_removed);

    int64_t (*number)(const struct store_row *row, int column);
    const char *(*text)(const struct store_row *row, int column); /* never NULL */
    struct store_bytes (*bytes)(const struct store_row *row, int column);
};

/* The first member of a driver's own. */
struct store {
    const struct store_driver *driver;
    kvr_ns deadline;  /* of a reader's query; 0: none */
    kvr_ns retention; /* of the writer's place */
};

/* ---- store_events.c ---- */

/* Removes the chain of events that begins there; *ret_count: of rows. */
bool store_drop_events(struct store *store, int64_t newest, uint64_t *ret_count);

/* ---- store_read.c ---- */

/* Of a row of transfers. */
void store_read_transfer(const struct store_row *row, struct transfer *transfer);
/* The ids of fewer than `bound` transfers' requests begin so. */
bool store_few_requests(struct store *store, const char *request, uint32_t bound, bool *ret_few);

#endif
