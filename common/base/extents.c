#include "base/extents.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

struct kvr_extents *kvr_extents_new(uint32_t capacity)
{
    struct kvr_extents *extents;

    assert(capacity <= KVR_EXTENTS_MAX);
    extents = calloc(1, sizeof(*extents) + capacity * sizeof(extents->at[0]));
    if (extents != NULL) {
        atomic_store_explicit(&extents->users, 1, memory_order_relaxed);
        extents->capacity = capacity;
    }
    return extents;
}

void kvr_extents_add(struct kvr_extents *extents, int fd, uint64_t bytes)
{
    assert(extents->count < extents->capacity);
    extents->at[extents->count++] = (struct kvr_extent){.fd = fd, .bytes = bytes};
}

struct kvr_extents *kvr_extents_keep(struct kvr_extents *extents)
{
    if (extents != NULL)
        atomic_fetch_add_explicit(&extents->users, 1, memory_order_relaxed);
    return extents;
}

void kvr_extents_release(struct kvr_extents *extents)
{
    if (extents == NULL || atomic_fetch_sub_explicit(&extents->users, 1, memory_order_acq_rel) > 1)
        return;
    for (uint32_t i = 0; i < extents->count; i++)
        close(extents->at[i].fd);
    free(extents);
}

kvr_status kvr_extents_check(const struct kvr_extents *extents, uint64_t offset, uint64_t bytes,
                             uint64_t grain, const char *where, uint64_t *ret_whole,
                             struct kvr_error *error)
{
    uint64_t whole = 0, before_last = 0, end;

    for (uint32_t i = 0; i < extents->count; i++) {
        uint64_t of_it = extents->at[i].bytes;

        before_last = whole;
        if (of_it == 0 || of_it % grain != 0 || __builtin_add_overflow(whole, of_it, &whole))
            return kvr_error_set(
                error, KVR_INVALID, where,
                "allocation %u of the region has %llu bytes: a multiple of %llu is "
                "needed",
                i, (unsigned long long)of_it, (unsigned long long)grain);
    }
    if (extents->count == 0 || bytes == 0 || offset >= extents->at[0].bytes ||
        __builtin_add_overflow(offset, bytes, &end) || end > whole || end <= before_last)
        return kvr_error_set(error, KVR_INVALID, where,
                             "%llu bytes at offset %llu do not begin in the first and end in the "
                             "last of %u allocations of %llu bytes together",
                             (unsigned long long)bytes, (unsigned long long)offset, extents->count,
                             (unsigned long long)whole);
    *ret_whole = whole;
    return KVR_OK;
}
