#include "scheduler/api_transfers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plain_name.h"
#include "scheduler/api_parameters.h"
#include "scheduler/api_rows.h"
#include "scheduler/api_trace.h"

/* ---- the filter ---- */

/* Where a filter is read into, with the values that it borrows. */
struct wanted {
    struct transfer_filter filter;
    struct kvr_uuid engine;
    bool trace; /* what a recorder of traces wants, too */
};

static bool take_state(const char *value, struct wanted *wanted)
{
    struct transfer_filter *filter = &wanted->filter;

    filter->kind = strcmp(value, "live") == 0 ? FILTER_LIVE : FILTER_STATE;
    return filter->kind == FILTER_LIVE || transfer_state_from_name(value, &filter->state);
}

static bool take_request(const char *value, struct wanted *wanted)
{
    wanted->filter.request = value;
    return value[0] != '\0' && strlen(value) < KVR_REQUEST_BYTES;
}

static bool take_tenant(const char *value, struct wanted *wanted)
{
    wanted->filter.tenant = value;
    return kvr_plain_name(value, strlen(value));
}

static bool take_agent(const char *value, struct wanted *wanted)
{
    wanted->filter.agent = value;
    return value[0] != '\0' && strlen(value) < KVR_NAME_BYTES;
}

static bool take_engine(const char *value, struct wanted *wanted)
{
    wanted->filter.engine = &wanted->engine;
    return api_uuid(value, &wanted->engine);
}

static bool take_path(const char *value, struct wanted *wanted)
{
    wanted->filter.path = kvr_path_from_name(value);
    return wanted->filter.path != KVR_PATH_NONE;
}

static bool take_reason(const char *value, struct wanted *wanted)
{
    bool known;
    kvr_status status = kvr_status_from_name(value, &known);

    wanted->filter.reason = value;
    return known && status != KVR_OK;
}

static bool take_duration(const char *value, struct wanted *wanted)
{
    return api_seconds(value, &wanted->filter.min_duration_ns);
}

static bool take_from(const char *value, struct wanted *wanted)
{
    return api_time(value, &wanted->filter.from_ns);
}

static bool take_until(const char *value, struct wanted *wanted)
{
    return api_time(value, &wanted->filter.until_ns) && wanted->filter.until_ns > 0;
}

static bool take_trace(const char *value, struct wanted *wanted)
{
    wanted->trace = strcmp(value, "yes") == 0;
    return wanted->trace || strcmp(value, "no") == 0;
}

static const struct {
    const char *name;
    bool (*take)(const char *value, struct wanted *wanted);
    const char *error;
} parts[] = {
    {"state", take_state,
     "\"%s\" is no state: live, done, failed, cancelled, expired, lost or a stage such as "
     "first_post"},
    {"request", take_request, "\"%s\" is not the beginning of a request's id"},
    {"tenant", take_tenant, "\"%s\" is no tenant: give the name of one tenant"},
    {"agent", take_agent, "\"%s\" is no agent: give the name of one agent"},
    {"engine", take_engine,
     "\"%s\" is no engine: give its 32 hexadecimal digits, as source.engine has them"},
    {"path", take_path, "\"%s\" is no path: host, dmabuf, hmem, local or staged"},
    {"reason", take_reason, "\"%s\" is no reason: peer_lost, expired and others, as reason has it"},
    {"min_duration", take_duration, "\"%s\" is no number of seconds, such as 2.5"},
    {"from", take_from, API_NO_TIME},
    {"until", take_until, API_NO_TIME},
    {"trace", take_trace, "\"%s\" is neither yes nor no"},
};

/* By its number or its name, at the agent that is asked for. */
static bool take_rail(struct store *store, const struct api_query *query,
                      struct transfer_filter *filter, bool *ret_read, struct api_answer *answer)
{
    const char *value = api_parameter(query, "rail");
    char names[KVR_RAILS_MAX][KVR_NAME_BYTES];
    int64_t rail = -1;

    if (value == NULL)
        return true;
    if (filter->agent == NULL) {
        api_bad_request(answer, "rail", "rail=%s needs agent=NAME: rails are an agent's own",
                        value);
        return false;
    }
    if (!api_number(value, 0, KVR_RAILS_MAX - 1, &rail)) {
        *ret_read = store_rail_names(store, filter->agent, names);
        if (!*ret_read)
            return false;
        for (rail = KVR_RAILS_MAX - 1; rail >= 0 && strcmp(names[rail], value) != 0;)
            rail--;
    }
    if (rail < 0 || value[0] == '\0') {
        api_bad_request(answer, "rail",
                        "\"%s\" is no rail of that agent: give its name, or its number from 0",
                        value);
        return false;
    }
    filter->has_rail = true;
    filter->rail = (uint32_t)rail;
    return true;
}

/* Its place must be one of the list that it asks for. */
static bool take_page(const struct api_query *query, struct transfer_filter *filter,
                      struct api_answer *answer)
{
    struct api_page page;

    if (!api_parse_page(query, &page, answer))
        return false;
    if (page.before_ns != 0 && !transfer_filter_searches(filter)) {
        api_bad_request(answer, "after", API_NO_PLACE, api_parameter(query, "after"));
        return false;
    }
    filter->limit = page.limit;
    filter->before = page.before;
    filter->before_ns = page.before_ns;
    return true;
}

/* False: *answer says why, or *ret_read is false. */
static bool parse(struct store *store, const struct api_query *query, struct wanted *wanted,
                  bool *ret_read, struct api_answer *answer)
{
    struct transfer_filter *filter = &wanted->filter;

    *wanted = (struct wanted){0};
    *ret_read = true;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const char *value = api_parameter(query, parts[i].name);

        if (value == NULL || parts[i].take(value, wanted))
            continue;
        api_bad_request(answer, parts[i].name, parts[i].error, value);
        return false;
    }
    if (filter->request != NULL && filter->kind == FILTER_ALL)
        filter->kind = FILTER_REQUEST;
    return take_rail(store, query, filter, ret_read, answer) && take_page(query, filter, answer);
}

/* ---- the list ---- */

struct transfer_list {
    struct json_writer out;
    struct store *store;
    bool trace, trace_read, full; /* full: later rows are for the next page */
    int64_t now_ns;
    struct transfer_place last;
    uint32_t count;
};

static void add_transfer(void *self, const struct transfer *transfer)
{
    struct transfer_list *list = self;

    if (list->full)
        return;
    json_writer_object(&list->out, NULL);
    api_write_transfer_members(&list->out, transfer, list->now_ns);
    if (list->trace && list->trace_read)
        list->trace_read = api_write_trace(&list->out, list->store, transfer);
    json_writer_end_object(&list->out);
    list->last = (struct transfer_place){
        transfer->ordinal, transfer_state_live(transfer->state) ? 0 : transfer->updated_ns};
    list->full = list->out.used > API_PAGE_BYTES;
    list->count++;
}

static void write_place(struct json_writer *out, const char *key,
                        const struct transfer_place *place)
{
    char text[48] = "";

    if (place->updated_ns != 0)
        snprintf(text, sizeof(text), "%lld-%lld", (long long)place->updated_ns,
                 (long long)place->ordinal);
    else if (place->ordinal != 0)
        snprintf(text, sizeof(text), "%lld", (long long)place->ordinal);
    json_writer_text(out, key, text);
}

bool api_get_transfers(struct store *store, const struct api_query *query,
                       struct api_answer *ret_answer)
{
    struct transfer_list list = {
        .store = store, .trace_read = true, .now_ns = (int64_t)kvr_clock_wall()};
    struct transfer_found found = {0};
    struct wanted wanted;
    bool read;

    if (!parse(store, query, &wanted, &read, ret_answer))
        return read;
    list.trace = wanted.trace;
    json_writer_object(&list.out, NULL);
    json_writer_array(&list.out, "transfers");
    if (transfer_filter_searches(&wanted.filter)) {
        read = store_search_transfers(store, &wanted.filter, add_transfer, &list, &found);
        if (list.full)
            found = (struct transfer_found){.next = list.last};
    } else {
        read = store_list_transfers(store, &wanted.filter, add_transfer, &list);
        if ((list.full || list.count == wanted.filter.limit) && list.last.ordinal > 1)
            found.next.ordinal = list.last.ordinal;
    }
    json_writer_end_array(&list.out);
    write_place(&list.out, "next", &found.next);
    api_write_time(&list.out, "searched_until", found.searched_ns);
    json_writer_end_object(&list.out);
    return api_answer_written(&list.out, read && list.trace_read, ret_answer);
}

/* ---- one ---- */

struct event_list {
    struct json_writer out;
    const char *tenant; /* of the transfer */
    int64_t from_ns;
};

static void add_event(void *self, const struct stored_event *event)
{
    struct event_list *list = self;

    api_write_event(&list->out, event, list->tenant, list->from_ns);
}

bool api_transfer_id(const char *text, uint64_t *ret_id)
{
    if (strspn(text, "0123456789abcdefABCDEF") != 16 || (text[16] != '\0' && text[16] != '/'))
        return false;
    *ret_id = strtoull(text, NULL, 16);
    return true;
}

bool api_find_transfer(struct store *store, const char *path, struct transfer *ret_transfer,
                       bool *ret_read, struct api_answer *answer)
{
    const char *text = path + strlen("/api/v1/transfers/");
    bool found = false;
    uint64_t id;

    *ret_read = true;
    if (!api_transfer_id(text, &id)) {
        api_bad_request(answer, "id", "\"%s\" is no transfer: an id has 16 hexadecimal digits",
                        text);
        return false;
    }
    *ret_read = store_get_transfer(store, id, ret_transfer, &found);
    if (*ret_read && !found)
        api_error(answer, 404, "there is no transfer with that id, or it is past its retention");
    return found;
}

bool api_get_transfer(struct store *store, const char *path, struct api_answer *ret_answer)
{
    struct event_list list = {0};
    struct transfer transfer;
    bool read;

    if (!api_find_transfer(store, path, &transfer, &read, ret_answer))
        return read;
    list.tenant = transfer.tenant;
    list.from_ns = transfer_opened_ns(&transfer);
    json_writer_object(&list.out, NULL);
    api_write_transfer_members(&list.out, &transfer, (int64_t)kvr_clock_wall());
    json_writer_array(&list.out, "events");
    read = store_list_events(store, transfer.id, API_EVENTS_MAX, add_event, &list);
    json_writer_end_array(&list.out);
    json_writer_end_object(&list.out);
    return api_answer_written(&list.out, read, ret_answer);
}
