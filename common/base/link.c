#include "base/link.h"

#include <string.h>

const char *kvr_link_name(kvr_link_kind kind)
{
    static const char *const names[] = {KVR_LINK_LIST(KVR_NAME)};

    return kind > KVR_LINK_UNKNOWN && kind < KVR_LINK_END ? names[kind] : "";
}

kvr_link_kind kvr_link_from_name(const char *name)
{
    int kind = KVR_LINK_END - 1;

    while (kind > KVR_LINK_UNKNOWN && strcmp(kvr_link_name((kvr_link_kind)kind), name) != 0)
        kind--;
    return (kvr_link_kind)kind;
}
