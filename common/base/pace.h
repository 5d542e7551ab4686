/* How fast a queue is emptied: bytes that settle while some are on their way. A look takes a
 * millisecond or more. The pace is the time of the last looks by their bytes, older looks counting
 * less: completions come in bursts, and the mean of single looks' paces would swing with them. */
#ifndef KVR_BASE_PACE_H
#define KVR_BASE_PACE_H

#include <stdint.h>

#include "base/clock.h"

#define KVR_PACE_SPAN_NS  KVR_MS
#define KVR_PACE_SPAN_MAX KVR_S  /* a longer look is cut: the process may have been stopped */
#define KVR_PACE_GUESS_NS KVR_MS /* a MiB, before anything was seen: about 1 GB/s */
#define KVR_PACE_UNIT     (1u << 20)

struct kvr_pace {
    kvr_ns unit_ns;       /* of a MiB; 0: not known */
    kvr_ns looks_ns;      /* of earlier looks */
    uint64_t looks_bytes; /* settled in them */
    kvr_ns since;         /* this look */
    uint64_t bytes;       /* settled in it */
};

static inline void kvr_pace_forget(struct kvr_pace *pace)
{
    pace->unit_ns = 0;
    pace->looks_ns = 0;
    pace->looks_bytes = 0;
}

/* What was measured elsewhere counts as its looks. */
static inline void kvr_pace_take(struct kvr_pace *pace, const struct kvr_pace *other)
{
    pace->unit_ns = other->unit_ns;
    pace->looks_ns = other->looks_ns;
    pace->looks_bytes = other->looks_bytes;
}

/* Something is on its way again. */
static inline void kvr_pace_begin(struct kvr_pace *pace, kvr_ns now)
{
    pace->since = now;
    pace->bytes = 0;
}

/* A whole look. bytes: not 0. */
static inline void kvr_pace_look(struct kvr_pace *pace, uint64_t bytes, kvr_ns took)
{
    pace->looks_ns = pace->looks_ns * 3 / 4 + took;
    pace->looks_bytes = pace->looks_bytes * 3 / 4 + bytes;
    pace->unit_ns = pace->looks_ns * KVR_PACE_UNIT / pace->looks_bytes;
}

static inline void kvr_pace_settled(struct kvr_pace *pace, uint64_t bytes, kvr_ns now)
{
    kvr_ns took = now - pace->since;

    pace->bytes += bytes;
    if (took < KVR_PACE_SPAN_NS || pace->bytes == 0)
        return;
    kvr_pace_look(pace, pace->bytes, took < KVR_PACE_SPAN_MAX ? took : KVR_PACE_SPAN_MAX);
    kvr_pace_begin(pace, now);
}

/* How long this many bytes take. Hours at most, so that a very slow rail does not overflow. */
static inline kvr_ns kvr_pace_of(const struct kvr_pace *pace, uint64_t bytes)
{
    kvr_ns units;

    if (__builtin_mul_overflow(pace->unit_ns > 0 ? pace->unit_ns : KVR_PACE_GUESS_NS, bytes,
                               &units))
        return UINT64_MAX / KVR_PACE_UNIT;
    return units / KVR_PACE_UNIT;
}

/* How many bytes go in that time. */
static inline uint64_t kvr_pace_bytes(const struct kvr_pace *pace, kvr_ns time)
{
    return pace->unit_ns > 0 ? time * KVR_PACE_UNIT / pace->unit_ns : UINT64_MAX;
}

#endif
