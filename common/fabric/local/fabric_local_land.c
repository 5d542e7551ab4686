/* The target's side: takes commands from its writers in turn, copies the pieces that they name, and
 * reports the outcome to both sides. */
#include "fabric/local/fabric_local_state.h"

#include <stdlib.h>

#define BATCH_BYTES                                                                                \
    (8u << 20) /* after which a poll has done enough; a device's moves are a turn                  \
                */

/* What one writer has copied at once. */
struct local_batch {
    uint32_t count, job_count, move_count;
    uint64_t bytes;
    kvr_status outcomes[LOCAL_BATCH];
    uint64_t immediates[LOCAL_BATCH];
    bool moved[LOCAL_BATCH];
    struct kvr_device *device; /* that makes the moves */
    struct kvr_device_move moves[LOCAL_BATCH * KVR_CHUNK_PIECES_MAX];
    struct local_job jobs[LOCAL_BATCH * KVR_CHUNK_PIECES_MAX + LOCAL_COMMAND_JOBS];
};

/* One more command, if there is room for all that it can be. */
static bool has_room(const struct local_batch *batch, uint32_t capacity)
{
    return batch->count < capacity && batch->bytes < BATCH_BYTES &&
           batch->job_count + LOCAL_COMMAND_JOBS <= sizeof(batch->jobs) / sizeof(batch->jobs[0]);
}

static kvr_status add_jobs(struct kvr_rail *rail, const struct local_writer *writer,
                           const struct local_command *command, struct local_batch *batch)
{
    struct local_job *jobs = batch->jobs + batch->job_count;
    uint32_t count = 0;
    kvr_status status = local_place(command, &writer->mappings, &rail->memories, jobs, &count);

    for (uint32_t i = 0; status == KVR_OK && i < count; i++)
        batch->bytes += jobs[i].bytes;
    batch->job_count += status == KVR_OK ? count : 0;
    return status;
}

/* KVR_FULL: another device must make these moves than the moves before. */
static kvr_status add_moves(struct kvr_rail *rail, const struct local_writer *writer,
                            const struct local_command *command, struct local_batch *batch)
{
    struct kvr_device *device = NULL;
    uint32_t count = 0;

    KVR_TRY(local_pages_place(rail, command, &writer->mappings, &device,
                              batch->moves + batch->move_count, &count));
    if (batch->move_count > 0 && device != batch->device)
        return KVR_FULL;
    batch->device = device;
    batch->move_count += count;
    batch->moved[batch->count] = true;
    return KVR_OK;
}

static bool asks_nothing(const struct local_command *command)
{
    for (uint32_t i = 0; i < command->piece_count; i++)
        if (command->pieces[i].bytes > 0)
            return false;
    return true;
}

/* KVR_AGAIN: the command names unknown memory, and its descriptor may wait in the socket: copy the
 * commands before it first. KVR_FULL: as add_moves. */
static kvr_status add(struct kvr_rail *rail, struct local_writer *writer, struct local_batch *batch)
{
    struct local_command command;
    uint32_t number = writer->taken + batch->count;
    kvr_status status;

    KVR_TRY(local_ring_take(writer->shared, number, &command));
    batch->moved[batch->count] = false;
    if (local_place_on_device(&command, &rail->memories))
        status = add_moves(rail, writer, &command, batch);
    else
        status = add_jobs(rail, writer, &command, batch);
    if (status == KVR_FULL)
        return KVR_FULL;
    /* A visibility probe may come too late: it has no bytes to lose. */
    if (status == KVR_REFUSED && asks_nothing(&command))
        status = KVR_COPY_FAILED;
    if (status == KVR_NOT_FOUND && !(writer->looked && writer->looked_for == number)) {
        writer->looked = true;
        writer->looked_for = number;
        return KVR_AGAIN;
    }
    batch->outcomes[batch->count] = status;
    batch->immediates[batch->count++] = command.immediate;
    return KVR_OK;
}

static kvr_status gather(struct kvr_rail *rail, struct local_writer *writer, uint32_t capacity,
                         struct local_batch *batch)
{
    uint32_t waiting = 0;
    kvr_status status = local_ring_waiting(writer->shared, writer->taken, &waiting);

    capacity = capacity < waiting ? capacity : waiting;
    while (status == KVR_OK && has_room(batch, capacity))
        status = add(rail, writer, batch);
    return status == KVR_FULL ? KVR_OK : status;
}

/* After a failure each move may be half done, so none counts. */
static void move_pages(struct local_batch *batch)
{
    kvr_status status = KVR_OK;

    if (batch->move_count > 0)
        status = batch->device->ops->move(batch->device, batch->moves, batch->move_count);
    for (uint32_t i = 0; status != KVR_OK && i < batch->count; i++)
        if (batch->moved[i])
            batch->outcomes[i] = KVR_COPY_FAILED;
}

/* A writer that sleeps is woken when half of what it had written is done: soon enough to write more
 * before the rest is, and not for every batch. */
static void tell_writer(struct local_writer *writer)
{
    uint32_t waiting = 0;

    if (local_ring_waiting(writer->shared, writer->taken, &waiting) == KVR_OK &&
        waiting > writer->untold)
        return;
    writer->untold = 0;
    if (local_ring_must_wake(writer->shared, LOCAL_WRITER))
        local_ring_bell(writer->socket);
}

static unsigned finish(struct local_writer *writer, const struct local_batch *batch,
                       struct kvr_completion *ret_completions)
{
    unsigned count = 0;

    local_ring_finish(writer->shared, writer->taken, batch->outcomes, batch->count);
    writer->taken += batch->count;
    writer->untold += batch->count;
    tell_writer(writer);
    for (uint32_t i = 0; i < batch->count; i++)
        if (batch->outcomes[i] == KVR_OK || batch->outcomes[i] == KVR_COPY_FAILED)
            ret_completions[count++] = (struct kvr_completion){.kind = batch->outcomes[i] == KVR_OK
                                                                           ? KVR_COMPLETION_ARRIVED
                                                                           : KVR_COMPLETION_UNMOVED,
                                                               .immediate = batch->immediates[i]};
    return count;
}

static unsigned land_from(struct kvr_endpoint *endpoint, uint32_t index,
                          struct kvr_completion *ret_completions, unsigned capacity)
{
    struct local_writer *writer = endpoint->writers[index];
    struct kvr_rail *rail = endpoint->rail;
    struct local_batch *batch = endpoint->batch;
    unsigned count = 0;
    kvr_status status;

    batch->count = batch->job_count = batch->move_count = 0;
    batch->bytes = 0;
    pthread_mutex_lock(&rail->lock); /* no memory goes away before all is copied */
    status = gather(rail, writer, capacity < LOCAL_BATCH ? capacity : LOCAL_BATCH, batch);
    local_copier_run(rail->copier, batch->jobs, batch->job_count);
    move_pages(batch);
    pthread_mutex_unlock(&rail->lock);
    if (batch->count > 0)
        count = finish(writer, batch, ret_completions);
    if (status == KVR_AGAIN && local_writer_hear(endpoint, index) == KVR_OK)
        writer->looked = false; /* there may be more to hear */
    else if (status != KVR_OK && status != KVR_AGAIN)
        local_writer_close(endpoint, index); /* it does not know what it does */
    return count;
}

/* A command waits. True also for an impossible count, so that local_land finds it. */
static bool has_written(const struct local_writer *writer)
{
    uint32_t waiting = 0;

    if (writer == NULL || writer->shared == NULL)
        return false;
    return local_ring_waiting(writer->shared, writer->taken, &waiting) != KVR_OK || waiting > 0;
}

unsigned local_land(struct kvr_endpoint *endpoint, struct kvr_completion *ret_completions,
                    unsigned capacity)
{
    uint32_t reach = endpoint->writer_reach, turn = endpoint->turn;

    for (uint32_t i = 0; i < reach && capacity > 0; i++) {
        uint32_t index = (turn + i) % reach;
        unsigned count;

        if (!has_written(endpoint->writers[index]))
            continue;
        endpoint->turn = index + 1;
        count = land_from(endpoint, index, ret_completions, capacity);
        if (count > 0)
            return count;
    }
    return 0;
}

struct local_batch *local_batch_new(void)
{
    return calloc(1, sizeof(struct local_batch));
}

bool local_lands(const struct kvr_endpoint *endpoint)
{
    for (uint32_t i = 0; i < endpoint->writer_reach; i++)
        if (has_written(endpoint->writers[i]))
            return true;
    return false;
}
