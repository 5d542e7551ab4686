/* How long transfers took at each point of an answer of /api/v1/rollups. */
#ifndef KVR_SCHEDULER_API_POINT_TIMES_H
#define KVR_SCHEDULER_API_POINT_TIMES_H

#include <jansson.h>

#include "scheduler/rollup_pack.h"

struct api_point_times;

struct api_point_times *api_point_times_open(int64_t point_count);         /* NULL: no memory */
struct api_point_times *api_point_times_close(struct api_point_times *of); /* returns NULL */

/* Adds the times of a row of ROLLUP_ALL. A row that is damaged gives what can be read of it. */
void api_point_times_add(struct api_point_times *of, int64_t point, struct rollup_unpack times);

/* Of each time its counts, means and percentiles, with a number for each point. The means are those
 * of the middles of the buckets: at most a tenth away. */
json_t *api_point_times_json(const struct api_point_times *of);

#endif
