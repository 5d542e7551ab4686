/* Inside the fleet: its members. All by the fleet's lock. */
#ifndef KVR_SCHEDULER_FLEET_STATE_H
#define KVR_SCHEDULER_FLEET_STATE_H

#include <pthread.h>

#include "base/absence.h"
#include "scheduler/fleet.h"

struct member {
    struct agent_row row;
    kvr_ns since; /* monotonic: of its last report, or when it was loaded */
    bool heard;   /* since this process started */
    int64_t clock_ahead_ns;
    int64_t stored_ns;
    uint64_t stored_hash;     /* of the facts in the database; those below may be newer */
    int64_t seen_ns;          /* its engines were stored as seen */
    uint64_t seen_hash;       /* of those */
    uint64_t listed;          /* fleet.listings when the database was last seen to have it */
    bool settled;             /* its transfers are stored as lost since its last report */
    uint64_t dropped_settled; /* what follows from so many dropped events is stored */
    uint64_t boot_before;     /* the start that reported before row.boot */
    struct {
        uint64_t boot;
        kvr_ns since;           /* of its last report */
    } earlier[FLEET_BOOTS_MAX]; /* their transfers are not settled yet */
    int earlier_count;
    bool twins_told;
    kvr_ns twin_at; /* when it was last seen that another has its name; 0: never */
    char twin_host[KVR_NAME_BYTES];
    struct kvr_pair_table
        *pairs; /* of its rails with those of its peers; NULL: none were reported */
    struct kvr_agent_facts facts;
};

struct fleet {
    pthread_mutex_t lock;
    struct kvr_absence absence; /* of this process */
    kvr_ns away;                /* the last one, until it is taken */
    uint64_t changes;
    uint64_t listings; /* of the database's agents */
    kvr_ns listing_at; /* the next one; 0: at once */
    int count;
    struct member *members[FLEET_AGENTS_MAX]; /* by name */
};

/* NULL: there is no agent of that name. */
struct member *fleet_member(struct fleet *fleet, const char *name);
/* Before an agent is called silent: while this process did not run, its reports lay unread. */
void fleet_look_for_absence(struct fleet *fleet, kvr_ns now);
agent_state fleet_state_of(const struct member *member, kvr_ns now);

/* ---- fleet_boots.c ---- */

/* since: of its last report. */
bool fleet_is_silent(kvr_ns since, kvr_ns now);
/* A report of another start came. */
void fleet_change_boot(struct member *member, uint64_t boot, kvr_ns now);

#endif
