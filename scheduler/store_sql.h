/* Every statement of the store. Both kinds of database run them, but for those of
 * store_postgres_sql.c: INDEXED BY and NOT INDEXED are SQLite's alone, and are left out elsewhere,
 * as parameters are written ?N here and $N there. */
#ifndef KVR_SCHEDULER_STORE_SQL_H
#define KVR_SCHEDULER_STORE_SQL_H

#include "base/names.h"
#include "scheduler/store_engines_sql.h"
#include "scheduler/store_faults_sql.h"
#include "scheduler/store_rollups_sql.h"
#include "scheduler/store_search_sql.h"

/* Behind every text that begins with the one before: U+10FFFF. */
#define LAST_CHARACTER "'\xf4\x8f\xbf\xbf'"
/* Its number is a new one, so that its agent takes it once more. */
#define NEWER_ORDER                                                                                \
    " ON CONFLICT (agent, boot, transfer, kind) DO UPDATE SET number = excluded.number, "          \
    "target = excluded.target, request = excluded.request, attempt = excluded.attempt, "           \
    "lease_ns = excluded.lease_ns, made_ns = excluded.made_ns"

#define STORE_STATEMENT_LIST(X)                                                                    \
    X(SQL_GET_POSITION, "SELECT sequence FROM positions WHERE agent = ?1 AND boot = ?2")           \
    X(SQL_OTHER_BOOTS, "SELECT count(*) FROM positions WHERE agent = ?1 AND boot <> ?2")           \
    X(SQL_SET_POSITION,                                                                            \
      "INSERT INTO positions VALUES (?1, ?2, ?3, ?4) ON CONFLICT (agent, boot) "                   \
      "DO UPDATE SET sequence = excluded.sequence, updated_ns = excluded.updated_ns")              \
    X(SQL_ADD_EVENTS, "INSERT INTO events (id, previous, arrived_ns, agent, boot, records) "       \
                      "VALUES (?1, ?2, ?3, ?4, ?5, ?6)")                                           \
    X(SQL_ADD_END, /* with spans and pages; the migration that packs events has no such columns */ \
      "INSERT INTO events (id, previous, arrived_ns, agent, boot, records, spans, pages) "         \
      "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")                                                   \
    X(SQL_GET_EVENTS, "SELECT previous, agent, boot, records FROM events WHERE id = ?1")           \
    X(SQL_GET_RECORDS, "SELECT previous, spans, pages FROM events WHERE id = ?1")                  \
    X(SQL_LAST_EVENT, "SELECT last_event FROM transfers WHERE id = ?1")                            \
    X(SQL_CHAINS, "SELECT last_event FROM transfers WHERE id = ?1 UNION ALL SELECT last_event "    \
                  "FROM (SELECT last_event FROM transfers INDEXED BY transfers_by_request "        \
                  "WHERE request = ?2 ORDER BY ordinal DESC LIMIT 100) AS newest")                 \
    X(SQL_JOIN_EVENTS, "UPDATE events SET previous = ?2 WHERE id = ?1")                            \
    X(SQL_DROP_EVENTS, "DELETE FROM events WHERE id = ?1 RETURNING previous")                      \
    X(SQL_ADD_TRANSFER, /* a column each: 16 of the transfer, 17 of a side, 18 of later ones */    \
      "INSERT INTO transfers VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,"                             \
      "?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,"       \
      "?,?,?,?,?,?,?,?,?,?,?)")                                                                    \
    X(SQL_UPDATE_TRANSFER, /* ?N is column N; what has an index changes only if it must */         \
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
    X(SQL_RENAME_TRANSFER, "UPDATE transfers SET request=?2, tenant=?3 WHERE ordinal=?1")          \
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
      "INDEXED BY transfers_by_request WHERE request >= ?3 AND request < ?3 || " LAST_CHARACTER    \
      " "                                                                                          \
      "AND ordinal < ?1 ORDER BY ordinal DESC LIMIT ?2) ORDER BY ordinal DESC")                    \
    X(SQL_COUNT_REQUEST, /* up to a bound */                                                       \
      "SELECT count(*) FROM (SELECT 1 FROM transfers INDEXED BY transfers_by_request "             \
      "WHERE request >= ?1 AND request < ?1 || " LAST_CHARACTER " LIMIT ?2) AS found")             \
    X(SQL_WALK_REQUEST, /* for a beginning that many ids have: the newest are soon found */        \
      "SELECT * FROM transfers NOT INDEXED WHERE ordinal < ?1 AND request >= ?3 "                  \
      "AND request < ?3 || " LAST_CHARACTER " ORDER BY ordinal DESC LIMIT ?2")                     \
    X(SQL_LIST_ALL_OF, "SELECT * FROM transfers WHERE tenant = ?4 AND ordinal < ?1 "               \
                       "ORDER BY ordinal DESC LIMIT ?2")                                           \
    X(SQL_LIST_LIVE_OF, "SELECT * FROM transfers INDEXED BY transfers_live WHERE live = 1 "        \
                        "AND tenant = ?4 AND ordinal < ?1 ORDER BY ordinal DESC LIMIT ?2")         \
    X(SQL_LIST_STATE_OF, "SELECT * FROM transfers WHERE tenant = ?4 AND state = ?3 "               \
                         "AND ordinal < ?1 ORDER BY ordinal DESC LIMIT ?2")                        \
    X(SQL_LIST_REQUEST_OF,                                                                         \
      "SELECT * FROM transfers WHERE ordinal IN (SELECT ordinal FROM transfers "                   \
      "INDEXED BY transfers_by_request WHERE request >= ?3 AND request < ?3 || " LAST_CHARACTER    \
      " "                                                                                          \
      "AND tenant = ?4 AND ordinal < ?1 ORDER BY ordinal DESC LIMIT ?2) ORDER BY ordinal DESC")    \
    X(SQL_WALK_REQUEST_OF,                                                                         \
      "SELECT * FROM transfers INDEXED BY transfers_by_tenant WHERE tenant = ?4 "                  \
      "AND ordinal < ?1 AND request >= ?3 AND request < ?3 || " LAST_CHARACTER " "                 \
      "ORDER BY ordinal DESC LIMIT ?2")                                                            \
    X(SQL_COUNT_STATES, "SELECT state, count(*) FROM transfers GROUP BY state")                    \
    X(SQL_GROUP_REASONS, /* of the newest 20,000, so that many failures cost no more */            \
      "SELECT state, reason, many, (SELECT id FROM transfers WHERE ordinal = newest) FROM "        \
      "(SELECT state, reason, count(*) AS many, max(ordinal) AS newest FROM "                      \
      "(SELECT state, reason, ordinal FROM transfers INDEXED BY transfers_not_done "               \
      "WHERE (state = 'failed' OR state = 'cancelled' OR state = 'expired' OR state = 'lost') "    \
      "AND updated_ns >= ?1 "                                                                      \
      "ORDER BY updated_ns DESC LIMIT 20000) AS failed GROUP BY state, reason) AS groups "         \
      "ORDER BY many DESC LIMIT 50")                                                               \
    X(SQL_COUNT_HELD, "SELECT count(*) FROM transfers INDEXED BY transfers_live WHERE live = 1 "   \
                      "AND source_boot <> 0 AND source_lost = 0 AND source_outcome = '' "          \
                      "AND source_matched_ns = 0 AND target_boot = 0")                             \
    X(SQL_OLDEST_LIVE, "SELECT * FROM transfers INDEXED BY transfers_live WHERE live = 1 "         \
                       "ORDER BY ordinal LIMIT 1")                                                 \
    X(SQL_DROP_AGENT, "DELETE FROM agents WHERE name = ?1")                                        \
    X(SQL_ADD_AGENT, "INSERT INTO agents VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)")            \
    X(SQL_ADD_RAIL, "INSERT INTO rails VALUES (?,?,?,?,?,?,?,?,?,?,?)")                            \
    X(SQL_ADD_ENGINE, "INSERT INTO engines VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)")                    \
    X(SQL_LIST_AGENTS, "SELECT * FROM agents ORDER BY name")                                       \
    X(SQL_LIST_AGENT_NAMES, "SELECT name FROM agents")                                             \
    X(SQL_LIST_RAILS, "SELECT * FROM rails WHERE agent = ?1 ORDER BY position")                    \
    X(SQL_LIST_ENGINES, "SELECT * FROM engines WHERE agent = ?1 ORDER BY position")                \
    X(SQL_PRUNE_TRANSFERS, /* live transfers stay, and so do the agents that can end them */       \
      "DELETE FROM transfers WHERE ordinal IN (SELECT ordinal FROM transfers "                     \
      "INDEXED BY transfers_ended WHERE live = 0 AND updated_ns < ?1 "                             \
      "ORDER BY updated_ns LIMIT 1000) RETURNING state, last_event")                               \
    X(SQL_PRUNE_POSITIONS, /* that of the journal stays */ "DELETE FROM positions WHERE "          \
                                                           "updated_ns < ?1 AND agent <> ''")      \
    X(SQL_PRUNE_AGENTS,                                                                            \
      "DELETE FROM agents WHERE seen_ns < ?1 AND NOT EXISTS (SELECT 1 FROM transfers "             \
      "WHERE live = 1 AND (source_agent = agents.name OR target_agent = agents.name))")            \
    X(SQL_ADD_ORDERS, /* to every source that holds an attempt without a target */                 \
      "INSERT INTO orders (agent, boot, transfer, kind, request, attempt, lease_ns, "              \
      "made_ns) SELECT source_agent, source_boot, id, ?3, request, attempt, ?4, ?5 "               \
      "FROM transfers AS held WHERE request = ?1 AND (?2 < 0 OR attempt = ?2) AND live = 1 "       \
      "AND source_boot <> 0 AND source_lost = 0 AND NOT EXISTS (SELECT 1 FROM transfers "          \
      "AS met WHERE met.request = ?1 AND met.attempt = held.attempt "                              \
      "AND met.source_matched_ns <> 0)" NEWER_ORDER)                                               \
    /* A target that waits for its source has reported no number that it knows: 0. */              \
    X(SQL_ADD_CANCEL,                                                                              \
      "INSERT INTO orders (agent, boot, transfer, target, kind, request, attempt, "                \
      "lease_ns, made_ns) SELECT target_agent, target_boot, id, "                                  \
      "CASE WHEN target_matched_ns <> 0 THEN id ELSE 0 END, ?2, request, attempt, 0, ?3 "          \
      "FROM transfers WHERE id = ?1 AND live = 1 AND target_boot <> 0 AND target_lost = "          \
      "0" NEWER_ORDER)                                                                             \
    X(SQL_ADD_AGENT_ORDER,                                                                         \
      "INSERT INTO orders (agent, boot, transfer, kind, request, attempt, lease_ns, "              \
      "made_ns) SELECT name, boot, 0, ?2, name, 0, 0, ?3 FROM agents "                             \
      "WHERE name = ?1 AND stopped = 0" NEWER_ORDER)                                               \
    X(SQL_ADD_RECORD_ORDER, /* ?1 '*': for all */                                                  \
      "INSERT INTO orders (agent, boot, transfer, kind, request, attempt, lease_ns, "              \
      "made_ns) SELECT name, boot, 0, ?2, name, 0, ?3, ?4 FROM agents "                            \
      "WHERE (name = ?1 OR ?1 = '*') AND stopped = 0" NEWER_ORDER)                                 \
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
    STORE_ENGINE_LIST(X)                                                                           \
    STORE_FAULT_LIST(X)                                                                            \
    STORE_ROLLUP_LIST(X)

typedef enum store_sql { STORE_STATEMENT_LIST(KVR_SYMBOL) SQL_END } store_sql;

#endif
