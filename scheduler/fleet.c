#include "scheduler/fleet_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

#include "scheduler/store_engines.h"

#define STORED_AT_LEAST_NS ((int64_t)(60 * KVR_S)) /* seen_ns in the database is at most so old */

const char *agent_state_name(agent_state state)
{
    static const char *const names[] = {
        [AGENT_UP] = "up",
        [AGENT_AWAITED] = "awaited",
        [AGENT_LOST] = "lost",
        [AGENT_STOPPED] = "stopped",
    };

    return names[state];
}

struct fleet *fleet_open(void)
{
    struct fleet *fleet = calloc(1, sizeof(*fleet));

    if (fleet != NULL)
        pthread_mutex_init(&fleet->lock, NULL);
    return fleet;
}

static void forget_member(struct member *member)
{
    kvr_pair_table_close(member->pairs);
    free(member);
}

struct fleet *fleet_close(struct fleet *fleet)
{
    if (fleet == NULL)
        return NULL;
    for (int i = 0; i < fleet->count; i++)
        forget_member(fleet->members[i]);
    pthread_mutex_destroy(&fleet->lock);
    free(fleet);
    return NULL;
}

/* Where the name is, or where it belongs. */
static bool find(const struct fleet *fleet, const char *name, int *ret_index)
{
    int low = 0, high = fleet->count;

    while (low < high) {
        int middle = (low + high) / 2;
        int order = strcmp(fleet->members[middle]->row.name, name);

        if (order == 0) {
            *ret_index = middle;
            return true;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_index = low;
    return false;
}

struct member *fleet_member(struct fleet *fleet, const char *name)
{
    int index;

    return find(fleet, name, &index) ? fleet->members[index] : NULL;
}

static struct member *add(struct fleet *fleet, const char *name)
{
    struct member *member;
    int index;

    if (find(fleet, name, &index))
        return fleet->members[index];
    if (fleet->count == FLEET_AGENTS_MAX)
        return NULL;
    member = calloc(1, sizeof(*member));
    if (member == NULL)
        return NULL;
    snprintf(member->row.name, sizeof(member->row.name), "%s", name);
    memmove(&fleet->members[index + 1], &fleet->members[index],
            (size_t)(fleet->count - index) * sizeof(fleet->members[0]));
    fleet->members[index] = member;
    fleet->count++;
    return member;
}

static void load_member(void *self, const struct agent_row *row,
                        const struct kvr_agent_facts *facts)
{
    struct member *member = add(self, row->name);

    if (member == NULL)
        return;
    if (member->heard && member->row.boot == row->boot) { /* its own report says more */
        member->since = kvr_clock_now();
        return;
    }
    member->row = *row;
    member->facts = *facts;
    member->stored_ns = row->seen_ns;
    member->since = kvr_clock_now();
}

bool fleet_load(struct fleet *fleet, struct store *store)
{
    bool loaded;

    pthread_mutex_lock(&fleet->lock);
    loaded = store_list_agents(store, load_member, fleet);
    pthread_mutex_unlock(&fleet->lock);
    return loaded;
}

static bool lost_ends(const struct member *member, const struct kvr_report *report)
{
    bool known = member != NULL && member->row.boot == report->boot;

    return report->facts != NULL && report->event_count == 0 &&
           report->facts->transfers_live == 0 &&
           report->dropped > (known ? member->dropped_settled : 0);
}

/* ---- silence ---- */

#define TICK_NS KVR_S

static void excuse(kvr_ns *since, kvr_ns away, kvr_ns now)
{
    *since = *since + away < now ? *since + away : now;
}

/* Before an agent is called silent: its reports may lie unread. */
void fleet_look_for_absence(struct fleet *fleet, kvr_ns now)
{
    kvr_ns away;

    if (fleet->absence.due_at == 0)
        return;
    away = kvr_absence_tick(&fleet->absence, now, TICK_NS);
    fleet->away = away > 0 ? away : fleet->away;
    for (int i = 0; away > 0 && i < fleet->count; i++) {
        struct member *member = fleet->members[i];

        excuse(&member->since, away, now);
        for (int k = 0; k < member->earlier_count; k++)
            excuse(&member->earlier[k].since, away, now);
    }
}

void fleet_tick(struct fleet *fleet, kvr_ns now)
{
    pthread_mutex_lock(&fleet->lock);
    if (fleet->absence.due_at == 0)
        (void)kvr_absence_tick(&fleet->absence, now, TICK_NS);
    fleet_look_for_absence(fleet, now);
    pthread_mutex_unlock(&fleet->lock);
}

/* ---- reports ---- */

static uint64_t hash_of(const struct kvr_agent_facts *facts)
{
    return XXH3_64bits(facts, sizeof(*facts));
}

/* Whether the agent's row in the database must change. */
static bool differs(const struct member *member, const struct kvr_report *report, int64_t wall_ns)
{
    return member->stored_hash != hash_of(report->facts) || member->row.boot != report->boot ||
           member->row.stopped != report->leaving ||
           wall_ns - member->stored_ns > STORED_AT_LEAST_NS;
}

static uint64_t hash_of_engines(const struct kvr_agent_facts *facts)
{
    return XXH3_64bits(facts->engines,
                       (facts->engine_count + facts->gone_count) * sizeof(facts->engines[0]));
}

/* Of a report that differs: whether its engines must be stored as seen, too. */
static bool engines_differ(const struct member *member, const struct kvr_report *report,
                           int64_t wall_ns)
{
    return member->seen_hash != hash_of_engines(report->facts) ||
           wall_ns - member->seen_ns > ENGINES_SEEN_NS;
}

/* The writer stores under the same conditions. */
static void note_stored(struct member *member, const struct kvr_report *report, int64_t wall_ns)
{
    member->stored_ns = wall_ns;
    if (!engines_differ(member, report, wall_ns))
        return;
    member->seen_ns = wall_ns;
    member->seen_hash = hash_of_engines(report->facts);
}

/* They come with facts alone. Those of an earlier start, or of an agent that stops, do not last. */
static void take_pairs(struct member *member, const struct kvr_report *report, kvr_ns now)
{
    if (report->leaving || member->row.boot != report->boot)
        member->pairs = kvr_pair_table_close(member->pairs);
    if (report->pairs == NULL || report->leaving)
        return;
    if (member->pairs == NULL)
        member->pairs = kvr_pair_table_open();
    if (member->pairs != NULL)
        kvr_pair_table_take(member->pairs, report->pairs, now);
}

/* A report without facts has only events. A report of an earlier start comes from a spool and does
 * not describe the present. */
bool fleet_update(struct fleet *fleet, const struct kvr_report *report, kvr_ns now, int64_t wall_ns)
{
    struct member *member;

    if (report->facts == NULL)
        return true;
    pthread_mutex_lock(&fleet->lock);
    member = add(fleet, report->agent);
    if (member != NULL) {
        if (differs(member, report, wall_ns))
            note_stored(member, report, wall_ns);
        if (member->row.boot != report->boot || member->row.stopped != report->leaving)
            fleet->changes++;
        take_pairs(member, report, now);
        if (member->row.boot != report->boot)
            fleet_change_boot(member, report->boot, now);
        if (lost_ends(member, report))
            member->dropped_settled = report->dropped;
        member->facts = *report->facts;
        member->stored_hash = hash_of(report->facts);
        member->row.boot = report->boot;
        member->row.dropped = report->dropped;
        member->row.stopped = report->leaving;
        member->row.seen_ns = wall_ns;
        member->since = now;
        member->heard = true;
        member->clock_ahead_ns = (int64_t)(report->anchor_wall - (kvr_ns)wall_ns);
        member->settled = false;
    }
    pthread_mutex_unlock(&fleet->lock);
    return member != NULL;
}

void fleet_hear(struct fleet *fleet, const struct kvr_report *report, kvr_ns now)
{
    struct member *member;

    pthread_mutex_lock(&fleet->lock);
    member = fleet_member(fleet, report->agent);
    if (member != NULL && report->facts != NULL && member->row.boot == report->boot) {
        member->facts = *report->facts;
        member->since = now;
        member->heard = true;
    }
    pthread_mutex_unlock(&fleet->lock);
}

uint64_t fleet_changes(struct fleet *fleet)
{
    uint64_t changes;

    pthread_mutex_lock(&fleet->lock);
    changes = fleet->changes;
    pthread_mutex_unlock(&fleet->lock);
    return changes;
}

bool fleet_find_twin(struct fleet *fleet, const struct kvr_report *report, kvr_ns now,
                     char ret_host[KVR_NAME_BYTES])
{
    struct member *member;
    bool twins, first;

    pthread_mutex_lock(&fleet->lock);
    member = fleet_member(fleet, report->agent);
    twins = member != NULL && report->facts != NULL && member->row.boot != report->boot &&
            member->boot_before == report->boot;
    first = twins && !member->twins_told;
    if (twins) {
        member->twins_told = true;
        member->twin_at = now;
        memcpy(member->twin_host, member->facts.host, KVR_NAME_BYTES);
        memcpy(ret_host, member->facts.host, KVR_NAME_BYTES);
    }
    pthread_mutex_unlock(&fleet->lock);
    return first;
}

bool fleet_lost_ends(struct fleet *fleet, const struct kvr_report *report)
{
    bool lost;

    pthread_mutex_lock(&fleet->lock);
    lost = lost_ends(fleet_member(fleet, report->agent), report);
    pthread_mutex_unlock(&fleet->lock);
    return lost;
}

bool fleet_differs(struct fleet *fleet, const struct kvr_report *report, int64_t wall_ns)
{
    const struct member *member;
    bool changed;

    if (report->facts == NULL)
        return false;
    pthread_mutex_lock(&fleet->lock);
    member = fleet_member(fleet, report->agent);
    changed = member == NULL || differs(member, report, wall_ns);
    pthread_mutex_unlock(&fleet->lock);
    return changed;
}

bool fleet_engines_differ(struct fleet *fleet, const struct kvr_report *report, int64_t wall_ns)
{
    const struct member *member;
    bool changed;

    pthread_mutex_lock(&fleet->lock);
    member = fleet_member(fleet, report->agent);
    changed = member == NULL || engines_differ(member, report, wall_ns);
    pthread_mutex_unlock(&fleet->lock);
    return changed;
}

bool fleet_turns(struct fleet *fleet, const struct kvr_report *report)
{
    const struct member *member;
    bool turns;

    if (report->facts == NULL)
        return false;
    pthread_mutex_lock(&fleet->lock);
    member = fleet_member(fleet, report->agent);
    turns = member == NULL || member->row.boot != report->boot ||
            member->row.stopped != report->leaving || lost_ends(member, report);
    pthread_mutex_unlock(&fleet->lock);
    return turns;
}

void fleet_forget_stored(struct fleet *fleet)
{
    pthread_mutex_lock(&fleet->lock);
    for (int i = 0; i < fleet->count; i++)
        fleet->members[i]->stored_ns = fleet->members[i]->seen_ns = 0;
    pthread_mutex_unlock(&fleet->lock);
}

uint64_t fleet_row(struct fleet *fleet, const struct kvr_report *report, int64_t wall_ns,
                   struct agent_row *ret_row)
{
    const struct member *member;
    uint64_t boot_before;

    pthread_mutex_lock(&fleet->lock);
    member = fleet_member(fleet, report->agent);
    boot_before = member != NULL ? member->row.boot : 0;
    pthread_mutex_unlock(&fleet->lock);
    memset(ret_row, 0, sizeof(*ret_row));
    memcpy(ret_row->name, report->agent, sizeof(ret_row->name));
    ret_row->boot = report->boot;
    ret_row->dropped = report->dropped;
    ret_row->stopped = report->leaving;
    ret_row->seen_ns = wall_ns;
    return boot_before;
}

bool fleet_next_silent(struct fleet *fleet, kvr_ns now, kvr_ns silent,
                       char ret_name[KVR_NAME_BYTES])
{
    bool found = false;

    pthread_mutex_lock(&fleet->lock);
    fleet_look_for_absence(fleet, now);
    for (int i = 0; i < fleet->count && !found; i++) {
        const struct member *member = fleet->members[i];

        if (member->settled || now - member->since <= silent)
            continue;
        memcpy(ret_name, member->row.name, KVR_NAME_BYTES);
        found = true;
    }
    pthread_mutex_unlock(&fleet->lock);
    return found;
}

void fleet_settle_silent(struct fleet *fleet, const char *name)
{
    struct member *member;

    pthread_mutex_lock(&fleet->lock);
    member = fleet_member(fleet, name);
    if (member != NULL) {
        member->settled = true;
        member->pairs = kvr_pair_table_close(member->pairs);
    }
    pthread_mutex_unlock(&fleet->lock);
}

/* Under the lock. */
typedef bool is_past(const struct fleet *fleet, const struct member *member, int64_t when);

static void forget_past(struct fleet *fleet, is_past *past, int64_t when)
{
    int kept = 0;

    for (int i = 0; i < fleet->count; i++) {
        if (past(fleet, fleet->members[i], when))
            forget_member(fleet->members[i]);
        else
            fleet->members[kept++] = fleet->members[i];
    }
    fleet->count = kept;
}

static bool is_old(const struct fleet *fleet, const struct member *member, int64_t before_ns)
{
    (void)fleet;
    return member->settled && member->row.seen_ns < before_ns;
}

void fleet_prune(struct fleet *fleet, int64_t before_ns)
{
    pthread_mutex_lock(&fleet->lock);
    forget_past(fleet, is_old, before_ns);
    pthread_mutex_unlock(&fleet->lock);
}

/* Without the lock during the question: only this thread adds and removes agents. */
static void mark_listed(void *self, const char *name)
{
    struct fleet *fleet = self;
    struct member *member;

    pthread_mutex_lock(&fleet->lock);
    member = fleet_member(fleet, name);
    if (member != NULL)
        member->listed = fleet->listings;
    pthread_mutex_unlock(&fleet->lock);
}

static bool is_gone(const struct fleet *fleet, const struct member *member, int64_t now)
{
    return member->listed != fleet->listings && fleet_is_silent(member->since, (kvr_ns)now);
}

bool fleet_forget_gone(struct fleet *fleet, struct store *store, kvr_ns now)
{
    if (now < fleet->listing_at)
        return true;
    fleet->listing_at = now + FLEET_GONE_NS;
    fleet->listings++;
    if (!store_list_agent_names(store, mark_listed, fleet))
        return false;
    pthread_mutex_lock(&fleet->lock);
    fleet_look_for_absence(fleet, now);
    forget_past(fleet, is_gone, (int64_t)now);
    pthread_mutex_unlock(&fleet->lock);
    return true;
}

agent_state fleet_state_of(const struct member *member, kvr_ns now)
{
    if (member->row.stopped)
        return AGENT_STOPPED;
    if (fleet_is_silent(member->since, now))
        return AGENT_LOST;
    return member->heard ? AGENT_UP : AGENT_AWAITED;
}

/* What a view points to. */
struct shown {
    struct kvr_agent_facts facts;
    char twin_host[KVR_NAME_BYTES];
};

/* The agent behind that of `view`, or the first one where this has no name. False: there is none.
 */
static bool show_next(struct fleet *fleet, kvr_ns now, struct shown *shown, struct agent_view *view)
{
    const struct member *member;
    int index;
    bool there;

    pthread_mutex_lock(&fleet->lock);
    fleet_look_for_absence(fleet, now);
    index = find(fleet, view->row.name, &index) ? index + 1 : index;
    there = index < fleet->count;
    if (there) {
        member = fleet->members[index];
        shown->facts = member->facts;
        *view = (struct agent_view){.row = member->row,
                                    .state = fleet_state_of(member, now),
                                    .facts = &shown->facts,
                                    .clock_heard = member->heard,
                                    .clock_ahead_ns = member->clock_ahead_ns};
        if (member->twin_at != 0 && now < member->twin_at + FLEET_TWIN_NS)
            view->twin_host = memcpy(shown->twin_host, member->twin_host, KVR_NAME_BYTES);
    }
    pthread_mutex_unlock(&fleet->lock);
    return there;
}

bool fleet_each(struct fleet *fleet, kvr_ns now, fleet_visit *visit, void *self)
{
    struct shown *shown = malloc(sizeof(*shown));
    struct agent_view view = {.row = {.name = ""}};

    while (shown != NULL && show_next(fleet, now, shown, &view))
        visit(self, &view);
    free(shown);
    return shown != NULL;
}
