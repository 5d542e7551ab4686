/* `kvrail topo --peer NAME`: how the rails of that agent and those of its peers reach each other.
 */
#ifndef KVR_TOOLS_TOPO_PEER_H
#define KVR_TOOLS_TOPO_PEER_H

#include <jansson.h>
#include <stdio.h>

#include "tools/scheduler_get.h"

/* By the scheduler; `call` is prepared. *ret_answer: {"pairs", "left_out"}, the caller's. Returns
 * the exit status, after a sentence on stderr where there is nothing to show. */
int topo_peer(const struct scheduler_call *call, const char *name, json_t **ret_answer);
/* By the prefill-agent at that engine socket; name "": all its peers. */
int topo_peer_of_agent(const char *socket, kvr_ns timeout, const char *name, json_t **ret_answer);

/* asked: "scheduler" or "agent", which may have left pairs out. */
void topo_peer_print(const json_t *answer, const char *asked, FILE *stream);

#endif
