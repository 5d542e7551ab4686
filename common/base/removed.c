#include "base/removed.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

const char *const kvr_removed_providers[] = {"shm", NULL};

static const char *const sentences[] = {"provider shm was removed: use local"};

/* One of the parts between the plus signs. */
static bool has_part(const char *mixed, const char *name)
{
    size_t bytes = strlen(name);

    for (const char *part = mixed;; part++) {
        size_t length = strcspn(part, "+");

        if (length == bytes && memcmp(part, name, bytes) == 0)
            return true;
        part += length;
        if (*part == '\0')
            return false;
    }
}

const char *kvr_removed_provider(const char *provider)
{
    for (size_t i = 0; kvr_removed_providers[i] != NULL; i++) {
        if (has_part(provider, kvr_removed_providers[i]))
            return sentences[i];
    }
    return NULL;
}

const char *kvr_removed_option(const char *name)
{
    if (strcmp(name, "want-timeout") == 0)
        return "option want-timeout was removed, and had no effect: leave it out";
    return NULL;
}
