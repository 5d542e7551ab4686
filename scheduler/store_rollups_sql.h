/* The statements of store_rollups.c (?1: kind, ?2: step) and of store_marks.c, a part of
 * STORE_STATEMENT_LIST. */
#ifndef KVR_SCHEDULER_STORE_ROLLUPS_SQL_H
#define KVR_SCHEDULER_STORE_ROLLUPS_SQL_H

#define ROLLUPS_OF_STEP "FROM rollups WHERE kind = ?1 AND step = ?2 "

#define STORE_ROLLUP_LIST(X)                                                                       \
    X(SQL_PUT_ROLLUP, "INSERT INTO rollups VALUES (?1, ?2, ?3, ?4, ?5, ?6) "                       \
                      "ON CONFLICT (kind, step, begin, part) DO UPDATE "                           \
                      "SET amounts = excluded.amounts, times = excluded.times")                    \
    X(SQL_GET_ROLLUP, "SELECT * " ROLLUPS_OF_STEP "AND begin = ?3 AND part = ?4")                  \
    X(SQL_GET_AMOUNTS,                                                                             \
      "SELECT kind, step, begin, part, amounts " ROLLUPS_OF_STEP "AND begin = ?3 AND part = ?4")   \
    X(SQL_LIST_ROLLUPS,                                                                            \
      "SELECT * " ROLLUPS_OF_STEP "AND begin >= ?3 AND begin < ?4 ORDER BY begin")                 \
    X(SQL_LIST_AMOUNTS, "SELECT kind, step, begin, part, amounts " ROLLUPS_OF_STEP                 \
                        "AND begin >= ?3 AND begin < ?4 ORDER BY begin")                           \
    X(SQL_FIRST_ROLLUP, "SELECT begin " ROLLUPS_OF_STEP "AND begin >= ?3 ORDER BY begin LIMIT 1")  \
    X(SQL_LAST_ROLLUP, "SELECT begin " ROLLUPS_OF_STEP "ORDER BY begin DESC LIMIT 1")              \
    X(SQL_PRUNE_ROLLUPS, /* 300 steps at once */                                                   \
      "DELETE " ROLLUPS_OF_STEP "AND begin < ?3 AND begin < (300 * ?2 + "                          \
      "(SELECT begin " ROLLUPS_OF_STEP "ORDER BY begin LIMIT 1))")                                 \
    X(SQL_ADD_MARK, "INSERT INTO marks VALUES (?, ?, ?, ?, ?, ?) "                                 \
                    "ON CONFLICT (agent, boot, kind) DO NOTHING")                                  \
    X(SQL_LIST_MARKS, "SELECT agent, kind, at_ns, before, after FROM marks "                       \
                      "WHERE at_ns >= ?1 AND at_ns <= ?2 ORDER BY at_ns DESC LIMIT ?3")            \
    X(SQL_PRUNE_MARKS, "DELETE FROM marks WHERE (agent, boot, kind) IN (SELECT agent, boot, kind " \
                       "FROM marks WHERE at_ns < ?1 ORDER BY at_ns LIMIT 1000)")                   \
    X(SQL_AGENT_BEFORE, "SELECT version, host, listen, provider, secure, options, "                \
                        "(SELECT count(*) FROM rails WHERE agent = ?1) "                           \
                        "FROM agents WHERE name = ?1")

#endif
