/* Inside the store: its connection, its statements, and how rows and columns meet. */
#ifndef KVR_SCHEDULER_STORE_ROWS_H
#define KVR_SCHEDULER_STORE_ROWS_H

#include <limits.h>
#include <sqlite3.h>

#include "scheduler/store.h"
#include "scheduler/store_rollups_sql.h"
#include "scheduler/store_search_sql.h"

/* Every statement is prepared once, when it is first used. */
#define STORE_STATEMENT_LIST(X)                                                                    \
    X(SQL_BEGIN, "BEGIN IMMEDIATE")                                                                \
    X(SQL_COMMIT, "COMMIT")                                                                        \
    X(SQL_ROLLBACK, "ROLLBACK")                                                                    \
    X(SQL_GET_POSITION, "SELECT sequence FROM positions WHERE agent = ?1 AND boot = ?2")           \
    X(SQL_SET_POSITION,                                                                            \
      "INSERT INTO positions VALUES (?1, ?2, ?3, ?4) ON CONFLICT (agent, boot) "                   \
      "DO UPDATE SET sequence = excluded.sequence, updated_ns = excluded.updated_ns")              \
    X(SQL_ADD_EVENTS, "INSERT INTO events (previous, arrived_ns, agent, boot, records) "           \
                      "VALUES (?, ?, ?, ?, ?)")                                                    \
    X(SQL_ADD_END, /* the same, with spans; the migration that packs events has no such column */  \
      "INSERT INTO events (previous, arrived_ns, agent, boot, records, spans) "                    \
      "VALUES (?, ?, ?, ?, ?, ?)")                                                                 \
    X(SQL_GET_EVENTS, "SELECT previous, agent, boot, records, spans FROM events WHERE id = ?1")    \
    X(SQL_LAST_EVENT, "SELECT last_event FROM transfers WHERE id = ?1")                            \
    X(SQL_CHAINS, "SELECT last_event FROM transfers WHERE id = ?1 UNION ALL SELECT last_event "    \
                  "FROM (SELECT last_event FROM transfers INDEXED BY transfers_by_request "        \
                  "WHERE request = ?2 ORDER BY ordinal DESC LIMIT 100)")                           \
    X(SQL_JOIN_EVENTS, "UPDATE events SET previous = ?2 WHERE id = ?1")                            \
    X(SQL_DROP_EVENTS, "DELETE FROM events WHERE id = ?1 RETURNING previous")                      \
    X(SQL_PUT_TRANSFER, /* a column each: 16 of the transfer, 17 of a side, 18 of later ones */    \
      "INSERT OR REPLACE INTO transfers VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,"                  \
      "?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,"       \
      "?,?,?,?,?,?,?,?,?,?,?)")                                                                    \
    X(SQL_UPDATE_TRANSFER, /* ?N is column N; replacing the row would write to every index */      \
      "UPDATE transfers SET "                                                                      \
      "state=?3, live=?4, reason=?5, attempt=?7, source_engine=?8, target_engine=?9, "             \
      "tokens=?10, skip_tokens=?11, bytes=?12, layers=?13, chunks=?14, retries=?15, "              \
      "updated_ns=?16, source_agent=?17, source_boot=?18, source_rails=?19, "                      \
      "source_outcome=?20, source_lost=?21, source_detail=?22, source_opened_ns=?23, "             \
      "source_matched_ns=?24, source_granted_ns=?25, source_first_ready_ns=?26, "                  \
      "source_last_ready_ns=?27, source_first_post_ns=?28, source_last_post_ns=?29, "              \
      "source_first_land_ns=?30, source_last_land_ns=?31, source_failing_ns=?32, "                 \
      "source_ended_ns=?33, target_agent=?34, target_boot=?35, target_rails=?36, "                 \
      "target_outcome=?37, target_lost=?38, target_detail=?39, target_opened_ns=?40, "             \
      "target_matched_ns=?41, target_granted_ns=?42, target_first_ready_ns=?43, "                  \
      "target_last_ready_ns=?44, target_first_post_ns=?45, target_last_post_ns=?46, "              \
      "target_first_land_ns=?47, target_last_land_ns=?48, target_failing_ns=?49, "                 \
      "target_ended_ns=?50, source_tp=?51, source_pp=?52, target_tp=?53, target_pp=?54, "          \
      "pieces=?55, fragment_bytes=?56, source_path=?57, target_path=?58, "                         \
      "fragments_staged=?59, direct_writes=?60, direct_ns=?61, staged_writes=?62, "                \
      "staged_ns=?63, pieces_local=?64, pieces_remote=?65, write_bytes_max=?66, "                  \
      "calibrated=?67, last_event=?69 WHERE ordinal=?1")                                           \
    X(SQL_DELETE_TRANSFER, "DELETE FROM transfers WHERE id = ?1")                                  \
    X(SQL_GET_TRANSFER, "SELECT * FROM transfers WHERE id = ?1")                                   \
    X(SQL_LIVE_OF_AGENT, "SELECT id FROM transfers WHERE live = 1 AND "                            \
                         "(source_agent = ?1 OR target_agent = ?1) ORDER BY ordinal LIMIT ?2")     \
    X(SQL_LIST_ALL, "SELECT * FROM transfers WHERE ordinal < ?1 ORDER BY ordinal DESC LIMIT ?2")   \
    X(SQL_LIST_LIVE, "SELECT * FROM transfers WHERE live = 1 AND ordinal < ?1 "                    \
                     "ORDER BY ordinal DESC LIMIT ?2")                                             \
    X(SQL_LIST_STATE, "SELECT * FROM transfers WHERE state = ?3 AND ordinal < ?1 "                 \
                      "ORDER BY ordinal DESC LIMIT ?2")                                            \
    X(SQL_LIST_REQUEST, /* without INDEXED BY it looks at every transfer for one that is rare */   \
      "SELECT * FROM transfers WHERE ordinal IN (SELECT ordinal FROM transfers "                   \
      "INDEXED BY transfers_by_request WHERE request >= ?3 AND request < ?3 || char(1114111) "     \
      "AND ordinal < ?1 ORDER BY ordinal DESC LIMIT ?2) ORDER BY ordinal DESC")                    \
    X(SQL_COUNT_REQUEST, /* up to a bound */                                                       \
      "SELECT count(*) FROM (SELECT 1 FROM transfers INDEXED BY transfers_by_request "             \
      "WHERE request >= ?1 AND request < ?1 || char(1114111) LIMIT ?2)")                           \
    X(SQL_WALK_REQUEST, /* for a beginning that many ids have: the newest are soon found */        \
      "SELECT * FROM transfers NOT INDEXED WHERE ordinal < ?1 AND request >= ?3 "                  \
      "AND request < ?3 || char(1114111) ORDER BY ordinal DESC LIMIT ?2")                          \
    X(SQL_LIST_ALL_OF, "SELECT * FROM transfers WHERE tenant = ?4 AND ordinal < ?1 "               \
                       "ORDER BY ordinal DESC LIMIT ?2")                                           \
    X(SQL_LIST_LIVE_OF, "SELECT * FROM transfers INDEXED BY transfers_live WHERE live = 1 "        \
                        "AND tenant = ?4 AND ordinal < ?1 ORDER BY ordinal DESC LIMIT ?2")         \
    X(SQL_LIST_STATE_OF, "SELECT * FROM transfers WHERE tenant = ?4 AND state = ?3 "               \
                         "AND ordinal < ?1 ORDER BY ordinal DESC LIMIT ?2")                        \
    X(SQL_LIST_REQUEST_OF,                                                                         \
      "SELECT * FROM transfers WHERE ordinal IN (SELECT ordinal FROM transfers "                   \
      "INDEXED BY transfers_by_request WHERE request >= ?3 AND request < ?3 || char(1114111) "     \
      "AND tenant = ?4 AND ordinal < ?1 ORDER BY ordinal DESC LIMIT ?2) ORDER BY ordinal DESC")    \
    X(SQL_WALK_REQUEST_OF,                                                                         \
      "SELECT * FROM transfers INDEXED BY transfers_by_tenant WHERE tenant = ?4 "                  \
      "AND ordinal < ?1 AND request >= ?3 AND request < ?3 || char(1114111) "                      \
      "ORDER BY ordinal DESC LIMIT ?2")                                                            \
    X(SQL_COUNT_STATES, "SELECT state, count(*) FROM transfers GROUP BY state")                    \
    X(SQL_GROUP_REASONS, /* of the newest 20,000, so that many failures cost no more */            \
      "SELECT state, reason, count(*), max(ordinal), id FROM "                                     \
      "(SELECT state, reason, ordinal, id FROM transfers INDEXED BY transfers_not_done "           \
      "WHERE (state = 'failed' OR state = 'cancelled' OR state = 'expired' OR state = 'lost') "    \
      "AND updated_ns >= ?1 "                                                                      \
      "ORDER BY updated_ns DESC LIMIT 20000) GROUP BY state, reason ORDER BY 3 DESC LIMIT 50")     \
    X(SQL_COUNT_HELD, "SELECT count(*) FROM transfers INDEXED BY transfers_live WHERE live = 1 "   \
                      "AND source_boot <> 0 AND source_lost = 0 AND source_outcome = '' "          \
                      "AND source_matched_ns = 0 AND target_boot = 0")                             \
    X(SQL_OLDEST_LIVE, "SELECT * FROM transfers INDEXED BY transfers_live WHERE live = 1 "         \
                       "ORDER BY ordinal LIMIT 1")                                                 \
    X(SQL_PUT_AGENT, "INSERT OR REPLACE INTO agents VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)")     \
    X(SQL_CLEAR_RAILS, "DELETE FROM rails WHERE agent = ?1")                                       \
    X(SQL_ADD_RAIL, "INSERT INTO rails VALUES (?,?,?,?,?,?,?,?,?,?,?)")                            \
    X(SQL_CLEAR_ENGINES, "DELETE FROM engines WHERE agent = ?1")                                   \
    X(SQL_ADD_ENGINE, "INSERT INTO engines VALUES (?,?,?,?,?,?,?,?,?,?,?,?)")                      \
    X(SQL_LIST_AGENTS, "SELECT * FROM agents ORDER BY name")                                       \
    X(SQL_LIST_RAILS, "SELECT * FROM rails WHERE agent = ?1 ORDER BY position")                    \
    X(SQL_LIST_ENGINES, "SELECT * FROM engines WHERE agent = ?1 ORDER BY position")                \
    X(SQL_PRUNE_TRANSFERS, /* live transfers stay, and so do the agents that can end them */       \
      "DELETE FROM transfers WHERE ordinal IN (SELECT ordinal FROM transfers "                     \
      "INDEXED BY transfers_ended WHERE live = 0 AND updated_ns < ?1 "                             \
      "ORDER BY updated_ns LIMIT 1000) RETURNING state, last_event")                               \
    X(SQL_PRUNE_POSITIONS, "DELETE FROM positions WHERE updated_ns < ?1")                          \
    X(SQL_PRUNE_AGENTS,                                                                            \
      "DELETE FROM agents WHERE seen_ns < ?1 AND NOT EXISTS (SELECT 1 FROM transfers "             \
      "WHERE live = 1 AND (source_agent = agents.name OR target_agent = agents.name))")            \
    X(SQL_ADD_ORDERS, /* to every source that holds an attempt without a target */                 \
      "INSERT OR REPLACE INTO orders (agent, boot, transfer, kind, request, attempt, lease_ns, "   \
      "made_ns) SELECT source_agent, source_boot, id, ?3, request, attempt, ?4, ?5 "               \
      "FROM transfers AS held WHERE request = ?1 AND (?2 < 0 OR attempt = ?2) AND live = 1 "       \
      "AND source_boot <> 0 AND source_lost = 0 AND NOT EXISTS (SELECT 1 FROM transfers "          \
      "AS met WHERE met.request = ?1 AND met.attempt = held.attempt "                              \
      "AND met.source_matched_ns <> 0)")                                                           \
    /* A target that waits for its source has reported no number that it knows: 0. */              \
    X(SQL_ADD_CANCEL,                                                                              \
      "INSERT OR REPLACE INTO orders (agent, boot, transfer, target, kind, request, attempt, "     \
      "lease_ns, made_ns) SELECT target_agent, target_boot, id, "                                  \
      "CASE WHEN target_matched_ns <> 0 THEN id ELSE 0 END, ?2, request, attempt, 0, ?3 "          \
      "FROM transfers WHERE id = ?1 AND live = 1 AND target_boot <> 0 AND target_lost = 0")        \
    X(SQL_ADD_AGENT_ORDER,                                                                         \
      "INSERT OR REPLACE INTO orders (agent, boot, transfer, kind, request, attempt, lease_ns, "   \
      "made_ns) SELECT name, boot, 0, ?2, name, 0, 0, ?3 FROM agents "                             \
      "WHERE name = ?1 AND stopped = 0")                                                           \
    X(SQL_LIST_ORDERS, "SELECT number, kind, request, attempt, lease_ns, target FROM orders "      \
                       "WHERE agent = ?1 AND boot = ?2 ORDER BY number LIMIT ?3")                  \
    X(SQL_TAKE_ORDERS, "DELETE FROM orders WHERE agent = ?1 AND boot = ?2 AND number <= ?3")       \
    X(SQL_DROP_ORDERS, "DELETE FROM orders WHERE transfer = ?1")                                   \
    X(SQL_PRUNE_ORDERS, "DELETE FROM orders WHERE made_ns < ?1")                                   \
    X(SQL_ADD_AUDIT,                                                                               \
      "INSERT INTO audit (at_ns, action, actor, via, object, source, outcome, detail) "            \
      "VALUES (?, ?, ?, ?, ?, ?, ?, ?)")                                                           \
    X(SQL_LIST_AUDIT, "SELECT id, at_ns, action, actor, via, object, source, outcome, detail "     \
                      "FROM audit WHERE id < ?1 ORDER BY id DESC LIMIT ?2")                        \
    X(SQL_PRUNE_AUDIT, "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE at_ns < ?1 "     \
                       "ORDER BY at_ns LIMIT 5000)")                                               \
    X(SQL_OF_REQUEST, "SELECT * FROM transfers WHERE request = ?1 AND (?2 < 0 OR attempt = ?2) "   \
                      "ORDER BY live DESC, source_matched_ns = 0, ordinal DESC LIMIT 1")           \
    STORE_SEARCH_LIST(X)                                                                           \
    STORE_ROLLUP_LIST(X)

typedef enum store_sql { STORE_STATEMENT_LIST(KVR_SYMBOL) SQL_END } store_sql;

struct store {
    sqlite3 *database;
    kvr_ns deadline; /* of a reader's query; 0: none */
    int changes;     /* that the writer had made when its transaction began */
    bool moved;      /* the writer's file is not at its place any more */
    sqlite3_stmt *statements[SQL_END];
};

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
        INT((attached)->region_count), INT((attached)->region_bytes)
#define AGENT_VALUES(row, facts, counters)                                                         \
    TEXT((row)->name), INT((row)->boot), STORE_AT(STORE_ROLE, (facts)->role),                      \
        TEXT((facts)->version), TEXT((facts)->host), INT((facts)->pid), TEXT((facts)->listen),     \
        TEXT((facts)->provider), INT((facts)->transfers_live), INT((facts)->peers_up),             \
        INT((row)->dropped), counters, INT((row)->stopped), INT((row)->seen_ns),                   \
        INT((facts)->peers_warm), INT((facts)->secure)

/* The two arguments `values` and `count` below. */
#define STORE_VALUES(...)                                                                          \
    (const struct store_value[]){__VA_ARGS__},                                                     \
        sizeof((const struct store_value[]){__VA_ARGS__}) / sizeof(struct store_value)

/* ---- store_events.c ---- */

/* Removes the chain of events that begins there; *ret_count: of rows. */
bool store_drop_events(struct store *store, int64_t newest, uint64_t *ret_count);

/* ---- store_convert.c ---- */

/* What migration 15 needs of SQLite: pack_events(ID), which packs the events of a transfer. */
bool store_convert_begin(struct store *store);
void store_convert_end(struct store *store);

/* ---- store_file.c ---- */

#define STORE_PATH_BYTES (PATH_MAX + 64)

/* part: "", "-wal" …; false: the path is too long. */
bool store_file_path(const char *folder, const char *part, char path[STORE_PATH_BYTES]);
/* True: problem says what is wrong. Looks for some seconds at most. */
bool store_file_damaged(struct store *store, char problem[KVR_DETAIL_BYTES]);
/* Renames the files of a database that is closed, so that a new one can begin. */
KVR_MUST_CHECK kvr_status store_file_set_aside(const char *folder, const char *problem,
                                               struct kvr_error *error);

/* ---- store.c ---- */

/* Whether statements end at the store's deadline. */
void store_watch_deadline(struct store *store, bool watch);
/* The statement, ready to bind; NULL when it cannot be prepared. */
sqlite3_stmt *store_statement(struct store *store, store_sql sql);
/* The statement with these parameters, which are borrowed until it has run; NULL as above. */
sqlite3_stmt *store_bind(struct store *store, store_sql sql, const struct store_value *values,
                         size_t count);
/* Reads the row that the statement stands on. */
void store_read(sqlite3_stmt *statement, const struct store_value *values, size_t count);
/* Runs a statement without rows; true when it succeeded. */
bool store_do(struct store *store, store_sql sql, const struct store_value *values, size_t count);
/* Calls `row` for each row; false when the database fails, or statement is NULL. */
bool store_each(sqlite3_stmt *statement, void (*row)(sqlite3_stmt *statement, void *self),
                void *self);

/* ---- store_read.c ---- */

/* Of a statement that gives whole rows of transfers. */
bool store_each_transfer(sqlite3_stmt *statement, transfer_visit *visit, void *self);
/* The ids of few requests begin so. */
bool store_few_requests(struct store *store, const char *request, bool *ret_few);

#endif
