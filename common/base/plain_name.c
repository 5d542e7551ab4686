#include "base/plain_name.h"

#include <assert.h>
#include <string.h>

static_assert(KVR_NAME_BYTES - 1 == 63, "KVR_PLAIN_NAME_FORM says how many");

static bool is_alphanumeric(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool kvr_plain_name(const char *name, size_t bytes)
{
    size_t i = 0;

    while (i < bytes && (is_alphanumeric(name[i]) ||
                         (i > 0 && name[i] != '\0' && strchr("._-", name[i]) != NULL)))
        i++;
    return bytes > 0 && bytes < KVR_NAME_BYTES && i == bytes;
}

bool kvr_plain_name_or_none(const char *name)
{
    return name[0] == '\0' || kvr_plain_name(name, strnlen(name, KVR_NAME_BYTES));
}
