#include "device/copy_cost.h"

#include <stdlib.h>
#include <string.h>

#include "device/device.h"

#define ROUNDS      8
#define SMALL_BYTES 256u
#define SMALL_STEP  2048u /* a fragment lies among those of other ranks */
#define LARGE_BYTES 4096u
#define PIECES      KVR_DEVICE_PIECES_MAX
#define POOL_BYTES  ((size_t)PIECES * LARGE_BYTES)

struct bed {
    struct kvr_device *device;
    struct kvr_device_memory *memory;
    uint8_t *pool, *host;
};

static kvr_status bed_open(struct bed *bed, struct kvr_error *error)
{
    struct kvr_device_import import = {.kind = KVR_DEVICE_MAPPED, .fd = -1, .bytes = POOL_BYTES};

    bed->pool = malloc(POOL_BYTES);
    bed->host = malloc(POOL_BYTES);
    if (bed->pool == NULL || bed->host == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "device", "no memory to measure a copy with");
    memset(bed->pool, 1, POOL_BYTES);
    memset(bed->host, 2, POOL_BYTES);
    import.address = bed->pool;
    KVR_TRY(kvr_device_host_open(&bed->device, error));
    return bed->device->ops->import(bed->device, &import, &bed->memory, error);
}

static void bed_close(struct bed *bed)
{
    if (bed->memory != NULL)
        bed->device->ops->release(bed->device, bed->memory);
    kvr_device_close(bed->device);
    free(bed->pool);
    free(bed->host);
}

/* The fastest of a few rounds, per piece. */
static double piece_ns(struct bed *bed, uint64_t bytes, uint64_t step)
{
    struct kvr_device_piece pieces[PIECES];
    struct kvr_device_copied copied;
    double best = 0;

    for (uint32_t i = 0; i < PIECES; i++)
        pieces[i] = (struct kvr_device_piece){.memory = bed->memory,
                                              .offset = i * step,
                                              .host = bed->host + i * bytes,
                                              .bytes = bytes};
    for (int round = 0; round < ROUNDS; round++) {
        kvr_ns begun = kvr_clock_now();
        kvr_status status =
            bed->device->ops->copy(bed->device, begun, KVR_DEVICE_SCATTER, pieces, PIECES, 0);
        double took = (double)(kvr_clock_now() - begun) / PIECES;

        if (status == KVR_OK && (best == 0 || took < best))
            best = took;
        (void)bed->device->ops->poll(bed->device, begun, &copied, 1);
    }
    return best;
}

kvr_status kvr_copy_cost_measure(struct kvr_copy_cost *ret_cost, struct kvr_error *error)
{
    struct bed bed = {.pool = NULL};
    kvr_status status = bed_open(&bed, error);

    if (status == KVR_OK) {
        double small = piece_ns(&bed, SMALL_BYTES, SMALL_STEP);
        double large = piece_ns(&bed, LARGE_BYTES, LARGE_BYTES);
        double byte = large > small ? (large - small) / (LARGE_BYTES - SMALL_BYTES) : 0;
        double piece = small - SMALL_BYTES * byte;

        /* A clock that stood still must not make copying free. */
        ret_cost->byte_ns = byte > 0.01 ? byte : 0.01;
        ret_cost->piece_ns = piece > 1 ? piece : 1;
    }
    bed_close(&bed);
    return status;
}
