/* The memory of a replayed engine: its regions, and the owners of its pages. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tools/replay/replay_engine.h"
#include "tools/replay/replay_runs.h"

#define REGION_ALIGNMENT 4096u
#define SEED_STEP        1000u /* between engines of one role */

static_assert(REPLAY_RECORDED_GROUPS == MODEL_KINDS, "each KV group may have recorded pages");

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* ---- regions -------------------------------------------------------------------------------- */

/* As --device-memory says. */
static bool on_device(const struct replay_engine *engine)
{
    const char *where = engine->setup->options.device_memory;

    return strcmp(where, "both") == 0 || strcmp(where, engine->role) == 0;
}

static void describe_attention(const struct replay_engine *engine, struct kvrail_region *region)
{
    const struct model_geometry *geometry = &engine->setup->geometry;

    memcpy(region->parts, geometry->model->parts, sizeof(geometry->model->parts));
    region->replicated = geometry->model->parts[0] == KVRAIL_PART_MLA;
    region->head_count = geometry->heads;
    region->head_bytes = geometry->head_bytes;
}

/* Layers [first, end) of one group, densely. */
static void describe_region(const struct replay_engine *engine, uint32_t first, uint32_t end,
                            struct kvrail_region *region)
{
    const struct replay_group *group = replay_group(engine->setup, first);

    *region = (struct kvrail_region){
        .size = sizeof(struct kvrail_region),
        .name = engine->role,
        .memory = on_device(engine) ? KVRAIL_MEMORY_CUDA_VMM : KVRAIL_MEMORY_MEMFD,
        .device = on_device(engine) ? 0 : -1,
        .group = engine->setup->layer_groups[first],
        .layer_first = first,
        .layer_count = end - first,
        .part_count = group->part_count,
        .page_tokens = group->page_tokens,
        .page_count = group->page_count,
    };
    if (group->kind == MODEL_STATE) {
        region->parts[0] = KVRAIL_PART_STATE;
        region->head_count = 1;
        region->head_bytes = group->plane_bytes / group->page_tokens;
    } else {
        describe_attention(engine, region);
    }
    kvrail_region_dense(region);
}

static void describe_regions(struct replay_engine *engine)
{
    const uint8_t *groups = engine->setup->layer_groups;
    uint32_t layers = engine->setup->geometry.layers;
    uint64_t offset = 0;

    engine->region_count = 0;
    for (uint32_t first = 0, end; first < layers; first = end) {
        struct kvrail_region *region = &engine->regions[engine->region_count];

        for (end = first; end < layers && groups[end] == groups[first]; end++)
            engine->layer_regions[end] = (uint16_t)engine->region_count;
        describe_region(engine, first, end, region);
        region->fd_offset = offset;
        offset += (region->bytes + REGION_ALIGNMENT - 1) / REGION_ALIGNMENT * REGION_ALIGNMENT;
        engine->region_count++;
    }
}

uint8_t *replay_engine_page(const struct replay_engine *engine, uint32_t layer, uint32_t part_index,
                            uint32_t page)
{
    const struct kvrail_region *region = &engine->regions[engine->layer_regions[layer]];

    return (uint8_t *)engine->memory.address + region->fd_offset + region->base +
           (layer - region->layer_first) * region->layer_stride + part_index * region->part_stride +
           page * region->page_stride;
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Pages of a memfd that were never touched cost twenty times what a copy costs: touch them now. */
static void touch_memory(struct kvrail_memory *memory)
{
    if (madvise(memory->address, memory->bytes, MADV_POPULATE_WRITE) == 0)
        return;
    for (uint64_t at = 0; at < memory->bytes; at += 4096)
        ((volatile uint8_t *)memory->address)[at] = 0;
}

/* Of a group that does not keep all, the last page is the spare one. */
static bool make_pages(struct replay_engine *engine)
{
    const struct replay_setup *setup = engine->setup;
    uint64_t seed = setup->options.seed + (engine->role[0] == 's' ? 1 : 2) +
                    SEED_STEP * setup->agents.items[engine->at].number;

    for (uint32_t i = 0; i < setup->group_count; i++) {
        uint32_t spare = setup->groups[i].kind == MODEL_FULL ? 0 : 1;

        if (!pages_init(&engine->pages[i], setup->groups[i].page_count - spare, setup->order,
                        seed + 2 * i))
            return false;
    }
    return true;
}

/* Only a device's lies over several allocations. */
static bool make_memory(struct replay_engine *engine, uint64_t bytes)
{
    struct kvrail_error error = {.detail = "its allocations cannot be made or mapped"};
    char name[32];

    snprintf(name, sizeof(name), "replay-%s", engine->role);
    if (engine->setup->options.allocation_bytes > 0 && on_device(engine)
            ? replay_allocations_make(engine, bytes)
            : kvrail_memory_create(name, bytes, &engine->memory, &error) == KVRAIL_OK)
        return true;
    replay_say(engine->router, REPLAY_FATAL, 1, "the %s engine's memory: %s", engine->label,
               error.detail);
    return false;
}

bool replay_memory_make(struct replay_engine *engine)
{
    const struct kvrail_region *last;

    describe_regions(engine);
    last = &engine->regions[engine->region_count - 1];
    if (!make_memory(engine, last->fd_offset + last->bytes))
        return false;
    for (uint32_t i = 0; i < engine->region_count; i++)
        engine->regions[i].fd = engine->memory.fd;
    touch_memory(&engine->memory);
    if (make_pages(engine))
        return true;
    replay_say(engine->router, REPLAY_FATAL, 1, "no memory for page ids");
    return false;
}

void replay_memory_done(struct replay_engine *engine)
{
    for (uint32_t i = 0; i < MODEL_KINDS; i++)
        pages_done(&engine->pages[i]);
    if (engine->allocations != NULL)
        replay_allocations_done(engine);
    else
        kvrail_memory_destroy(&engine->memory);
}

/* ---- page tables ---------------------------------------------------------------------------- */

bool replay_tables_make(const struct replay_setup *setup, uint32_t tokens,
                        struct replay_table *tables)
{
    for (uint32_t i = 0; i < setup->group_count; i++) {
        const struct replay_group *group = &setup->groups[i];
        struct replay_table *table = &tables[i];

        table->count = replay_pages(group, tokens);
        table->first = replay_first_page(setup, group, tokens);
        table->ids = calloc(table->count, sizeof(table->ids[0]));
        if (table->ids == NULL) {
            replay_tables_free(tables);
            return false;
        }
        for (uint32_t page = 0; page < table->first; page++)
            table->ids[page] = group->page_count - 1;
    }
    return true;
}

static const struct replay_numbers *recorded_runs(const struct replay_engine *engine,
                                                  uint32_t request, uint32_t group)
{
    kvr_role role = engine->setup->agents.items[engine->at].role;

    return &replay_recorded(engine->setup, request)->runs[role][group];
}

/* The table's own pages of one group: RUNS_PLACED as recorded, RUNS_NEVER in the pool's order. */
static runs_fit acquire_group(struct replay_engine *engine, uint32_t request, uint32_t group,
                              struct replay_table *table)
{
    const struct replay_numbers *runs = recorded_runs(engine, request, group);
    struct pages *pages = &engine->pages[group];
    runs_fit fit = RUNS_NEVER;

    if (runs->count > 0)
        fit = runs_take(engine->setup->recording.numbers + runs->first, runs->count, table->first,
                        table->count, pages, table->ids);
    if (fit != RUNS_NEVER)
        return fit;
    return pages_acquire(pages, table->count - table->first, table->ids + table->first)
               ? RUNS_NEVER
               : RUNS_NO_ROOM;
}

bool replay_tables_acquire(struct replay_engine *engine, uint32_t request,
                           struct replay_table *tables)
{
    uint32_t count = engine->setup->group_count, recorded = 0, otherwise = 0;

    for (uint32_t i = 0; i < count; i++) {
        runs_fit fit = acquire_group(engine, request, i, &tables[i]);

        if (fit == RUNS_NO_ROOM || fit == RUNS_NO_MEMORY) {
            while (i-- > 0)
                pages_release(&engine->pages[i], tables[i].ids + tables[i].first,
                              tables[i].count - tables[i].first);
            return false;
        }
        recorded += fit == RUNS_PLACED;
        otherwise += fit == RUNS_NEVER && recorded_runs(engine, request, i)->count > 0;
    }
    engine->tables_recorded += recorded;
    engine->tables_otherwise += otherwise;
    return true;
}

void replay_tables_release(struct replay_engine *engine, const struct replay_table *tables)
{
    for (uint32_t i = 0; i < engine->setup->group_count; i++)
        pages_release(&engine->pages[i], tables[i].ids + tables[i].first,
                      tables[i].count - tables[i].first);
}

void replay_tables_free(struct replay_table *tables)
{
    for (uint32_t i = 0; i < MODEL_KINDS; i++) {
        free(tables[i].ids);
        tables[i] = (struct replay_table){0};
    }
}
