/* Answers about the fleet and the scheduler itself, which need no database. */
#include <stdlib.h>
#include <string.h>

#include "scheduler/api_fleet.h"
#include "scheduler/api_json.h"
#include "scheduler/api_parameters.h"
#include "scheduler/embedded.h"

#define FRESH (500 * KVR_MS) /* the agents are kept ready for so long, unless one comes or goes */

struct api_fleet {
    struct api_fleet_parts parts;
    struct ready *document; /* NULL until it is asked for */
    struct ready *agents;   /* the last ones made */
    kvr_ns agents_at;
    uint64_t agents_changes;
    struct ready *matrix; /* the whole one */
    kvr_ns matrix_at;
};

struct api_fleet *api_fleet_open(const struct api_fleet_parts *parts)
{
    struct api_fleet *api = calloc(1, sizeof(*api));

    if (api != NULL)
        api->parts = *parts;
    return api;
}

struct api_fleet *api_fleet_close(struct api_fleet *api)
{
    if (api != NULL) {
        ready_drop(api->document);
        ready_drop(api->agents);
        ready_drop(api->matrix);
    }
    free(api);
    return NULL;
}

bool api_fleet_is_path(const char *path)
{
    const struct api_path *known = api_path_of("GET", path);

    if (known == NULL)
        return strcmp(path, "/metrics") == 0;
    return known->kind == API_AGENTS || known->kind == API_PAIRS || known->kind == API_MATRIX ||
           known->kind == API_DOCUMENT;
}

/* ---- agents ---- */

struct agent_list {
    json_t *array;
    int64_t now_ns;
};

static void add_agent(void *self, const struct agent_view *agent)
{
    struct agent_list *list = self;

    json_array_append_new(list->array, json_agent(agent, list->now_ns));
}

static struct ready *make_agents(struct api_fleet *api)
{
    struct agent_list list = {json_array(), (int64_t)kvr_clock_wall()};
    struct api_answer answer;

    fleet_each(api->parts.fleet, kvr_clock_now(), add_agent, &list);
    api_answer_with(
        &answer, 200,
        json_pack("{s:o, s:f}", "agents", list.array, "now_seconds", (double)list.now_ns / 1e9));
    return ready_make(answer.body, answer.body != NULL ? strlen(answer.body) : 0,
                      "application/json");
}

/* Many open pages ask once a second. */
static struct ready *agents(struct api_fleet *api)
{
    uint64_t changes = fleet_changes(api->parts.fleet);
    kvr_ns now = kvr_clock_now();

    if (api->agents == NULL || now - api->agents_at > FRESH || api->agents_changes != changes) {
        ready_drop(api->agents);
        api->agents = make_agents(api);
        api->agents_at = now;
        api->agents_changes = changes;
    }
    return api->agents;
}

/* ---- matrix ---- */

/* The whole one is kept as the agents are; others are short. */
static void get_matrix(struct api_fleet *api, const struct api_query *query,
                       struct api_answer *ret_answer)
{
    kvr_ns now = kvr_clock_now();

    if (query->count > 0) {
        api_get_matrix(api->parts.fleet, query, ret_answer);
        return;
    }
    if (api->matrix == NULL || now - api->matrix_at > FRESH) {
        struct api_answer whole;

        api_get_matrix(api->parts.fleet, query, &whole);
        ready_drop(api->matrix);
        api->matrix =
            ready_make(whole.body, whole.body != NULL ? strlen(whole.body) : 0, "application/json");
        api->matrix_at = now;
    }
    *ret_answer = (struct api_answer){.status = 200, .ready = ready_share(api->matrix)};
}

/* ---- metrics ---- */

static void write_metrics(void *self, struct exposition *out)
{
    const struct api_fleet *api = self;
    kvr_ns now = kvr_clock_now();

    metrics_write(api->parts.metrics, now, (int64_t)kvr_clock_wall(), out);
    metrics_write_fleet(api->parts.fleet, now, out);
    metrics_write_self(&api->parts.self, now, out);
}

static struct ready *document(struct api_fleet *api)
{
    const struct embedded_file *file = &embedded_openapi;
    size_t size = (size_t)(file->end - file->begin);

    if (api->document == NULL)
        api->document = ready_make(strndup(file->begin, size), size, file->type);
    return api->document;
}

void api_fleet_get(struct api_fleet *api, const char *path, const struct api_query *query,
                   struct api_answer *ret_answer)
{
    const struct api_path *known = api_path_of("GET", path);

    if (known == NULL)
        *ret_answer = (struct api_answer){
            .status = 200, .ready = exposition_ready(query->count > 0, write_metrics, api)};
    else if (!api_check_parameters(known, query, ret_answer))
        return;
    else if (known->kind == API_PAIRS)
        api_get_pairs(api->parts.fleet, metrics_speeds(api->parts.metrics), query, ret_answer);
    else if (known->kind == API_DOCUMENT)
        *ret_answer = (struct api_answer){.status = 200, .ready = ready_share(document(api))};
    else if (known->kind == API_MATRIX)
        get_matrix(api, query, ret_answer);
    else
        *ret_answer = (struct api_answer){.status = 200, .ready = ready_share(agents(api))};
}
