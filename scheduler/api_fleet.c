/* Answers about the fleet and the scheduler itself, which need no database. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/api_agents.h"
#include "scheduler/api_fleet.h"
#include "scheduler/api_parameters.h"
#include "scheduler/embedded.h"
#include "scheduler/kept.h"

struct api_fleet {
    struct api_fleet_parts parts;
    struct ready *document; /* NULL until it is asked for */
    struct kept kept;
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
        kept_drop(&api->kept);
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

/* ---- answers that are kept ---- */

/* Of the question with its parameters. False: it is too long. */
static bool key_of(const char *path, const struct api_query *query, char key[KEPT_KEY_BYTES])
{
    int used = snprintf(key, KEPT_KEY_BYTES, "%s", path);

    for (int i = 0; i < query->count && used < KEPT_KEY_BYTES; i++) {
        const char *value = query->parameters[i].value != NULL ? query->parameters[i].value : "";

        used += snprintf(key + used, KEPT_KEY_BYTES - (size_t)used, "&%s=%zu:%s",
                         query->parameters[i].name, strlen(value), value);
    }
    return used < KEPT_KEY_BYTES;
}

static void make(struct api_fleet *api, api_path_kind kind, const struct api_query *query,
                 struct api_answer *ret_answer)
{
    if (kind == API_PAIRS)
        api_get_pairs(api->parts.fleet, metrics_speeds(api->parts.metrics), query, ret_answer);
    else if (kind == API_MATRIX)
        api_get_matrix(api->parts.fleet, query, ret_answer);
    else
        api_get_agents(api->parts.fleet, query, ret_answer);
}

static void get_kept(struct api_fleet *api, const char *path, api_path_kind kind,
                     const struct api_query *query, struct api_answer *ret_answer)
{
    uint64_t changes = fleet_changes(api->parts.fleet);
    char key[KEPT_KEY_BYTES];
    bool keeps = key_of(path, query, key);
    struct ready *ready = keeps ? kept_find(&api->kept, key, changes, kvr_clock_now()) : NULL;

    if (ready == NULL) {
        make(api, kind, query, ret_answer);
        if (ret_answer->body == NULL || ret_answer->status != 200)
            return;
        ready = ready_make(ret_answer->body, strlen(ret_answer->body), "application/json");
        if (keeps && ready != NULL)
            kept_put(&api->kept, key, changes, kvr_clock_now(), ready);
    }
    *ret_answer = (struct api_answer){.status = 200, .ready = ready};
}

/* ---- metrics: always of now, as a counter must be ---- */

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
    else if (known->kind == API_DOCUMENT)
        *ret_answer = (struct api_answer){.status = 200, .ready = ready_share(document(api))};
    else
        get_kept(api, path, known->kind, query, ret_answer);
}
