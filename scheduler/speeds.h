/* How fast each pair of agents moves transfers, by those that are done.
 *
 * In memory alone, and bounded: where there is no room, the pair that was measured longest ago is
 * forgotten. Any thread: a lock of its own. */
#ifndef KVR_SCHEDULER_SPEEDS_H
#define KVR_SCHEDULER_SPEEDS_H

#include "scheduler/transfer.h"

#define SPEEDS_BYTES_MIN (1u << 20) /* shorter transfers do not tell how fast a pair is */

struct speeds_figures {
    double bytes_per_second; /* of one transfer; 0: not measured */
    double bytes_per_token;
    uint64_t transfers;  /* that were measured */
    int64_t measured_ns; /* wall, of the last one */
};

struct speeds;

struct speeds *speeds_open(void); /* NULL: no memory */
struct speeds *speeds_close(struct speeds *speeds);

/* A transfer that is done, from its grant to its last byte. Where the engine was not ready at
 * the grant, the transfer shows only that the pair is at least so fast. */
void speeds_take(struct speeds *speeds, const struct transfer *transfer, int64_t wall_ns);
/* False: nothing is known of that pair of agents. */
bool speeds_of(struct speeds *speeds, const char *source, const char *target,
               struct speeds_figures *ret_figures);

#endif
