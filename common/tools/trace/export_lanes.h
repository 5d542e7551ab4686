/* Rows of a timeline, where the slices of one row do not overlap: a slice gets the first row that
 * is free then. Zeroed, it is open. Memory grows with the slices that overlap. One thread. */
#ifndef KVR_TOOLS_TRACE_EXPORT_LANES_H
#define KVR_TOOLS_TRACE_EXPORT_LANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT_LANES_MAX 65536

struct export_lanes {
    struct export_lane {
        int64_t first_us, last_us; /* all that lies in it is within */
    } * at;
    size_t count, room;
};

/* In whatever order: a row is also free before its first. False: there is no memory, or
 * EXPORT_LANES_MAX overlap. *ret_lane of a new row is the count before. */
bool export_lanes_place(struct export_lanes *lanes, int64_t first_us, int64_t last_us,
                        size_t *ret_lane);
void export_lanes_done(struct export_lanes *lanes);

#endif
