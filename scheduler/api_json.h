/* A transfer, an agent and a time as JSON. Any thread. */
#ifndef KVR_SCHEDULER_API_JSON_H
#define KVR_SCHEDULER_API_JSON_H

#include <jansson.h>

#include "scheduler/fleet.h"
#include "scheduler/metrics.h"
#include "scheduler/store.h"

json_t *json_time(int64_t wall_ns);  /* null for 0 */
json_t *json_seconds(int64_t ns);    /* null for a negative one */
json_t *json_text(const char *text); /* null for an empty one */
json_t *json_count(uint64_t value);
json_t *json_id(uint64_t id); /* 16 hex digits */
json_t *json_transfer(const struct transfer *transfer, int64_t now_ns);
/* tenant: of its transfer. */
json_t *json_event(const struct stored_event *event, const char *tenant, int64_t from_ns);
/* {"audit": [...], "next": ...}; NULL: the database failed. */
json_t *json_audit(struct store *store, int64_t before, uint32_t limit);
json_t *json_health(const struct health_view *view);
/* What is wrong with the scheduler itself: a list of sentences without a full stop. */
json_t *json_troubles(const struct metrics_summary *summary, const struct health_view *health,
                      int64_t now_ns);
/* /api/v1/summary without its reasons, which need the database. NULL: no memory. */
json_t *json_summary(struct metrics *metrics, struct health *health, kvr_ns started,
                     int64_t now_ns);
json_t *json_agent(const struct agent_view *agent, int64_t now_ns);
/* api_traits.c */
json_t *json_host_traits(const struct kvr_host_traits *traits);
json_t *json_rail_traits(const struct kvr_rail_traits *traits);

#endif
