/* Orders for agents, kept until the agent has taken them. */
#include <stdio.h>

#include "scheduler/store_rows.h"

bool store_add_orders(struct store *store, const char *request, int64_t attempt,
                      kvr_order_kind kind, kvr_ns lease_ns, int64_t now_ns, uint32_t *ret_count)
{
    sqlite3_stmt *statement = store_statement(store, SQL_ADD_ORDERS);

    if (statement == NULL)
        return false;
    sqlite3_bind_text(statement, 1, request, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 2, attempt);
    sqlite3_bind_text(statement, 3, kvr_order_name(kind), -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 4, (sqlite3_int64)lease_ns);
    sqlite3_bind_int64(statement, 5, now_ns);
    if (!store_run(store, statement))
        return false;
    *ret_count = (uint32_t)sqlite3_changes(store->database);
    return true;
}

static void read_order(sqlite3_stmt *statement, struct kvr_order *order)
{
    const char *kind = (const char *)sqlite3_column_text(statement, 1);
    const char *request = (const char *)sqlite3_column_text(statement, 2);

    *order = (struct kvr_order){.number = (uint64_t)sqlite3_column_int64(statement, 0),
                                .kind = KVR_ORDER_KIND_END,
                                .attempt = (uint32_t)sqlite3_column_int64(statement, 3),
                                .lease_ns = (kvr_ns)sqlite3_column_int64(statement, 4)};
    for (int i = 0; i < KVR_ORDER_KIND_END && kind != NULL; i++)
        if (strcmp(kind, kvr_order_name((kvr_order_kind)i)) == 0)
            order->kind = (kvr_order_kind)i;
    snprintf(order->request, sizeof(order->request), "%s", request != NULL ? request : "");
}

bool store_list_orders(struct store *store, const char *agent, uint64_t boot,
                       struct kvr_order orders[KVR_ORDERS_MAX], uint32_t *ret_count)
{
    sqlite3_stmt *statement = store_statement(store, SQL_LIST_ORDERS);
    uint32_t count = 0;
    int result;

    if (statement == NULL)
        return false;
    sqlite3_bind_text(statement, 1, agent, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 2, (sqlite3_int64)boot);
    sqlite3_bind_int64(statement, 3, KVR_ORDERS_MAX);
    while ((result = sqlite3_step(statement)) == SQLITE_ROW)
        read_order(statement, &orders[count++]);
    sqlite3_reset(statement);
    *ret_count = count;
    return result == SQLITE_DONE;
}

bool store_take_orders(struct store *store, const char *agent, uint64_t boot, uint64_t number)
{
    sqlite3_stmt *statement = store_statement(store, SQL_TAKE_ORDERS);

    if (statement == NULL)
        return false;
    sqlite3_bind_text(statement, 1, agent, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 2, (sqlite3_int64)boot);
    sqlite3_bind_int64(statement, 3, (sqlite3_int64)number);
    return store_run(store, statement);
}

bool store_drop_orders(struct store *store, uint64_t transfer)
{
    sqlite3_stmt *statement = store_statement(store, SQL_DROP_ORDERS);

    if (statement == NULL)
        return false;
    sqlite3_bind_int64(statement, 1, (sqlite3_int64)transfer);
    return store_run(store, statement);
}
