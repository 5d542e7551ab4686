#include "scheduler/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/api_json.h"
#include "scheduler/api_parameters.h"
#include "scheduler/api_rows.h"
#include "scheduler/api_transfers.h"
#include "scheduler/api_window.h"

#define REASONS_BACK  (3600 * (int64_t)KVR_S)
#define ANSWER_WITHIN (2 * KVR_S)    /* else the question is given up: others wait */
#define SUMMARY_FRESH (500 * KVR_MS) /* many open pages cost as much as one */

struct api {
    struct store *store;
    struct metrics *metrics;
    struct health *health;
    kvr_ns started;
    char *summary; /* the last one made */
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
        free(api->summary);
    free(api);
    return NULL;
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

/* ---- audit ---- */

static void get_audit(struct api *api, const struct api_query *query, struct api_answer *answer)
{
    struct api_page page;
    json_t *object;

    if (!api_parse_page(query, &page, answer))
        return;
    if (page.before_ns != 0) {
        api_bad_request(answer, "after", API_NO_PLACE, NULL);
        return;
    }
    object = json_audit(api->store, page.before, page.limit);
    if (object == NULL)
        database_failed(api, answer);
    else
        api_answer_with(answer, 200, object);
}

/* ---- summary ---- */

struct reason_list {
    struct store *store;
    struct json_writer *out;
    int64_t now_ns;
};

static void add_reason(void *self, const struct reason_group *group)
{
    struct reason_list *list = self;
    struct transfer example;
    bool known, found;
    kvr_status status = kvr_status_from_name(group->reason, &known);

    json_writer_object(list->out, NULL);
    json_writer_string(list->out, "state", group->state);
    json_writer_string(list->out, "reason", group->reason);
    json_writer_string(list->out, "text", known ? kvr_status_text(status) : "");
    json_writer_count(list->out, "count", group->count);
    if (store_get_transfer(list->store, group->last_id, &example, &found) && found) {
        api_write_time(list->out, "last", example.updated_ns);
        api_write_transfer(list->out, "example", &example, list->now_ns);
    }
    json_writer_end_object(list->out);
}

/* NULL: the database failed, or there is no memory. */
static char *make_summary(struct api *api, int64_t now_ns)
{
    struct json_writer out = {0};
    struct reason_list reasons = {api->store, &out, now_ns};
    json_t *summary = json_summary(api->metrics, api->health, api->started, now_ns), *value;
    const char *key;
    char *text;
    bool read;

    json_writer_object(&out, NULL);
    json_object_foreach(summary, key, value) api_write_tree(&out, key, value);
    json_writer_array(&out, "reasons");
    read = summary != NULL &&
           store_group_reasons(api->store, now_ns - REASONS_BACK, add_reason, &reasons);
    json_writer_end_array(&out);
    json_writer_end_object(&out);
    json_decref(summary);
    text = json_writer_take(&out);
    if (read)
        return text;
    free(text);
    return NULL;
}

static void get_summary(struct api *api, struct api_answer *answer)
{
    kvr_ns now = kvr_clock_now();

    if (api->summary == NULL || now - api->summary_at > SUMMARY_FRESH) {
        free(api->summary);
        api->summary = make_summary(api, (int64_t)kvr_clock_wall());
        api->summary_at = now;
    }
    if (api->summary == NULL) {
        database_failed(api, answer);
        return;
    }
    *answer = (struct api_answer){.status = 200, .body = strdup(api->summary)};
}

void api_get(struct api *api, const char *path, const struct api_query *query,
             struct api_answer *ret_answer)
{
    const struct api_path *known = api_path_of("GET", path);
    bool read = true;

    if (known == NULL) {
        api_no_path(ret_answer);
        return;
    }
    if (!api_check_parameters(known, query, ret_answer))
        return;
    store_set_deadline(api->store, kvr_clock_now() + ANSWER_WITHIN);
    switch (known->kind) {
    case API_SUMMARY:
        get_summary(api, ret_answer);
        break;
    case API_ENGINES:
        read = api_get_engines(api->store, query, ret_answer);
        break;
    case API_TRANSFERS:
        read = api_get_transfers(api->store, query, ret_answer);
        break;
    case API_TRANSFER:
        read = api_get_transfer(api->store, path, ret_answer);
        break;
    case API_TIMELINE:
        read = api_get_timeline(api->store, path, ret_answer);
        break;
    case API_ERRORS:
        read = api_get_errors(api->store, query, ret_answer);
        break;
    case API_ROLLUPS:
        read = api_get_rollups(api->store, query, ret_answer);
        break;
    case API_HISTOGRAMS:
        read = api_get_histograms(api->store, query, ret_answer);
        break;
    case API_COMPARE:
        read = api_get_compare(api->store, query, ret_answer);
        break;
    case API_MARKS:
        read = api_get_marks(api->store, query, ret_answer);
        break;
    case API_FAULTS:
        read = api_get_faults(api->store, query, ret_answer);
        break;
    case API_AUDIT:
        get_audit(api, query, ret_answer);
        break;
    default: /* another file's */
        api_no_path(ret_answer);
        break;
    }
    if (!read)
        database_failed(api, ret_answer);
}
