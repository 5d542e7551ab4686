/* Time. Inside kvrail it is monotonic nanoseconds since boot; wall time exists only at the edges,
 * for people and records. Whatever decides is given `now`; only shells read a clock. */
#ifndef KVR_BASE_CLOCK_H
#define KVR_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

typedef uint64_t kvr_ns;

#define KVR_US    ((kvr_ns)1000)
#define KVR_MS    ((kvr_ns)1000000)
#define KVR_S     ((kvr_ns)1000000000)
#define KVR_NEVER UINT64_MAX /* as a deadline: none */

kvr_ns kvr_clock_now(void);  /* CLOCK_MONOTONIC */
kvr_ns kvr_clock_wall(void); /* CLOCK_REALTIME, nanoseconds since 1970 */

#define KVR_RFC3339_BYTES 32
/* Writes wall time as "2026-01-31T12:34:56.789Z" into text; returns text. */
char *kvr_clock_rfc3339(kvr_ns wall, char text[KVR_RFC3339_BYTES]);
/* Of whole seconds since 1970, "2026-11-25T22:10:00Z": certificates may end beyond what kvr_ns
 * holds. "?" for a time that no calendar has. Returns text. */
char *kvr_clock_rfc3339_seconds(int64_t seconds, char text[KVR_RFC3339_BYTES]);

#endif
