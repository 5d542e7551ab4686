/* The numbers of /api/v1/summary, which the stream sends too. */
#include <stdlib.h>

#include "base/version.h"
#include "scheduler/api_json.h"

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

json_t *json_summary(struct metrics *metrics, struct health *health, kvr_ns started, int64_t now_ns)
{
    struct metrics_summary *summary = malloc(sizeof(*summary));
    json_t *rates = json_array(), *json;
    struct health_view view;

    if (summary == NULL) {
        json_decref(rates);
        return NULL;
    }
    health_look(health, &view);
    metrics_summarise(metrics, now_ns, summary);
    for (int i = 0; i < METRICS_SECONDS; i++)
        json_array_append_new(rates, json_real(summary->bytes_per_second[i]));
    json = json_pack("{s:o, s:s, s:b, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:{s:o, s:o}}", "now",
                     json_time(now_ns), "version", KVRAIL_VERSION, "insecure", summary->insecure,
                     "troubles", json_troubles(summary, &view, now_ns), "uptime_seconds",
                     json_seconds((int64_t)(kvr_clock_now() - started)), "events",
                     (json_int_t)summary->events, "last_event", json_time(summary->newest_event_ns),
                     "last_event_seconds",
                     summary->newest_event_ns > 0 ? json_seconds(now_ns - summary->newest_event_ns)
                                                  : json_null(),
                     "states", states_json(summary), "bytes_per_second", rates, "latency", "total",
                     latency_json(&summary->total), "wire", latency_json(&summary->wire));
    free(summary);
    return json;
}
