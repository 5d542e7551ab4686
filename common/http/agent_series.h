/* The metrics of agents, their rails and their tenants, by what agents report of themselves: the
 * scheduler writes them for all of its agents, an agent for itself. One thread. */
#ifndef KVR_HTTP_AGENT_SERIES_H
#define KVR_HTTP_AGENT_SERIES_H

#include "http/exposition.h"
#include "trace/report.h"

/* One agent, borrowed for the visit. */
struct agent_series_view {
    const char *name;
    const struct kvr_agent_facts *facts;
    uint64_t dropped; /* events that were lost */
    bool up, stopped;
    bool awaited; /* it could not have reported yet: what is up has no value */
};

typedef void agent_series_visit(void *self, const struct agent_series_view *agent);
typedef void agent_series_visit_pairs(void *self, const char *agent,
                                      const uint64_t counts[KVR_PAIR_STATE_END]);

/* Each agent in the same order at every call, as long as none comes or goes. */
struct agent_series_source {
    void *self;
    void (*each)(void *self, agent_series_visit *visit, void *visitor);
    /* Each that has reported its pairs of rails. */
    void (*each_pairs)(void *self, agent_series_visit_pairs *visit, void *visitor);
};

void agent_series_write(const struct agent_series_source *source, struct exposition *out);

#endif
