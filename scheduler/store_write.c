#include <jansson.h>
#include <stdlib.h>

#include "scheduler/store_rows.h"

static void read_position(const struct store_row *row, void *self)
{
    store_read(row, STORE_VALUES(INT(*(uint64_t *)self)));
}

bool store_position(struct store *store, const char *agent, uint64_t boot, uint64_t *ret_sequence)
{
    *ret_sequence = 0;
    return store_each(store, SQL_GET_POSITION, STORE_VALUES(TEXT(agent), INT(boot)), read_position,
                      ret_sequence);
}

bool store_other_boots(struct store *store, const char *agent, uint64_t boot, bool *ret_other)
{
    uint64_t count = 0;
    bool read = store_each(store, SQL_OTHER_BOOTS, STORE_VALUES(TEXT(agent), INT(boot)),
                           read_position, &count);

    *ret_other = count > 0;
    return read;
}

bool store_set_position(struct store *store, const char *agent, uint64_t boot, uint64_t sequence,
                        int64_t now_ns)
{
    return store_do(store, SQL_SET_POSITION,
                    STORE_VALUES(TEXT(agent), INT(boot), INT(sequence), INT(now_ns)));
}

bool store_put_transfer(struct store *store, struct transfer *transfer)
{
    bool live = transfer_state_live(transfer->state), there = transfer->ordinal != 0;

    if (there && transfer->renamed &&
        !store_do(
            store, SQL_RENAME_TRANSFER,
            STORE_VALUES(INT(transfer->ordinal), TEXT(transfer->request), TEXT(transfer->tenant))))
        return false;
    if (!there)
        transfer->ordinal = store_next_id(store);
    if (!store_do(store, there ? SQL_UPDATE_TRANSFER : SQL_ADD_TRANSFER,
                  STORE_VALUES(TRANSFER_VALUES(transfer, INT(live)))))
        return false;
    transfer->renamed = false;
    if (!there)
        transfer->ordinal = store_new_id(store, transfer->ordinal);
    return true;
}

bool store_delete_transfer(struct store *store, uint64_t id)
{
    return store_do(store, SQL_DELETE_TRANSFER, STORE_VALUES(INT(id)));
}

static char *counters_json(const struct kvr_agent_facts *facts)
{
    json_t *object = json_object();
    char *text;

    for (int i = 0; i < KVR_COUNTER_END; i++)
        json_object_set_new(object, kvr_counter_name((kvr_counter)i),
                            json_integer((json_int_t)facts->counters[i]));
    text = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    return text;
}

static bool add_agent_row(struct store *store, const struct agent_row *row,
                          const struct kvr_agent_facts *facts)
{
    char *counters = counters_json(facts);
    bool stored =
        counters != NULL &&
        store_do(store, SQL_ADD_AGENT, STORE_VALUES(AGENT_VALUES(row, facts, TEXT(counters))));

    free(counters);
    return stored;
}

bool store_put_agent(struct store *store, const struct agent_row *row,
                     const struct kvr_agent_facts *facts)
{
    /* Its rails and engines go with it. */
    bool stored = store_do(store, SQL_DROP_AGENT, STORE_VALUES(TEXT(row->name))) &&
                  add_agent_row(store, row, facts);

    for (uint32_t i = 0; i < facts->rail_count && stored; i++)
        stored = store_do(store, SQL_ADD_RAIL,
                          STORE_VALUES(TEXT(row->name), INT(i), RAIL_VALUES(&facts->rails[i])));
    for (uint32_t i = 0; i < facts->engine_count && stored; i++)
        stored = store_do(store, SQL_ADD_ENGINE,
                          STORE_VALUES(TEXT(row->name), INT(i), ENGINE_VALUES(&facts->engines[i])));
    return stored;
}

struct pruned_transfers {
    struct store *store;
    uint64_t count, *states;
    bool failed;
};

/* The row of the transfer is gone already; the chain of its events goes now. */
static void drop_pruned(const struct store_row *row, void *self)
{
    struct pruned_transfers *pruned = self;
    const char *name;
    transfer_state state;
    int64_t newest;
    uint64_t rows;

    store_read(row, STORE_VALUES(STORE_AT(STORE_BORROWED, name), INT(newest)));
    if (pruned->states != NULL && transfer_state_from_name(name, &state))
        pruned->states[state]++;
    pruned->failed |= !store_drop_events(pruned->store, newest, &rows);
    pruned->count += 1 + rows;
}

bool store_prune_transfers(struct store *store, int64_t before_ns, uint64_t states[STATE_END],
                           uint64_t *ret_removed)
{
    struct pruned_transfers transfers = {.store = store, .states = states};

    if (store->driver->drop_period != NULL)
        return store->driver->drop_period(store, before_ns, states, ret_removed);
    if (!store_each(store, SQL_PRUNE_TRANSFERS, STORE_VALUES(INT(before_ns)), drop_pruned,
                    &transfers))
        return false;
    *ret_removed = transfers.count;
    return !transfers.failed;
}

bool store_prune(struct store *store, int64_t before_ns, uint64_t states[STATE_END],
                 uint64_t *ret_removed)
{
    static const store_sql prunes[] = {SQL_PRUNE_POSITIONS, SQL_PRUNE_AGENTS, SQL_PRUNE_ORDERS,
                                       SQL_PRUNE_AUDIT, SQL_PRUNE_ENGINES};
    uint64_t removed;

    if (!store_prune_transfers(store, before_ns, states, &removed))
        return false;
    for (size_t i = 0; i < sizeof(prunes) / sizeof(prunes[0]); i++) {
        if (!store_do(store, prunes[i], STORE_VALUES(INT(before_ns))))
            return false;
        removed += store_changed(store);
    }
    *ret_removed = removed;
    return true;
}
