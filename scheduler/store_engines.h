/* The table of engines that were ever seen; store.h has the threads. */
#ifndef KVR_SCHEDULER_STORE_ENGINES_H
#define KVR_SCHEDULER_STORE_ENGINES_H

#include "scheduler/store.h"

/* An engine that goes on is stored so often. */
#define ENGINES_SEEN_NS  ((int64_t)(60 * KVR_S))
#define ENGINES_KEPT_MAX 100000 /* rows */

/* The writer's. A rank that was seen before becomes what the report says, if that is of no earlier
 * generation; regions and geometry stay those of the generation's report with most regions. */
bool store_see_engine(struct store *store, const char *agent, const struct kvr_engine_facts *engine,
                      int64_t now_ns);

/* The writer's. So many rows stay, those that were seen last; *ret_more: there may be others. */
bool store_bound_engines(struct store *store, int64_t most, bool *ret_more);

struct engine_filter {
    const char *agent;         /* NULL: any */
    int64_t from_ns, until_ns; /* they were there at some time of that window */
    int64_t before;            /* an id; 0: from the newest */
    uint32_t limit;
};
struct stored_engine {
    int64_t id, first_ns, last_ns;
    char agent[KVR_NAME_BYTES];
    struct kvr_engine_facts facts;
};
/* That which attached last first. */
typedef void engine_visit(void *self, const struct stored_engine *engine);
bool store_list_engines(struct store *store, const struct engine_filter *filter,
                        engine_visit *visit, void *self);

#endif
