/* An agent as the scheduler's API shows it, read again. */
#ifndef KVR_TESTS_AGENT_JSON_H
#define KVR_TESTS_AGENT_JSON_H

#include <jansson.h>

#include "scheduler/api_agents.h"

/* Fails the test where the text is no JSON. */
json_t *agent_json(const struct agent_view *agent, int64_t now_ns);

#endif
