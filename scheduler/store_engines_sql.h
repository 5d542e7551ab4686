/* The statements of store_engines.c, a part of STORE_STATEMENT_LIST. */
#ifndef KVR_SCHEDULER_STORE_ENGINES_SQL_H
#define KVR_SCHEDULER_STORE_ENGINES_SQL_H

#define ENGINE_COLUMNS                                                                             \
    "name, uuid, generation, tp, tp_size, pp, pp_size, model, region_count, region_bytes, "        \
    "geometry"
/* An engine that ends may give its regions back first. One that starts anew has others. */
#define HAD_MORE                                                                                   \
    "excluded.generation = engines_seen.generation AND "                                           \
    "excluded.region_count < engines_seen.region_count"
#define OF_MOST(column)                                                                            \
    column " = CASE WHEN " HAD_MORE " THEN engines_seen." column " ELSE excluded." column " END, "
#define SEE_ENGINE                                                                                 \
    "INSERT INTO engines_seen (agent, " ENGINE_COLUMNS ", first_ns, last_ns) "                     \
    "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?13) "                        \
    "ON CONFLICT (agent, uuid, tp, pp) DO UPDATE SET "
#define WITH_NEWER                                                                                 \
    "name = excluded.name, generation = excluded.generation, tp_size = excluded.tp_size, "         \
    "pp_size = excluded.pp_size, model = excluded.model, last_ns = excluded.last_ns "              \
    "WHERE excluded.generation >= engines_seen.generation"

#define STORE_ENGINE_LIST(X)                                                                       \
    X(SQL_SEE_ENGINE,                                                                              \
      SEE_ENGINE OF_MOST("region_count") OF_MOST("region_bytes") OF_MOST("geometry") WITH_NEWER)   \
    X(SQL_LIST_ENGINES_SEEN,                                                                       \
      "SELECT id, agent, " ENGINE_COLUMNS ", first_ns, last_ns FROM engines_seen WHERE id < ?1 "   \
      "AND (?2 IS NULL OR agent = ?2) AND last_ns >= ?3 AND first_ns <= ?4 "                       \
      "ORDER BY id DESC LIMIT ?5")                                                                 \
    X(SQL_PRUNE_ENGINES, "DELETE FROM engines_seen WHERE id IN (SELECT id FROM engines_seen "      \
                         "WHERE last_ns < ?1 ORDER BY last_ns LIMIT 1000)")                        \
    X(SQL_BOUND_ENGINES, /* all but the ?1 + 1 that were seen last */                              \
      "DELETE FROM engines_seen WHERE id IN (SELECT id FROM engines_seen WHERE last_ns < "         \
      "(SELECT last_ns FROM engines_seen ORDER BY last_ns DESC LIMIT 1 OFFSET ?1) "                \
      "ORDER BY last_ns LIMIT 1000)")

#endif
