/* Goal: another process may write anything into the memory that it shares with us; no byte outside
 * registered or mapped memory is copied, and no count misleads us. Method: the input is that memory
 * and both counts; every resulting copy is checked. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/local/local_place.h"

#define ROWS   4u
#define BYTES  (3u << 20)
#define NAME_1 LOCAL_MEMORIES_MAX /* of row 0, in its first generation */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Only the address is used; the memory is never touched. */
static uint8_t *const source_base = (uint8_t *)(uintptr_t)(UINT64_C(1) << 40);
static uint8_t *const target_base = (uint8_t *)(uintptr_t)(UINT64_C(2) << 40);

static struct local_mapping mappings[ROWS];
static struct local_memory *memories;
static struct local_shared *shared;

static void tables_make(void)
{
    memories = calloc(LOCAL_MEMORIES_MAX, sizeof(memories[0]));
    shared = aligned_alloc(_Alignof(struct local_shared), sizeof(*shared));
    assert(memories != NULL && shared != NULL);
    for (uint32_t i = 0; i < ROWS - 1; i++) {
        mappings[i] = (struct local_mapping){
            .name = NAME_1 + i, .base = source_base + (size_t)i * 2 * BYTES, .bytes = BYTES};
        memories[i] = (struct local_memory){
            .key = NAME_1 + i, .base = target_base + (size_t)i * 2 * BYTES, .bytes = BYTES};
        if (i == ROWS - 2) { /* the last one is a device's: only its places are checked */
            mappings[i].pages = (struct local_pages *)(uintptr_t)64;
            memories[i].device = (struct kvr_device *)(uintptr_t)64;
        }
    }
}

static bool lies_in(const void *at, size_t bytes, const uint8_t *base)
{
    uint64_t offset = (uint64_t)((const uint8_t *)at - base);

    return offset / (2 * BYTES) < ROWS - 1 && offset % (2 * BYTES) + bytes <= BYTES;
}

static void check_moves(const struct local_command *command, const struct local_mappings *sources,
                        const struct local_memories *targets)
{
    struct local_move moves[KVR_CHUNK_PIECES_MAX];

    (void)local_place_on_device(command, targets);
    if (local_place_moves(command, sources, targets, moves) != KVR_OK)
        return;
    for (uint32_t i = 0; i < command->piece_count; i++) {
        assert(moves[i].source == &mappings[ROWS - 2] && moves[i].target == &memories[ROWS - 2]);
        assert(moves[i].source_offset + moves[i].bytes <= BYTES);
        assert(moves[i].target_offset + moves[i].bytes <= BYTES);
    }
}

static void check_command(const struct local_command *command)
{
    static struct local_job jobs[LOCAL_COMMAND_JOBS];
    const struct local_mappings sources = {mappings, ROWS};
    const struct local_memories targets = {memories};
    uint64_t asked = 0, placed = 0;
    uint32_t count = 0;

    check_moves(command, &sources, &targets);
    if (local_place(command, &sources, &targets, jobs, &count) != KVR_OK)
        return;
    assert(count <= LOCAL_COMMAND_JOBS);
    for (uint32_t i = 0; i < command->piece_count; i++)
        asked += command->pieces[i].bytes;
    for (uint32_t i = 0; i < count; i++) {
        assert(jobs[i].bytes > 0 && jobs[i].bytes <= LOCAL_JOB_BYTES);
        assert(lies_in(jobs[i].source, jobs[i].bytes, source_base));
        assert((const uint8_t *)jobs[i].source < mappings[ROWS - 2].base);
        assert(lies_in(jobs[i].target, jobs[i].bytes, target_base));
        placed += jobs[i].bytes;
    }
    assert(placed == asked && placed <= LOCAL_WRITE_BYTES);
}

static void check_target(uint32_t taken)
{
    struct local_command command;
    uint32_t waiting = 0;

    if (local_ring_waiting(shared, taken, &waiting) != KVR_OK)
        return;
    assert(waiting <= LOCAL_WRITES);
    for (uint32_t i = 0; i < waiting; i++)
        if (local_ring_take(shared, taken + i, &command) == KVR_OK)
            check_command(&command);
}

static void check_writer(uint32_t settled, uint32_t posted)
{
    uint32_t count = 0;

    if (posted - settled > LOCAL_WRITES ||
        local_ring_done(shared, settled, posted, &count) != KVR_OK)
        return;
    assert(count <= posted - settled);
    for (uint32_t i = 0; i < count; i++)
        (void)local_ring_outcome(shared, settled + i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t counts[6] = {0};
    size_t rest = size > sizeof(counts) ? size - sizeof(counts) : 0;

    if (shared == NULL)
        tables_make();
    memcpy(counts, data, size < sizeof(counts) ? size : sizeof(counts));
    memset(shared, 0, sizeof(*shared));
    shared->posted = counts[0];
    shared->done = counts[1];
    shared->ended = counts[2] & 1;
    if (rest > sizeof(shared->commands))
        rest = sizeof(shared->commands);
    if (rest > 0)
        memcpy(shared->commands, data + sizeof(counts), rest);
    check_target(counts[3]);
    check_writer(counts[4], counts[5]);
    return 0;
}
