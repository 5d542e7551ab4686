/* What a fabric that moves nothing shares with one that takes its time over it. Private to
 * fabric_null.c and fabric_model.c. */
#ifndef KVR_FABRIC_FABRIC_NULL_STATE_H
#define KVR_FABRIC_FABRIC_NULL_STATE_H

#include "fabric/sim/fabric_null.h"

struct kvr_rail {
    const struct kvr_fabric_null *options;
    struct kvr_rail_facts facts;
};

#endif
