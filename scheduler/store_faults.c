/* The table of faults. */
#include "scheduler/store_faults.h"

#include "scheduler/store_rows.h"

/* A report that comes again says nearly the same time. Since when a pair of rails is in trouble
 * comes with reports that waited. */
#define SAME_NS       ((int64_t)(KVR_S / 2))
#define SAME_SINCE_NS ((int64_t)(3 * KVR_S))

/* Its rows may have ended at this very moment, or be those of a report that comes again. */
bool store_reopen_fault(struct store *store, const struct fault *fault, int64_t now_ns,
                        bool *ret_reopened)
{
    const char *kind = kvr_fault_name(fault->kind);
    const int64_t from = fault->from_ns - SAME_SINCE_NS, to = fault->from_ns + SAME_SINCE_NS;

    *ret_reopened = false;
    if (fault->until_ns != 0)
        return true;
    if (!store_do(store, SQL_REOPEN_FAULT,
                  STORE_VALUES(TEXT(fault->agent), TEXT(kind), INT(fault->rail), TEXT(fault->peer),
                               INT(now_ns), INT(from), INT(to))))
        return false;
    *ret_reopened = store_changed(store) > 0;
    return true;
}

bool store_add_fault(struct store *store, const struct fault *fault)
{
    const char *kind = kvr_fault_name(fault->kind);
    const int64_t from = fault->from_ns - SAME_NS, to = fault->from_ns + SAME_NS;

    return store_do(store, SQL_ADD_FAULT,
                    STORE_VALUES(TEXT(fault->agent), TEXT(kind), INT(fault->rail),
                                 TEXT(fault->peer), INT(fault->boot), INT(fault->from_ns),
                                 INT(fault->until_ns), INT(fault->amount), TEXT(fault->text),
                                 INT(from), INT(to)));
}

bool store_begin_fault(struct store *store, const struct fault *fault, int64_t now_ns)
{
    bool reopened;

    return store_reopen_fault(store, fault, now_ns, &reopened) &&
           (reopened || store_add_fault(store, fault));
}

bool store_end_fault(struct store *store, const struct fault *fault, int64_t now_ns)
{
    const char *kind = kvr_fault_name(fault->kind);

    return store_do(store, SQL_END_FAULT,
                    STORE_VALUES(TEXT(fault->agent), TEXT(kind), INT(fault->rail),
                                 TEXT(fault->peer), INT(now_ns)));
}

bool store_end_faults(struct store *store, const char *agent, int64_t now_ns, uint64_t *ret_ended)
{
    bool stored = store_do(store, SQL_END_FAULTS, STORE_VALUES(TEXT(agent), INT(now_ns)));

    *ret_ended = stored ? store_changed(store) : 0;
    return stored;
}

bool store_end_faults_gone(struct store *store, int64_t now_ns)
{
    return store_do(store, SQL_END_FAULTS_GONE, STORE_VALUES(INT(now_ns)));
}

bool store_end_absence(struct store *store, int64_t now_ns, bool *ret_ended)
{
    uint64_t ended;
    bool stored = store_end_faults(store, "", now_ns, &ended);

    *ret_ended = ended > 0;
    return stored;
}

static void read_last(const struct store_row *row, void *self)
{
    int64_t *last = self, seen, updated;

    store_read(row, STORE_VALUES(INT(seen), INT(updated)));
    *last = seen > updated ? seen : updated;
}

bool store_last_report(struct store *store, int64_t *ret_ns)
{
    static const int64_t nothing = 0;

    *ret_ns = 0;
    return store_each(store, SQL_LAST_REPORT, STORE_VALUES(INT(nothing)), read_last, ret_ns);
}

bool store_prune_faults(struct store *store, int64_t before_ns, int64_t most, bool *ret_more)
{
    *ret_more = false;
    if (!store_do(store, SQL_PRUNE_FAULTS, STORE_VALUES(INT(before_ns))))
        return false;
    *ret_more = store_changed(store) > 0;
    if (!store_do(store, SQL_BOUND_FAULTS, STORE_VALUES(INT(most))))
        return false;
    *ret_more |= store_changed(store) > 0;
    return true;
}

struct visitor {
    fault_visit *visit;
    void *self;
};

static void visit_row(const struct store_row *row, void *self)
{
    const struct visitor *visitor = self;
    struct stored_fault fault;

    store_read(row, STORE_VALUES(STORE_AT(STORE_BORROWED, fault.kind),
                                 STORE_AT(STORE_BORROWED, fault.agent), INT(fault.rail),
                                 STORE_AT(STORE_BORROWED, fault.peer), INT(fault.from_ns),
                                 INT(fault.until_ns), INT(fault.amount),
                                 STORE_AT(STORE_BORROWED, fault.text)));
    visitor->visit(visitor->self, &fault);
}

bool store_list_faults(struct store *store, int64_t from_ns, int64_t until_ns, uint32_t limit,
                       fault_visit *visit, void *self)
{
    struct visitor visitor = {visit, self};

    return store_each(store, SQL_LIST_FAULTS, STORE_VALUES(INT(from_ns), INT(until_ns), INT(limit)),
                      visit_row, &visitor);
}
