#include "device/staging.h"

#include <assert.h>
#include <string.h>

void kvr_staging_init(struct kvr_staging *staging, uint64_t bytes)
{
    memset(staging, 0, sizeof(*staging));
    staging->bytes = bytes / KVR_STAGING_ALIGN * KVR_STAGING_ALIGN;
}

/* The bytes in use are [first's offset, next), or [first's offset, end of the ring) and [0, next).
 */
static bool place(const struct kvr_staging *staging, uint64_t bytes, uint64_t *ret_offset)
{
    uint64_t busy = staging->parts[staging->first].offset;

    if (staging->count == 0) {
        *ret_offset = 0;
        return bytes <= staging->bytes;
    }
    if (staging->next > busy) {
        *ret_offset = bytes <= staging->bytes - staging->next ? staging->next : 0;
        return *ret_offset != 0 || bytes <= busy;
    }
    *ret_offset = staging->next;
    return bytes <= busy - staging->next;
}

bool kvr_staging_take(struct kvr_staging *staging, uint64_t bytes, uint32_t *ret_part,
                      uint64_t *ret_offset)
{
    uint32_t part = (staging->first + staging->count) % KVR_STAGING_PARTS;
    uint64_t offset;

    assert(bytes > 0);
    if (bytes > staging->bytes || staging->count == KVR_STAGING_PARTS)
        return false;
    bytes = (bytes + KVR_STAGING_ALIGN - 1) / KVR_STAGING_ALIGN * KVR_STAGING_ALIGN;
    if (!place(staging, bytes, &offset))
        return false;
    staging->parts[part] = (struct kvr_staging_part){.offset = offset, .end = offset + bytes};
    staging->next = offset + bytes;
    staging->count++;
    *ret_part = part;
    *ret_offset = offset;
    return true;
}

void kvr_staging_give(struct kvr_staging *staging, uint32_t part)
{
    assert((part - staging->first) % KVR_STAGING_PARTS < staging->count &&
           !staging->parts[part].given);
    staging->parts[part].given = true;
    while (staging->count > 0 && staging->parts[staging->first].given) {
        staging->first = (staging->first + 1) % KVR_STAGING_PARTS;
        staging->count--;
    }
}
