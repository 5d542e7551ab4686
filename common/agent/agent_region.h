/* A region of an engine, as the agent's shell keeps it: for agent_regions.c and
 * agent_region_tasks.c alone. */
#ifndef KVR_AGENT_AGENT_REGION_H
#define KVR_AGENT_AGENT_REGION_H

#include "agent/agent_state.h"

typedef enum region_state {
    REGION_REGISTERING, /* by a helper */
    REGION_HELD,        /* in its engine's set */
    REGION_LEAVING,     /* waits for its last user, then for a helper */
} region_state;

/* One region, from its REGION_ADD until its memory is let go. The loop's, but for a task's work. */
struct agent_region {
    struct agent_region *next;
    struct kvr_agent *agent;
    region_state state;
    bool drop_wanted; /* by its engine */
    uint32_t tasks;   /* registration tasks that use it: it is released after them */
    bool released;    /* it is to be released after its tasks */
    struct agent_job job;
    uint32_t engine;
    uint64_t serial;
    uint32_t home; /* its rail group */
    struct kvr_req_region request;
    struct kvr_region_memory memory; /* until it is imported */
    struct kvr_region *region;
    struct agent_region *of; /* it lies in the memory of that one; NULL: in its own */
    uint32_t lodgers; /* regions that lie in its memory, which stays until the last is gone */
    bool left;        /* it waits for them alone */
    struct kvr_error error;
    kvr_status status;
};

/* No helper registers or releases it: the loop may look at entry->region. */
bool agent_region_is_whole(const struct agent_region *entry);
/* With its memory, which no other region needs: at once, or after its tasks. */
void agent_region_let_go(struct agent_region *entry);
void agent_region_tasks_close(struct kvr_agent *agent); /* the loop has ended */

#endif
