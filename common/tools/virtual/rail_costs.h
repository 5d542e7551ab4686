/* What moving pages costs beside the bytes: the rail thread's time for a write, delays, and what a
 * card carries. Constant values, each with its source, or measured by `kvrail bench calibrate`. */
#ifndef KVR_TOOLS_VIRTUAL_RAIL_COSTS_H
#define KVR_TOOLS_VIRTUAL_RAIL_COSTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/status.h"

#define RAIL_COSTS_NAMES "efa|connectx|fabric-lib"

struct rail_costs {
    char name[16];
    char source[200];       /* where the numbers are from, a sentence */
    kvr_ns write_ns;        /* of the rail thread, for one write in a batch */
    kvr_ns layer_ns;        /* from the end of a layer to its first write */
    kvr_ns latency_ns;      /* of the first byte, from card to card */
    kvr_ns control_ns;      /* of one control message, one way */
    uint32_t line_permille; /* of a card's speed, what it was seen to carry */
    uint64_t line_bps;      /* what a card was measured to carry; 0: line_permille says it */
    uint32_t pieces_local, pieces_remote; /* of one write, at most */
    uint64_t chunk_bytes_max;             /* of one write, at most */
    bool page_writes; /* each page is a write of its own; else neighbours are one */
};

/* NULL: there is no such preset. */
const struct rail_costs *rail_costs_find(const char *name);
/* KVR_MALFORMED: the file is no calibration; KVR_INVALID: one without costs. */
KVR_MUST_CHECK kvr_status rail_costs_read(const char *path, struct rail_costs *ret_costs,
                                          struct kvr_error *error);
/* Bits a second that a card of that speed carries. */
uint64_t rail_costs_line_bps(const struct rail_costs *costs, uint64_t card_bps);

#endif
