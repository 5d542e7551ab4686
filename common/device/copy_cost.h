/* The cost of a copy between host memory and staging memory on this host. Measured in about a
 * millisecond, with the device that makes such copies (device_host). */
#ifndef KVR_DEVICE_COPY_COST_H
#define KVR_DEVICE_COPY_COST_H

#include "base/status.h"

struct kvr_copy_cost {
    double piece_ns; /* of one more piece of any size */
    double byte_ns;
};

KVR_MUST_CHECK kvr_status kvr_copy_cost_measure(struct kvr_copy_cost *ret_cost,
                                                struct kvr_error *error);

#endif
