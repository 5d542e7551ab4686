/* The table of faults; store.h has the threads. */
#ifndef KVR_SCHEDULER_STORE_FAULTS_H
#define KVR_SCHEDULER_STORE_FAULTS_H

#include "scheduler/store.h"
#include "trace/faults.h"

#define FAULTS_KEPT_NS  (366 * 86400 * (int64_t)KVR_S)
#define FAULTS_KEPT_MAX 200000 /* rows: about 40 MB */

struct fault {
    kvr_fault_kind kind;
    char agent[KVR_NAME_BYTES]; /* "": of none */
    uint64_t boot;
    int64_t rail;              /* -1: of no single one */
    char peer[KVR_NAME_BYTES]; /* "": of no single one */
    int64_t from_ns, until_ns; /* until_ns 0: it goes on */
    uint64_t amount;
    char text[KVR_DETAIL_BYTES];
};

/* The writer's. The same report may come again after a crash: a fault of that kind and place is
 * there once. One that goes on, and ended at `now_ns` or began at that time, goes on again. */
bool store_begin_fault(struct store *store, const struct fault *fault, int64_t now_ns);
/* The two parts of that: the first for one that was there, the second for one that was not. */
bool store_reopen_fault(struct store *store, const struct fault *fault, int64_t now_ns,
                        bool *ret_reopened);
bool store_add_fault(struct store *store, const struct fault *fault);
/* Ends those that go on, of this kind, agent, rail and peer. */
bool store_end_fault(struct store *store, const struct fault *fault, int64_t now_ns);
/* All of the agent; *ret_ended: so many. */
bool store_end_faults(struct store *store, const char *agent, int64_t now_ns, uint64_t *ret_ended);
/* All of agents that are not in the table of agents any more. */
bool store_end_faults_gone(struct store *store, int64_t now_ns);
/* *ret_ended: there was one. */
bool store_end_absence(struct store *store, int64_t now_ns, bool *ret_ended);
/* When an agent was last known to have reported; 0: never. Up to a minute too early where agents
 * were idle. */
bool store_last_report(struct store *store, int64_t *ret_ns);
/* Removes some rows that began before `before_ns`, and some of the oldest where there are more than
 * `most`; *ret_more: it did, and there may be more. */
bool store_prune_faults(struct store *store, int64_t before_ns, int64_t most, bool *ret_more);

struct stored_fault {
    const char *kind, *agent, *peer, *text; /* borrowed for the visit */
    int64_t rail, from_ns, until_ns;
    uint64_t amount;
};
/* Those that were there at some time of that window, the one that began last first. */
typedef void fault_visit(void *self, const struct stored_fault *fault);
bool store_list_faults(struct store *store, int64_t from_ns, int64_t until_ns, uint32_t limit,
                       fault_visit *visit, void *self);

#endif
