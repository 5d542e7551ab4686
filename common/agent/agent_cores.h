/* The text of --cores. */
#ifndef KVR_AGENT_AGENT_CORES_H
#define KVR_AGENT_AGENT_CORES_H

#include "base/status.h"
#include "topology/topology.h"

/* "0-3,8" to numbers; KVR_INVALID with a sentence for anything else. */
KVR_MUST_CHECK kvr_status agent_cores_parse(const char *text, int ret_cores[KVR_CORES_MAX],
                                            uint32_t *ret_count, struct kvr_error *error);

#endif
