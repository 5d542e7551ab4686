/* Answers about the fleet and the scheduler itself, which need no database: /metrics,
 * /api/v1/agents, /api/v1/pairs and /api/v1/rails/matrix. All but /metrics are kept for a second
 * (kept.h), unless an agent comes or goes. One thread, beside that of api.h, so that no search
 * makes them wait. */
#ifndef KVR_SCHEDULER_API_FLEET_H
#define KVR_SCHEDULER_API_FLEET_H

#include "scheduler/api.h"
#include "scheduler/metrics_self.h"

struct api_fleet_parts { /* borrowed */
    struct fleet *fleet;
    struct metrics *metrics;
    struct metrics_self self;
};

struct api_fleet;

struct api_fleet *api_fleet_open(const struct api_fleet_parts *parts); /* NULL: no memory */
struct api_fleet *api_fleet_close(struct api_fleet *api);              /* returns NULL */

bool api_fleet_is_path(const char *path); /* any thread */
/* Of /metrics a parameter asks for OpenMetrics. */
void api_fleet_get(struct api_fleet *api, const char *path, const struct api_query *query,
                   struct api_answer *ret_answer);

#endif
