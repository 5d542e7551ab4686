/* The pairs of rails that agents have reported. */
#include "scheduler/fleet_state.h"

#include <stdio.h>
#include <string.h>

struct pair_walk {
    struct fleet *fleet;
    const struct member *source, *target; /* target: of the last row; NULL: none is known */
    char peer[KVR_NAME_BYTES];            /* the name of that row; "": there was none */
    const struct fleet_pairs_wanted *wanted;
    fleet_visit_pair *visit;
    void *self;
    uint32_t count;
    uint64_t left_out;
};

static const char *rail_name(const struct member *member, uint32_t rail)
{
    return member != NULL && rail < member->facts.rail_count ? member->facts.rails[rail].name
                                                             : NULL;
}

/* The rows of a peer follow each other. */
static const struct member *target_of(struct pair_walk *walk, const char *peer)
{
    if (strcmp(walk->peer, peer) != 0) {
        walk->target = fleet_member(walk->fleet, peer);
        snprintf(walk->peer, sizeof(walk->peer), "%s", peer);
    }
    return walk->target;
}

static void visit_pair(void *self, const struct kvr_pair_row *row)
{
    struct pair_walk *walk = self;

    if (walk->wanted->troubled && !kvr_pair_in_trouble(row->state))
        return;
    if (walk->count == walk->wanted->count_max) {
        walk->left_out++;
        return;
    }
    walk->count++;
    walk->visit(walk->self,
                &(struct fleet_pair){
                    .source = walk->source->row.name,
                    .rail_name = rail_name(walk->source, row->rail),
                    .target_rail_name = rail_name(target_of(walk, row->peer), row->target_rail),
                    .row = row,
                });
}

uint64_t fleet_each_pair(struct fleet *fleet, const struct fleet_pairs_wanted *wanted, kvr_ns now,
                         fleet_visit_pair *visit, void *self)
{
    struct pair_walk walk = {.fleet = fleet, .wanted = wanted, .visit = visit, .self = self};

    pthread_mutex_lock(&fleet->lock);
    fleet_look_for_absence(fleet, now);
    for (int i = 0; i < fleet->count; i++) {
        walk.source = fleet->members[i];
        if (walk.source->pairs == NULL || fleet_state_of(walk.source, now) != AGENT_UP ||
            (wanted->source != NULL && strcmp(wanted->source, walk.source->row.name) != 0))
            continue;
        walk.left_out +=
            kvr_pair_table_each(walk.source->pairs, wanted->target, now, visit_pair, &walk);
    }
    pthread_mutex_unlock(&fleet->lock);
    return walk.left_out;
}

static void count_state(void *self, const struct kvr_pair_row *row)
{
    uint64_t *counts = self;

    if (row->state < KVR_PAIR_STATE_END)
        counts[row->state]++;
}

void fleet_each_pair_states(struct fleet *fleet, kvr_ns now, fleet_visit_pair_states *visit,
                            void *self)
{
    pthread_mutex_lock(&fleet->lock);
    fleet_look_for_absence(fleet, now);
    for (int i = 0; i < fleet->count; i++) {
        const struct member *source = fleet->members[i];
        uint64_t counts[KVR_PAIR_STATE_END] = {0};

        if (source->pairs == NULL || fleet_state_of(source, now) != AGENT_UP)
            continue;
        (void)kvr_pair_table_each(source->pairs, NULL, now, count_state, counts);
        visit(self, source->row.name, counts);
    }
    pthread_mutex_unlock(&fleet->lock);
}
