#include "scheduler/api.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/plain_name.h"
#include "base/version.h"
#include "scheduler/api_json.h"

#define LIMIT_DEFAULT 50
#define LIMIT_MAX     500
#define EVENTS_MAX    2000 /* of one transfer */
#define REASONS_BACK  (3600 * (int64_t)KVR_S)
#define ANSWER_WITHIN (2 * KVR_S)    /* else the question is given up: others wait */
#define SUMMARY_FRESH (500 * KVR_MS) /* many open pages cost as much as one */

struct api {
    struct store *store;
    struct metrics *metrics;
    struct health *health;
    kvr_ns started;
    json_t *summary; /* the last one made */
    kvr_ns summary_at;
};

struct api *api_open(struct store *store, struct metrics *metrics, struct health *health)
{
    struct api *api = calloc(1, sizeof(*api));

    if (api != NULL)
        *api = (struct api){store, metrics, health, kvr_clock_now(), NULL, 0};
    return api;
}

struct api *api_close(struct api *api)
{
    if (api != NULL)
        json_decref(api->summary);
    free(api);
    return NULL;
}

/* ---- answers ---- */

void api_answer_with(struct api_answer *answer, unsigned status, json_t *object)
{
    answer->status = status;
    answer->problem = false;
    answer->ready = NULL;
    answer->body = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(12));
    json_decref(object);
}

static const struct {
    unsigned status;
    const char *code, *title;
} errors[] = {
    {400, "bad_request", "Bad Request"},
    {401, "unauthorized", "Unauthorized"},
    {403, "forbidden", "Forbidden"},
    {404, "not_found", "Not Found"},
    {405, "method_not_allowed", "Method Not Allowed"},
    {409, "conflict", "Conflict"},
    {413, "too_large", "Content Too Large"},
    {415, "unsupported_media_type", "Unsupported Media Type"},
    {421, "misdirected", "Misdirected Request"},
    {429, "too_many_requests", "Too Many Requests"},
    {503, "unavailable", "Service Unavailable"},
    {500, "internal", "Internal Server Error"}, /* and every other one */
};

/* RFC 9457, and beside it the member `error` of earlier versions. */
void api_error(struct api_answer *ret_answer, unsigned status, const char *message)
{
    size_t i = 0;

    while (i + 1 < sizeof(errors) / sizeof(errors[0]) && errors[i].status != status)
        i++;
    api_answer_with(ret_answer, status,
                    json_pack("{s:s, s:s, s:i, s:s, s:{s:s, s:s}}", "type", "about:blank", "title",
                              errors[i].title, "status", (int)status, "detail", message, "error",
                              "code", errors[i].code, "message", message));
    ret_answer->problem = true;
}

void api_bad_request(struct api_answer *answer, const char *format, const char *value)
{
    char shown[80], message[240];

    snprintf(shown, sizeof(shown), "%s", value != NULL ? value : "");
    for (char *at = shown; *at != '\0'; at++)
        if ((unsigned char)*at < 0x20 || (unsigned char)*at > 0x7e)
            *at = '?'; /* it is repeated inside JSON */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(message, sizeof(message), format, shown);
#pragma GCC diagnostic pop
    api_error(answer, 400, message);
}

static void database_failed(struct api *api, struct api_answer *answer)
{
    char message[240];

    if (store_timed_out(api->store)) {
        api_error(answer, 503,
                  "the search took more than 2 s: give more of the request's id, or a state");
        return;
    }
    if (store_trouble(api->store) == HEALTH_DAMAGED)
        health_set(api->health, HEALTH_DAMAGED, store_problem(api->store));
    snprintf(message, sizeof(message), "the database cannot be read: %s",
             store_problem(api->store));
    api_error(answer, 503, message);
}

bool api_no_parameters(const struct api_query *query, struct api_answer *answer)
{
    if (query->count > 0)
        api_bad_request(answer, "there is no parameter \"%s\" here", query->parameters[0].name);
    return query->count == 0;
}

/* ---- transfers ---- */

bool api_number(const char *text, int64_t min, int64_t max, int64_t *ret_number)
{
    char *end;
    long long number;

    if (text == NULL || text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    number = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0' || number < min || number > max)
        return false;
    *ret_number = number;
    return true;
}

static bool parse_state(const char *text, struct transfer_filter *filter)
{
    if (text != NULL && strcmp(text, "live") == 0) {
        filter->kind = FILTER_LIVE;
        return true;
    }
    filter->kind = FILTER_STATE;
    return text != NULL && transfer_state_from_name(text, &filter->state);
}

/* Selects transfers by state or by request. */
static bool parse_choice(const char *name, const char *value, struct transfer_filter *filter,
                         struct api_answer *answer)
{
    if (filter->kind != FILTER_ALL) {
        api_bad_request(answer, "%s is one choice too many: give one state, or one request", name);
        return false;
    }
    if (strcmp(name, "state") == 0) {
        if (parse_state(value, filter))
            return true;
        api_bad_request(
            answer,
            "\"%s\" is no state: live, done, failed, cancelled, expired, lost or a stage "
            "such as first_post",
            value);
        return false;
    }
    filter->kind = FILTER_REQUEST;
    filter->request = value;
    if (value != NULL && value[0] != '\0' && strlen(value) < KVR_REQUEST_BYTES)
        return true;
    api_bad_request(answer, "\"%s\" is not the beginning of a request's id", value);
    return false;
}

static bool parse_tenant(const char *value, struct transfer_filter *filter,
                         struct api_answer *answer)
{
    if (filter->tenant == NULL && value != NULL && kvr_plain_name(value, strlen(value))) {
        filter->tenant = value;
        return true;
    }
    api_bad_request(answer, "\"%s\" is no tenant, or a second one: give the name of one tenant",
                    value);
    return false;
}

typedef enum page_parse { PAGE_TAKEN, PAGE_WRONG, PAGE_UNKNOWN } page_parse;

/* limit and after, which every list has. */
static page_parse parse_page(const char *name, const char *value, uint32_t *limit, int64_t *before,
                             struct api_answer *answer)
{
    int64_t number;

    if (strcmp(name, "limit") == 0) {
        if (api_number(value, 1, LIMIT_MAX, &number)) {
            *limit = (uint32_t)number;
            return PAGE_TAKEN;
        }
        api_bad_request(answer, "limit=%s is not a number from 1 to 500", value);
        return PAGE_WRONG;
    }
    if (strcmp(name, "after") != 0)
        return PAGE_UNKNOWN;
    if (api_number(value, 1, INT64_MAX, before))
        return PAGE_TAKEN;
    api_bad_request(answer, "after=%s is not the \"next\" of an earlier answer", value);
    return PAGE_WRONG;
}

static bool parse_filter(const struct api_query *query, struct transfer_filter *filter,
                         struct api_answer *answer)
{
    *filter = (struct transfer_filter){.limit = LIMIT_DEFAULT};
    for (int i = 0; i < query->count && i < API_PARAMETERS_MAX; i++) {
        const char *name = query->parameters[i].name, *value = query->parameters[i].value;

        if (strcmp(name, "state") == 0 || strcmp(name, "request") == 0) {
            if (!parse_choice(name, value, filter, answer))
                return false;
            continue;
        }
        if (strcmp(name, "tenant") == 0) {
            if (!parse_tenant(value, filter, answer))
                return false;
            continue;
        }
        switch (parse_page(name, value, &filter->limit, &filter->before, answer)) {
        case PAGE_TAKEN:
            continue;
        case PAGE_UNKNOWN:
            api_bad_request(
                answer,
                "there is no parameter \"%s\": state, request, tenant, limit and after are known",
                name);
            return false;
        case PAGE_WRONG:
            return false;
        }
    }
    return true;
}

/* ---- audit ---- */

static void get_audit(struct api *api, const struct api_query *query, struct api_answer *answer)
{
    uint32_t limit = LIMIT_DEFAULT;
    int64_t before = 0;
    json_t *object;

    for (int i = 0; i < query->count && i < API_PARAMETERS_MAX; i++) {
        const char *name = query->parameters[i].name;
        page_parse parsed = parse_page(name, query->parameters[i].value, &limit, &before, answer);

        if (parsed == PAGE_UNKNOWN)
            api_bad_request(answer, "there is no parameter \"%s\": limit and after are known",
                            name);
        if (parsed != PAGE_TAKEN)
            return;
    }
    object = json_audit(api->store, before, limit);
    if (object == NULL)
        database_failed(api, answer);
    else
        api_answer_with(answer, 200, object);
}

struct transfer_list {
    json_t *array;
    int64_t now_ns, last_ordinal;
    uint32_t count;
};

static void add_transfer(void *self, const struct transfer *transfer)
{
    struct transfer_list *list = self;

    json_array_append_new(list->array, json_transfer(transfer, list->now_ns));
    list->last_ordinal = transfer->ordinal;
    list->count++;
}

static void get_transfers(struct api *api, const struct api_query *query, struct api_answer *answer)
{
    struct transfer_list list = {.now_ns = (int64_t)kvr_clock_wall()};
    struct transfer_filter filter;
    json_t *next;

    if (!parse_filter(query, &filter, answer))
        return;
    list.array = json_array();
    if (!store_list_transfers(api->store, &filter, add_transfer, &list)) {
        json_decref(list.array);
        database_failed(api, answer);
        return;
    }
    next = list.count == filter.limit && list.last_ordinal > 1
               ? json_sprintf("%lld", (long long)list.last_ordinal)
               : json_null();
    api_answer_with(answer, 200, json_pack("{s:o, s:o}", "transfers", list.array, "next", next));
}

struct event_list {
    json_t *array;
    const char *tenant; /* of the transfer */
    int64_t from_ns;
};

static void add_event(void *self, const struct stored_event *event)
{
    struct event_list *list = self;

    json_array_append_new(list->array, json_event(event, list->tenant, list->from_ns));
}

static bool parse_id(const char *text, uint64_t *ret_id)
{
    if (strlen(text) != 16 || strspn(text, "0123456789abcdefABCDEF") != 16)
        return false;
    *ret_id = strtoull(text, NULL, 16);
    return true;
}

static void get_transfer(struct api *api, const char *id_text, struct api_answer *answer)
{
    struct event_list list;
    struct transfer transfer;
    json_t *object;
    uint64_t id;
    bool found;

    if (!parse_id(id_text, &id)) {
        api_bad_request(answer, "\"%s\" is no transfer: an id has 16 hexadecimal digits", id_text);
        return;
    }
    if (!store_get_transfer(api->store, id, &transfer, &found)) {
        database_failed(api, answer);
        return;
    }
    if (!found) {
        api_error(answer, 404, "there is no transfer with that id, or it is past its retention");
        return;
    }
    list = (struct event_list){json_array(), transfer.tenant, transfer_opened_ns(&transfer)};
    if (!store_list_events(api->store, id, EVENTS_MAX, add_event, &list)) {
        json_decref(list.array);
        database_failed(api, answer);
        return;
    }
    object = json_transfer(&transfer, (int64_t)kvr_clock_wall());
    json_object_set_new(object, "events", list.array);
    api_answer_with(answer, 200, object);
}

/* ---- summary ---- */

struct reason_list {
    struct store *store;
    json_t *array;
    int64_t now_ns;
};

static void add_reason(void *self, const struct reason_group *group)
{
    struct reason_list *list = self;
    struct transfer example;
    bool known, found;
    kvr_status status = kvr_status_from_name(group->reason, &known);
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:I}", "state", group->state, "reason", group->reason, "text",
                  known ? kvr_status_text(status) : "", "count", (json_int_t)group->count);

    if (store_get_transfer(list->store, group->last_id, &example, &found) && found) {
        json_object_set_new(object, "last", json_time(example.updated_ns));
        json_object_set_new(object, "example", json_transfer(&example, list->now_ns));
    }
    json_array_append_new(list->array, object);
}

static json_t *latency_json(const struct metrics_latency *latency)
{
    if (latency->count == 0)
        return json_pack("{s:i, s:n, s:n, s:n}", "count", 0, "p50_seconds", "p95_seconds",
                         "p99_seconds");
    return json_pack("{s:I, s:f, s:f, s:f}", "count", (json_int_t)latency->count, "p50_seconds",
                     latency->p50, "p95_seconds", latency->p95, "p99_seconds", latency->p99);
}

static json_t *states_json(const struct metrics_summary *summary)
{
    json_t *object = json_object();
    uint64_t live = 0;

    for (int state = 0; state < STATE_END; state++) {
        json_object_set_new(object, transfer_state_name((transfer_state)state),
                            json_count(summary->states[state]));
        live += transfer_state_live((transfer_state)state) ? summary->states[state] : 0;
    }
    json_object_set_new(object, "live", json_count(live));
    return object;
}

static json_t *make_summary(struct api *api, struct metrics_summary *summary, int64_t now_ns)
{
    struct reason_list reasons = {api->store, json_array(), now_ns};
    json_t *rates = json_array();
    struct health_view view;

    health_look(api->health, &view);
    metrics_summarise(api->metrics, now_ns, summary);
    if (!store_group_reasons(api->store, now_ns - REASONS_BACK, add_reason, &reasons)) {
        json_decref(reasons.array);
        json_decref(rates);
        return NULL;
    }
    for (int i = 0; i < METRICS_SECONDS; i++)
        json_array_append_new(rates, json_real(summary->bytes_per_second[i]));
    return json_pack("{s:o, s:s, s:b, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:{s:o, s:o}, s:o}", "now",
                     json_time(now_ns), "version", KVRAIL_VERSION, "insecure", summary->insecure,
                     "troubles", json_troubles(summary, &view, now_ns), "uptime_seconds",
                     json_seconds((int64_t)(kvr_clock_now() - api->started)), "events",
                     (json_int_t)summary->events, "last_event", json_time(summary->newest_event_ns),
                     "last_event_seconds",
                     summary->newest_event_ns > 0 ? json_seconds(now_ns - summary->newest_event_ns)
                                                  : json_null(),
                     "states", states_json(summary), "bytes_per_second", rates, "latency", "total",
                     latency_json(&summary->total), "wire", latency_json(&summary->wire), "reasons",
                     reasons.array);
}

static void get_summary(struct api *api, struct api_answer *answer)
{
    kvr_ns now = kvr_clock_now();
    struct metrics_summary *summary;

    if (api->summary == NULL || now - api->summary_at > SUMMARY_FRESH) {
        summary = malloc(sizeof(*summary));
        json_decref(api->summary);
        api->summary =
            summary != NULL ? make_summary(api, summary, (int64_t)kvr_clock_wall()) : NULL;
        api->summary_at = now;
        free(summary);
    }
    if (api->summary == NULL) {
        database_failed(api, answer);
        return;
    }
    api_answer_with(answer, 200, json_incref(api->summary));
}

void api_get(struct api *api, const char *path, const struct api_query *query,
             struct api_answer *ret_answer)
{
    static const char transfer_prefix[] = "/api/v1/transfers/";

    store_set_deadline(api->store, kvr_clock_now() + ANSWER_WITHIN);
    if (strcmp(path, "/api/v1/transfers") == 0) {
        get_transfers(api, query, ret_answer);
    } else if (strncmp(path, transfer_prefix, sizeof(transfer_prefix) - 1) == 0) {
        if (api_no_parameters(query, ret_answer))
            get_transfer(api, path + sizeof(transfer_prefix) - 1, ret_answer);
    } else if (strcmp(path, "/api/v1/summary") == 0) {
        if (api_no_parameters(query, ret_answer))
            get_summary(api, ret_answer);
    } else if (strcmp(path, "/api/v1/audit") == 0) {
        get_audit(api, query, ret_answer);
    } else {
        api_error(ret_answer, 404,
                  "there is nothing at this path; there are /, /metrics, /healthz, /readyz, "
                  "/api/v1/summary, /api/v1/agents, /api/v1/transfers, /api/v1/transfers/ID, "
                  "/api/v1/rails/matrix, "
                  "/api/v1/audit and /api/v1/session");
    }
}
