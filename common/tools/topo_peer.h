/* `kvrail topo --peer NAME`: how the rails of that agent and those of its peers reach each other.
 */
#ifndef KVR_TOOLS_TOPO_PEER_H
#define KVR_TOOLS_TOPO_PEER_H

#include <stdbool.h>

#include "tools/scheduler_get.h"

/* By the scheduler; `call` is prepared. Returns the exit status, after a sentence on stderr where
 * there is nothing to show. */
int topo_peer(const struct scheduler_call *call, const char *name, bool as_json);

#endif
