/* The events of a transfer: rows in a chain, each with the records that came together. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/log.h"
#include "scheduler/event_pack.h"
#include "scheduler/store_rows.h"

#define ROWS_LOOKED_AT 2000 /* of one transfer, for one event, or for the oldest row */

static bool add_row(struct store *store, const struct transfer *transfer, int64_t id,
                    const struct event_row *row)
{
    const struct store_bytes records = {row->records, row->bytes};
    const struct store_bytes spans = {row->spans, row->spans_bytes};
    const struct store_bytes pages = {row->pages, row->pages_bytes};
    const struct store_value values[] = {STORE_AT(STORE_ROWID, id),
                                         INT(transfer->last_event),
                                         INT(row->arrived_ns),
                                         TEXT(row->agent),
                                         INT(row->boot),
                                         STORE_AT(STORE_BYTES, records),
                                         STORE_AT(STORE_BYTES, spans),
                                         STORE_AT(STORE_BYTES, pages)};

    return spans.count + pages.count == 0 ? store_do(store, SQL_ADD_EVENTS, values, 6)
                                          : store_do(store, SQL_ADD_END, values, 8);
}

bool store_add_events(struct store *store, struct transfer *transfer, const struct event_row *row)
{
    int64_t id = store_next_id(store);

    if (!add_row(store, transfer, id, row))
        return false;
    transfer->last_event = store_new_id(store, id);
    return true;
}

/* ---- the chain ---- */

/* One row of it, copied out of the database. */
struct link {
    int64_t id, previous;
    uint64_t boot;
    char agent[KVR_NAME_BYTES];
    /* Borrowed until the next row. The events, or else spans and pages. */
    struct store_bytes records, spans, pages;
};

/* False: no more of the chain. */
typedef bool link_visit(void *self, const struct link *link);

struct walker {
    store_sql sql;
    link_visit *visit;
    void *self;
    int64_t id, next; /* next 0: no more */
};

static void read_link(const struct store_row *row, void *self)
{
    struct walker *walker = self;
    struct link link = {.id = walker->id};

    if (walker->sql == SQL_GET_RECORDS)
        store_read(row, STORE_VALUES(INT(link.previous), STORE_AT(STORE_BYTES, link.spans),
                                     STORE_AT(STORE_BYTES, link.pages)));
    else
        store_read(row, STORE_VALUES(INT(link.previous), TEXT(link.agent), INT(link.boot),
                                     STORE_AT(STORE_BYTES, link.records)));
    walker->next = walker->visit(walker->self, &link) ? link.previous : 0;
}

/* From the newest row to the oldest; a damaged chain may have no end. */
static bool walk_by(struct store *store, store_sql sql, int64_t newest, link_visit *visit,
                    void *self)
{
    struct walker walker = {sql, visit, self, 0, newest};
    bool read = true;

    while (walker.next != 0 && read) {
        walker.id = walker.next;
        walker.next = 0;
        read = store_each(store, sql, STORE_VALUES(INT(walker.id)), read_link, &walker);
    }
    return read;
}

static bool walk(struct store *store, int64_t newest, link_visit *visit, void *self)
{
    return walk_by(store, SQL_GET_EVENTS, newest, visit, self);
}

static void read_newest(const struct store_row *row, void *self)
{
    store_read(row, STORE_VALUES(INT(*(int64_t *)self)));
}

static bool newest_of(struct store *store, uint64_t transfer, int64_t *ret_id)
{
    *ret_id = 0;
    return store_each(store, SQL_LAST_EVENT, STORE_VALUES(INT(transfer)), read_newest, ret_id);
}

struct oldest {
    int64_t id;
    uint32_t rows_left;
};

static bool keep_id(void *self, const struct link *link)
{
    struct oldest *oldest = self;

    oldest->id = link->id;
    return --oldest->rows_left > 0;
}

bool store_join_events(struct store *store, struct transfer *transfer, struct transfer *from)
{
    struct oldest oldest = {.rows_left = ROWS_LOOKED_AT};
    int64_t newest = from->last_event;

    from->last_event = 0;
    if (newest == 0)
        return true;
    if (transfer->last_event != 0) {
        if (!walk(store, newest, keep_id, &oldest))
            return false;
        if (oldest.rows_left == 0) {
            kvr_log_error("the events of an opening are not shown: row %" PRId64 " of the table "
                          "events begins more than %d rows, or a damaged chain",
                          newest, ROWS_LOOKED_AT);
            return true;
        }
        if (!store_do(store, SQL_JOIN_EVENTS,
                      STORE_VALUES(INT(oldest.id), INT(transfer->last_event))))
            return false;
    }
    transfer->last_event = newest;
    return true;
}

bool store_drop_events(struct store *store, int64_t newest, uint64_t *ret_count)
{
    bool dropped = true;

    for (*ret_count = 0; newest != 0 && dropped; ++*ret_count) {
        int64_t id = newest;

        newest = 0;
        dropped = store_each(store, SQL_DROP_EVENTS, STORE_VALUES(INT(id)), read_newest, &newest);
    }
    return dropped;
}

/* ---- one event ---- */

struct wanted_event {
    struct store *store;
    const char *agent;
    uint64_t boot, sequence;
    kvr_event_kind kind;
    uint32_t rows_left;
    bool found, failed;
};

static bool look_at_row(void *self, const struct link *link)
{
    struct wanted_event *wanted = self;
    struct event_unpack unpack = {.bytes = link->records.at, .count = link->records.count};
    struct event_record record;

    if (link->boot == wanted->boot && strcmp(link->agent, wanted->agent) == 0)
        while (!wanted->found && event_unpack_next(&unpack, &record) == KVR_OK)
            wanted->found = record.sequence == wanted->sequence && record.kind == wanted->kind;
    return !wanted->found && --wanted->rows_left > 0;
}

static void look_at_chain(const struct store_row *row, void *self)
{
    struct wanted_event *wanted = self;
    int64_t newest;

    read_newest(row, &newest);
    wanted->rows_left = ROWS_LOOKED_AT;
    if (!wanted->found && !walk(wanted->store, newest, look_at_row, wanted))
        wanted->failed = true;
}

bool store_has_event(struct store *store, uint64_t transfer, const char *agent, uint64_t boot,
                     uint64_t sequence, const struct kvr_event *event, bool *ret_has)
{
    struct wanted_event wanted = {store, agent, boot, sequence, event->kind, 0, false, false};
    bool asked = store_each(store, SQL_CHAINS, STORE_VALUES(INT(transfer), TEXT(event->request)),
                            look_at_chain, &wanted);

    *ret_has = wanted.found;
    return asked && !wanted.failed;
}

/* ---- all of them ---- */

struct kept_event {
    int64_t row; /* rows are numbered in the order in which they came */
    uint32_t place;
    char agent[KVR_NAME_BYTES];
    struct event_record record;
};

struct kept_list {
    struct kept_event *events;
    uint32_t count, room, limit;
    bool failed;     /* no memory */
    int64_t damaged; /* a row; 0: none */
};

static bool make_room(struct kept_list *list)
{
    uint32_t room = kvr_min_u32(2 * list->room + 32, list->limit);
    struct kept_event *larger;

    if (list->count < list->room)
        return true;
    larger = realloc(list->events, room * sizeof(larger[0]));
    if (larger != NULL) {
        list->events = larger;
        list->room = room;
    }
    list->failed = larger == NULL;
    return !list->failed;
}

static bool keep_row(void *self, const struct link *link)
{
    struct kept_list *list = self;
    struct event_unpack unpack = {.bytes = link->records.at, .count = link->records.count};
    kvr_status status = KVR_OK;

    if (unpack.count == 0)
        status = KVR_MALFORMED; /* no row is empty, so a chain without an end has events */
    for (uint32_t place = 0; status == KVR_OK && list->count < list->limit && make_room(list);
         place++) {
        struct kept_event *kept = &list->events[list->count];

        status = event_unpack_next(&unpack, &kept->record);
        if (status != KVR_OK)
            break;
        kept->row = link->id;
        kept->place = place;
        memcpy(kept->agent, link->agent, sizeof(kept->agent));
        list->count++;
    }
    if (status == KVR_MALFORMED)
        list->damaged = link->id;
    return status != KVR_MALFORMED && list->count < list->limit && !list->failed;
}

static int compare(const void *left, const void *right)
{
    const struct kept_event *a = left, *b = right;

    if (a->record.at_ns != b->record.at_ns)
        return a->record.at_ns < b->record.at_ns ? -1 : 1;
    if (a->row != b->row)
        return a->row < b->row ? -1 : 1;
    return (a->place > b->place) - (a->place < b->place);
}

static void visit_all(const struct kept_list *list, event_visit *visit, void *self)
{
    for (uint32_t i = 0; i < list->count; i++) {
        const struct kept_event *kept = &list->events[i];
        const struct event_record *record = &kept->record;

        visit(self, &(struct stored_event){
                        .agent = kept->agent,
                        .role = transfer_role_name(record->role),
                        .kind = kvr_event_name(record->kind),
                        .peer = record->peer,
                        .outcome = kvr_status_name(record->outcome),
                        .detail = record->detail,
                        .sequence = record->sequence,
                        .bytes = record->bytes,
                        .retries = record->retries,
                        .at_ns = record->at_ns,
                    });
    }
}

bool store_list_events(struct store *store, uint64_t transfer, uint32_t limit, event_visit *visit,
                       void *self)
{
    struct kept_list list = {.limit = limit};
    int64_t newest;
    bool listed =
        newest_of(store, transfer, &newest) && walk(store, newest, keep_row, &list) && !list.failed;

    if (list.damaged != 0)
        kvr_log_error("the database is damaged: row %" PRId64 " of the table events cannot be "
                      "read; what its transfer reported before is not shown",
                      list.damaged);
    if (listed && list.count > 0) {
        qsort(list.events, list.count, sizeof(list.events[0]), compare);
        visit_all(&list, visit, self);
    }
    free(list.events);
    return listed;
}

/* ---- spans and page tables ---- */

struct records_reader {
    const struct records_visitor *visitor;
    uint32_t rows_left; /* a damaged chain may have no end */
    int64_t damaged;    /* a row; 0: none */
};

/* Those of a newer agent are left out. */
static bool read_records(void *self, const struct link *link)
{
    struct records_reader *reader = self;
    struct kvr_spans spans;
    kvr_status status;

    if (link->spans.count > 0) {
        status = kvr_spans_unpack(link->spans.at, link->spans.count, &spans);
        if (status == KVR_OK)
            reader->visitor->spans(reader->visitor->self, &spans);
        else if (status == KVR_MALFORMED)
            reader->damaged = link->id;
    }
    if (link->pages.count > 0 && reader->visitor->pages != NULL)
        reader->visitor->pages(reader->visitor->self, link->pages.at, link->pages.count);
    return --reader->rows_left > 0;
}

bool store_list_records(struct store *store, uint64_t transfer,
                        const struct records_visitor *visitor)
{
    struct records_reader reader = {.visitor = visitor, .rows_left = ROWS_LOOKED_AT};
    int64_t newest;
    bool listed = newest_of(store, transfer, &newest) &&
                  walk_by(store, SQL_GET_RECORDS, newest, read_records, &reader);

    if (reader.damaged != 0)
        kvr_log_error("the spans in row %" PRId64 " of the table events cannot be read, and are "
                      "not shown",
                      reader.damaged);
    return listed;
}
