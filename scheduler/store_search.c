/* Searches of transfers by what they were. Live ones come first, the newest mention before older
 * ones; then ended ones, the newest end before older ones. */
#include "scheduler/store_rows.h"

/* Matches of a request's beginning that are all looked up. */
#define SEARCH_REQUESTS_FEW 2000

/* An index to go over, when the filter asks for what it is made of. */
typedef enum search_way {
    WAY_AGENT,
    WAY_ENGINE,
    WAY_REASON,
    WAY_PATH,
    WAY_SLOW,
    WAY_END
} search_way;

static const struct {
    store_sql find, last;
} ways[WAY_END + 1] = {
    [WAY_AGENT] = {SQL_FIND_AGENT, SQL_LAST_AGENT},
    [WAY_ENGINE] = {SQL_FIND_ENGINE, SQL_LAST_ENGINE},
    [WAY_REASON] = {SQL_FIND_REASON, SQL_LAST_REASON},
    [WAY_PATH] = {SQL_FIND_PATH, SQL_LAST_PATH},
    [WAY_SLOW] = {SQL_FIND_SLOW, SQL_LAST_SLOW},
    [WAY_END] = {SQL_FIND_TIME, SQL_LAST_TIME}, /* when it asks for none of them */
};

struct search {
    struct store *store;
    const struct transfer_filter *filter;
    struct transfer_place before, last; /* of the page, and of the candidates looked at */
    uint32_t room;                      /* rows that the page still takes */
    transfer_visit *visit;
    void *self;
};

bool transfer_filter_searches(const struct transfer_filter *filter)
{
    return filter->agent != NULL || filter->engine != NULL || filter->reason != NULL ||
           filter->path != KVR_PATH_NONE || filter->from_ns != 0 || filter->until_ns != 0 ||
           filter->min_duration_ns != 0 ||
           (filter->request != NULL && filter->kind != FILTER_REQUEST);
}

static bool asks(const struct transfer_filter *filter, search_way way)
{
    switch (way) {
    case WAY_AGENT:
        return filter->agent != NULL;
    case WAY_ENGINE:
        return filter->engine != NULL;
    case WAY_REASON:
        return filter->reason != NULL;
    case WAY_PATH:
        return filter->path != KVR_PATH_NONE;
    case WAY_SLOW: /* shorter ones stand together with all others */
        return filter->min_duration_ns >= (int64_t)(100 * KVR_MS);
    case WAY_END:
        break;
    }
    return false;
}

static bool run(const struct search *search, store_sql sql, store_row_visit *visit, void *self)
{
    const struct transfer_filter *filter = search->filter;
    const char *state = filter->kind == FILTER_STATE ? transfer_state_name(filter->state) : NULL;
    const char *path = filter->path != KVR_PATH_NONE ? kvr_path_name(filter->path) : NULL;
    int64_t rail = filter->has_rail ? (int64_t)filter->rail : -1;

    return store_each(search->store, sql,
                      STORE_VALUES(INT(search->before.updated_ns), INT(search->before.ordinal),
                                   INT(filter->from_ns), INT(search->room), TEXT(state),
                                   TEXT(filter->tenant), TEXT(filter->agent),
                                   {STORE_UUID, (void *)(uintptr_t)filter->engine, 0, 1}, INT(rail),
                                   TEXT(filter->reason), TEXT(path), INT(filter->min_duration_ns),
                                   TEXT(filter->request)),
                      visit, self);
}

static void read_place(const struct store_row *row, void *self)
{
    struct transfer_place *place = self;

    store_read(row, STORE_VALUES(INT(place->ordinal), INT(place->updated_ns)));
}

/* The way on which a page comes farthest. *ret_last: of the candidates that it looks at; all 0:
 * there are no more than that. */
static bool choose(const struct search *search, search_way *ret_way,
                   struct transfer_place *ret_last)
{
    bool found = false;

    for (int i = 0; i <= WAY_END; i++) {
        struct transfer_place last = {0};

        if (i < WAY_END ? !asks(search->filter, (search_way)i) : found)
            continue;
        if (!run(search, ways[i].last, read_place, &last))
            return false;
        if (!found || last.updated_ns < ret_last->updated_ns) {
            *ret_way = (search_way)i;
            *ret_last = last;
        }
        found = true;
    }
    return true;
}

static void take(const struct store_row *row, void *self)
{
    struct search *search = self;
    struct transfer transfer;

    store_read_transfer(row, &transfer);
    search->visit(search->self, &transfer);
    search->room--;
    search->last = (struct transfer_place){transfer.ordinal, transfer.updated_ns};
}

static bool find(struct search *search, store_sql sql)
{
    return run(search, sql, take, search);
}

/* Live ones have their place by the ordinal alone. */
static bool find_live(struct search *search, struct transfer_found *found)
{
    const struct transfer_filter *filter = search->filter;
    bool any = filter->kind != FILTER_STATE || transfer_state_live(filter->state);

    if (!any || filter->before_ns != 0 || filter->reason != NULL || filter->min_duration_ns != 0)
        return true;
    search->before.ordinal = filter->before != 0 ? filter->before : INT64_MAX;
    if (!find(search, SQL_FIND_LIVE))
        return false;
    if (search->room == 0)
        found->next = (struct transfer_place){search->last.ordinal, 0};
    return true;
}

static bool find_ended(struct search *search, struct transfer_found *found)
{
    const struct transfer_filter *filter = search->filter;
    struct transfer_place end = {0};
    store_sql sql = SQL_FIND_REQUEST;
    bool few = false;
    search_way way = WAY_END;

    search->before.ordinal = filter->before_ns != 0 ? filter->before : INT64_MAX;
    if (filter->before_ns != 0 && filter->before_ns < search->before.updated_ns)
        search->before.updated_ns = filter->before_ns;
    if (filter->request != NULL &&
        !store_few_requests(search->store, filter->request, SEARCH_REQUESTS_FEW, &few))
        return false;
    if (!few) {
        if (!choose(search, &way, &end))
            return false;
        sql = ways[way].find;
    }
    if (!find(search, sql))
        return false;
    if (search->room == 0) {
        found->next = search->last;
    } else if (end.updated_ns != 0) {
        found->next = end;
        found->searched_ns = end.updated_ns;
    }
    return true;
}

bool store_search_transfers(struct store *store, const struct transfer_filter *filter,
                            transfer_visit *visit, void *self, struct transfer_found *ret_found)
{
    struct search search = {.store = store,
                            .filter = filter,
                            .before.updated_ns =
                                filter->until_ns != 0 ? filter->until_ns : INT64_MAX,
                            .room = filter->limit,
                            .visit = visit,
                            .self = self};
    bool ended = filter->kind != FILTER_LIVE &&
                 (filter->kind != FILTER_STATE || !transfer_state_live(filter->state));

    *ret_found = (struct transfer_found){0};
    return find_live(&search, ret_found) &&
           (search.room == 0 || !ended || find_ended(&search, ret_found));
}

/* ---- errors ---- */

static void read_first(const struct store_row *row, void *self)
{
    struct error_group *group = self;

    store_read(row, STORE_VALUES(SKIPPED, INT(group->first_ns)));
}

static void read_last(const struct store_row *row, void *self)
{
    struct error_group *group = self;

    store_read(row, STORE_VALUES(INT(group->last_id), INT(group->last_ns)));
}

static void read_count(const struct store_row *row, void *self)
{
    struct error_group *group = self;

    store_read(row, STORE_VALUES(INT(group->count)));
}

bool store_group_errors(struct store *store, const char *reason, int64_t from_ns, int64_t until_ns,
                        struct error_group *ret_group)
{
    const uint64_t most = ERROR_COUNT_MAX + 1;
    const struct store_value values[] = {TEXT(reason), INT(from_ns), INT(until_ns), INT(most)};

    *ret_group = (struct error_group){0};
    return store_each(store, SQL_ERROR_LAST, values, 3, read_last, ret_group) &&
           (ret_group->last_id == 0 ||
            (store_each(store, SQL_ERROR_FIRST, values, 3, read_first, ret_group) &&
             store_each(store, SQL_ERROR_COUNT, values, 4, read_count, ret_group)));
}
