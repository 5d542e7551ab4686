/* Moves between memories of GPUs, by streams of their own. The caller waits for them. */
#include <time.h>

#include "device/device_cuda_state.h"

/* A free GPU moves a list in this time: its launch, and a byte in a thousandth of a nanosecond. */
#define SPIN_NS      (20 * KVR_US)
#define SPIN_NS_MAX  (200 * KVR_US)
#define BYTES_A_NS   1000
/* A sleep is a part of the time that was waited so far, within these bounds. */
#define SLEEP_PART   16
#define SLEEP_NS_MIN (20 * KVR_US)
#define SLEEP_NS_MAX (500 * KVR_US)

static CUdeviceptr address_of(const struct kvr_device_memory *memory)
{
    return ((const struct cuda_memory *)memory)->address;
}

static CUresult move_by_driver(const struct device_cuda *cuda, const struct kvr_device_move *pieces,
                               uint32_t piece_count)
{
    CUresult code = CUDA_SUCCESS;

    for (uint32_t i = 0; i < piece_count && code == CUDA_SUCCESS; i++)
        code = cuda->cuda->MemcpyDtoDAsync(address_of(pieces[i].target) + pieces[i].target_offset,
                                           address_of(pieces[i].source) + pieces[i].source_offset,
                                           pieces[i].bytes, cuda->mover);
    return code;
}

/* At most MOVES_MAX pieces. The list may be written again once they are moved. */
static CUresult move_by_kernel(const struct device_cuda *cuda, const struct kvr_device_move *pieces,
                               uint32_t piece_count)
{
    uint64_t longest = 0;

    for (uint32_t i = 0; i < piece_count; i++) {
        cuda->moves[i] = (struct kvr_copy_piece){
            .from = address_of(pieces[i].source) + pieces[i].source_offset,
            .to = address_of(pieces[i].target) + pieces[i].target_offset,
            .bytes = pieces[i].bytes,
        };
        if (pieces[i].bytes > longest)
            longest = pieces[i].bytes;
    }
    return cuda_launch(cuda, cuda->mover, cuda->moves_address, piece_count, longest);
}

static bool addressable(const struct kvr_device_move *pieces, uint32_t piece_count)
{
    for (uint32_t i = 0; i < piece_count; i++)
        if (address_of(pieces[i].source) == 0 || address_of(pieces[i].target) == 0)
            return false;
    return true;
}

static void sleep_for(kvr_ns waited)
{
    kvr_ns part = waited / SLEEP_PART;
    struct timespec time = {.tv_nsec = SLEEP_NS_MIN};

    if (part > SLEEP_NS_MIN)
        time.tv_nsec = (long)(part < SLEEP_NS_MAX ? part : SLEEP_NS_MAX);
    (void)nanosleep(&time, NULL);
}

static kvr_ns spin_of(const struct kvr_device_move *pieces, uint32_t piece_count)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < piece_count; i++)
        bytes += pieces[i].bytes;
    return bytes / BYTES_A_NS < SPIN_NS_MAX - SPIN_NS ? SPIN_NS + (kvr_ns)(bytes / BYTES_A_NS)
                                                      : SPIN_NS_MAX;
}

/* The driver's own wait spins. On a GPU that computes for another process, moves may wait for
 * milliseconds until their turn comes: the thread leaves the core to others meanwhile. */
static CUresult await_moves(const struct device_cuda *cuda, kvr_ns spin)
{
    const struct kvr_cuda *driver = cuda->cuda;
    kvr_ns began = kvr_clock_now();
    CUresult code = driver->EventRecord(cuda->moved, cuda->mover);

    if (code != CUDA_SUCCESS) { /* no later look at the event would show their end */
        (void)driver->StreamSynchronize(cuda->mover);
        return code;
    }
    while ((code = driver->EventQuery(cuda->moved)) == CUDA_ERROR_NOT_READY) {
        kvr_ns waited = kvr_clock_now() - began;

        if (waited > spin)
            sleep_for(waited);
    }
    return code;
}

kvr_status cuda_move(struct kvr_device *device, const struct kvr_device_move *pieces,
                     uint32_t piece_count)
{
    struct device_cuda *cuda = (struct device_cuda *)device;

    if (!kvr_device_moves_fit(pieces, piece_count) || !addressable(pieces, piece_count))
        return KVR_INVALID;
    if (cuda->failed || cuda_enter(cuda, NULL) != KVR_OK)
        return KVR_COPY_FAILED;
    while (piece_count > 0 && !cuda->failed) {
        uint32_t count = piece_count < MOVES_MAX ? piece_count : MOVES_MAX;
        CUresult code = cuda->module != NULL ? move_by_kernel(cuda, pieces, count)
                                             : move_by_driver(cuda, pieces, count);
        CUresult end = await_moves(cuda, spin_of(pieces, count));

        cuda->failed = code != CUDA_SUCCESS || end != CUDA_SUCCESS;
        pieces += count;
        piece_count -= count;
    }
    return cuda->failed ? KVR_COPY_FAILED : KVR_OK;
}
