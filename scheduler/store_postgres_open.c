/* PostgreSQL: how the store reaches its database and brings it to this version. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/entropy.h"
#include "base/log.h"
#include "scheduler/embedded.h"
#include "scheduler/store_postgres.h"

/* Seconds in the conninfo. A server that is not there is given up soon: agents wait for answers. */
#define CONNECT_WITHIN_S "3"
/* What is asked before the first statement is given up as soon. */
#define SET_UP_WITHIN_NS (3 * KVR_S)
#define HOSTS_MAX        4    /* so a start waits for 12 s at most, if each has one address */
#define PASSWORD_BYTES   8192 /* tokens of clouds are passwords of some thousands */
#define MIGRATE_LOCK     "8170170170170170" /* any number of ours */

/* Without the URL's parameters, which would leave no room for the reason. */
static kvr_status refuse(struct kvr_error *error, const struct store_postgres *store,
                         const char *what)
{
    return kvr_error_set(error, store->stopped ? KVR_CANCELLED : KVR_SYSTEM, "store", "%s %.*s: %s",
                         what, (int)strcspn(store->url, "?"), store->url, store->said);
}

/* ---- the URL ---- */

static const char *value_of(const PQconninfoOption *options, const char *keyword)
{
    for (; options->keyword != NULL; options++)
        if (strcmp(options->keyword, keyword) == 0)
            return options->val;
    return NULL;
}

/* In a list with commas. */
static int count_hosts(const PQconninfoOption *options)
{
    const char *hosts = value_of(options, "host"), *addresses = value_of(options, "hostaddr");
    const char *list = addresses != NULL ? addresses : hosts;
    int count = 1;

    for (; list != NULL && *list != '\0'; list++)
        count += *list == ',';
    return count;
}

/* *ret_tls: the URL, or the environment, says how the server is checked. */
static kvr_status check_url(const char *url, bool *ret_tls, struct kvr_error *error)
{
    char *said = NULL;
    PQconninfoOption *options = PQconninfoParse(url, &said);
    kvr_status status = KVR_OK;

    if (options == NULL) /* what libpq says may repeat a password */
        status = kvr_error_set(error, KVR_INVALID, "store",
                               "--database is no URL that libpq understands: "
                               "postgresql://USER@HOST:PORT/NAME?sslmode=verify-full is one");
    else if (value_of(options, "password") != NULL || value_of(options, "sslpassword") != NULL)
        status = kvr_error_set(error, KVR_INVALID, "store",
                               "--database holds a password, which others can read in the list of "
                               "processes: leave it out, and give --database-password-file FILE, "
                               "PGPASSFILE or a service file");
    else if (count_hosts(options) > HOSTS_MAX)
        status = kvr_error_set(error, KVR_INVALID, "store",
                               "--database names %d hosts, and may name %d: a connection waits 3 s "
                               "for each that does not answer",
                               count_hosts(options), HOSTS_MAX);
    else
        *ret_tls = value_of(options, "sslmode") != NULL || getenv("PGSSLMODE") != NULL;
    PQconninfoFree(options);
    PQfreemem(said);
    return status;
}

/* The file's first line. It is read again for each connection: passwords change. */
static kvr_status read_password(const char *file, char password[PASSWORD_BYTES],
                                struct kvr_error *error)
{
    FILE *stream;
    kvr_status status = KVR_OK;

    password[0] = '\0';
    if (file == NULL)
        return KVR_OK;
    stream = fopen(file, "re");
    if (stream == NULL)
        return kvr_error_system(error, "store", errno, "cannot read --database-password-file %s",
                                file);
    if (fgets(password, PASSWORD_BYTES, stream) == NULL)
        status = kvr_error_set(error, KVR_INVALID, "store", "--database-password-file %s is empty",
                               file);
    fclose(stream);
    password[strcspn(password, "\r\n")] = '\0';
    return status;
}

/* ---- the connection ---- */

/* Settings before dbname are defaults; those behind it count more than the URL. */
static PGconn *connect_with(const struct store_postgres *store, bool tls, const char *password)
{
    const char *const keywords[] = {"connect_timeout",  "keepalives_idle",  "keepalives_interval",
                                    "keepalives_count", "tcp_user_timeout", "target_session_attrs",
                                    "application_name", "sslmode",          "dbname",
                                    "client_encoding",  "password",         NULL};
    const char *const values[] = {CONNECT_WITHIN_S,
                                  "5",
                                  "2",
                                  "3",
                                  "10000",
                                  "read-write",
                                  "kvrail-scheduler",
                                  tls ? NULL : "verify-full",
                                  store->url,
                                  "UTF8",
                                  password[0] != '\0' ? password : NULL,
                                  NULL};

    return PQconnectdbParams(keywords, values, 1);
}

static void say_why(struct store_postgres *store, const PGresult *result)
{
    const char *said = store_postgres_gave_up(store);

    if (said == NULL)
        said = result != NULL ? PQresultErrorMessage(result) : PQerrorMessage(store->connection);
    store_postgres_say(store, said);
}

static bool execute(struct store_postgres *store, const char *sql)
{
    PGresult *result = store_postgres_ask_plain(store, sql);
    ExecStatusType status = PQresultStatus(result);
    bool done = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;

    if (!done)
        say_why(store, result);
    PQclear(result);
    return done;
}

static bool ask_text(struct store_postgres *store, const char *sql, char *text, size_t room)
{
    PGresult *result = store_postgres_ask_plain(store, sql);
    bool answered = PQresultStatus(result) == PGRES_TUPLES_OK;

    text[0] = '\0';
    if (!answered)
        say_why(store, result);
    else if (PQntuples(result) > 0)
        snprintf(text, room, "%s", PQgetvalue(result, 0, 0));
    PQclear(result);
    return answered;
}

/* Others speak its protocol, and lack what the store needs. */
static kvr_status check_server(struct store_postgres *store, struct kvr_error *error)
{
    static const char *const others[][2] = {{"CockroachDB", "CockroachDB"}, {"-YB-", "YugabyteDB"}};
    char version[256];

    if (!ask_text(store, "SELECT version()", version, sizeof(version)))
        return refuse(error, store, "cannot use the database");
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (strstr(version, others[i][0]) != NULL)
            return kvr_error_set(error, KVR_INVALID, "store",
                                 "the database %s is %s, which lacks what kvrail-scheduler needs "
                                 "(advisory locks, LISTEN, partitions by range): use PostgreSQL",
                                 store->url, others[i][1]);
    if (PQserverVersion(store->connection) < STORE_POSTGRES_OLDEST)
        return kvr_error_set(error, KVR_VERSION, "store",
                             "the database %s is PostgreSQL %d; kvrail-scheduler needs %d or newer",
                             store->url, PQserverVersion(store->connection) / 10000,
                             STORE_POSTGRES_OLDEST / 10000);
    return KVR_OK;
}

/* A scheduler that is stopped within a transaction must not hold the others up for ever. */
static bool set_up(struct store_postgres *store)
{
    static const char all[] = "SET jit = off; SET TimeZone = 'UTC';"
                              "SET idle_in_transaction_session_timeout = '3s';"
                              "SET lock_timeout = '5s'; SET client_min_messages = warning;"
                              "SET statement_timeout = 0;";
    static const char durable[] = "SELECT set_config('synchronous_commit', 'on', false) "
                                  "WHERE current_setting('synchronous_commit') = 'off'";

    /* The plan of a prepared statement is made while its table is still small, and stays. */
    static const char by_index[] = "SET enable_seqscan = off; SET enable_hashjoin = off;"
                                   "SET enable_mergejoin = off";
    char path[128];

    snprintf(path, sizeof(path), "SET search_path = %s", store->schema);
    if (!store
             ->reader) /* a migration does not outlive its scheduler, where the server's host can */
        (void)execute(store, "SET client_connection_check_interval = '1s'");
    return execute(store, path) && execute(store, all) && execute(store, durable) &&
           execute(store, store->reader ? "SET default_transaction_read_only = on" : by_index);
}

kvr_status store_postgres_connect(struct store_postgres *store, struct kvr_error *error)
{
    char password[PASSWORD_BYTES];
    kvr_status status;
    bool tls = false;

    KVR_TRY(check_url(store->url, &tls, error));
    KVR_TRY(read_password(store->password_file, password, error));
    store->connection = connect_with(store, tls, password);
    memset(password, 0, sizeof(password));
    store->silent = store->stopped = false;
    store->patience = SET_UP_WITHIN_NS;
    if (PQstatus(store->connection) != CONNECTION_OK ||
        PQsetnonblocking(store->connection, 1) != 0) {
        store_postgres_say(store, PQerrorMessage(store->connection));
        status = refuse(error, store, "cannot reach the database");
    } else {
        status = check_server(store, error);
        if (status == KVR_OK && !set_up(store))
            status = refuse(error, store, "cannot use the database");
    }
    if (status == KVR_OK && PQenterPipelineMode(store->connection) != 1)
        status = kvr_error_set(error, KVR_INTERNAL, "store", "libpq has no pipeline");
    if (status != KVR_OK) {
        PQfinish(store->connection);
        store->connection = NULL;
    }
    return status;
}

/* ---- migrations ---- */

static bool read_version(struct store_postgres *store, int *ret_version)
{
    char text[32] = "0";
    char sql[128];
    bool read;

    snprintf(sql, sizeof(sql), "SELECT to_regclass('%s.version')::TEXT", store->schema);
    read = ask_text(store, sql, text, sizeof(text));
    snprintf(sql, sizeof(sql), "SELECT number FROM %s.version", store->schema);
    if (read && text[0] != '\0')
        read = ask_text(store, sql, text, sizeof(text));
    *ret_version = read ? atoi(text) : 0;
    return read;
}

static bool migrate(struct store_postgres *store, int version)
{
    char sql[128], found[128] = "";
    bool done;

    snprintf(sql, sizeof(sql), "SELECT to_regnamespace('%s')::TEXT", store->schema);
    done = ask_text(store, sql, found, sizeof(found));
    snprintf(sql, sizeof(sql), "CREATE SCHEMA %s", store->schema);
    if (done && found[0] == '\0') /* it needs a right that the owner of a schema may lack */
        done = execute(store, sql);
    for (int i = 0; i < embedded_postgres_count && done; i++) {
        int number = atoi(embedded_postgres[i].name);

        if (number <= version)
            continue;
        snprintf(sql, sizeof(sql), "UPDATE version SET number = %d", number);
        done = execute(store, embedded_postgres[i].begin) && execute(store, sql);
    }
    return done;
}

/* One scheduler at a time; the lock goes with the transaction. */
static kvr_status bring_up_to_date(struct store_postgres *store, struct kvr_error *error)
{
    int version;

    store->patience = KVR_NEVER; /* another scheduler may do this now */
    if (PQexitPipelineMode(store->connection) != 1 ||
        !execute(store, "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = 0") ||
        !execute(store, "SELECT pg_advisory_xact_lock(" MIGRATE_LOCK ")") ||
        !read_version(store, &version))
        return refuse(error, store, "cannot use the database");
    if (version > embedded_migration_count)
        return kvr_error_set(error, KVR_VERSION, "store",
                             "the database %s has version %d, and this program knows only up to "
                             "%d: use a newer kvrail-scheduler or another database",
                             store->url, version, embedded_migration_count);
    if (version != 0 && version < embedded_migration_count)
        kvr_log_info("the database has version %d and is brought to %d; pg_dump makes a copy",
                     version, embedded_migration_count);
    if ((version < embedded_migration_count && !migrate(store, version)) ||
        !execute(store, "COMMIT"))
        return refuse(error, store, "cannot bring to this version the database");
    if (PQenterPipelineMode(store->connection) != 1)
        return kvr_error_set(error, KVR_INTERNAL, "store", "libpq has no pipeline");
    return KVR_OK;
}

/* ---- open ---- */

static kvr_status open_store(const struct store_place *place, bool reader,
                             struct store_postgres **ret_store, struct kvr_error *error)
{
    struct store_postgres *store = calloc(1, sizeof(*store));
    kvr_status status;

    if (store == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "store", "no memory for the database");
    store->base.driver = &store_postgres_driver;
    store->base.retention = place->retention;
    store->schema = place->schema != NULL ? place->schema : STORE_POSTGRES_SCHEMA;
    store->stop_fd = place->stop_fd;
    store->reader = reader;
    store->others = true;
    store->me = (int64_t)kvr_random_u64();
    store->url = strdup(place->url);
    if (place->password_file != NULL)
        store->password_file = strdup(place->password_file);
    if (!reader) {
        store->batches = store_batches_open();
        store->expected = store_expectations_open();
    }
    if (store->url == NULL || (place->password_file != NULL && store->password_file == NULL) ||
        (!reader && (store->batches == NULL || store->expected == NULL)))
        status = kvr_error_set(error, KVR_NO_MEMORY, "store", "no memory for the database");
    else
        status = store_postgres_connect(store, error);
    if (status != KVR_OK) {
        store_close(&store->base);
        return status;
    }
    *ret_store = store;
    return KVR_OK;
}

kvr_status store_postgres_open_writer(const struct store_place *place, struct store **ret_store,
                                      struct kvr_error *error)
{
    struct store_postgres *store = NULL;
    kvr_status status;

    KVR_TRY(open_store(place, false, &store, error));
    status = bring_up_to_date(store, error);
    if (status != KVR_OK) {
        store_close(&store->base);
        return status;
    }
    *ret_store = &store->base;
    return KVR_OK;
}

kvr_status store_postgres_open_reader(const struct store_place *place, struct store **ret_store,
                                      struct kvr_error *error)
{
    struct store_postgres *store = NULL;

    KVR_TRY(open_store(place, true, &store, error));
    *ret_store = &store->base;
    return KVR_OK;
}
