/* The agents, by their last reports.
 *
 * The fleet lives in memory; the API shows it. The database has a copy of the committed reports. At
 * the start the fleet is filled from it, so an agent is known (as awaited) before it reports again.
 * An agent that is silent longer than FLEET_SILENT_NS is lost. Any thread: a lock of its own. */
#ifndef KVR_SCHEDULER_FLEET_H
#define KVR_SCHEDULER_FLEET_H

#include "base/clock.h"
#include "scheduler/store.h"
#include "trace/pair_table.h"
#include "trace/report.h"

#define FLEET_AGENTS_MAX 1024
#define FLEET_SILENT_NS  (6 * KVR_S)
#define FLEET_TWIN_NS    (60 * KVR_S)

typedef enum agent_state {
    AGENT_UP,
    AGENT_AWAITED, /* known from the database, and the scheduler has not run for long enough */
    AGENT_LOST,    /* silent */
    AGENT_STOPPED, /* it announced its end */
} agent_state;

const char *agent_state_name(agent_state state);

struct agent_view {
    struct agent_row row;
    agent_state state;
    const struct kvr_agent_facts *facts;
    bool clock_heard;       /* it has reported since the scheduler started */
    int64_t clock_ahead_ns; /* of the scheduler's; less the way of its last report */
    const char *twin_host;  /* another agent reports by this name, on that host; NULL: none does */
};

/* Starts of one agent that may still live: the one that reported last, and earlier ones that were
 * heard within FLEET_SILENT_NS. A new boot alone does not end the one before: every program can
 * name one.
 */
#define FLEET_BOOTS_MAX 4
struct fleet_boots {
    int count;
    uint64_t boots[FLEET_BOOTS_MAX + 1];
};

struct fleet;

struct fleet *fleet_open(void); /* NULL: no memory */
struct fleet *fleet_close(struct fleet *fleet);

/* Once a second, from the first call on. When this process did not run for a while, no agent is
 * silent for that time, whichever call finds that out. */
void fleet_tick(struct fleet *fleet, kvr_ns now);

/* From the database, at start. */
bool fleet_load(struct fleet *fleet, struct store *store);

/* Takes a report of the agent. False when there are FLEET_AGENTS_MAX others. */
bool fleet_update(struct fleet *fleet, const struct kvr_report *report, kvr_ns now,
                  int64_t wall_ns);

/* How often an agent came, started anew or stopped: an answer from before is wrong. */
uint64_t fleet_changes(struct fleet *fleet);

/* The agent's report came and is not stored yet: the agent is not silent, and its facts are shown,
 * however long the database takes. */
void fleet_hear(struct fleet *fleet, const struct kvr_report *report, kvr_ns now);

/* Before fleet_update: true when an earlier start of the agent reports again after a later one, so
 * two agents have one name. Once for each name; ret_host: the other one's host. Views show it for
 * FLEET_TWIN_NS after each such report. */
bool fleet_find_twin(struct fleet *fleet, const struct kvr_report *report, kvr_ns now,
                     char ret_host[KVR_NAME_BYTES]);

/* What is stored of the agent differs from this report, or is old: worth a write. */
bool fleet_differs(struct fleet *fleet, const struct kvr_report *report, int64_t wall_ns);
/* Where that is so: are its engines to be stored as seen (store_engines.h)? */
bool fleet_engines_differ(struct fleet *fleet, const struct kvr_report *report, int64_t wall_ns);
/* The row to store for this report, and what was known of its boot before: 0 for a new agent. */
uint64_t fleet_row(struct fleet *fleet, const struct kvr_report *report, int64_t wall_ns,
                   struct agent_row *ret_row);

/* Another start of the agent reports, or it stops, or fleet_lost_ends: what is stored then depends
 * on what the fleet knew before. */
bool fleet_turns(struct fleet *fleet, const struct kvr_report *report);
/* The database may lack the reports since its last commit: each agent's next one is stored. */
void fleet_forget_stored(struct fleet *fleet);

/* The boots of this report's agent that may live once the report is taken, its own first. False:
 * there are FLEET_BOOTS_MAX others, more than restarts can explain. */
bool fleet_boots_alive(struct fleet *fleet, const struct kvr_report *report, kvr_ns now,
                       struct fleet_boots *ret_alive);
/* Sets *ret_name to an agent with an earlier boot that has fallen silent since, and *ret_alive to
 * those that may live. False: none. fleet_settle_boots: what follows from that is stored. */
bool fleet_next_ended_boot(struct fleet *fleet, kvr_ns now, char ret_name[KVR_NAME_BYTES],
                           struct fleet_boots *ret_alive);
void fleet_settle_boots(struct fleet *fleet, const char *name, kvr_ns now);

/* The agent has dropped events since the row was last stored, has sent all others and has no live
 * transfer. So its transfers that still look live have ended; the event of their end was dropped.
 */
bool fleet_lost_ends(struct fleet *fleet, const struct kvr_report *report);

/* Sets *ret_name to an agent that has been silent for longer than `silent` and was not settled
 * since it spoke last. False: none. */
bool fleet_next_silent(struct fleet *fleet, kvr_ns now, kvr_ns silent,
                       char ret_name[KVR_NAME_BYTES]);
/* Each agent that is lost, as a copy, without the lock: the visit may ask the database. False: no
 * memory, and none was visited. */
typedef void fleet_visit_row(void *self, const struct agent_row *row);
bool fleet_each_lost(struct fleet *fleet, kvr_ns now, fleet_visit_row *visit, void *self);
/* How long this process did not run, the last time since this was asked; 0: it ran. */
kvr_ns fleet_take_absence(struct fleet *fleet);
/* What follows from its silence is stored. By the thread that calls fleet_update. */
void fleet_settle_silent(struct fleet *fleet, const char *name);
/* Forgets agents that have not reported since and have been settled. */
void fleet_prune(struct fleet *fleet, int64_t before_ns);
/* Forgets silent agents that the database does not have any more: another scheduler of it has
 * removed them. Asks the database at most once in FLEET_GONE_NS. By the thread that calls
 * fleet_update; false: the database refuses. */
#define FLEET_GONE_NS (60 * KVR_S)
bool fleet_forget_gone(struct fleet *fleet, struct store *store, kvr_ns now);

/* Each agent in the order of its name, as a copy that is valid for the visit: without the lock, so
 * that reports do not wait for a long answer. False: no memory, and none was visited. */
typedef void fleet_visit(void *self, const struct agent_view *agent);
bool fleet_each(struct fleet *fleet, kvr_ns now, fleet_visit *visit, void *self);

/* A pair of rails; the names are those that the agents report, NULL where unknown. */
struct fleet_pair {
    const char *source, *rail_name, *target_rail_name;
    const struct kvr_pair_row *row; /* the target is row->peer */
};
struct fleet_pairs_wanted {
    const char *source, *target; /* NULL: any */
    uint32_t count_max;
    bool troubled; /* only pairs in trouble */
};
/* Each pair that agents which are up have reported, in the order of the sources' names, under the
 * lock. Returns how many more there are. */
typedef void fleet_visit_pair(void *self, const struct fleet_pair *pair);
uint64_t fleet_each_pair(struct fleet *fleet, const struct fleet_pairs_wanted *wanted, kvr_ns now,
                         fleet_visit_pair *visit, void *self);
/* How many pairs are in each state, of each agent that is up and has reported any, under the lock.
 */
typedef void fleet_visit_pair_states(void *self, const char *agent,
                                     const uint64_t counts[KVR_PAIR_STATE_END]);
void fleet_each_pair_states(struct fleet *fleet, kvr_ns now, fleet_visit_pair_states *visit,
                            void *self);

#endif
