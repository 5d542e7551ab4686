/* The statements of store_engines.c, a part of STORE_STATEMENT_LIST. */
#ifndef KVR_SCHEDULER_STORE_ENGINES_SQL_H
#define KVR_SCHEDULER_STORE_ENGINES_SQL_H

#define ENGINE_COLUMNS                                                                             \
    "name, uuid, generation, tp, tp_size, pp, pp_size, model, region_count, region_bytes, "        \
    "geometry"
/* An engine that ends may give its regions back first. */
#define OF_MOST_REGIONS(column)                                                                    \
    column " = CASE WHEN excluded.region_count < engines_seen.region_count "                       \
           "THEN engines_seen." column " ELSE excluded." column " END"

#define STORE_ENGINE_LIST(X)                                                                       \
    X(SQL_SEE_ENGINE,                                                                              \
      "INSERT INTO engines_seen (agent, " ENGINE_COLUMNS ", first_ns, last_ns) "                   \
      "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?13) "                      \
      "ON CONFLICT (agent, uuid, tp, pp) DO UPDATE SET name = excluded.name, "                     \
      "generation = excluded.generation, tp_size = excluded.tp_size, "                             \
      "pp_size = excluded.pp_size, model = excluded.model, " OF_MOST_REGIONS(                      \
          "reg"                                                                                    \
          "ion"                                                                                    \
          "_co"                                                                                    \
          "un"                                                                                     \
          "t") ", " OF_MOST_REGIONS("region_bytes") ", " OF_MOST_REGIONS("geometry") ", last_ns "  \
                                                                                     "= "          \
                                                                                     "excluded."   \
                                                                                     "last_ns")    \
    X(SQL_LIST_ENGINES_SEEN,                                                                       \
      "SELECT id, agent, " ENGINE_COLUMNS ", first_ns, last_ns FROM engines_seen WHERE id < ?1 "   \
      "AND (?2 IS NULL OR agent = ?2) AND last_ns >= ?3 AND first_ns <= ?4 "                       \
      "ORDER BY id DESC LIMIT ?5")                                                                 \
    X(SQL_PRUNE_ENGINES, "DELETE FROM engines_seen WHERE id IN (SELECT id FROM engines_seen "      \
                         "WHERE last_ns < ?1 ORDER BY last_ns LIMIT 1000)")

#endif
