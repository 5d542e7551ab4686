/* PostgreSQL: statements on their way to the server, their results, and their failures. */
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "scheduler/store_postgres.h"

#define SENT_MAX 256 /* their results must fit into the sockets */

/* ---- problems ---- */

void store_postgres_say(struct store_postgres *store, const char *said)
{
    size_t length;

    snprintf(store->said, sizeof(store->said), "%s", said);
    for (length = strlen(store->said); length > 0 && store->said[length - 1] == '\n'; length--)
        store->said[length - 1] = '\0';
    for (char *at = store->said; *at != '\0'; at++)
        if (*at == '\n' || *at == '\t')
            *at = ' ';
}

/* By the classes of SQLSTATE. */
static health_problem trouble_of(const char *state)
{
    if (state == NULL || strncmp(state, "08", 2) == 0 || strncmp(state, "57P", 3) == 0)
        return HEALTH_GONE;
    if (strcmp(state, "53100") == 0)
        return HEALTH_DISK_FULL;
    if (strcmp(state, "55P03") == 0)
        return HEALTH_LOCKED;
    return strcmp(state, "XX001") == 0 || strcmp(state, "XX002") == 0 ? HEALTH_DAMAGED
                                                                      : HEALTH_COMMITS;
}

static void keep_problem(struct store_postgres *store, const PGresult *result)
{
    const char *state = result != NULL ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    const char *said = result != NULL ? PQresultErrorMessage(result) : NULL;

    /* It refuses all that comes behind a statement that failed, and says no more why. */
    if (store->failed && state != NULL && strcmp(state, "25P02") == 0)
        return;
    store->failed = true;
    store->trouble = trouble_of(state);
    store->timed_out = state != NULL && strcmp(state, "57014") == 0;
    if (store_postgres_gave_up(store) != NULL)
        said = store_postgres_gave_up(store);
    store_postgres_say(store,
                       said != NULL && said[0] != '\0' ? said : PQerrorMessage(store->connection));
}

/* ---- statements ---- */

static bool is_good(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);

    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

/* The server took or refused a statement; a later one is not looked at once one has failed. */
static void take_result(struct store_postgres *store, PGresult *result, bool *failed)
{
    if (*failed || is_good(result))
        return;
    *failed = true;
    keep_problem(store, result);
}

/* The server prepared nothing behind a statement that failed, and has kept all before it. */
static void forget_names(struct store_postgres *store)
{
    store->names_lost |= store->names > store->names_settled;
    for (int sql = 0; sql < SQL_POSTGRES_END; sql++)
        if (store->prepared[sql] > store->names_settled)
            store->prepared[sql] = 0;
}

/* Reads the results of all that was sent: the last one's, or NULL when one has failed. */
PGresult *store_postgres_settle(struct store_postgres *store)
{
    PGresult *result, *last = NULL;
    bool failed = PQpipelineSync(store->connection) != 1;

    store->round_trips++;
    if (failed)
        keep_problem(store, NULL);
    for (int left = store->sent; left > 0 && PQstatus(store->connection) == CONNECTION_OK;) {
        result = store_postgres_result(store);
        if (result == NULL) { /* behind each statement's */
            left--;
            continue;
        }
        take_result(store, result, &failed);
        PQclear(last);
        last = result;
    }
    store->sent = 0;
    result = store_postgres_result(store); /* of the sync itself */
    if (!failed && PQresultStatus(result) != PGRES_PIPELINE_SYNC) {
        failed = true;
        keep_problem(store, result);
    }
    PQclear(result);
    if (failed) {
        forget_names(store);
        PQclear(last);
        return NULL;
    }
    store->names_settled = store->names;
    if (last != NULL && PQcmdTuples(last)[0] != '\0')
        store->changed = strtoull(PQcmdTuples(last), NULL, 10);
    return last;
}

bool store_postgres_settled(struct store_postgres *store)
{
    PGresult *result = store_postgres_settle(store);
    bool good = result != NULL;

    PQclear(result);
    return good;
}

/* One more is on its way; the results of many are read at once. */
static bool has_sent(struct store_postgres *store, int result)
{
    if (result != 1) {
        keep_problem(store, NULL);
        return false;
    }
    store->sent++;
    return true;
}

bool store_postgres_send_text(struct store_postgres *store, const char *sql)
{
    return has_sent(store, PQsendQueryParams(store->connection, sql, 0, NULL, NULL, NULL, NULL, 1));
}

PGresult *store_postgres_ask(struct store_postgres *store, const char *sql)
{
    return store_postgres_send_text(store, sql) ? store_postgres_settle(store) : NULL;
}

bool store_postgres_do(struct store_postgres *store, const char *sql)
{
    PGresult *result = store_postgres_ask(store, sql);
    bool done = result != NULL;

    PQclear(result);
    return done;
}

static const char *name_of(uint32_t number, char name[16])
{
    snprintf(name, 16, "s%" PRIu32, number);
    return name;
}

Oid store_postgres_oid(store_type type)
{
    static const Oid oids[] = {
        [STORE_IS_NUMBER] = 20,    [STORE_IS_TEXT] = 25,    [STORE_IS_BYTES] = 17,
        [STORE_IS_NUMBERS] = 1016, [STORE_IS_TEXTS] = 1009, [STORE_IS_MANY_BYTES] = 1001};

    return oids[type];
}

static void fill_types(const struct store_parameter *parameters, int count,
                       Oid types[STORE_PARAMETERS_MAX])
{
    for (int i = 0; i < count; i++)
        types[i] = store_postgres_oid(parameters[i].type);
}

static bool prepare(struct store_postgres *store, store_sql sql,
                    const struct store_parameter *parameters, int count)
{
    Oid types[STORE_PARAMETERS_MAX];
    char text[STORE_SQL_BYTES], name[16];

    if (store->prepared[sql] != 0)
        return true;
    if (store->names_lost) {
        if (!store_postgres_send_text(store, "DEALLOCATE ALL"))
            return false;
        memset(store->prepared, 0, sizeof(store->prepared));
        store->names_lost = false;
    }
    fill_types(parameters, count, types);
    store_postgres_sql(sql, text);
    if (!has_sent(store, PQsendPrepare(store->connection, name_of(store->names + 1, name), text,
                                       count, types)))
        return false;
    store->prepared[sql] = ++store->names;
    return true;
}

/* As libpq takes them: numbers and bytes as they are, texts with their end. */
struct arguments {
    const char *values[STORE_PARAMETERS_MAX];
    int lengths[STORE_PARAMETERS_MAX], formats[STORE_PARAMETERS_MAX];
    uint64_t numbers[STORE_PARAMETERS_MAX];
    char shown[STORE_TEXT_BYTES]; /* of texts that are no UTF-8 */
    size_t used;
};

/* The server refuses a text that is no UTF-8, and the whole transaction with it. */
const char *store_postgres_text(const char *text, char *shown, size_t room)
{
    const char *at = text;

    for (size_t bytes = 1; *at != '\0' && bytes > 0; at += bytes)
        bytes = kvr_text_character(at);
    if (*at == '\0')
        return text;
    if (room < 2)
        return "?";
    kvr_text_show(text, room, shown);
    return shown;
}

static const char *text_for(const char *text, struct arguments *arguments)
{
    char *shown = arguments->shown + arguments->used;
    const char *taken =
        store_postgres_text(text, shown, sizeof(arguments->shown) - arguments->used);

    if (taken == shown)
        arguments->used += strlen(shown) + 1;
    return taken;
}

static void fill(const struct store_parameter *parameters, int count, struct arguments *arguments)
{
    arguments->used = 0;
    for (int i = 0; i < count; i++) {
        const struct store_parameter *parameter = &parameters[i];
        bool number = parameter->type == STORE_IS_NUMBER;

        arguments->numbers[i] = htobe64((uint64_t)parameter->number);
        arguments->values[i] = parameter->null ? NULL
                               : number        ? (const char *)&arguments->numbers[i]
                               : parameter->type == STORE_IS_TEXT
                                   ? text_for(parameter->at, arguments)
                                   : (const char *)parameter->at;
        arguments->lengths[i] = number ? (int)sizeof(arguments->numbers[i]) : (int)parameter->bytes;
        arguments->formats[i] = parameter->type != STORE_IS_TEXT;
    }
}

static bool send_prepared(struct store_postgres *store, const char *name,
                          const struct store_parameter *parameters, int count)
{
    struct arguments arguments;

    fill(parameters, count, &arguments);
    return has_sent(store, PQsendQueryPrepared(store->connection, name, count, arguments.values,
                                               arguments.lengths, arguments.formats, 1));
}

bool store_postgres_hurry(struct store_postgres *store)
{
    if (PQsendFlushRequest(store->connection) == 1)
        return true;
    keep_problem(store, NULL);
    return false;
}

bool store_postgres_flows(struct store_postgres *store)
{
    return store->sent < SENT_MAX || store_postgres_settled(store);
}

bool store_postgres_send(struct store_postgres *store, const char *sql,
                         const struct store_parameter *parameters, int count)
{
    Oid types[STORE_PARAMETERS_MAX];
    struct arguments arguments;

    if (!store_postgres_is_there(store))
        return false;
    fill(parameters, count, &arguments);
    fill_types(parameters, count, types);
    store->written = true;
    return has_sent(store, PQsendQueryParams(store->connection, sql, count, types, arguments.values,
                                             arguments.lengths, arguments.formats, 1)) &&
           store_postgres_flows(store);
}

bool store_postgres_name(struct store_postgres *store, const char *name, const char *sql)
{
    return store_postgres_is_there(store) &&
           has_sent(store, PQsendPrepare(store->connection, name, sql, 0, NULL));
}

bool store_postgres_send_named(struct store_postgres *store, const char *name,
                               const struct store_parameter *parameters, int count)
{
    return send_prepared(store, name, parameters, count) && store_postgres_flows(store);
}

/* A reader's query ends at its deadline. */
static bool send_deadline(struct store_postgres *store)
{
    kvr_ns now = kvr_clock_now(), deadline = store->base.deadline;
    uint64_t left = deadline > now + KVR_MS ? (deadline - now) / KVR_MS : 1;
    char sql[64];

    if (!store->reader)
        return true;
    snprintf(sql, sizeof(sql), "SET statement_timeout = %" PRIu64, deadline == 0 ? 0 : left);
    return store_postgres_send_text(store, sql);
}

bool store_postgres_send_listed(struct store_postgres *store, store_sql sql,
                                const struct store_parameter *parameters, int count)
{
    char name[16];

    return send_deadline(store) && prepare(store, sql, parameters, count) &&
           send_prepared(store, name_of(store->prepared[sql], name), parameters, count);
}
