/* The measured pace of a rail or a pair: bytes that settle while writes are in flight, over a
 * millisecond or more, as a moving average. Private to rail_group*.c. */
#ifndef KVR_RAIL_GROUP_PACE_H
#define KVR_RAIL_GROUP_PACE_H

#include <stdint.h>

#include "base/clock.h"

#define PACE_SPAN_NS  KVR_MS
#define PACE_SPAN_MAX KVR_S  /* a longer measurement is cut: the process may have been stopped */
#define PACE_GUESS_NS KVR_MS /* a MiB, before anything was seen: about 1 GB/s */
#define PACE_UNIT     (1u << 20)

struct group_pace {
    kvr_ns unit_ns; /* of a MiB; 0: not known */
    kvr_ns since;   /* this look */
    uint64_t bytes; /* settled in it */
};

/* Something is on its way again. */
static inline void pace_begin(struct group_pace *pace, kvr_ns now)
{
    pace->since = now;
    pace->bytes = 0;
}

static inline void pace_settled(struct group_pace *pace, uint64_t bytes, kvr_ns now)
{
    kvr_ns took = now - pace->since;

    pace->bytes += bytes;
    if (took < PACE_SPAN_NS || pace->bytes == 0)
        return;
    took = (took < PACE_SPAN_MAX ? took : PACE_SPAN_MAX) * PACE_UNIT / pace->bytes;
    pace->unit_ns = pace->unit_ns == 0 ? took : (3 * pace->unit_ns + took) / 4;
    pace_begin(pace, now);
}

/* How long this many bytes take. Hours at most, so that a very slow rail does not overflow. */
static inline kvr_ns pace_of(const struct group_pace *pace, uint64_t bytes)
{
    kvr_ns units;

    if (__builtin_mul_overflow(pace->unit_ns > 0 ? pace->unit_ns : PACE_GUESS_NS, bytes, &units))
        return UINT64_MAX / PACE_UNIT;
    return units / PACE_UNIT;
}

/* How many bytes go in that time. */
static inline uint64_t pace_bytes(const struct group_pace *pace, kvr_ns time)
{
    return pace->unit_ns > 0 ? time * PACE_UNIT / pace->unit_ns : UINT64_MAX;
}

#endif
