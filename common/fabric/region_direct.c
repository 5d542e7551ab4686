/* Device memory that cards reach themselves, or that a target on the same host moves itself. */
#include <stdio.h>
#include <stdlib.h>

#include "device/stage.h"
#include "fabric/region.h"

/* Where it has no address in this process, cards count from the descriptor's byte 0. */
static uint8_t *base_of(const struct kvr_device_form *form)
{
    return (uint8_t *)(uintptr_t)(form->addressable ? form->address : form->dmabuf_offset);
}

static struct kvr_memory_span span_of(const struct kvr_device_form *form, kvr_path path,
                                      uint64_t bytes)
{
    bool dmabuf = path == KVR_PATH_DMABUF;

    return (struct kvr_memory_span){.base = base_of(form),
                                    .bytes = bytes,
                                    .kind = dmabuf ? KVR_SPAN_DMABUF : KVR_SPAN_CUDA,
                                    .fd = dmabuf ? form->dmabuf : -1,
                                    .fd_offset = dmabuf ? form->dmabuf_offset : 0,
                                    .device = form->ordinal};
}

/* The best way that this card takes; a card that refuses one is asked for the next. */
static kvr_status register_on(const struct kvr_fabric *fabric, struct kvr_rail *rail,
                              const struct kvr_device_form *form, bool local, bool remote,
                              struct kvr_region *region, uint32_t index, struct kvr_error *error)
{
    const struct kvr_rail_facts *facts = fabric->ops->rail_facts(rail);
    struct kvr_path_form paths = {.dmabuf = form->dmabuf >= 0,
                                  .address = form->addressable,
                                  .copies = form->copies,
                                  .hashed = form->hashed};
    struct kvr_path_choice choice;
    struct kvr_error refusal = {0};
    char reasons[KVR_DETAIL_BYTES];

    for (;;) {
        struct kvr_memory_span span;

        kvr_path_choose(&facts->device, facts->target_copies, facts->moves_pages, &paths, &choice);
        if (!kvr_path_direct(choice.path))
            break;
        span = span_of(form, choice.path, region->layout.bytes);
        span.local = local;
        span.remote = remote;
        if (fabric->ops->memory_register(rail, &span, &region->memory[index], &refusal) == KVR_OK) {
            region->path = choice.path > region->path ? choice.path : region->path;
            region->keys[index] = fabric->ops->memory_key(region->memory[index]);
            return KVR_OK;
        }
        paths.refused_dmabuf |= choice.path == KVR_PATH_DMABUF;
        paths.refused_hmem |= choice.path == KVR_PATH_HMEM;
    }
    kvr_path_reasons(&choice, reasons, sizeof(reasons));
    return kvr_error_set(error, KVR_UNSUPPORTED, "region",
                         "rail %s does not reach device memory: %s%s%s%s", facts->name, reasons,
                         refusal.detail[0] != '\0' ? " (" : "", refusal.detail,
                         refusal.detail[0] != '\0' ? ")" : "");
}

kvr_status kvr_region_open_direct(const struct kvr_fabric *fabric, struct kvr_rail *const *rails,
                                  uint32_t rail_count, const struct kvr_region_layout *layout,
                                  const struct kvr_device_form *form, bool local, bool remote,
                                  struct kvr_region **ret_region, struct kvr_error *error)
{
    struct kvr_region *region = calloc(1, sizeof(*region));

    if (region == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "region", "no memory for a region");
    region->layout = *layout;
    region->base = base_of(form);
    region->remote = remote ? KVR_REMOTE_ALWAYS : KVR_REMOTE_NONE;
    region->rail_count = rail_count;
    for (uint32_t i = 0; i < rail_count; i++) {
        kvr_status status = KVR_OK;

        if (rails[i] != NULL)
            status = register_on(fabric, rails[i], form, local, remote, region, i, error);
        if (status != KVR_OK) {
            kvr_region_release(fabric, region);
            return status;
        }
    }
    *ret_region = region;
    return KVR_OK;
}

/* It has no address that a processor could use: its own stands for it. */
static kvr_status move_on(const struct kvr_fabric *fabric, struct kvr_rail *rail, uint32_t index,
                          const struct kvr_memory_span *span, struct kvr_region *moved,
                          struct kvr_error *error)
{
    KVR_TRY(fabric->ops->memory_register(rail, span, &moved->memory[index], error));
    moved->keys[index] = fabric->ops->memory_key(moved->memory[index]);
    return KVR_OK;
}

kvr_status kvr_region_move(const struct kvr_fabric *fabric, struct kvr_rail *const *rails,
                           struct kvr_region *region, const struct kvr_device_import *import,
                           bool local, bool remote, struct kvr_error *error)
{
    struct kvr_region *moved = calloc(1, sizeof(*moved));
    struct kvr_memory_span span = {.bytes = region->layout.bytes,
                                   .local = local,
                                   .remote = remote,
                                   .fd = -1,
                                   .kind = KVR_SPAN_PAGES,
                                   .import = import,
                                   .mover = region->stage->device,
                                   .pages = region->pages};
    kvr_status status = kvr_error_set(error, KVR_UNSUPPORTED, "region",
                                      "no rail of its group has targets that move pages (provider "
                                      "local)");

    if (moved == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "region", "no memory for a region");
    span.base = (void *)(uintptr_t)region->stage->device->ops->hint(region->pages).address;
    moved->layout = region->layout;
    moved->base = span.base;
    moved->path = KVR_PATH_LOCAL;
    moved->rail_count = region->rail_count;
    for (uint32_t i = 0; i < region->rail_count; i++) {
        if (rails[i] == NULL || !fabric->ops->rail_facts(rails[i])->moves_pages)
            continue;
        status = move_on(fabric, rails[i], i, &span, moved, error);
        if (status != KVR_OK)
            break;
    }
    if (status != KVR_OK) { /* its keys are still those of its staging memory, on every rail */
        kvr_region_release(fabric, moved);
        return status;
    }
    for (uint32_t i = 0; i < region->rail_count; i++)
        if (moved->memory[i] != NULL)
            region->keys[i] = moved->keys[i];
    region->moved = moved;
    return KVR_OK;
}
