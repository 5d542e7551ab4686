#include "base/clock.h"

#include <assert.h>
#include <stdio.h>
#include <time.h>

static kvr_ns read_clock(clockid_t id)
{
    struct timespec t;
    int failed = clock_gettime(id, &t);

    assert(failed == 0);
    (void)failed;
    return (kvr_ns)t.tv_sec * KVR_S + (kvr_ns)t.tv_nsec;
}

kvr_ns kvr_clock_now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

kvr_ns kvr_clock_wall(void)
{
    return read_clock(CLOCK_REALTIME);
}

char *kvr_clock_rfc3339(kvr_ns wall, char text[KVR_RFC3339_BYTES])
{
    time_t seconds = (time_t)(wall / KVR_S);
    unsigned ms = (unsigned)(wall % KVR_S / KVR_MS);
    struct tm day;
    size_t used;

    gmtime_r(&seconds, &day);
    used = strftime(text, KVR_RFC3339_BYTES, "%Y-%m-%dT%H:%M:%S", &day);
    snprintf(text + used, KVR_RFC3339_BYTES - used, ".%03uZ", ms);
    return text;
}

char *kvr_clock_rfc3339_seconds(int64_t seconds, char text[KVR_RFC3339_BYTES])
{
    time_t at = (time_t)seconds;
    struct tm day;

    if (gmtime_r(&at, &day) == NULL ||
        strftime(text, KVR_RFC3339_BYTES, "%Y-%m-%dT%H:%M:%SZ", &day) == 0)
        snprintf(text, KVR_RFC3339_BYTES, "?");
    return text;
}
