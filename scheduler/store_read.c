#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "scheduler/store_rows.h"

/* Matches of a request's beginning that are sorted for each page of a list; of more, the newest
 * transfers are looked at until the page is full. The index has the ordinals, so a match costs 0.2
 * us; for its tenant the row is looked up, which costs 5 us. A row that is passed costs 0.7 us. Of
 * 10,000,000 transfers, 8,000 matches of a tenant cost as much either way, 40 ms for 50 rows. */
#define REQUESTS_FEW           20000
#define REQUESTS_FEW_OF_TENANT 8000

void store_read_transfer(const struct store_row *row, struct transfer *transfer)
{
    memset(transfer, 0, sizeof(*transfer));
    store_read(row, STORE_VALUES(TRANSFER_VALUES(transfer, SKIPPED))); /* live: by state */
}

struct one_transfer {
    struct transfer *transfer;
    bool found;
};

static void read_one(const struct store_row *row, void *self)
{
    struct one_transfer *one = self;

    store_read_transfer(row, one->transfer);
    one->found = true;
}

static bool get_one(struct store *store, store_sql sql, const struct store_value *values,
                    size_t count, struct transfer *ret_transfer, bool *ret_found)
{
    struct one_transfer one = {ret_transfer, false};
    bool answered = store_each(store, sql, values, count, read_one, &one);

    *ret_found = one.found;
    return answered;
}

bool store_get_transfer(struct store *store, uint64_t id, struct transfer *ret_transfer,
                        bool *ret_found)
{
    return get_one(store, SQL_GET_TRANSFER, STORE_VALUES(INT(id)), ret_transfer, ret_found);
}

bool store_get_request(struct store *store, const char *request, int64_t attempt,
                       struct transfer *ret_transfer, bool *ret_found)
{
    return get_one(store, SQL_OF_REQUEST, STORE_VALUES(TEXT(request), INT(attempt)), ret_transfer,
                   ret_found);
}

struct id_list {
    uint64_t *ids;
    size_t room, count;
};

static void add_id(const struct store_row *row, void *self)
{
    struct id_list *list = self;

    if (list->count == list->room)
        return;
    store_read(row, STORE_VALUES(INT(list->ids[list->count])));
    list->count++;
}

bool store_live_of_agent(struct store *store, const char *agent, uint64_t *ids, size_t room,
                         size_t *ret_count)
{
    struct id_list list = {ids, room, 0};

    if (!store_each(store, SQL_LIVE_OF_AGENT, STORE_VALUES(TEXT(agent), INT(room)), add_id, &list))
        return false;
    *ret_count = list.count;
    return true;
}

struct transfer_visitor {
    transfer_visit *visit;
    void *self;
};

static void visit_transfer(const struct store_row *row, void *self)
{
    const struct transfer_visitor *visitor = self;
    struct transfer transfer;

    store_read_transfer(row, &transfer);
    visitor->visit(visitor->self, &transfer);
}

static void read_number(const struct store_row *row, void *self)
{
    store_read(row, STORE_VALUES(INT(*(uint64_t *)self)));
}

bool store_few_requests(struct store *store, const char *request, uint32_t bound, bool *ret_few)
{
    uint64_t count = 0;
    bool counted = store_each(store, SQL_COUNT_REQUEST, STORE_VALUES(TEXT(request), INT(bound)),
                              read_number, &count);

    *ret_few = count < bound;
    return counted;
}

static bool choose_list(struct store *store, const struct transfer_filter *filter,
                        store_sql *ret_sql)
{
    static const store_sql sqls[][2] = {
        [FILTER_ALL] = {SQL_LIST_ALL, SQL_LIST_ALL_OF},
        [FILTER_LIVE] = {SQL_LIST_LIVE, SQL_LIST_LIVE_OF},
        [FILTER_STATE] = {SQL_LIST_STATE, SQL_LIST_STATE_OF},
        [FILTER_REQUEST] = {SQL_LIST_REQUEST, SQL_LIST_REQUEST_OF},
    };
    bool of_one = filter->tenant != NULL, few = true;

    if (filter->kind == FILTER_REQUEST &&
        !store_few_requests(store, filter->request, of_one ? REQUESTS_FEW_OF_TENANT : REQUESTS_FEW,
                            &few))
        return false;
    *ret_sql = few ? sqls[filter->kind][of_one] : of_one ? SQL_WALK_REQUEST_OF : SQL_WALK_REQUEST;
    return true;
}

bool store_list_transfers(struct store *store, const struct transfer_filter *filter,
                          transfer_visit *visit, void *self)
{
    int64_t before = filter->before != 0 ? filter->before : INT64_MAX;
    const struct store_value chosen =
        filter->kind == FILTER_REQUEST ? (struct store_value)TEXT(filter->request)
                                       : (struct store_value)STORE_AT(STORE_STATE, filter->state);
    const struct store_value values[] = {INT(before), INT(filter->limit), chosen,
                                         TEXT(filter->tenant)};
    struct transfer_visitor visitor = {visit, self};
    bool of_one = filter->tenant != NULL;
    size_t count = of_one ? 4 : filter->kind == FILTER_ALL || filter->kind == FILTER_LIVE ? 2 : 3;
    store_sql sql;

    return choose_list(store, filter, &sql) &&
           store_each(store, sql, values, count, visit_transfer, &visitor);
}

static void count_state(const struct store_row *row, void *self)
{
    uint64_t *counts = self, count;
    const char *name;
    transfer_state state;

    store_read(row, STORE_VALUES(STORE_AT(STORE_BORROWED, name), INT(count)));
    if (transfer_state_from_name(name, &state))
        counts[state] = count;
}

bool store_count_states(struct store *store, uint64_t ret_counts[STATE_END])
{
    memset(ret_counts, 0, STATE_END * sizeof(ret_counts[0]));
    return store_each(store, SQL_COUNT_STATES, NULL, 0, count_state, ret_counts);
}

static void read_count(const struct store_row *row, void *self)
{
    store_read(row, STORE_VALUES(INT(*(uint64_t *)self)));
}

bool store_count_held(struct store *store, uint64_t *ret_count)
{
    *ret_count = 0;
    return store_each(store, SQL_COUNT_HELD, NULL, 0, read_count, ret_count);
}

bool store_oldest_live(struct store *store, int64_t *ret_opened_ns)
{
    struct transfer transfer;
    bool found;

    if (!get_one(store, SQL_OLDEST_LIVE, NULL, 0, &transfer, &found))
        return false;
    *ret_opened_ns = found ? transfer_opened_ns(&transfer) : 0;
    return true;
}

struct reason_visitor {
    reason_visit *visit;
    void *self;
};

static void visit_reason(const struct store_row *row, void *self)
{
    const struct reason_visitor *visitor = self;
    struct reason_group group;

    store_read(row, STORE_VALUES(STORE_AT(STORE_BORROWED, group.state),
                                 STORE_AT(STORE_BORROWED, group.reason), INT(group.count),
                                 INT(group.last_id)));
    visitor->visit(visitor->self, &group);
}

bool store_group_reasons(struct store *store, int64_t since_ns, reason_visit *visit, void *self)
{
    struct reason_visitor visitor = {visit, self};

    return store_each(store, SQL_GROUP_REASONS, STORE_VALUES(INT(since_ns)), visit_reason,
                      &visitor);
}

/* ---- agents ---- */

static void read_rail(const struct store_row *row, void *self)
{
    struct kvr_agent_facts *facts = self;

    if (facts->rail_count == KVR_RAILS_MAX)
        return;
    store_read(row, STORE_VALUES(SKIPPED, SKIPPED, RAIL_VALUES(&facts->rails[facts->rail_count])));
    facts->rail_count++;
}

static void read_rail_name(const struct store_row *row, void *self)
{
    char(*names)[KVR_NAME_BYTES] = self;
    const char *name;
    uint32_t at;

    store_read(row, STORE_VALUES(SKIPPED, INT(at), STORE_AT(STORE_BORROWED, name)));
    if (at < KVR_RAILS_MAX)
        snprintf(names[at], KVR_NAME_BYTES, "%s", name);
}

bool store_rail_names(struct store *store, const char *agent,
                      char ret_names[KVR_RAILS_MAX][KVR_NAME_BYTES])
{
    memset(ret_names, 0, KVR_RAILS_MAX * KVR_NAME_BYTES);
    return store_each(store, SQL_LIST_RAILS, STORE_VALUES(TEXT(agent)), read_rail_name, ret_names);
}

static void read_engine(const struct store_row *row, void *self)
{
    struct kvr_agent_facts *facts = self;

    if (facts->engine_count == KVR_ENGINES_MAX)
        return;
    store_read(row,
               STORE_VALUES(SKIPPED, SKIPPED, ENGINE_VALUES(&facts->engines[facts->engine_count])));
    facts->engine_count++;
}

static void read_counters(const char *text, struct kvr_agent_facts *facts)
{
    json_t *object = json_loads(text, 0, NULL);

    for (int i = 0; i < KVR_COUNTER_END; i++) {
        json_t *value = json_object_get(object, kvr_counter_name((kvr_counter)i));

        facts->counters[i] = (uint64_t)json_integer_value(value);
    }
    json_decref(object);
}

static bool read_lists(struct store *store, const char *agent, struct kvr_agent_facts *facts)
{
    return store_each(store, SQL_LIST_RAILS, STORE_VALUES(TEXT(agent)), read_rail, facts) &&
           store_each(store, SQL_LIST_ENGINES, STORE_VALUES(TEXT(agent)), read_engine, facts);
}

struct agent_visitor {
    struct store *store;
    agent_visit *visit;
    void *self;
    bool failed;
    struct kvr_agent_facts facts;
};

static void read_agent(const struct store_row *row, void *self)
{
    struct agent_visitor *visitor = self;
    struct kvr_agent_facts *facts = &visitor->facts;
    const char *counters;
    struct agent_row agent;

    memset(facts, 0, sizeof(*facts));
    store_read(row, STORE_VALUES(AGENT_VALUES(&agent, facts, STORE_AT(STORE_BORROWED, counters))));
    read_counters(counters, facts);
    visitor->failed |= !read_lists(visitor->store, agent.name, facts);
    visitor->visit(visitor->self, &agent, facts);
}

bool store_list_agents(struct store *store, agent_visit *visit, void *self)
{
    struct agent_visitor *visitor = calloc(1, sizeof(*visitor));
    bool listed;

    if (visitor == NULL)
        return false;
    visitor->store = store;
    visitor->visit = visit;
    visitor->self = self;
    listed = store_each(store, SQL_LIST_AGENTS, NULL, 0, read_agent, visitor) && !visitor->failed;
    free(visitor);
    return listed;
}

struct name_visitor {
    agent_name_visit *visit;
    void *self;
};

static void read_name(const struct store_row *row, void *self)
{
    const struct name_visitor *visitor = self;
    char name[KVR_NAME_BYTES];

    store_read(row, STORE_VALUES(TEXT(name)));
    visitor->visit(visitor->self, name);
}

bool store_list_agent_names(struct store *store, agent_name_visit *visit, void *self)
{
    struct name_visitor visitor = {visit, self};

    return store_each(store, SQL_LIST_AGENT_NAMES, NULL, 0, read_name, &visitor);
}
