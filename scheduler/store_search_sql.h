/* The statements of store_search.c, a part of STORE_STATEMENT_LIST.
 *
 * A search goes over one index of ended transfers, from the newest end to older ones: the index
 * alone gives candidates, and the rest of the filter chooses among them. FIND is a page, of at most
 * SEARCH_MOST candidates; LAST is the place of the last of so many, if there are so many.
 *
 * ?1, ?2: the candidates lie before this updated_ns and ordinal; ?3: and not before this
 * updated_ns; ?4: rows; from ?5: the filter, NULL (of ?9: -1, of ?12: 0) where it does not ask. */
#ifndef KVR_SCHEDULER_STORE_SEARCH_SQL_H
#define KVR_SCHEDULER_STORE_SEARCH_SQL_H

#define SEARCH_MOST      "5000"
#define SEARCH_MOST_LAST "4999" /* counted from 0 */

/* Also in the migration that made the indexes: SQLite compares expressions. */
#define SEARCH_PATHS "' host dmabuf hmem local staged'"
#define SEARCH_PATH                                                                                \
    "max(instr(" SEARCH_PATHS ", source_path), instr(" SEARCH_PATHS ", target_path))"
#define SEARCH_DURATION                                                                            \
    "CASE WHEN target_opened_ns <> 0 AND target_ended_ns >= target_opened_ns "                     \
    "THEN target_ended_ns - target_opened_ns "                                                     \
    "WHEN source_opened_ns <> 0 AND source_ended_ns >= source_opened_ns "                          \
    "THEN source_ended_ns - source_opened_ns ELSE -1 END"
#define SEARCH_BEGINS "request >= ?13 AND request < ?13 || " LAST_CHARACTER

#define SEARCH_REST                                                                                \
    "(?5 IS NULL OR state = ?5) AND (?6 IS NULL OR tenant = ?6) "                                  \
    "AND (?7 IS NULL OR source_agent = ?7 OR target_agent = ?7) "                                  \
    "AND (?8 IS NULL OR source_engine = ?8 OR target_engine = ?8) "                                \
    "AND (?9 < 0 OR (source_agent = ?7 AND (source_rails >> CAST(?9 AS INTEGER) & 1) <> 0) "       \
    "OR (target_agent = ?7 AND (target_rails >> CAST(?9 AS INTEGER) & 1) <> 0)) "                  \
    "AND (?10 IS NULL OR reason = ?10) "                                                           \
    "AND (?11 IS NULL OR " SEARCH_PATH " = instr(" SEARCH_PATHS ", ?11)) "                         \
    "AND (?12 = 0 OR " SEARCH_DURATION " >= ?12) AND (?13 IS NULL OR (" SEARCH_BEGINS "))"

#define SEARCH_IN(index, key)                                                                      \
    "SELECT ordinal AS o, updated_ns AS u FROM transfers INDEXED BY " index                        \
    " WHERE live = 0 AND " key "updated_ns BETWEEN ?3 AND ?1 "                                     \
    "AND (updated_ns < ?1 OR ordinal < ?2)"
#define SEARCH_DIGITS(digits)                                                                      \
    SEARCH_IN("ended_by_digits", "min(length(" SEARCH_DURATION "), 11) = " digits                  \
                                 " AND min(length(?12), 11) <= " digits " AND ")

#define SEARCH_TIME  SEARCH_IN("transfers_ended", "")
#define SEARCH_AGENT /* UNION, as one agent may be both */                                         \
    SEARCH_IN("ended_by_source", "source_agent = ?7 AND ")                                         \
    " UNION " SEARCH_IN("ended_by_target", "target_agent = ?7 AND ")
#define SEARCH_ENGINE                                                                              \
    SEARCH_IN("ended_by_source_engine", "source_engine = ?8 AND ")                                 \
    " UNION " SEARCH_IN("ended_by_target_engine", "target_engine = ?8 AND ")
#define SEARCH_REASON SEARCH_IN("ended_by_reason", "reason = ?10 AND reason <> 'ok' AND ")
#define SEARCH_BY_PATH                                                                             \
    SEARCH_IN("ended_by_path", SEARCH_PATH " = instr(" SEARCH_PATHS ", ?11) AND ")
#define SEARCH_SLOW                                                                                \
    SEARCH_DIGITS("9")                                                                             \
    " UNION ALL " SEARCH_DIGITS("10") " UNION ALL " SEARCH_DIGITS("11")
#define SEARCH_REQUEST SEARCH_IN("transfers_by_request", SEARCH_BEGINS " AND ")

#define SEARCH_FIND(candidates)                                                                    \
    "SELECT t.* FROM (" candidates " ORDER BY u DESC, o DESC LIMIT " SEARCH_MOST                   \
    ") CROSS JOIN transfers AS t ON t.ordinal = o WHERE " SEARCH_REST " LIMIT ?4"
#define SEARCH_LAST(candidates)                                                                    \
    candidates " ORDER BY u DESC, o DESC LIMIT 1 OFFSET " SEARCH_MOST_LAST

#define SEARCH_BOTH(X, way, candidates)                                                            \
    X(SQL_FIND_##way, SEARCH_FIND(candidates)) X(SQL_LAST_##way, SEARCH_LAST(candidates))

/* Those that ended for the reason ?1, from ?2 until ?3. */
#define ERRORS                                                                                     \
    "FROM transfers INDEXED BY ended_by_reason WHERE live = 0 AND reason = ?1 "                    \
    "AND reason <> 'ok' AND updated_ns BETWEEN ?2 AND ?3"

#define STORE_SEARCH_LIST(X)                                                                       \
    X(SQL_FIND_LIVE, "SELECT * FROM transfers INDEXED BY transfers_live WHERE live = 1 "           \
                     "AND ordinal < ?2 AND updated_ns BETWEEN ?3 AND ?1 AND " SEARCH_REST          \
                     " ORDER BY ordinal DESC LIMIT ?4")                                            \
    SEARCH_BOTH(X, TIME, SEARCH_TIME)                                                              \
    SEARCH_BOTH(X, AGENT, SEARCH_AGENT)                                                            \
    SEARCH_BOTH(X, ENGINE, SEARCH_ENGINE)                                                          \
    SEARCH_BOTH(X, REASON, SEARCH_REASON)                                                          \
    SEARCH_BOTH(X, PATH, SEARCH_BY_PATH)                                                           \
    SEARCH_BOTH(X, SLOW, SEARCH_SLOW)                                                              \
    X(SQL_FIND_REQUEST, SEARCH_FIND(SEARCH_REQUEST))                                               \
    X(SQL_ERROR_FIRST, "SELECT id, updated_ns " ERRORS " ORDER BY updated_ns LIMIT 1")             \
    X(SQL_ERROR_LAST, "SELECT id, updated_ns " ERRORS " ORDER BY updated_ns DESC LIMIT 1")         \
    X(SQL_ERROR_COUNT, "SELECT count(*) FROM (SELECT 1 " ERRORS " LIMIT ?4) AS found")

#endif
