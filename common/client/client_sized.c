#include "client/client_sized.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/version.h"

#define WHERE "kvrail"

/* Of any version ever; more is no size but garbage. */
#define SIZE_MAX_EVER 4096u

/* A field may be appended, and only there. Padding at the end would have garbage of old programs
 * where a new field begins. The test of a later library appends fields to every struct. */
#define END_OF(name, field)                                                                        \
    (offsetof(struct kvrail_##name, field) + sizeof(((struct kvrail_##name *)NULL)->field))
#define CHECK_FIRST(name, first, bytes, last) _Static_assert(END_OF(name, first) == (bytes), #name);
#define CHECK_LAST(name, first, bytes, last)                                                       \
    _Static_assert(END_OF(name, last) == sizeof(struct kvrail_##name), #name);

#if UINTPTR_MAX == UINT64_MAX
CLIENT_SIZED(CHECK_FIRST)
#endif
#ifndef KVRAIL_LATER_STRUCTS
CLIENT_SIZED(CHECK_LAST)
#endif

static bool all_zero(const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != 0)
            return false;
    }
    return true;
}

kvr_status client_sized_copy(void *ret_own, size_t own_bytes, const void *theirs,
                             size_t first_bytes, const char *name, struct kvr_error *error)
{
    uint32_t size;
    size_t known;

    memcpy(&size, theirs, sizeof(size)); /* the first field of every struct */
    if (size < first_bytes || size > SIZE_MAX_EVER)
        return kvr_error_set(error, KVR_INVALID, WHERE,
                             "the size of a struct kvrail_%s is %u: set it to its sizeof, at least "
                             "%zu",
                             name, size, first_bytes);
    known = size < own_bytes ? size : own_bytes;
    if (!all_zero((const uint8_t *)theirs + known, size - known))
        return kvr_error_set(error, KVR_UNSUPPORTED, WHERE,
                             "the program set a field of struct kvrail_%s that libkvrail %s does "
                             "not know: install a newer libkvrail, or leave the field 0",
                             name, KVRAIL_VERSION);
    memset(ret_own, 0, own_bytes);
    memcpy(ret_own, theirs, known);
    return KVR_OK;
}
