/* The store's statements in PostgreSQL's words. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/store_postgres.h"

static const char *const statements[] = {STORE_STATEMENT_LIST(KVR_NAME)};

/* A page of a search. SQLite goes through the candidates in their order; here the statement asks
 * for the order. */
#define FIND(candidates)                                                                           \
    "SELECT t.* FROM (" candidates " ORDER BY u DESC, o DESC LIMIT " SEARCH_MOST                   \
    ") AS c JOIN transfers AS t ON t.ordinal = c.o WHERE " SEARCH_REST                             \
    " ORDER BY c.u DESC, c.o DESC LIMIT ?4"

/* NULL: those of the list, for both. */
static const char *const others[SQL_END] = {
    [SQL_FIND_TIME] = FIND(SEARCH_TIME),       [SQL_FIND_AGENT] = FIND(SEARCH_AGENT),
    [SQL_FIND_ENGINE] = FIND(SEARCH_ENGINE),   [SQL_FIND_REASON] = FIND(SEARCH_REASON),
    [SQL_FIND_PATH] = FIND(SEARCH_BY_PATH),    [SQL_FIND_SLOW] = FIND(SEARCH_SLOW),
    [SQL_FIND_REQUEST] = FIND(SEARCH_REQUEST),
};

static const char *const own[] = {
    [SQL_LAST_ID - SQL_END] = "SELECT last_id FROM writer",
    [SQL_ADD_NEWS - SQL_END] = "INSERT INTO news VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [SQL_READ_NEWS - SQL_END] =
        ("SELECT transfer, from_state, to_state, held_before, held, reason, "
         "report FROM news WHERE seq > ?1 AND seq <= ?2 AND scheduler <> ?3 "
         "ORDER BY seq"),
    [SQL_PRUNE_NEWS - SQL_END] = "DELETE FROM news WHERE seq < ?1",
    [SQL_PRUNE_SCHEDULERS - SQL_END] = "DELETE FROM schedulers WHERE seen_us < ?1",
    [SQL_EXPECT_TRANSFERS - SQL_END] = "SELECT * FROM transfers WHERE id = ANY (?1)",
    [SQL_EXPECT_POSITIONS - SQL_END] =
        ("SELECT p.sequence, p.agent, p.boot FROM unnest(?1, ?2) AS s (agent, boot) "
         "JOIN positions AS p ON p.agent = s.agent AND p.boot = s.boot"),
    [SQL_FIND_ORDERS - SQL_END] =
        ("SELECT DISTINCT 0, o.agent, o.boot FROM unnest(?1, ?2) AS s (agent, boot) "
         "JOIN orders AS o ON o.agent = s.agent AND o.boot = s.boot"),
    [SQL_ADD_MANY_EVENTS - SQL_END] =
        ("INSERT INTO events (id, previous, arrived_ns, agent, boot, records, spans, pages) "
         "SELECT * FROM unnest(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"),
    [SQL_ADD_TRANSFERS - SQL_END] =
        ("INSERT INTO transfers SELECT * FROM unnest(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,"
         "?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,"
         "?,?)"),
    [SQL_UPDATE_TRANSFERS - SQL_END] = "", /* made of SQL_UPDATE_TRANSFER */
    [SQL_SET_POSITIONS - SQL_END] =
        ("INSERT INTO positions SELECT * FROM unnest(?1, ?2, ?3, ?4) ON CONFLICT (agent, boot) "
         "DO UPDATE SET sequence = excluded.sequence, updated_ns = excluded.updated_ns"),
    [SQL_DROP_ORDERS_OF - SQL_END] = "DELETE FROM orders WHERE transfer = ANY (?1)",
    [SQL_ADD_MANY_NEWS - SQL_END] =
        "INSERT INTO news SELECT * FROM unnest(?, ?, ?, ?, ?, ?, ?, ?, ?)",
};

static const char *words_of(store_sql sql)
{
    if ((int)sql >= SQL_END)
        return own[(int)sql - SQL_END];
    return others[sql] != NULL ? others[sql] : statements[sql];
}

bool store_postgres_writes(store_sql sql)
{
    return strncmp(words_of(sql), "SELECT", 6) != 0;
}

static const char *skip_word(const char *at)
{
    while (*at == ' ')
        at++;
    while (isalnum((unsigned char)*at) || *at == '_')
        at++;
    return at;
}

/* Parameters without a number count from 1. */
static size_t put_parameter(const char **at, int *counted, char *text)
{
    int number = 0;

    for (++*at; isdigit((unsigned char)**at); ++*at)
        number = 10 * number + **at - '0';
    return (size_t)sprintf(text, "$%d", number != 0 ? number : ++*counted);
}

/* UPDATE transfers SET state=n.c3, … FROM unnest($1, …) AS n (c1, …) WHERE ordinal=n.c1 */
static void write_updates(char text[STORE_SQL_BYTES])
{
    static const char where[] = " WHERE ";
    const char *at = statements[SQL_UPDATE_TRANSFER];
    size_t used = 0;

    for (; *at != '\0' && used + 16 < STORE_SQL_BYTES; at++) {
        if (strncmp(at, where, sizeof(where) - 1) == 0) {
            used += (size_t)sprintf(text + used, " FROM unnest($1");
            for (int i = 2; i <= STORE_TRANSFER_COLUMNS; i++)
                used += (size_t)sprintf(text + used, ",$%d", i);
            used += (size_t)sprintf(text + used, ") AS n (c1");
            for (int i = 2; i <= STORE_TRANSFER_COLUMNS; i++)
                used += (size_t)sprintf(text + used, ",c%d", i);
            text[used++] = ')';
        }
        if (*at == '?')
            used += (size_t)sprintf(text + used, "n.c");
        else
            text[used++] = *at;
    }
    text[used] = '\0';
}

void store_postgres_sql(store_sql sql, char text[STORE_SQL_BYTES])
{
    static const char by[] = "INDEXED BY ", none[] = "NOT INDEXED ";
    const char *at = words_of(sql);
    bool quoted = false;
    int counted = 0;
    size_t used = 0;

    if ((int)sql == SQL_UPDATE_TRANSFERS)
        return write_updates(text);
    while (*at != '\0' && used + 16 < STORE_SQL_BYTES) {
        if (*at == '\'')
            quoted = !quoted;
        if (!quoted && strncmp(at, by, sizeof(by) - 1) == 0)
            at = skip_word(at + sizeof(by) - 1);
        else if (!quoted && strncmp(at, none, sizeof(none) - 1) == 0)
            at += sizeof(none) - 1;
        else if (!quoted && *at == '?')
            used += put_parameter(&at, &counted, text + used);
        else
            text[used++] = *at++;
    }
    text[used] = '\0';
}
