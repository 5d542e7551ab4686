/* `kvrail topo --peer NAME`: how the rails of that agent and those of its peers reach each other.
 */
#ifndef KVR_TOOLS_TOPO_PEER_H
#define KVR_TOOLS_TOPO_PEER_H

#include <stdbool.h>

#include "tools/scheduler_get.h"

/* By the scheduler; `call` is prepared. Returns the exit status, after a sentence on stderr where
 * there is nothing to show. */
int topo_peer(const struct scheduler_call *call, const char *name, bool as_json);
/* By the prefill-agent at that engine socket; name "": all its peers. */
int topo_peer_of_agent(const char *socket, kvr_ns timeout, const char *name, bool as_json);

#endif
