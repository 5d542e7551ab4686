/* The table of marks. */
#include "scheduler/store_marks.h"

#include "scheduler/store_rows.h"

bool store_add_mark(struct store *store, const char *agent, uint64_t boot, const struct mark *mark,
                    int64_t at_ns)
{
    const char *kind = mark_name(mark->kind);

    return store_do(store, SQL_ADD_MARK,
                    STORE_VALUES(TEXT(agent), INT(boot), TEXT(kind), INT(at_ns), TEXT(mark->before),
                                 TEXT(mark->after)));
}

struct agent_before {
    struct kvr_agent_facts *facts;
    bool known;
};

static void read_before(const struct store_row *row, void *self)
{
    struct agent_before *before = self;
    struct kvr_agent_facts *facts = before->facts;

    store_read(row, STORE_VALUES(TEXT(facts->version), TEXT(facts->host), TEXT(facts->listen),
                                 TEXT(facts->provider), INT(facts->secure), TEXT(facts->options),
                                 INT(facts->rail_count)));
    before->known = true;
}

bool store_agent_before(struct store *store, const char *agent, struct kvr_agent_facts *ret_facts,
                        bool *ret_known)
{
    struct agent_before before = {ret_facts, false};
    bool read =
        store_each(store, SQL_AGENT_BEFORE, STORE_VALUES(TEXT(agent)), read_before, &before);

    *ret_known = before.known;
    return read;
}

struct visitor {
    mark_visit *visit;
    void *self;
};

static void visit_row(const struct store_row *row, void *self)
{
    const struct visitor *visitor = self;
    struct stored_mark mark;

    store_read(row, STORE_VALUES(STORE_AT(STORE_BORROWED, mark.agent),
                                 STORE_AT(STORE_BORROWED, mark.kind), INT(mark.at_ns),
                                 STORE_AT(STORE_BORROWED, mark.before),
                                 STORE_AT(STORE_BORROWED, mark.after)));
    visitor->visit(visitor->self, &mark);
}

bool store_list_marks(struct store *store, int64_t from_ns, int64_t until_ns, uint32_t limit,
                      mark_visit *visit, void *self)
{
    struct visitor visitor = {visit, self};

    return store_each(store, SQL_LIST_MARKS, STORE_VALUES(INT(from_ns), INT(until_ns), INT(limit)),
                      visit_row, &visitor);
}

bool store_prune_marks(struct store *store, int64_t before_ns)
{
    return store_do(store, SQL_PRUNE_MARKS, STORE_VALUES(INT(before_ns)));
}
