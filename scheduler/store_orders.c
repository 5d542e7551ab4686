/* Orders for agents, kept until the agent has taken them. */
#include "scheduler/store_rows.h"

bool store_add_orders(struct store *store, const char *request, int64_t attempt,
                      kvr_order_kind kind, kvr_ns lease_ns, int64_t now_ns, uint32_t *ret_count)
{
    if (!store_do(store, SQL_ADD_ORDERS,
                  STORE_VALUES(TEXT(request), INT(attempt), STORE_AT(STORE_ORDER, kind),
                               INT(lease_ns), INT(now_ns))))
        return false;
    *ret_count = (uint32_t)store_changed(store);
    return true;
}

bool store_add_cancel(struct store *store, uint64_t transfer, int64_t now_ns, uint32_t *ret_count)
{
    const kvr_order_kind kind = KVR_ORDER_CANCEL;

    if (!store_do(store, SQL_ADD_CANCEL,
                  STORE_VALUES(INT(transfer), STORE_AT(STORE_ORDER, kind), INT(now_ns))))
        return false;
    *ret_count = (uint32_t)store_changed(store);
    return true;
}

bool store_add_agent_order(struct store *store, const char *agent, kvr_order_kind kind,
                           int64_t now_ns, uint32_t *ret_count)
{
    if (!store_do(store, SQL_ADD_AGENT_ORDER,
                  STORE_VALUES(TEXT(agent), STORE_AT(STORE_ORDER, kind), INT(now_ns))))
        return false;
    *ret_count = (uint32_t)store_changed(store);
    return true;
}

bool store_add_record_order(struct store *store, const char *agent, kvr_ns length, int64_t now_ns,
                            uint32_t *ret_count)
{
    const kvr_order_kind kind = KVR_ORDER_RECORD;

    if (!store_do(store, SQL_ADD_RECORD_ORDER,
                  STORE_VALUES(TEXT(agent), STORE_AT(STORE_ORDER, kind), INT(length), INT(now_ns))))
        return false;
    *ret_count = (uint32_t)store_changed(store);
    return true;
}

struct order_list {
    struct kvr_order *orders;
    uint32_t count;
};

static void read_order(const struct store_row *row, void *self)
{
    struct order_list *list = self;
    struct kvr_order *order = &list->orders[list->count++];

    store_read(row, STORE_VALUES(INT(order->number), STORE_AT(STORE_ORDER, order->kind),
                                 TEXT(order->request), INT(order->attempt), INT(order->lease_ns),
                                 INT(order->transfer)));
}

bool store_list_orders(struct store *store, const char *agent, uint64_t boot,
                       struct kvr_order orders[KVR_ORDERS_MAX], uint32_t *ret_count)
{
    const uint32_t most = KVR_ORDERS_MAX;
    struct order_list list = {orders, 0};
    bool listed = store_each(store, SQL_LIST_ORDERS,
                             STORE_VALUES(TEXT(agent), INT(boot), INT(most)), read_order, &list);

    *ret_count = list.count;
    return listed;
}

bool store_take_orders(struct store *store, const char *agent, uint64_t boot, uint64_t number)
{
    return store_do(store, SQL_TAKE_ORDERS, STORE_VALUES(TEXT(agent), INT(boot), INT(number)));
}

bool store_drop_orders(struct store *store, uint64_t transfer)
{
    return store_do(store, SQL_DROP_ORDERS, STORE_VALUES(INT(transfer)));
}
