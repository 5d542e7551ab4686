/* Whether the spans that an agent sends with the end of a transfer are those of what it did. */
#ifndef KVR_TOOLS_SIM_SPANS_H
#define KVR_TOOLS_SIM_SPANS_H

#include "trace/event.h"

struct sim_agent;

void sim_spans_check(struct sim_agent *agent, const struct kvr_event *event);

#endif
