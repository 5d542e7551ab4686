#include "scheduler/scheduler.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/api_fleet.h"
#include "scheduler/news.h"

#define LAGGING_NS (3 * KVR_S) /* half of what an agent may be silent */

/* Within a transaction: news of other schedulers go on from there. */
static bool load(struct scheduler *scheduler)
{
    const struct news_parts parts = {
        .store = scheduler->writer, .fleet = scheduler->fleet, .metrics = scheduler->metrics};
    bool loaded = store_begin(parts.store) && news_reload(&parts) && store_commit(parts.store);

    if (!loaded)
        store_rollback(parts.store);
    return loaded;
}

static kvr_status state_open(const struct scheduler_options *options, struct scheduler *scheduler,
                             struct kvr_error *error)
{
    char database[STORE_NAME_BYTES];

    KVR_TRY(store_open_writer(&options->place, &scheduler->writer, error));
    KVR_TRY(store_open_reader(&options->place, &scheduler->reader, error));
    KVR_TRY(store_open_reader(&options->place, &scheduler->stream_reader, error));
    scheduler->fleet = fleet_open();
    scheduler->changes = changes_open();
    scheduler->metrics = metrics_open();
    store_place_name(&options->place, database);
    scheduler->health = health_open(database);
    if (scheduler->health == NULL || scheduler->fleet == NULL || scheduler->metrics == NULL ||
        scheduler->changes == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "scheduler", "no memory to start with");
    if (!load(scheduler))
        return kvr_error_set(error, KVR_SYSTEM, "scheduler", "the database cannot be read: %s",
                             store_problem(scheduler->writer));
    metrics_set_insecure(scheduler->metrics, !options->access.tls);
    return KVR_OK;
}

/* The question may follow an acknowledgement. */
#define SETTLE_NS (500 * KVR_MS)

static void search(void *self, const char *path, const struct api_query *query,
                   struct api_answer *ret_answer)
{
    struct scheduler *scheduler = self;

    ingest_settle(scheduler->ingest, SETTLE_NS);
    api_get(scheduler->api, path, query, ret_answer);
}

static void look_at_fleet(void *self, const char *path, const struct api_query *query,
                          struct api_answer *ret_answer)
{
    struct scheduler *scheduler = self;

    /* The fleet in memory knows each report that was acknowledged; totals wait for their commit. */
    if (strcmp(path, "/metrics") == 0)
        ingest_settle(scheduler->ingest, SETTLE_NS);
    api_fleet_get(scheduler->api_fleet, path, query, ret_answer);
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

static kvr_status open_api(struct scheduler *scheduler, struct kvr_error *error)
{
    const struct api_fleet_parts parts = {
        .fleet = scheduler->fleet,
        .metrics = scheduler->metrics,
        .self = {scheduler->health, scheduler->ingest, scheduler->stream}};

    scheduler->api = api_open(scheduler->reader, scheduler->metrics, scheduler->health);
    scheduler->api_fleet = api_fleet_open(&parts);
    if (scheduler->api == NULL || scheduler->api_fleet == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "scheduler", "no memory to start with");
    KVR_TRY(queries_start(search, scheduler, &scheduler->searches, error));
    return queries_start(look_at_fleet, scheduler, &scheduler->fleet_queries, error);
}

kvr_status scheduler_open(const struct scheduler_options *options, struct scheduler *scheduler,
                          struct kvr_error *error)
{
    kvr_status status = state_open(options, scheduler, error);
    struct ingest_options ingest = {.store = scheduler->writer,
                                    .place = &options->place,
                                    .fleet = scheduler->fleet,
                                    .metrics = scheduler->metrics,
                                    .health = scheduler->health,
                                    .changes = scheduler->changes,
                                    .retention = options->place.retention,
                                    .bound = options->database_bytes};
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
        status = open_api(scheduler, error);
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
