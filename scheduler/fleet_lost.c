/* Agents that do not report, and times when this process did not run. */
#include <stdlib.h>

#include "scheduler/fleet_state.h"

/* Returns how many there are. */
static int copy_lost(struct fleet *fleet, kvr_ns now, struct agent_row rows[FLEET_AGENTS_MAX])
{
    int count = 0;

    pthread_mutex_lock(&fleet->lock);
    fleet_look_for_absence(fleet, now);
    for (int i = 0; i < fleet->count; i++)
        if (fleet_state_of(fleet->members[i], now) == AGENT_LOST)
            rows[count++] = fleet->members[i]->row;
    pthread_mutex_unlock(&fleet->lock);
    return count;
}

bool fleet_each_lost(struct fleet *fleet, kvr_ns now, fleet_visit_row *visit, void *self)
{
    struct agent_row *rows = malloc(FLEET_AGENTS_MAX * sizeof(rows[0]));
    int count = rows != NULL ? copy_lost(fleet, now, rows) : 0;
    bool had_memory = rows != NULL;

    for (int i = 0; i < count; i++)
        visit(self, &rows[i]);
    free(rows);
    return had_memory;
}

kvr_ns fleet_take_absence(struct fleet *fleet)
{
    kvr_ns away;

    pthread_mutex_lock(&fleet->lock);
    away = fleet->away;
    fleet->away = 0;
    pthread_mutex_unlock(&fleet->lock);
    return away;
}
