#include "scheduler/prune.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"

#define SHRINK_PERCENT 95 /* of the bound */

/* Without a table of ended transfers to look into, only a removal finds out that there is none. */
static void say_bound(struct prune *prune)
{
    char detail[KVR_DETAIL_BYTES];

    if (!prune->shrinks)
        health_clear(prune->options.health, HEALTH_BOUND);
    if (!prune->bare || prune->used <= prune->options.bound)
        return;
    snprintf(detail, sizeof(detail), "%" PRIu64 " bytes are in use, the bound is %" PRIu64,
             prune->used, prune->options.bound);
    health_set(prune->options.health, HEALTH_BOUND, detail);
}

/* A database that cannot be read is the matter of the next transaction. */
static void look(struct prune *prune)
{
    uint64_t bound = prune->options.bound;

    if (!store_used(prune->options.store, &prune->used))
        return;
    metrics_set_database(prune->options.metrics, prune->used, bound);
    if (bound == 0)
        return;
    prune->shrinks =
        prune->used > bound || (prune->shrinks && prune->used > bound / 100 * SHRINK_PERCENT);
    say_bound(prune);
}

static uint64_t hold_of(const struct prune *prune)
{
    return prune->used > prune->options.bound ? prune->used : prune->options.bound;
}

struct prune prune_begin(const struct prune_options *options)
{
    struct prune prune = {.options = *options};

    look(&prune);
    prune.hold = hold_of(&prune);
    return prune;
}

void prune_after_round(struct prune *prune)
{
    prune->hold = hold_of(prune);
    prune->bare = false;
    look(prune);
}

void prune_after_pause(struct prune *prune)
{
    prune->aged = prune->options.retention != KVR_NEVER;
    prune->bare = false;
    look(prune);
}

bool prune_wanted(const struct prune *prune)
{
    return prune->aged || (prune->shrinks && !prune->bare);
}

bool prune_holds(const struct prune *prune)
{
    return prune->shrinks && !prune->bare && prune->used > prune->hold;
}

/* False: the database refuses. */
static bool remove_some(struct prune *prune, int64_t now_ns, uint64_t *ret_removed)
{
    const struct prune_options *options = &prune->options;
    struct store *store = options->store;
    int64_t before_ns = prune_kept_since((kvr_ns)now_ns, options->retention);
    uint64_t states[STATE_END] = {0};
    bool removed = apply_begin(options->apply) &&
                   (prune->aged ? store_prune(store, before_ns, states, ret_removed)
                                : store_prune_transfers(store, INT64_MAX, states, ret_removed)) &&
                   store_commit(store);

    if (!removed) {
        kvr_log_error("rows %s stay: %s",
                      prune->aged ? "past --retention" : "beyond --database-bytes",
                      store_problem(store));
        health_failed(options->health, store_trouble(store), store_problem(store));
        store_rollback(store);
        return false;
    }
    apply_forget_ended(options->apply);
    metrics_forgotten(options->metrics, states);
    metrics_removed(options->metrics, prune->aged ? METRICS_BY_AGE : METRICS_BY_SIZE, *ret_removed);
    if (prune->aged && *ret_removed == 0)
        fleet_prune(options->fleet, before_ns);
    return true;
}

/* Old rows go first: then fewer may be too many. */
void prune_some(struct prune *prune, int64_t now_ns)
{
    uint64_t removed = 0;
    bool done = remove_some(prune, now_ns, &removed);

    if (!prune->aged || !done)
        prune->bare = removed == 0;
    prune->aged = prune->aged && removed > 0;
    if (done)
        look(prune);
}
