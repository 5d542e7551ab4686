/* How the members of the program's structs and the columns of rows become each other. */
#include <stdio.h>

#include "scheduler/store_rows.h"

static int64_t load(const void *at, size_t bytes)
{
    if (bytes == sizeof(bool))
        return *(const bool *)at;
    return bytes == sizeof(uint32_t) ? *(const uint32_t *)at : *(const int64_t *)at;
}

static void keep(void *at, size_t bytes, int64_t number)
{
    if (bytes == sizeof(bool))
        *(bool *)at = number != 0;
    else if (bytes == sizeof(uint32_t))
        *(uint32_t *)at = (uint32_t)number;
    else
        *(int64_t *)at = number;
}

/* ---- to the database ---- */

static const char *text_of(const struct store_value *value)
{
    const struct transfer_side *side = value->at;

    switch (value->kind) {
    case STORE_STATE:
        return transfer_state_name(*(const transfer_state *)value->at);
    case STORE_STATUS:
        return kvr_status_name(*(const kvr_status *)value->at);
    case STORE_OUTCOME:
        return side->ended ? kvr_status_name(side->outcome) : "";
    case STORE_PATH:
        return kvr_path_name(*(const kvr_path *)value->at);
    case STORE_ROLE:
        return transfer_role_name(*(const kvr_role *)value->at);
    case STORE_RAIL_STATE:
        return kvr_rail_state_name(*(const kvr_rail_state *)value->at);
    case STORE_ORDER:
        return kvr_order_name(*(const kvr_order_kind *)value->at);
    default:
        return value->at;
    }
}

static void bind_one(sqlite3_stmt *statement, int column, const struct store_value *value,
                     int index)
{
    const uint8_t *at = value->at;
    const struct store_bytes *bytes;
    int64_t number;

    switch (value->kind) {
    case STORE_INT:
    case STORE_ROWID:
        number = load(at + (size_t)index * value->bytes, value->bytes);
        if (value->kind == STORE_ROWID && number == 0)
            sqlite3_bind_null(statement, column);
        else
            sqlite3_bind_int64(statement, column, number);
        return;
    case STORE_UUID:
        sqlite3_bind_blob(statement, column, at, sizeof(struct kvr_uuid), SQLITE_STATIC);
        return;
    case STORE_BYTES:
        bytes = value->at;
        sqlite3_bind_blob(statement, column, bytes->at, (int)bytes->count, SQLITE_STATIC);
        return;
    default:
        sqlite3_bind_text(statement, column, text_of(value), -1, SQLITE_STATIC);
    }
}

sqlite3_stmt *store_bind(struct store *store, store_sql sql, const struct store_value *values,
                         size_t count)
{
    sqlite3_stmt *statement = store_statement(store, sql);
    int column = 0;

    for (size_t i = 0; i < count && statement != NULL; i++)
        for (int index = 0; index < values[i].count; index++)
            bind_one(statement, ++column, &values[i], index);
    return statement;
}

bool store_each(sqlite3_stmt *statement, void (*row)(sqlite3_stmt *statement, void *self),
                void *self)
{
    int result;

    if (statement == NULL)
        return false;
    while ((result = sqlite3_step(statement)) == SQLITE_ROW)
        if (row != NULL)
            row(statement, self);
    sqlite3_reset(statement);
    return result == SQLITE_DONE;
}

bool store_do(struct store *store, store_sql sql, const struct store_value *values, size_t count)
{
    return store_each(store_bind(store, sql, values, count), NULL, NULL);
}

/* ---- from it ---- */

static kvr_status status_from(const char *name)
{
    bool known;
    kvr_status status = kvr_status_from_name(name, &known);

    return known ? status : KVR_INTERNAL;
}

static void outcome_from(const char *name, struct transfer_side *side)
{
    side->ended = name[0] != '\0';
    if (side->ended)
        side->outcome = status_from(name);
}

static void name_from(const char *name, const struct store_value *value)
{
    switch (value->kind) {
    case STORE_TEXT:
        snprintf(value->at, value->bytes, "%s", name);
        return;
    case STORE_BORROWED:
        *(const char **)value->at = name;
        return;
    case STORE_STATE:
        if (!transfer_state_from_name(name, value->at))
            *(transfer_state *)value->at = STATE_LOST;
        return;
    case STORE_STATUS:
        *(kvr_status *)value->at = status_from(name);
        return;
    case STORE_OUTCOME:
        return outcome_from(name, value->at);
    case STORE_PATH:
        *(kvr_path *)value->at = kvr_path_from_name(name);
        return;
    case STORE_ROLE:
        *(kvr_role *)value->at = strcmp(name, "source") == 0 ? KVR_ROLE_SOURCE : KVR_ROLE_TARGET;
        return;
    case STORE_RAIL_STATE:
        if (!kvr_rail_state_from_name(name, value->at))
            *(kvr_rail_state *)value->at = KVR_RAIL_UP;
        return;
    case STORE_ORDER:
        *(kvr_order_kind *)value->at = kvr_order_from_name(name);
        return;
    default:
        return;
    }
}

static void read_uuid(sqlite3_stmt *statement, int column, struct kvr_uuid *uuid)
{
    const void *bytes = sqlite3_column_blob(statement, column);

    if (bytes != NULL && sqlite3_column_bytes(statement, column) == (int)sizeof(uuid->bytes))
        memcpy(uuid->bytes, bytes, sizeof(uuid->bytes));
}

static void read_one(sqlite3_stmt *statement, int column, const struct store_value *value,
                     int index)
{
    struct store_bytes *bytes;
    const char *text;

    switch (value->kind) {
    case STORE_SKIPPED:
        return;
    case STORE_INT:
    case STORE_ROWID:
        keep((uint8_t *)value->at + (size_t)index * value->bytes, value->bytes,
             sqlite3_column_int64(statement, column));
        return;
    case STORE_UUID:
        return read_uuid(statement, column, value->at);
    case STORE_BYTES:
        bytes = value->at;
        bytes->at = sqlite3_column_blob(statement, column);
        bytes->count = (size_t)sqlite3_column_bytes(statement, column);
        return;
    default:
        text = (const char *)sqlite3_column_text(statement, column);
        name_from(text != NULL ? text : "", value);
    }
}

void store_read(sqlite3_stmt *statement, const struct store_value *values, size_t count)
{
    int column = 0;

    for (size_t i = 0; i < count; i++)
        for (int index = 0; index < values[i].count; index++)
            read_one(statement, column++, &values[i], index);
}
