/* The table of engines that were ever seen. */
#include "scheduler/store_engines.h"

#include "scheduler/store_rows.h"

bool store_see_engine(struct store *store, const char *agent, const struct kvr_engine_facts *engine,
                      int64_t now_ns)
{
    return store_do(store, SQL_SEE_ENGINE,
                    STORE_VALUES(TEXT(agent), ENGINE_VALUES(engine), INT(now_ns)));
}

bool store_bound_engines(struct store *store, int64_t most, bool *ret_more)
{
    const int64_t others = most - 1;

    *ret_more = false;
    if (!store_do(store, SQL_BOUND_ENGINES, STORE_VALUES(INT(others))))
        return false;
    *ret_more = store_changed(store) > 0;
    return true;
}

struct visitor {
    engine_visit *visit;
    void *self;
};

static void visit_row(const struct store_row *row, void *self)
{
    const struct visitor *visitor = self;
    struct stored_engine engine = {0};

    store_read(row, STORE_VALUES(INT(engine.id), TEXT(engine.agent), ENGINE_VALUES(&engine.facts),
                                 INT(engine.first_ns), INT(engine.last_ns)));
    visitor->visit(visitor->self, &engine);
}

bool store_list_engines(struct store *store, const struct engine_filter *filter,
                        engine_visit *visit, void *self)
{
    struct visitor visitor = {visit, self};
    const int64_t before = filter->before != 0 ? filter->before : INT64_MAX;
    /* When it went, last_ns was so old; and the reports that store it come in steps, too. */
    const int64_t before_ns = 2 * ENGINES_SEEN_NS;
    const int64_t from_ns = filter->from_ns > before_ns ? filter->from_ns - before_ns : 0;

    return store_each(store, SQL_LIST_ENGINES_SEEN,
                      STORE_VALUES(INT(before), TEXT(filter->agent), INT(from_ns),
                                   INT(filter->until_ns), INT(filter->limit)),
                      visit_row, &visitor);
}
