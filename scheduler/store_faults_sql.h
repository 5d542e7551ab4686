/* The statements of store_faults.c, a part of STORE_STATEMENT_LIST. */
#ifndef KVR_SCHEDULER_STORE_FAULTS_SQL_H
#define KVR_SCHEDULER_STORE_FAULTS_SQL_H

#define FAULT_OF "agent = ?1 AND kind = ?2 AND rail = ?3 AND peer = ?4 "

#define STORE_FAULT_LIST(X)                                                                        \
    X(SQL_ADD_FAULT, "INSERT INTO faults (agent, kind, rail, peer, boot, from_ns, until_ns, "      \
                     "amount, text) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 "                    \
                     "WHERE NOT EXISTS (SELECT 1 FROM faults WHERE " FAULT_OF                      \
                     "AND (until_ns = 0 OR (from_ns >= ?10 AND from_ns <= ?11)))")                 \
    X(SQL_REOPEN_FAULT, "UPDATE faults SET until_ns = 0 WHERE " FAULT_OF "AND until_ns <> 0 "      \
                        "AND (until_ns = ?5 OR (from_ns >= ?6 AND from_ns <= ?7))")                \
    X(SQL_END_FAULT, "UPDATE faults SET until_ns = ?5 WHERE " FAULT_OF "AND until_ns = 0")         \
    X(SQL_END_FAULTS, "UPDATE faults SET until_ns = ?2 WHERE agent = ?1 AND until_ns = 0")         \
    X(SQL_END_FAULTS_GONE, "UPDATE faults SET until_ns = ?1 WHERE until_ns = 0 AND agent > '' "    \
                           "AND NOT EXISTS (SELECT 1 FROM agents WHERE name = faults.agent)")      \
    X(SQL_LAST_REPORT, "SELECT coalesce((SELECT max(seen_ns) FROM agents), ?1), "                  \
                       "coalesce((SELECT max(updated_ns) FROM positions), ?1)")                    \
    X(SQL_LIST_FAULTS,                                                                             \
      "SELECT kind, agent, rail, peer, from_ns, until_ns, amount, text FROM faults "               \
      "WHERE from_ns <= ?2 AND (until_ns = 0 OR until_ns >= ?1) "                                  \
      "ORDER BY from_ns DESC, id DESC LIMIT ?3")                                                   \
    X(SQL_PRUNE_FAULTS, "DELETE FROM faults WHERE id IN (SELECT id FROM faults "                   \
                        "WHERE from_ns < ?1 ORDER BY from_ns LIMIT 1000)")                         \
    X(SQL_BOUND_FAULTS, /* the newest ?1 stay */                                                   \
      "DELETE FROM faults WHERE id IN (SELECT id FROM faults "                                     \
      "WHERE id <= (SELECT max(id) FROM faults) - ?1 ORDER BY id LIMIT 1000)")

#endif
