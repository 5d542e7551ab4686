/* Where the microseconds of a page went: the stations that each ping passed, and what they say
 * together. */
#ifndef KVR_TOOLS_BENCH_PING_ACCOUNT_H
#define KVR_TOOLS_BENCH_PING_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"

/* In the order of the way. */
typedef enum ping_station {
    PING_ASKED,  /* the store, or the call, that asks for the page */
    PING_SEEN,   /* the source's rail thread has woken and found it */
    PING_POSTED, /* the provider has taken it */
    PING_LANDED, /* the target's rail thread has all of it */
    PING_LOOP,   /* the target's loop has woken */
    PING_TOLD,   /* and has decided to tell its engine */
    PING_READ,   /* which has the event */
    PING_STATION_END,
} ping_station;

struct ping_sample {
    kvr_ns at[PING_STATION_END]; /* 0: not on this way */
};

/* middle_us and parts_us are means of the same pings, the middle fifth by their time, so that the
 * parts add up to middle_us exactly. Few of these waited for another process on their core. */
struct ping_account {
    size_t count;
    double p50_us, p99_us, middle_us;
    bool on_way[PING_STATION_END];     /* a ping passed it */
    double parts_us[PING_STATION_END]; /* since the station before; 0 where it is not on the way */
};

/* Sorts them. None: all zero. */
void ping_account_make(struct ping_sample *samples, size_t count, struct ping_account *ret_account);

const char *ping_station_name(ping_station station); /* "seen" */
const char *ping_station_text(ping_station station); /* what happens until there */

#endif
