/* A device's pages: what a writer says of them, and what they become in a device of ours that is to
 * move them, with the first command that names both. */
#include "fabric/local/fabric_local_state.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/memfd.h"

/* As one device of ours has it. */
struct imported {
    struct imported *next;
    struct kvr_device *device;
    struct kvr_device_memory *memory; /* NULL: it cannot, which was said */
};

struct local_pages {
    struct kvr_device_import import; /* its descriptor is ours; -1: there is none */
    struct kvr_error refused;        /* KVR_OK: it can be imported, if the device does */
    struct imported *imported;
};

kvr_status local_pages_open(const struct kvr_device_import *import, const struct kvr_error *refused,
                            struct local_pages **ret_pages)
{
    struct local_pages *pages = calloc(1, sizeof(*pages));

    if (pages == NULL)
        return KVR_NO_MEMORY;
    pages->import = *import;
    if (refused != NULL)
        pages->refused = *refused;
    if (import->fd >= 0)
        pages->import.fd = fcntl(import->fd, F_DUPFD_CLOEXEC, 0);
    if (import->fd >= 0 && pages->import.fd < 0) {
        free(pages);
        return KVR_SYSTEM;
    }
    (void)kvr_extents_keep(pages->import.extents);
    *ret_pages = pages;
    return KVR_OK;
}

static void pages_close(struct local_pages *pages)
{
    while (pages->imported != NULL) {
        struct imported *at = pages->imported;

        pages->imported = at->next;
        if (at->memory != NULL)
            at->device->ops->release(at->device, at->memory);
        free(at);
    }
    if (pages->import.fd >= 0)
        close(pages->import.fd);
    kvr_extents_release(pages->import.extents);
    free(pages);
}

void local_mapping_close(struct local_mapping *row)
{
    if (row->name != 0 && row->pages != NULL)
        pages_close(row->pages);
    else if (row->name != 0)
        kvr_memfd_unmap((void *)row->base, row->bytes);
    *row = (struct local_mapping){.name = 0};
}

/* NULL: the device does not see them. */
static struct kvr_device_memory *memory_of(const struct kvr_rail *rail, struct local_pages *pages,
                                           struct kvr_device *device)
{
    struct imported *at = pages->imported;
    struct kvr_error error = pages->refused;

    while (at != NULL && at->device != device)
        at = at->next;
    if (at != NULL)
        return at->memory;
    at = calloc(1, sizeof(*at));
    if (at == NULL)
        return NULL;
    at->device = device;
    if (error.status != KVR_OK ||
        device->ops->import(device, &pages->import, &at->memory, &error) != KVR_OK) {
        at->memory = NULL;
        if (rail->unseen != NULL)
            rail->unseen(&error);
    }
    at->next = pages->imported;
    pages->imported = at;
    return at->memory;
}

kvr_status local_pages_place(struct kvr_rail *rail, const struct local_command *command,
                             const struct local_mappings *sources, struct kvr_device **ret_device,
                             struct kvr_device_move *ret_moves, uint32_t *ret_count)
{
    struct local_move moves[KVR_CHUNK_PIECES_MAX];
    kvr_status status = local_place_moves(command, sources, &rail->memories, moves);

    for (uint32_t i = 0; status == KVR_OK && i < command->piece_count; i++) {
        struct kvr_device *device = moves[i].target->device;
        struct kvr_device_memory *source = memory_of(rail, moves[i].source->pages, device);

        if (source == NULL)
            return KVR_COPY_FAILED;
        *ret_device = device;
        ret_moves[i] = (struct kvr_device_move){
            .source = source,
            .target = moves[i].target->pages,
            .source_offset = moves[i].source_offset,
            .target_offset = moves[i].target_offset,
            .bytes = moves[i].bytes,
        };
    }
    *ret_count = command->piece_count;
    return status;
}
