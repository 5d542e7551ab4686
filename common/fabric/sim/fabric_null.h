/* A fabric without a network: every write is accepted while there is room, moves nothing, and is
 * completed in order. What is left when nothing is moved is the cost of our own way: the benchmark
 * of posting and the test that nothing is allocated on it run on this. One rail, one endpoint and
 * any number of regions; nothing ever arrives. One thread. */
#ifndef KVR_FABRIC_FABRIC_NULL_H
#define KVR_FABRIC_FABRIC_NULL_H

#include "fabric/fabric.h"

#define KVR_FABRIC_NULL_WRITES_MAX 4096u /* outstanding of one endpoint, as EFA's */

struct kvr_fabric_null {
    uint32_t pieces;    /* of one write */
    uint32_t in_flight; /* writes that stay under way while others follow */
};

/* Fills *ret_fabric; options stay the caller's and outlive it. */
void kvr_fabric_null(const struct kvr_fabric_null *options, struct kvr_fabric *ret_fabric);

#endif
