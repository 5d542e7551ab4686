/* Inside the store: PostgreSQL, over one connection of libpq.
 *
 * Statements are sent one behind the other and their results are read when one is needed: a
 * transaction of many writes waits for the server twice. What one of them could not do is found
 * then, and the transaction is over.
 *
 * Several schedulers may write to one database. A transaction begins with the lock of the table
 * writer's row, so that one commits after the other, and ids grow in the order of the commits. */
#ifndef KVR_SCHEDULER_STORE_POSTGRES_H
#define KVR_SCHEDULER_STORE_POSTGRES_H

#include <libpq-fe.h>

#include "scheduler/store_rows.h"

#define STORE_POSTGRES_OLDEST  140000 /* as PQserverVersion says */
#define STORE_POSTGRES_SCHEMA  "kvrail"
#define STORE_POSTGRES_CHANNEL "kvrail" /* of NOTIFY */
#define STORE_TEXT_BYTES       2048     /* of a text that is no UTF-8, shown */
#define STORE_SQL_BYTES        4096     /* of a statement as PostgreSQL takes it */

/* How long a server may take for an answer before its connection is given up. It waits for locks by
 * itself, for less. */
#define STORE_ANSWER_NS (8 * KVR_S)
#define STORE_SLOW_NS   (60 * KVR_S) /* where it goes through whole tables */

/* Statements of the store, and behind them those of PostgreSQL alone. */
enum {
    SQL_LAST_ID = SQL_END,
    SQL_ADD_NEWS,
    SQL_READ_NEWS,
    SQL_PRUNE_NEWS,
    SQL_PRUNE_SCHEDULERS,
    SQL_EXPECT_TRANSFERS, /* from here on with arrays */
    SQL_EXPECT_POSITIONS,
    SQL_FIND_ORDERS,
    SQL_ADD_MANY_EVENTS,
    SQL_ADD_TRANSFERS,
    SQL_UPDATE_TRANSFERS,
    SQL_SET_POSITIONS,
    SQL_DROP_ORDERS_OF,
    SQL_ADD_MANY_NEWS,
    SQL_POSTGRES_END
};

struct store_postgres {
    struct store base;
    PGconn *connection; /* NULL: not there; try_at says when to look for it again */
    char *url, *password_file;
    const char *schema; /* the place's */
    bool reader;
    kvr_ns try_at;
    uint32_t names, names_settled; /* of prepared statements; the last that is sure to be there */
    bool names_lost;               /* the server may have others, which go before the next one */
    uint32_t prepared[SQL_POSTGRES_END]; /* the statement's name; 0: it has none yet */
    int sent;                            /* statements with results that were not read yet */
    uint64_t changed;                    /* by the last one */
    uint64_t round_trips;                /* waits for results, since the start */
    struct store_batches *batches;       /* the writer's, as the next; NULL: a reader */
    struct store_expectations *expected;

    bool in_transaction, written; /* the last transaction has sent a change */
    bool failed;                  /* a statement of it has failed, and `said` is why */
    bool others;                  /* another scheduler has committed since this one did */
    bool others_live;             /* another scheduler has begun a transaction not long ago */
    bool lost;                    /* news may have gone by */
    bool lost_asked;              /* the caller reads all again, in this transaction */
    bool leads;                   /* this connection has the lock of the leader */
    int64_t news_until_us;        /* those up to this id were read */
    int64_t me;                   /* in the table writer */
    int64_t began_us, last_id;    /* of the transaction: the server's clock, and its last id */
    int64_t known_id;             /* the last id that was committed before it */
    int64_t covered_from_us,
        covered_to_us;     /* by the partition that store_postgres_cover saw last */
    int64_t period_end_us; /* partitions are there up to then */

    kvr_ns patience;             /* with the server; KVR_NEVER: without a bound */
    bool silent;                 /* the connection was given up, because no answer came */
    bool stopped;                /* or because the program ends */
    int stop_fd;                 /* the place's */
    char said[KVR_DETAIL_BYTES]; /* why the last call failed */
    health_problem trouble;
    bool timed_out;
};

extern const struct store_driver store_postgres_driver;
extern const struct store_news_driver store_postgres_news;

static inline struct store_postgres *store_postgres(struct store *store)
{
    return (struct store_postgres *)store;
}

/* ---- store_postgres_open.c ---- */

/* The password, or the file that libpq reads, is never part of the URL: others see it in the list
 * of processes. */
KVR_MUST_CHECK kvr_status store_postgres_open_writer(const struct store_place *place,
                                                     struct store **ret_store,
                                                     struct kvr_error *error);
KVR_MUST_CHECK kvr_status store_postgres_open_reader(const struct store_place *place,
                                                     struct store **ret_store,
                                                     struct kvr_error *error);
/* A connection that is set up for the store. KVR_SYSTEM: the server does not answer, or refuses. */
KVR_MUST_CHECK kvr_status store_postgres_connect(struct store_postgres *store,
                                                 struct kvr_error *error);

/* ---- store_postgres_wait.c ---- */

/* Why a connection was given up here; NULL: it was not. */
const char *store_postgres_gave_up(const struct store_postgres *store);
/* As PQgetResult. A server that does not answer in time loses the connection. */
PGresult *store_postgres_result(struct store_postgres *store);
/* Outside the pipeline, one statement or several: the last result, or NULL. */
PGresult *store_postgres_ask_plain(struct store_postgres *store, const char *sql);

/* ---- store_postgres_sql.c ---- */

#define STORE_TRANSFER_COLUMNS 69
/* The statement as PostgreSQL takes it. */
void store_postgres_sql(store_sql sql, char text[STORE_SQL_BYTES]);
/* It changes something. */
bool store_postgres_writes(store_sql sql);

/* ---- store_postgres_batch.c ---- */

struct store_batches *store_batches_open(void); /* NULL: no memory */
void store_batches_close(struct store_batches *batches);
void store_batches_forget(struct store_batches *batches);
/* Rows of that statement wait for others. */
bool store_postgres_waits(store_sql sql);
bool store_postgres_keep_row(struct store_postgres *store, store_sql sql,
                             const struct store_parameter *parameters, int count);
/* All rows that wait; before a statement that could see them. */
bool store_postgres_send_rows(struct store_postgres *store);

/* ---- store_postgres_expect.c ---- */

struct store_expectations *store_expectations_open(void); /* NULL: no memory */
void store_expectations_close(struct store_expectations *expected);
void store_expectations_forget(struct store_expectations *expected);
bool store_postgres_expect(struct store *base, const struct store_expected *rows);
/* Answers from the rows that were read. False: the server must be asked. */
bool store_postgres_expected(struct store_postgres *store, store_sql sql,
                             const struct store_parameter *parameters, store_row_visit *visit,
                             void *self);
/* The statement changes what was read. */
void store_postgres_changes(struct store_postgres *store, store_sql sql,
                            const struct store_parameter *parameters);
bool store_postgres_find_orders(struct store *base, const struct store_start *starts, size_t count,
                                bool ret_has[]);

/* ---- store_postgres_periods.c ---- */

/* Within a transaction: the partitions that ids of now need. */
bool store_postgres_make_period(struct store_postgres *store);
/* Within a transaction: the partition of that id, which may lie in the past. */
bool store_postgres_cover(struct store_postgres *store, int64_t id);
/* Within a transaction: drops the oldest partition, if all in it is past its time. */
bool store_postgres_drop_period(struct store *base, int64_t before_ns, uint64_t states[STATE_END],
                                uint64_t *ret_removed);

/* ---- store_postgres_news.c ---- */

/* Within a transaction: keeps this scheduler's row in the table schedulers fresh. seen_us: as it
 * is; 0: there is none. */
bool store_postgres_arrive(struct store_postgres *store, int64_t seen_us);

/* ---- store_postgres.c ---- */

/* Opens the connection again if it must. */
bool store_postgres_is_there(struct store_postgres *store);
int64_t store_postgres_number(const PGresult *result, int row, int column);

/* ---- store_postgres_send.c ---- */

/* The server's number of a type. */
Oid store_postgres_oid(store_type type);
/* The text; where it is no UTF-8, a readable form of it in `shown`, of `room` bytes. */
const char *store_postgres_text(const char *text, char *shown, size_t room);

/* Keeps what the server or libpq said, as one line. */
void store_postgres_say(struct store_postgres *store, const char *said);
/* Reads the results of all that was sent: the last one's, or NULL when one has failed. The caller
 * clears it. */
PGresult *store_postgres_settle(struct store_postgres *store);
bool store_postgres_settled(struct store_postgres *store); /* the same, without the result */
/* After a statement was sent: the results are read where there are many of them. */
bool store_postgres_flows(struct store_postgres *store);

/* A statement that is not of the list. Its result comes with that of a later one. */
bool store_postgres_send_text(struct store_postgres *store, const char *sql);
bool store_postgres_send(struct store_postgres *store, const char *sql,
                         const struct store_parameter *parameters, int count);
/* Its last result, or NULL. The caller clears it. */
PGresult *store_postgres_ask(struct store_postgres *store, const char *sql);
bool store_postgres_do(struct store_postgres *store, const char *sql);
/* Prepared under a name of the caller's, which the connection keeps. */
bool store_postgres_name(struct store_postgres *store, const char *name, const char *sql);
bool store_postgres_send_named(struct store_postgres *store, const char *name,
                               const struct store_parameter *parameters, int count);
/* The server answers the statements so far as it ends them. Without this it keeps its answers until
 * the commit, and a long commit looks like a server that is gone. */
bool store_postgres_hurry(struct store_postgres *store);
/* A statement of the list, prepared when it is first used. */
bool store_postgres_send_listed(struct store_postgres *store, store_sql sql,
                                const struct store_parameter *parameters, int count);

#endif
