/* The audit log. */
#include "scheduler/store_rows.h"

bool store_add_audit(struct store *store, const struct audit_entry *entry, int64_t now_ns)
{
    return store_do(store, SQL_ADD_AUDIT,
                    STORE_VALUES(INT(now_ns), TEXT(entry->action), TEXT(entry->actor),
                                 TEXT(entry->via), TEXT(entry->object), TEXT(entry->from),
                                 TEXT(entry->outcome), TEXT(entry->detail)));
}

struct audit_visitor {
    audit_visit *visit;
    void *self;
};

static void visit_entry(const struct store_row *row, void *self)
{
    const struct audit_visitor *visitor = self;
    struct stored_audit entry;

    store_read(
        row, STORE_VALUES(
                 INT(entry.id), INT(entry.at_ns), STORE_AT(STORE_BORROWED, entry.action),
                 STORE_AT(STORE_BORROWED, entry.actor), STORE_AT(STORE_BORROWED, entry.via),
                 STORE_AT(STORE_BORROWED, entry.object), STORE_AT(STORE_BORROWED, entry.from),
                 STORE_AT(STORE_BORROWED, entry.outcome), STORE_AT(STORE_BORROWED, entry.detail)));
    visitor->visit(visitor->self, &entry);
}

bool store_list_audit(struct store *store, int64_t before, uint32_t limit, audit_visit *visit,
                      void *self)
{
    struct audit_visitor visitor = {visit, self};
    int64_t below = before != 0 ? before : INT64_MAX;

    return store_each(store, SQL_LIST_AUDIT, STORE_VALUES(INT(below), INT(limit)), visit_entry,
                      &visitor);
}
