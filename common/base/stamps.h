/* When layers pass the stations of their way through two agents, for `kvrail bench ping`. The
 * benchmark makes a file and the agents map it; each station has a ring of its last times there.
 * One thread stamps a station, once for every layer. No side waits; the benchmark reads when
 * nothing is under way. */
#ifndef KVR_BASE_STAMPS_H
#define KVR_BASE_STAMPS_H

#include <stdatomic.h>

#include "base/clock.h"
#include "base/status.h"

typedef enum kvr_station {
    KVR_STATION_SEEN,   /* the source's rail thread finds that the layer is final */
    KVR_STATION_POSTED, /* the provider has taken what was ready */
    KVR_STATION_LANDED, /* the target's rail thread has the last of it */
    KVR_STATION_LOOP,   /* the target's loop has woken for it */
    KVR_STATION_END
} kvr_station;

#define KVR_STAMPS_KEPT 256u

struct kvr_stamps {
    struct {
        _Atomic uint64_t count; /* of all that there were */
        _Atomic kvr_ns at[KVR_STAMPS_KEPT];
    } stations[KVR_STATION_END];
};

/* NULL stamps: nothing is measured. */
static inline void kvr_stamp(struct kvr_stamps *stamps, kvr_station station, kvr_ns at)
{
    uint64_t count;

    if (stamps == NULL)
        return;
    count = atomic_load_explicit(&stamps->stations[station].count, memory_order_relaxed);
    atomic_store_explicit(&stamps->stations[station].at[count % KVR_STAMPS_KEPT], at,
                          memory_order_relaxed);
    atomic_store_explicit(&stamps->stations[station].count, count + 1, memory_order_release);
}

/* The time of the layer behind which so many others came; 0: there was none, or it is forgotten. */
kvr_ns kvr_stamp_before(const struct kvr_stamps *stamps, kvr_station station, uint64_t behind);

/* The measurer's: the file is made anew, mode 0600. */
KVR_MUST_CHECK kvr_status kvr_stamps_create(const char *path, struct kvr_stamps **ret_stamps,
                                            struct kvr_error *error);
/* An agent's. */
KVR_MUST_CHECK kvr_status kvr_stamps_open(const char *path, struct kvr_stamps **ret_stamps,
                                          struct kvr_error *error);
void kvr_stamps_close(struct kvr_stamps *stamps); /* NULL is fine */

#endif
