#include "base/clock.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
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

/* ---- dates ---- */

#define DAY_SECONDS (24 * 3600)

struct date {
    uint32_t year, month, day;
};

/* Of so many days since 1970, by the Gregorian calendar. A year begins in March here, so that a
 * leap day is the last one of its year; 400 years have 146,097 days. */
static struct date date_of(uint32_t days)
{
    uint32_t since_0 = days + 719468; /* the 1st of March of the year 0 */
    uint32_t era = since_0 / 146097, day = since_0 % 146097;
    uint32_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    uint32_t day_of_year = day - (365 * year + year / 4 - year / 100);
    uint32_t month = (5 * day_of_year + 2) / 153; /* 0: March */
    struct date date = {
        .year = 400 * era + year + (month >= 10),
        .month = month < 10 ? month + 3 : month - 9,
        .day = day_of_year - (153 * month + 2) / 5 + 1,
    };

    return date;
}

static void put(char *to, uint32_t value, int digits)
{
    for (; digits > 0; value /= 10)
        to[--digits] = (char)('0' + value % 10);
}

/* By hand: answers and logs have many times, and gmtime_r with strftime takes a microsecond. */
char *kvr_clock_rfc3339(kvr_ns wall, char text[KVR_RFC3339_BYTES])
{
    uint32_t second = (uint32_t)(wall / KVR_S % DAY_SECONDS);
    struct date date = date_of((uint32_t)(wall / KVR_S / DAY_SECONDS));

    strcpy(text, "0000-00-00T00:00:00.000Z");
    put(text, date.year, 4);
    put(text + 5, date.month, 2);
    put(text + 8, date.day, 2);
    put(text + 11, second / 3600, 2);
    put(text + 14, second / 60 % 60, 2);
    put(text + 17, second % 60, 2);
    put(text + 20, (uint32_t)(wall % KVR_S / KVR_MS), 3);
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
