/* Memory of a replayed engine that lies over many allocations side by side, as PyTorch's expandable
 * segments do on a GPU: here a memfd each, which an agent with an emulated device takes for them.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/replay/replay_engine.h"

static bool map_one(uint8_t *at, uint64_t bytes, struct kvrail_allocation *allocation)
{
    struct kvrail_memory memory;

    *allocation = (struct kvrail_allocation){.size = sizeof(*allocation), .fd = -1};
    if (kvrail_memory_create("replay-allocation", bytes, &memory, NULL) != KVRAIL_OK)
        return false;
    munmap(memory.address, memory.bytes); /* it lies elsewhere */
    allocation->fd = memory.fd;
    allocation->bytes = bytes;
    memory.address = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory.fd, 0);
    return memory.address != MAP_FAILED;
}

bool replay_allocations_make(struct replay_engine *engine, uint64_t bytes)
{
    uint64_t each = engine->setup->options.allocation_bytes;
    uint32_t count = (uint32_t)((bytes + each - 1) / each);
    uint8_t *base =
        mmap(NULL, count * each, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (base == MAP_FAILED)
        return false;
    engine->memory = (struct kvrail_memory){.fd = -1, .address = base, .bytes = count * each};
    engine->allocations = calloc(count, sizeof(engine->allocations[0]));
    for (uint32_t i = 0; engine->allocations != NULL && i < count; i++) {
        engine->allocation_count++;
        if (!map_one(base + i * each, each, &engine->allocations[i]))
            return false;
    }
    return engine->allocations != NULL;
}

void replay_allocations_done(struct replay_engine *engine)
{
    for (uint32_t i = 0; i < engine->allocation_count; i++)
        if (engine->allocations[i].fd >= 0)
            close(engine->allocations[i].fd);
    if (engine->memory.address != NULL)
        munmap(engine->memory.address, engine->memory.bytes);
    free(engine->allocations);
    engine->memory = (struct kvrail_memory){.fd = -1};
    engine->allocations = NULL;
    engine->allocation_count = 0;
}

struct kvrail_region replay_region_lent(const struct replay_engine *engine, uint32_t index)
{
    struct kvrail_region region = engine->regions[index];
    uint64_t each = engine->setup->options.allocation_bytes;
    uint64_t first, last;

    if (engine->allocations == NULL)
        return region;
    first = region.fd_offset / each;
    last = (region.fd_offset + region.bytes - 1) / each;
    region.allocations = &engine->allocations[first];
    region.allocation_count = (uint32_t)(last - first + 1);
    region.fd_offset %= each;
    return region;
}
