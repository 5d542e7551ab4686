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

static void fill(const struct store_value *value, int index, struct store_parameter *ret)
{
    const uint8_t *at = value->at;
    const struct store_bytes *bytes;

    *ret = (struct store_parameter){.null = at == NULL};
    switch (value->kind) {
    case STORE_INT:
    case STORE_ROWID:
        ret->type = STORE_IS_NUMBER;
        ret->number = load(at + (size_t)index * value->bytes, value->bytes);
        ret->null = value->kind == STORE_ROWID && ret->number == 0;
        return;
    case STORE_UUID:
        ret->type = STORE_IS_BYTES;
        ret->at = at;
        ret->bytes = sizeof(struct kvr_uuid);
        return;
    case STORE_BYTES:
        bytes = value->at;
        ret->type = STORE_IS_BYTES;
        ret->at = bytes->count > 0 ? bytes->at : (const uint8_t *)""; /* NULL would be no bytes */
        ret->bytes = bytes->count;
        return;
    default:
        ret->type = STORE_IS_TEXT;
        ret->at = at != NULL ? text_of(value) : NULL;
    }
}

bool store_each(struct store *store, store_sql sql, const struct store_value *values, size_t count,
                store_row_visit *visit, void *self)
{
    struct store_parameter parameters[STORE_PARAMETERS_MAX];
    int filled = 0;

    for (size_t i = 0; i < count; i++)
        for (int index = 0; index < values[i].count && filled < STORE_PARAMETERS_MAX; index++)
            fill(&values[i], index, &parameters[filled++]);
    return store->driver->run(store, sql, parameters, filled, visit, self);
}

bool store_do(struct store *store, store_sql sql, const struct store_value *values, size_t count)
{
    return store_each(store, sql, values, count, NULL, NULL);
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

static void read_one(const struct store_row *row, int column, const struct store_value *value,
                     int index)
{
    const struct store_driver *driver = row->driver;
    struct store_bytes bytes;

    switch (value->kind) {
    case STORE_SKIPPED:
        return;
    case STORE_INT:
    case STORE_ROWID:
        keep((uint8_t *)value->at + (size_t)index * value->bytes, value->bytes,
             driver->number(row, column));
        return;
    case STORE_UUID:
        bytes = driver->bytes(row, column);
        if (bytes.count == sizeof(struct kvr_uuid))
            memcpy(value->at, bytes.at, bytes.count);
        return;
    case STORE_BYTES:
        *(struct store_bytes *)value->at = driver->bytes(row, column);
        return;
    default:
        name_from(driver->text(row, column), value);
    }
}

void store_read(const struct store_row *row, const struct store_value *values, size_t count)
{
    int column = 0;

    for (size_t i = 0; i < count; i++)
        for (int index = 0; index < values[i].count; index++)
            read_one(row, column++, &values[i], index);
}
