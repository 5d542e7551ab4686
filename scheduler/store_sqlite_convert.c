/* Databases of before migration 15, where an event was a row of its own. The migration has given
 * that table the name single_events. */
#include <stdio.h>
#include <stdlib.h>

#include "scheduler/event_pack.h"
#include "scheduler/store_sqlite.h"

static const char single_events[] =
    "SELECT agent, boot, sequence, role, kind, at_ns, peer, bytes, retries, outcome, detail, "
    "arrived_ns FROM single_events WHERE transfer = ?1 ORDER BY agent, boot, id";

struct conversion {
    struct store_sqlite *store;
    sqlite3_stmt *read;
};

/* One row of before. */
struct single_event {
    const char *agent, *kind;
    uint64_t boot, sequence;
    int64_t at_ns, arrived_ns;
    struct kvr_event event;
};

/* False: an event of a kind that this version does not know, so that no version stored it. */
static bool read_single(sqlite3_stmt *read, struct single_event *single)
{
    const struct store_row row = store_sqlite_row(read);
    struct kvr_event *event = &single->event;
    uint64_t retries;

    memset(event, 0, sizeof(*event));
    store_read(&row, STORE_VALUES(STORE_AT(STORE_BORROWED, single->agent), INT(single->boot),
                                  INT(single->sequence), STORE_AT(STORE_ROLE, event->role),
                                  STORE_AT(STORE_BORROWED, single->kind), INT(single->at_ns),
                                  TEXT(event->peer), INT(event->bytes), INT(retries),
                                  STORE_AT(STORE_STATUS, event->outcome), TEXT(event->detail),
                                  INT(single->arrived_ns)));
    event->retries = (uint32_t)retries;
    event->kind = kvr_event_from_name(single->kind);
    return event->kind != KVR_EVENT_KIND_END;
}

/* What is packed becomes a row of the chain. */
static bool add_row(struct store_sqlite *store, struct transfer *transfer, struct event_row *row,
                    struct event_pack *pack)
{
    bool added;

    row->records = pack->bytes;
    row->bytes = pack->count;
    added = pack->count == 0 || store_add_events(&store->base, transfer, row);
    pack->place = (struct event_pack_place){0};
    pack->count = 0;
    return added;
}

/* The rows of one start of one agent come one after the other. */
static bool convert(struct conversion *conversion, uint64_t id, struct transfer *transfer)
{
    char agent[KVR_NAME_BYTES] = "";
    struct event_pack pack = {0};
    struct event_row row = {.agent = agent};
    bool stored = true;
    int result = SQLITE_ERROR;

    sqlite3_bind_int64(conversion->read, 1, (int64_t)id);
    while (stored && (result = sqlite3_step(conversion->read)) == SQLITE_ROW) {
        struct single_event single;

        if (!read_single(conversion->read, &single))
            continue;
        if (single.boot != row.boot || strcmp(single.agent, agent) != 0) {
            stored = add_row(conversion->store, transfer, &row, &pack);
            snprintf(agent, sizeof(agent), "%s", single.agent);
            row.boot = single.boot;
        }
        row.arrived_ns = single.arrived_ns;
        stored = stored && event_pack_add(&pack, &single.event, single.sequence, single.at_ns);
    }
    sqlite3_reset(conversion->read);
    stored = stored && result == SQLITE_DONE && add_row(conversion->store, transfer, &row, &pack);
    event_pack_free(&pack);
    return stored;
}

static void pack_events(sqlite3_context *context, int count, sqlite3_value **arguments)
{
    struct conversion *conversion = sqlite3_user_data(context);
    struct transfer transfer = {0};

    (void)count;
    if (conversion->read == NULL && sqlite3_prepare_v2(conversion->store->database, single_events,
                                                       -1, &conversion->read, NULL) != SQLITE_OK) {
        sqlite3_result_error(context, "the events cannot be read", -1);
        return;
    }
    if (convert(conversion, (uint64_t)sqlite3_value_int64(arguments[0]), &transfer))
        sqlite3_result_int64(context, transfer.last_event);
    else
        sqlite3_result_error(context, "the events cannot be packed", -1);
}

static void forget(void *self)
{
    struct conversion *conversion = self;

    sqlite3_finalize(conversion->read);
    free(conversion);
}

bool store_convert_begin(struct store_sqlite *store)
{
    struct conversion *conversion = calloc(1, sizeof(*conversion));

    if (conversion == NULL)
        return false;
    conversion->store = store;
    return sqlite3_create_function_v2(store->database, "pack_events", 1, SQLITE_UTF8, conversion,
                                      pack_events, NULL, NULL, forget) == SQLITE_OK;
}

void store_convert_end(struct store_sqlite *store)
{
    (void)sqlite3_create_function_v2(store->database, "pack_events", 1, SQLITE_UTF8, NULL, NULL,
                                     NULL, NULL, NULL);
}
