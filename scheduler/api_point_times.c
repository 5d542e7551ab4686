#include "scheduler/api_point_times.h"

#include <stdlib.h>

#include "scheduler/api_json.h"

struct api_point_times {
    int64_t point_count;
    rollup_histograms points[];
};

struct api_point_times *api_point_times_open(int64_t point_count)
{
    struct api_point_times *of =
        calloc(1, sizeof(*of) + (size_t)point_count * sizeof(of->points[0]));

    if (of != NULL)
        of->point_count = point_count;
    return of;
}

struct api_point_times *api_point_times_close(struct api_point_times *of)
{
    free(of);
    return NULL;
}

void api_point_times_add(struct api_point_times *of, int64_t point, struct rollup_unpack times)
{
    while (rollup_next_times(&times, &of->points[point]) == KVR_OK)
        ;
}

/* -1: there are no times. */
static int64_t mean(const uint32_t buckets[ROLLUP_BUCKETS])
{
    uint64_t count = rollup_times_count(buckets);
    double sum = 0;

    for (uint32_t i = 0; i < ROLLUP_BUCKETS; i++) {
        int64_t begin = rollup_bucket_begin(i);
        int64_t end = i + 1 < ROLLUP_BUCKETS ? rollup_bucket_begin(i + 1) : begin;

        sum += (double)buckets[i] * (double)(begin + end) / 2;
    }
    return count > 0 ? (int64_t)(sum / (double)count) : -1;
}

static json_t *time_json(const struct api_point_times *of, rollup_time time)
{
    json_t *counts = json_array(), *means = json_array(), *p50 = json_array(), *p99 = json_array();

    for (int64_t i = 0; i < of->point_count; i++) {
        const uint32_t *buckets = of->points[i][time];

        json_array_append_new(counts, json_count(rollup_times_count(buckets)));
        json_array_append_new(means, json_seconds(mean(buckets)));
        json_array_append_new(p50, json_seconds(rollup_percentile(buckets, 50)));
        json_array_append_new(p99, json_seconds(rollup_percentile(buckets, 99)));
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "count", counts, "mean_seconds", means, "p50_seconds",
                     p50, "p99_seconds", p99);
}

json_t *api_point_times_json(const struct api_point_times *of)
{
    json_t *object = json_object();

    for (int time = 0; time < ROLLUP_TIME_END; time++)
        json_object_set_new(object, rollup_time_name((rollup_time)time),
                            time_json(of, (rollup_time)time));
    return object;
}
