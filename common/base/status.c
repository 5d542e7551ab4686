#include "base/status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct status_row {
    int value;
    const char *name;
    const char *text;
};

static const struct status_row rows[] = {
#define X(symbol, value, name, text) {value, name, text},
    KVR_STATUS_LIST(X)
#undef X
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static const struct status_row *row_of(int value)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].value == value)
            return &rows[i];
    }
    return NULL;
}

const char *kvr_status_name(kvr_status status)
{
    const struct status_row *row = row_of((int)status);

    return row != NULL ? row->name : "?";
}

const char *kvr_status_text(kvr_status status)
{
    const struct status_row *row = row_of((int)status);

    return row != NULL ? row->text : "an unknown status";
}

kvr_status kvr_status_from_name(const char *name, bool *ret_known)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            if (ret_known != NULL)
                *ret_known = true;
            return (kvr_status)rows[i].value;
        }
    }
    if (ret_known != NULL)
        *ret_known = false;
    return KVR_INTERNAL;
}

bool kvr_status_known(int value)
{
    return row_of(value) != NULL;
}

static void fill(struct kvr_error *error, kvr_status status, const char *where, int os_errno)
{
    error->status = status;
    error->os_errno = os_errno;
    error->provider_code = 0;
    error->where = where;
}

kvr_status kvr_error_set(struct kvr_error *error, kvr_status status, const char *where,
                         const char *format, ...)
{
    va_list arguments;

    if (error == NULL)
        return status;
    fill(error, status, where, 0);
    va_start(arguments, format);
    vsnprintf(error->detail, sizeof(error->detail), format, arguments);
    va_end(arguments);
    return status;
}

kvr_status kvr_error_system(struct kvr_error *error, const char *where, int os_errno,
                            const char *format, ...)
{
    char reason[96];
    va_list arguments;
    size_t used;

    if (error == NULL)
        return KVR_SYSTEM;
    fill(error, KVR_SYSTEM, where, os_errno);
    va_start(arguments, format);
    vsnprintf(error->detail, sizeof(error->detail), format, arguments);
    va_end(arguments);
    used = strlen(error->detail);
    snprintf(error->detail + used, sizeof(error->detail) - used, ": %s",
             strerror_r(os_errno, reason, sizeof(reason)));
    return KVR_SYSTEM;
}
