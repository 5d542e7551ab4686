#include "scheduler/scheduler.h"

#include <limits.h>
#include <stdio.h>

#include "scheduler/api_fleet.h"

#define LAGGING_NS (3 * KVR_S) /* half of what an agent may be silent */

static kvr_status state_open(const struct scheduler_options *options, struct scheduler *scheduler,
                             struct kvr_error *error)
{
    char database[PATH_MAX + 16];
    uint64_t counts[STATE_END], held;

    KVR_TRY(store_open_writer(options->state_dir, &scheduler->writer, error));
    KVR_TRY(store_open_reader(options->state_dir, &scheduler->reader, error));
    KVR_TRY(store_open_reader(options->state_dir, &scheduler->stream_reader, error));
    scheduler->fleet = fleet_open();
    scheduler->changes = changes_open();
    scheduler->metrics = metrics_open();
    snprintf(database, sizeof(database), "%s/kvrail.db", options->state_dir);
    scheduler->health = health_open(database);
    if (scheduler->health == NULL || scheduler->fleet == NULL || scheduler->metrics == NULL ||
        scheduler->changes == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "scheduler", "no memory to start with");
    if (!fleet_load(scheduler->fleet, scheduler->reader) ||
        !store_count_states(scheduler->reader, counts) ||
        !store_count_held(scheduler->reader, &held))
        return kvr_error_set(error, KVR_SYSTEM, "scheduler", "the database cannot be read: %s",
                             store_problem(scheduler->reader));
    metrics_set_states(scheduler->metrics, counts);
    metrics_set_held(scheduler->metrics, held);
    metrics_set_insecure(scheduler->metrics, !options->access.tls);
    return KVR_OK;
}

static void search(void *self, const char *path, const struct api_query *query,
                   struct api_answer *ret_answer)
{
    api_get(self, path, query, ret_answer);
}

static void look_at_fleet(void *self, const char *path, const struct api_query *query,
                          struct api_answer *ret_answer)
{
    api_fleet_get(self, path, query, ret_answer);
}

static kvr_status open_stream(struct scheduler *scheduler, struct kvr_error *error)
{
    const struct stream_parts parts = {.store = scheduler->stream_reader,
                                       .fleet = scheduler->fleet,
                                       .metrics = scheduler->metrics,
                                       .health = scheduler->health,
                                       .changes = scheduler->changes};

    return stream_start(&parts, &scheduler->stream, error);
}

static kvr_status open_api(const struct scheduler_options *options, struct scheduler *scheduler,
                           struct kvr_error *error)
{
    const struct api_fleet_parts parts = {
        .fleet = scheduler->fleet,
        .metrics = scheduler->metrics,
        .self = {scheduler->health, scheduler->ingest, scheduler->stream, options->state_dir}};

    scheduler->api = api_open(scheduler->reader, scheduler->metrics, scheduler->health);
    scheduler->api_fleet = api_fleet_open(&parts);
    if (scheduler->api == NULL || scheduler->api_fleet == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "scheduler", "no memory to start with");
    KVR_TRY(queries_start(search, scheduler->api, &scheduler->searches, error));
    return queries_start(look_at_fleet, scheduler->api_fleet, &scheduler->fleet_queries, error);
}

kvr_status scheduler_open(const struct scheduler_options *options, struct scheduler *scheduler,
                          struct kvr_error *error)
{
    kvr_status status = state_open(options, scheduler, error);
    struct ingest_options ingest = {.store = scheduler->writer,
                                    .fleet = scheduler->fleet,
                                    .metrics = scheduler->metrics,
                                    .health = scheduler->health,
                                    .changes = scheduler->changes,
                                    .retention = options->retention};
    struct http_options http = {.listen = options->listen,
                                .connections_max = options->connections_max,
                                .connections_per_host = options->connections_per_host,
                                .web_root = options->web_root,
                                .fleet = scheduler->fleet,
                                .metrics = scheduler->metrics,
                                .health = scheduler->health};

    if (status == KVR_OK)
        status = ingest_start(&ingest, &scheduler->ingest, error);
    if (status == KVR_OK)
        status = open_stream(scheduler, error);
    if (status == KVR_OK)
        status = open_api(options, scheduler, error);
    if (status == KVR_OK)
        status = access_open(&options->access, &scheduler->access, error);
    http.access = scheduler->access;
    if (status == KVR_OK && options->tls != NULL)
        status = http_tls_open(options->tls, &scheduler->tls, error);
    http.tls = scheduler->tls;
    http.ingest = scheduler->ingest;
    http.stream = scheduler->stream;
    http.searches = scheduler->searches;
    http.fleet_queries = scheduler->fleet_queries;
    if (status == KVR_OK)
        status = http_start(&http, &scheduler->http, &scheduler->port, error);
    return status;
}

void scheduler_tick(struct scheduler *scheduler, kvr_ns now)
{
    struct ingest_load load = ingest_load(scheduler->ingest);
    char detail[KVR_DETAIL_BYTES];

    fleet_tick(scheduler->fleet, now);
    http_tick(scheduler->http, now);
    if (load.since == 0 || now < load.since + LAGGING_NS) {
        health_clear(scheduler->health, HEALTH_LAGGING);
        return;
    }
    snprintf(detail, sizeof(detail), "%d wait, the oldest for %.1f s", load.waiting,
             (double)(now - load.since) / 1e9);
    health_set(scheduler->health, HEALTH_LAGGING, detail);
}

void scheduler_close(struct scheduler *scheduler)
{
    if (scheduler->http != NULL)
        http_drain(scheduler->http);
    if (scheduler->ingest != NULL)
        ingest_stop(scheduler->ingest);
    if (scheduler->searches != NULL)
        queries_stop(scheduler->searches);
    if (scheduler->fleet_queries != NULL)
        queries_stop(scheduler->fleet_queries);
    if (scheduler->stream != NULL)
        stream_stop(scheduler->stream);
    http_stop(scheduler->http); /* until then clients may still send requests */
    ingest_close(scheduler->ingest);
    queries_close(scheduler->searches);
    queries_close(scheduler->fleet_queries);
    stream_close(scheduler->stream);
    changes_close(scheduler->changes);
    access_close(scheduler->access);
    http_tls_close(scheduler->tls);
    api_close(scheduler->api);
    api_fleet_close(scheduler->api_fleet);
    metrics_close(scheduler->metrics);
    health_close(scheduler->health);
    fleet_close(scheduler->fleet);
    store_close(scheduler->stream_reader);
    store_close(scheduler->reader);
    store_close(scheduler->writer);
}
