/* The table of marks; store.h has the threads. */
#ifndef KVR_SCHEDULER_STORE_MARKS_H
#define KVR_SCHEDULER_STORE_MARKS_H

#include "scheduler/marks.h"
#include "scheduler/store.h"

#define MARKS_KEPT_NS (366 * 86400 * (int64_t)KVR_S)

/* The writer's. A second mark of that kind of one start changes nothing. */
bool store_add_mark(struct store *store, const char *agent, uint64_t boot, const struct mark *mark,
                    int64_t at_ns);
/* The facts that marks compare, as they were stored last; before store_put_agent. *ret_known false:
 * the agent is new. */
bool store_agent_before(struct store *store, const char *agent, struct kvr_agent_facts *ret_facts,
                        bool *ret_known);
/* Some rows at once. */
bool store_prune_marks(struct store *store, int64_t before_ns);

struct stored_mark {
    const char *agent, *kind, *before, *after; /* borrowed for the visit */
    int64_t at_ns;
};
/* Newest first, both times within. */
typedef void mark_visit(void *self, const struct stored_mark *mark);
bool store_list_marks(struct store *store, int64_t from_ns, int64_t until_ns, uint32_t limit,
                      mark_visit *visit, void *self);

#endif
