/* Times, numbers and small answers as trees of JSON; api_rows.h and api_agents.h write what is
 * long. Any thread. */
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
/* {"audit": [...], "next": ...}; NULL: the database failed. */
json_t *json_audit(struct store *store, int64_t before, uint32_t limit);
json_t *json_health(const struct health_view *view);
/* What is wrong with the scheduler itself: a list of sentences without a full stop. */
json_t *json_troubles(const struct metrics_summary *summary, const struct health_view *health,
                      int64_t now_ns);
/* /api/v1/summary without its reasons, which need the database. NULL: no memory. */
json_t *json_summary(struct metrics *metrics, struct health *health, kvr_ns started,
                     int64_t now_ns);

#endif
