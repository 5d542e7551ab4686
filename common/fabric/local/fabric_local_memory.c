/* Registrations: memory that peers may write to, and memory that targets read from. */
#include "fabric/local/fabric_local_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/entropy.h"
#include "base/memfd.h"

#define LET_GO_NS KVR_S

/* A name that is not 0 and that this index has not had for a hundred thousand registrations. */
static uint32_t name_of(struct kvr_rail *rail, uint32_t index)
{
    if (++rail->generation == UINT32_MAX / LOCAL_MEMORIES_MAX)
        rail->generation = 1;
    return rail->generation * LOCAL_MEMORIES_MAX + index;
}

/* Keys are random: a key from an earlier boot must not open this boot's memory. */
static uint64_t key_of(uint32_t index)
{
    uint64_t key;

    do
        key = kvr_random_u64() / LOCAL_MEMORIES_MAX * LOCAL_MEMORIES_MAX + index;
    while (key == index);
    return key;
}

/* How a target imports memory that is written from. */
static kvr_status import_of(const struct kvr_memory_span *span,
                            struct kvr_device_import *ret_import, struct kvr_error *error)
{
    if (span->kind == KVR_SPAN_PAGES && span->import->kind != KVR_DEVICE_MAPPED) {
        *ret_import = *span->import;
        if (span->import->kind == KVR_DEVICE_IPC || span->import->extents != NULL)
            ret_import->fd = -1;
        return KVR_OK;
    }
    if (span->kind != KVR_SPAN_HOST || span->fd < 0)
        return kvr_error_set(error, KVR_UNSUPPORTED, "fabric",
                             "rail local reads only from memory that is a memfd, or that a device "
                             "of another process can import: its target maps it");
    *ret_import = (struct kvr_device_import){
        .kind = KVR_DEVICE_MEMFD, .fd = span->fd, .offset = span->fd_offset, .bytes = span->bytes};
    return kvr_memfd_check(span->fd, span->fd_offset, span->bytes, "fabric", error);
}

static kvr_status take_descriptor(struct kvr_memory *memory, const struct kvr_memory_span *span,
                                  struct kvr_error *error)
{
    struct kvr_device_import import = {.fd = -1};

    memory->import.fd = -1;
    memory->local = span->local;
    memory->pages = span->kind == KVR_SPAN_PAGES;
    if (!span->local)
        return KVR_OK;
    KVR_TRY(import_of(span, &import, error));
    memory->import = import;
    (void)kvr_extents_keep(import.extents);
    if (import.fd < 0)
        return KVR_OK;
    memory->import.fd = fcntl(import.fd, F_DUPFD_CLOEXEC, 0);
    if (memory->import.fd < 0)
        return kvr_error_system(error, "fabric", errno,
                                "rail local cannot keep a region's descriptor (ulimit -n?)");
    return KVR_OK;
}

static void memory_free(struct kvr_memory *memory)
{
    if (memory->import.fd >= 0)
        close(memory->import.fd);
    kvr_extents_release(memory->import.extents);
    free(memory);
}

/* Under the rail's lock. */
static kvr_status enter(struct kvr_memory *memory, const struct kvr_memory_span *span)
{
    struct kvr_rail *rail = memory->rail;
    uint32_t index = 0;

    while (index < rail->registered_reach && rail->registered[index] != NULL)
        index++;
    if (index == LOCAL_MEMORIES_MAX)
        return KVR_FULL;
    if (index == rail->registered_reach)
        rail->registered_reach++;
    rail->registered[index] = memory;
    memory->name = name_of(rail, index);
    memory->key = key_of(index);
    if (span->remote)
        rail->memories.rows[index] =
            (struct local_memory){.key = memory->key,
                                  .base = span->base,
                                  .bytes = span->bytes,
                                  .device = span->kind == KVR_SPAN_PAGES ? span->mover : NULL,
                                  .pages = span->pages};
    return KVR_OK;
}

/* Sends as many extents as there is room for; the next try of the write sends the rest. */
static kvr_status introduce_extents(struct local_target *target, const struct kvr_memory *memory)
{
    if (target->told_extents == NULL)
        target->told_extents = calloc(LOCAL_MEMORIES_MAX, sizeof(target->told_extents[0]));
    if (target->told_extents == NULL)
        return KVR_NO_MEMORY;
    return local_say_extents(target->socket, memory,
                             &target->told_extents[LOCAL_INDEX(memory->name)]);
}

kvr_status local_memory_introduce(const struct kvr_memory *memory, struct local_target *target)
{
    uint32_t index = LOCAL_INDEX(memory->name);
    kvr_status status = KVR_OK;

    if (memory->import.extents != NULL)
        status = introduce_extents(target, memory);
    if (status == KVR_OK)
        status = local_say_memory(target->socket, memory);
    if (status != KVR_OK)
        return status;
    atomic_store_explicit(&target->told[index], memory->name, memory_order_release);
    if (target->told_extents != NULL)
        target->told_extents[index] = 0;
    return KVR_OK;
}

/* Ahead of the first write, so that the target maps the memory while no transfer waits. If the
 * socket has no room, the descriptor comes with that write. So does device memory: a device that
 * never copies from there need not open it. */
static void introduce_early(const struct kvr_memory *memory, struct local_target *target)
{
    if (memory->local && !memory->pages && target->socket >= 0)
        (void)!local_memory_introduce(memory, target);
}

void local_memories_introduce(struct kvr_rail *rail, struct local_target *target)
{
    for (uint32_t i = 0; i < rail->registered_reach; i++)
        if (rail->registered[i] != NULL)
            introduce_early(rail->registered[i], target);
}

static void introduce_to_all(const struct kvr_memory *memory)
{
    for (struct kvr_endpoint *at = memory->rail->endpoints; at != NULL; at = at->next)
        for (uint32_t i = 0; i < at->target_reach; i++)
            if (at->targets[i] != NULL)
                introduce_early(memory, at->targets[i]);
}

kvr_status local_memory_register(struct kvr_rail *rail, const struct kvr_memory_span *span,
                                 struct kvr_memory **ret_memory, struct kvr_error *error)
{
    struct kvr_memory *memory = calloc(1, sizeof(*memory));
    kvr_status status;

    if (memory == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "fabric", "no memory for a registration");
    memory->rail = rail;
    memory->base = span->base;
    memory->bytes = span->bytes;
    status = take_descriptor(memory, span, error);
    if (status == KVR_OK) {
        pthread_mutex_lock(&rail->lock);
        status = enter(memory, span);
        if (status == KVR_OK)
            introduce_to_all(memory);
        pthread_mutex_unlock(&rail->lock);
        if (status != KVR_OK)
            (void)kvr_error_set(error, status, "fabric",
                                "rail local has %u regions and takes no more", LOCAL_MEMORIES_MAX);
    }
    if (status != KVR_OK) {
        memory_free(memory);
        return status;
    }
    *ret_memory = memory;
    return KVR_OK;
}

static bool told_partly(struct local_target *target, uint32_t index)
{
    bool partly = target->told_extents != NULL && target->told_extents[index] > 0;

    if (partly)
        target->told_extents[index] = 0;
    return partly;
}

/* Each target that mapped the memory releases it, or its link ends. */
static void recall(const struct kvr_memory *memory)
{
    uint32_t index = LOCAL_INDEX(memory->name);

    for (struct kvr_endpoint *at = memory->rail->endpoints; at != NULL; at = at->next)
        for (uint32_t i = 0; i < at->target_reach; i++) {
            struct local_target *target = at->targets[i];

            bool whole;

            if (target == NULL || target->socket < 0)
                continue;
            whole =
                atomic_load_explicit(&target->told[index], memory_order_relaxed) == memory->name;
            if (!whole && !told_partly(target, index))
                continue;
            atomic_store_explicit(&target->told[index], 0, memory_order_relaxed);
            if (local_say_forget(target->socket, memory->name) != KVR_OK)
                local_target_shut(target);
            else
                target->awaited += whole && memory->pages; /* others are imported nowhere */
        }
}

static bool any_awaited(const struct kvr_rail *rail)
{
    for (const struct kvr_endpoint *at = rail->endpoints; at != NULL; at = at->next)
        for (uint32_t i = 0; i < at->target_reach; i++)
            if (at->targets[i] != NULL && at->targets[i]->awaited > 0)
                return true;
    return false;
}

/* A device of another process may still have the memory open. The engine may free the memory when
 * this returns, so this waits for the targets; for a stopped one not without end. */
static void await_let_go(struct kvr_rail *rail)
{
    kvr_ns until = kvr_clock_now() + LET_GO_NS;
    struct timespec end = {.tv_sec = (time_t)(until / KVR_S), .tv_nsec = (long)(until % KVR_S)};

    while (any_awaited(rail) && pthread_cond_timedwait(&rail->let_go, &rail->lock, &end) == 0)
        continue;
}

void local_memory_release(struct kvr_memory *memory)
{
    struct kvr_rail *rail;

    if (memory == NULL)
        return;
    rail = memory->rail;
    pthread_mutex_lock(&rail->lock); /* from here on nothing is copied into it */
    rail->memories.rows[LOCAL_INDEX(memory->name)].key = 0;
    rail->registered[LOCAL_INDEX(memory->name)] = NULL;
    recall(memory);
    if (memory->local && memory->pages)
        await_let_go(rail);
    pthread_mutex_unlock(&rail->lock);
    memory_free(memory);
}

struct kvr_remote_key local_memory_key(const struct kvr_memory *memory)
{
    return (struct kvr_remote_key){.key = memory->key, .base = 0};
}
