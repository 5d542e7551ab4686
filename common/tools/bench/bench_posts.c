#include "tools/bench/bench_posts.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/url.h"
#include "tools/bench/bench_child.h"
#include "tools/interrupt.h"

#define PROTOBUF_TYPE "application/x-protobuf"
#define GATHER_NS     (200 * KVR_MS)
#define FACTS_TURNS   5 /* of GATHER_NS: a second */
#define REPEAT_NS     (100 * KVR_MS)
#define REPEATS_MAX   100 /* of one report */
#define POST_MS       30000L

/* One agent's reporter. */
struct reporter {
    uint64_t sequence_next;
    uint64_t turn;                /* the next 200 ms to gather */
    struct bench_moment *moments; /* gathered and not posted: from `posted` to `count` */
    size_t room, count, posted;
};

/* One connection and the post on it. */
struct connection {
    CURL *easy;
    uint32_t reporter;
    bool busy;
    uint8_t *body;
    size_t bytes;
    uint32_t event_count;
    uint64_t last; /* number of its last event */
    kvr_ns posted_at, repeat_at;
    unsigned repeats;
    uint8_t answer[KVR_REPORT_ANSWER_BYTES];
    size_t answer_bytes;
    char problem[CURL_ERROR_SIZE];
};

struct poster {
    const struct bench_fleet *fleet;
    struct bench_posts *posts;
    const struct scheduler_call *schedulers;
    uint32_t scheduler_count;
    kvr_ns anchor_wall;
    uint64_t turns; /* until nothing more happens */
    CURLM *multi;
    struct curl_slist *headers;
    struct connection *connections;
    uint32_t connection_count, busy;
    struct reporter *reporters;
    uint32_t reporter_count;
    uint32_t *waiting; /* a ring of reporters with something to post */
    uint32_t waiting_first, waiting_count;
    struct kvr_event *events; /* of one report */
    uint8_t *spans;           /* of each of them */
    struct kvr_agent_facts *facts;
    struct kvr_error *error;
};

static kvr_status no_memory(struct poster *poster)
{
    return kvr_error_set(poster->error, KVR_NO_MEMORY, "bench", "no memory for the reports");
}

/* ---- what a reporter has ---- */

static kvr_status gather(struct poster *poster, uint32_t index)
{
    struct reporter *reporter = &poster->reporters[index];
    kvr_ns from = poster->fleet->start + reporter->turn * GATHER_NS;

    for (;;) {
        size_t count = bench_fleet_moments(poster->fleet, index, from, from + GATHER_NS,
                                           reporter->moments, reporter->room);
        struct bench_moment *larger;

        reporter->posted = 0;
        reporter->count = count;
        if (count <= reporter->room)
            return KVR_OK;
        larger = realloc(reporter->moments, count * sizeof(larger[0]));
        if (larger == NULL)
            return no_memory(poster);
        reporter->moments = larger;
        reporter->room = count;
    }
}

static kvr_status encode(struct poster *poster, uint32_t index, bool with_facts,
                         struct connection *connection)
{
    struct reporter *reporter = &poster->reporters[index];
    struct kvr_report report = {.boot = poster->fleet->boot,
                                .anchor_at = poster->fleet->start,
                                .anchor_wall = poster->anchor_wall,
                                .events = poster->events};

    bench_fleet_name(poster->fleet, index, report.agent);
    while (report.event_count < KVR_REPORT_EVENTS_MAX && reporter->posted < reporter->count) {
        const struct bench_moment *moment = &reporter->moments[reporter->posted++];
        struct bench_transfer transfer = bench_fleet_transfer(poster->fleet, moment->number);

        struct kvr_event *event = &poster->events[report.event_count];

        bench_fleet_event(poster->fleet, &transfer, moment->step, event);
        bench_fleet_spans(poster->fleet, &transfer, event,
                          &poster->spans[(size_t)report.event_count++ * KVR_SPANS_BYTES_MAX]);
    }
    report.sequence_first = report.event_count > 0 ? reporter->sequence_next : 0;
    reporter->sequence_next += report.event_count;
    report.sequence_made = reporter->sequence_next - 1;
    if (with_facts) {
        bench_fleet_facts(poster->fleet, index, poster->fleet->start + reporter->turn * GATHER_NS,
                          poster->facts);
        report.facts = poster->facts;
    }
    connection->reporter = index;
    connection->event_count = report.event_count;
    connection->last = report.sequence_made;
    connection->repeats = 0;
    if (kvr_report_encode(&report, &connection->body, &connection->bytes) != KVR_OK)
        return no_memory(poster);
    return KVR_OK;
}

/* The reporter's next report; *ret_made false: it has none any more. */
static kvr_status make(struct poster *poster, uint32_t index, struct connection *connection,
                       bool *ret_made)
{
    struct reporter *reporter = &poster->reporters[index];
    bool facts = false;

    while (reporter->posted == reporter->count && !facts && reporter->turn < poster->turns) {
        facts = reporter->turn % FACTS_TURNS == index % FACTS_TURNS;
        KVR_TRY(gather(poster, index));
        reporter->turn++;
    }
    *ret_made = reporter->posted < reporter->count || facts;
    return *ret_made ? encode(poster, index, facts, connection) : KVR_OK;
}

/* ---- one post ---- */

static size_t keep_answer(char *data, size_t size, size_t count, void *self)
{
    struct connection *connection = self;
    size_t bytes = kvr_min_u64(size * count, sizeof(connection->answer) - connection->answer_bytes);

    memcpy(connection->answer + connection->answer_bytes, data, bytes);
    connection->answer_bytes += bytes;
    return size * count;
}

static void post(struct poster *poster, struct connection *connection)
{
    uint32_t scheduler = connection->reporter % poster->scheduler_count;
    char url[KVR_URL_BYTES + 32];

    snprintf(url, sizeof(url), "%s/ingest/v1/events", poster->schedulers[scheduler].url);
    curl_easy_setopt(connection->easy, CURLOPT_URL, url);
    connection->answer_bytes = 0;
    connection->problem[0] = '\0';
    connection->repeat_at = 0;
    connection->posted_at = kvr_clock_now();
    curl_easy_setopt(connection->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)connection->bytes);
    curl_easy_setopt(connection->easy, CURLOPT_POSTFIELDS, connection->body);
    curl_multi_add_handle(poster->multi, connection->easy);
}

static bool is_taken(const struct connection *connection)
{
    struct kvr_report_answer answer;

    return kvr_report_answer_decode(connection->answer, connection->answer_bytes, &answer) ==
               KVR_OK &&
           (connection->event_count == 0 || answer.acknowledged >= connection->last);
}

static void taken(struct poster *poster, struct connection *connection)
{
    poster->posts->reports++;
    poster->posts->events += connection->event_count;
    kvr_histogram_record(&poster->posts->acks, kvr_clock_now() - connection->posted_at);
    free(connection->body);
    connection->body = NULL;
    connection->busy = false;
    poster->busy--;
    poster->waiting[(poster->waiting_first + poster->waiting_count++) % poster->reporter_count] =
        connection->reporter;
}

static kvr_status finish(struct poster *poster, struct connection *connection, CURLcode result)
{
    long code = 0;

    curl_easy_getinfo(connection->easy, CURLINFO_RESPONSE_CODE, &code);
    curl_multi_remove_handle(poster->multi, connection->easy);
    if (result == CURLE_OK && code == 200 && is_taken(connection)) {
        taken(poster, connection);
        return KVR_OK;
    }
    if (result == CURLE_OK && code != 200 && code != 503)
        return kvr_error_set(poster->error, KVR_INVALID, "bench",
                             "the scheduler refused a report (%ld): %.*s", code,
                             (int)connection->answer_bytes, (const char *)connection->answer);
    if (++connection->repeats > REPEATS_MAX)
        return kvr_error_set(poster->error, KVR_TIMED_OUT, "bench",
                             "the scheduler does not take a report: %s",
                             result != CURLE_OK ? connection->problem
                                                : "it answers 503, or with no "
                                                  "acknowledgement");
    poster->posts->repeats++;
    connection->repeat_at = kvr_clock_now() + REPEAT_NS;
    return KVR_OK;
}

/* ---- all of them ---- */

static kvr_status fill_connections(struct poster *poster)
{
    for (uint32_t i = 0; i < poster->connection_count; i++) {
        struct connection *connection = &poster->connections[i];

        if (connection->busy && connection->repeat_at != 0 &&
            kvr_clock_now() >= connection->repeat_at)
            post(poster, connection);
        while (!connection->busy && poster->waiting_count > 0) {
            uint32_t index = poster->waiting[poster->waiting_first];

            poster->waiting_first = (poster->waiting_first + 1) % poster->reporter_count;
            poster->waiting_count--;
            KVR_TRY(make(poster, index, connection, &connection->busy));
            if (!connection->busy)
                continue;
            poster->busy++;
            post(poster, connection);
        }
    }
    return KVR_OK;
}

static kvr_status run(struct poster *poster)
{
    poster->posts->begin = kvr_clock_now();
    for (;;) {
        CURLMsg *message;
        int running, left;

        if (interrupts() > 0)
            return kvr_error_set(poster->error, KVR_CANCELLED, "bench", "interrupted");
        KVR_TRY(fill_connections(poster));
        if (poster->busy == 0)
            break;
        curl_multi_perform(poster->multi, &running);
        while ((message = curl_multi_info_read(poster->multi, &left)) != NULL) {
            CURLcode result = message->data.result;
            char *self = NULL;

            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &self);
            KVR_TRY(finish(poster, (struct connection *)(void *)self, result));
        }
        if (poster->waiting_count == 0 || poster->busy == poster->connection_count)
            curl_multi_poll(poster->multi, NULL, 0, (int)(REPEAT_NS / KVR_MS), NULL);
    }
    poster->posts->end = kvr_clock_now();
    return KVR_OK;
}

/* ---- opening and closing ---- */

static bool connection_open(const struct poster *poster, struct connection *connection)
{
    CURL *easy = connection->easy = curl_easy_init();

    if (easy == NULL)
        return false;
    curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, poster->headers);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, POST_MS);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, keep_answer);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, connection);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, connection);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, connection->problem);
    return true;
}

static kvr_status poster_open(struct poster *poster)
{
    poster->multi = curl_multi_init();
    poster->headers = curl_slist_append(NULL, "Content-Type: " PROTOBUF_TYPE);
    poster->headers = curl_slist_append(poster->headers, "Expect:");
    poster->connections = calloc(poster->connection_count, sizeof(poster->connections[0]));
    poster->reporters = calloc(poster->reporter_count, sizeof(poster->reporters[0]));
    poster->waiting = calloc(poster->reporter_count, sizeof(poster->waiting[0]));
    poster->events = calloc(KVR_REPORT_EVENTS_MAX, sizeof(poster->events[0]));
    poster->spans = calloc(KVR_REPORT_EVENTS_MAX, KVR_SPANS_BYTES_MAX);
    poster->facts = calloc(1, sizeof(*poster->facts));
    if (poster->multi == NULL || poster->headers == NULL || poster->connections == NULL ||
        poster->reporters == NULL || poster->waiting == NULL || poster->events == NULL ||
        poster->spans == NULL || poster->facts == NULL)
        return no_memory(poster);
    curl_multi_setopt(poster->multi, CURLMOPT_MAXCONNECTS,
                      (long)(poster->connection_count * poster->scheduler_count));
    for (uint32_t i = 0; i < poster->connection_count; i++)
        if (!connection_open(poster, &poster->connections[i]))
            return no_memory(poster);
    for (uint32_t i = 0; i < poster->reporter_count; i++) {
        poster->reporters[i].sequence_next = 1;
        poster->waiting[poster->waiting_count++] = i;
    }
    return KVR_OK;
}

static void poster_close(struct poster *poster)
{
    for (uint32_t i = 0; poster->connections != NULL && i < poster->connection_count; i++) {
        if (poster->connections[i].busy)
            curl_multi_remove_handle(poster->multi, poster->connections[i].easy);
        curl_easy_cleanup(poster->connections[i].easy);
        free(poster->connections[i].body);
    }
    for (uint32_t i = 0; poster->reporters != NULL && i < poster->reporter_count; i++)
        free(poster->reporters[i].moments);
    free(poster->connections);
    free(poster->reporters);
    free(poster->waiting);
    free(poster->events);
    free(poster->spans);
    free(poster->facts);
    curl_slist_free_all(poster->headers);
    curl_multi_cleanup(poster->multi);
}

kvr_status bench_posts_run(const struct bench_fleet *fleet, const struct scheduler_call *schedulers,
                           uint32_t scheduler_count, uint32_t connections,
                           struct bench_posts *ret_posts, struct kvr_error *error)
{
    struct poster poster = {
        .fleet = fleet,
        .posts = ret_posts,
        .schedulers = schedulers,
        .scheduler_count = scheduler_count,
        .anchor_wall = kvr_clock_wall(),
        .connection_count = kvr_min_u32(connections, bench_fleet_agents(fleet)),
        .reporter_count = bench_fleet_agents(fleet),
        .error = error,
    };
    double lasts = (double)fleet->transfers / fleet->transfers_per_s * (double)KVR_S;
    kvr_status status;

    *ret_posts = (struct bench_posts){0};
    kvr_histogram_init(&ret_posts->acks);
    poster.turns = ((kvr_ns)lasts + BENCH_FLEET_TRANSFER_MAX) / GATHER_NS + 2;
    status = poster_open(&poster);
    if (status == KVR_OK)
        status = run(&poster);
    poster_close(&poster);
    return status;
}
