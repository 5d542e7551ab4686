/* PostgreSQL: the tables news and schedulers, and which scheduler leads. */
#include <inttypes.h>
#include <stdio.h>

#include "scheduler/store_postgres.h"

#define LEAD_LOCK "8170170170170171" /* any number of ours */

static const int64_t absent_us = NEWS_ABSENT_NS / 1000;

/* ---- presence ---- */

bool store_postgres_arrive(struct store_postgres *store, int64_t seen_us)
{
    char sql[256];

    store->lost = store->lost || seen_us < store->began_us - absent_us;
    if (store->lost)
        store->news_until_us = store->last_id;
    if (seen_us > store->began_us - absent_us / 6)
        return true;
    snprintf(sql, sizeof(sql),
             "INSERT INTO schedulers VALUES (%" PRId64 ", %" PRId64 ") "
             "ON CONFLICT (id) DO UPDATE SET seen_us = excluded.seen_us",
             store->me, store->began_us);
    store->written = true;
    return store_postgres_do(store, sql);
}

static bool lost(struct store *base)
{
    struct store_postgres *store = store_postgres(base);

    store->lost_asked = store->lost;
    return store->lost;
}

static bool leads(struct store *base)
{
    struct store_postgres *store = store_postgres(base);
    PGresult *result;

    if (store->leads && store_postgres_is_there(store))
        return true;
    if (!store_postgres_is_there(store))
        return false;
    result = store_postgres_ask(store, "SELECT pg_try_advisory_lock(" LEAD_LOCK ")");
    store->leads = result != NULL && store_postgres_number(result, 0, 0) != 0;
    PQclear(result);
    return store->leads;
}

/* ---- telling ---- */

static bool wanted(struct store *base)
{
    return store_postgres(base)->others_live;
}

static const char *name_of(transfer_state state)
{
    return state == STATE_END ? "" : transfer_state_name(state);
}

static bool tell(struct store *base, const struct store_news *news)
{
    struct store_postgres *store = store_postgres(base);
    int64_t seq = store_next_id(base);
    const char *from = name_of(news->from), *to = name_of(news->to);
    const struct store_bytes report = {news->report, news->report_bytes};

    return store_do(base, (store_sql)SQL_ADD_NEWS,
                    STORE_VALUES(INT(seq), INT(store->me), INT(news->transfer), TEXT(from),
                                 TEXT(to), INT(news->held_before), INT(news->held),
                                 STORE_AT(STORE_STATUS, news->reason),
                                 STORE_AT(STORE_BYTES, report)));
}

/* ---- hearing ---- */

static transfer_state state_of(const char *name)
{
    transfer_state state;

    return transfer_state_from_name(name, &state) ? state : STATE_END;
}

struct reader {
    store_news_visit *visit;
    void *self;
};

static void read_row(const struct store_row *row, void *self)
{
    const struct reader *reader = self;
    struct store_news news = {0};
    struct store_bytes report = {0};
    const char *from, *to;

    store_read(row,
               STORE_VALUES(INT(news.transfer), STORE_AT(STORE_BORROWED, from),
                            STORE_AT(STORE_BORROWED, to), INT(news.held_before), INT(news.held),
                            STORE_AT(STORE_STATUS, news.reason), STORE_AT(STORE_BYTES, report)));
    news.from = state_of(from);
    news.to = state_of(to);
    news.report = report.at;
    news.report_bytes = report.count;
    reader->visit(reader->self, &news);
}

static void read_number(const struct store_row *row, void *self)
{
    store_read(row, STORE_VALUES(INT(*(int64_t *)self)));
}

/* Commits come one after the other: with an id of the table writer, all news up to it are seen. */
static bool hear(struct store *base, store_news_visit *visit, void *self)
{
    struct store_postgres *store = store_postgres(base);
    struct reader reader = {visit, self};
    int64_t until = store->known_id;

    if ((!store->in_transaction &&
         !store_each(base, (store_sql)SQL_LAST_ID, NULL, 0, read_number, &until)) ||
        !store_each(base, (store_sql)SQL_READ_NEWS,
                    STORE_VALUES(INT(store->news_until_us), INT(until), INT(store->me)), read_row,
                    &reader))
        return false;
    if (until > store->news_until_us)
        store->news_until_us = until;
    return true;
}

static int64_t until(struct store *base)
{
    return store_postgres(base)->news_until_us * 1000;
}

static bool prune(struct store *base)
{
    struct store_postgres *store = store_postgres(base);
    int64_t before = store->began_us - (int64_t)(NEWS_KEPT_NS / 1000);

    return store_do(base, (store_sql)SQL_PRUNE_NEWS, STORE_VALUES(INT(before))) &&
           store_do(base, (store_sql)SQL_PRUNE_SCHEDULERS, STORE_VALUES(INT(before)));
}

const struct store_news_driver store_postgres_news = {
    .wanted = wanted,
    .add = tell,
    .read = hear,
    .until = until,
    .lost = lost,
    .leads = leads,
    .prune = prune,
};
