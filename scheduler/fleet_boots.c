/* Starts of an agent that may all still report: two programs may have one name. */
#include <string.h>

#include "scheduler/fleet_state.h"

bool fleet_is_silent(kvr_ns since, kvr_ns now)
{
    return now > since + FLEET_SILENT_NS;
}

static void forget_earlier(struct member *member, int index)
{
    member->earlier[index] = member->earlier[--member->earlier_count];
}

/* What follows from boots that are silent by now was stored with the report of the new one. */
void fleet_change_boot(struct member *member, uint64_t boot, kvr_ns now)
{
    for (int i = member->earlier_count - 1; i >= 0; i--)
        if (member->earlier[i].boot == boot || fleet_is_silent(member->earlier[i].since, now))
            forget_earlier(member, i);
    if (member->row.boot != 0 && !member->row.stopped && member->earlier_count < FLEET_BOOTS_MAX) {
        member->earlier[member->earlier_count].boot = member->row.boot;
        member->earlier[member->earlier_count++].since = member->since;
    }
    member->boot_before = member->row.boot;
    member->dropped_settled = 0;
}

static void add_alive(struct fleet_boots *alive, uint64_t boot, kvr_ns since, kvr_ns now)
{
    if (boot != 0 && boot != alive->boots[0] && !fleet_is_silent(since, now) &&
        alive->count <= FLEET_BOOTS_MAX)
        alive->boots[alive->count++] = boot;
}

static void list_alive(const struct member *member, kvr_ns now, struct fleet_boots *alive)
{
    if (!member->row.stopped)
        add_alive(alive, member->row.boot, member->since, now);
    for (int i = 0; i < member->earlier_count; i++)
        add_alive(alive, member->earlier[i].boot, member->earlier[i].since, now);
}

bool fleet_boots_alive(struct fleet *fleet, const struct kvr_report *report, kvr_ns now,
                       struct fleet_boots *ret_alive)
{
    const struct member *member;

    *ret_alive = (struct fleet_boots){.count = 1, .boots = {report->boot}};
    pthread_mutex_lock(&fleet->lock);
    fleet_look_for_absence(fleet, now);
    member = fleet_member(fleet, report->agent);
    if (member != NULL)
        list_alive(member, now, ret_alive);
    pthread_mutex_unlock(&fleet->lock);
    return ret_alive->count <= FLEET_BOOTS_MAX;
}

static bool has_ended_boot(const struct member *member, kvr_ns now)
{
    for (int i = 0; i < member->earlier_count; i++)
        if (fleet_is_silent(member->earlier[i].since, now))
            return true;
    return false;
}

bool fleet_next_ended_boot(struct fleet *fleet, kvr_ns now, char ret_name[KVR_NAME_BYTES],
                           struct fleet_boots *ret_alive)
{
    bool found = false;

    pthread_mutex_lock(&fleet->lock);
    fleet_look_for_absence(fleet, now);
    for (int i = 0; i < fleet->count && !found; i++) {
        const struct member *member = fleet->members[i];

        if (!has_ended_boot(member, now))
            continue;
        memcpy(ret_name, member->row.name, KVR_NAME_BYTES);
        *ret_alive = (struct fleet_boots){.count = 1, .boots = {member->row.boot}};
        list_alive(member, now, ret_alive);
        found = true;
    }
    pthread_mutex_unlock(&fleet->lock);
    return found;
}

void fleet_settle_boots(struct fleet *fleet, const char *name, kvr_ns now)
{
    struct member *member;

    pthread_mutex_lock(&fleet->lock);
    member = fleet_member(fleet, name);
    for (int i = member != NULL ? member->earlier_count - 1 : -1; i >= 0; i--)
        if (fleet_is_silent(member->earlier[i].since, now))
            forget_earlier(member, i);
    pthread_mutex_unlock(&fleet->lock);
}
