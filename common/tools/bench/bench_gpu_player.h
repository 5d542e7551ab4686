/* The player of the GPU's half of a ping-pong: a kernel, or a thread where the device is emulated.
 */
#ifndef KVR_TOOLS_BENCH_GPU_PLAYER_H
#define KVR_TOOLS_BENCH_GPU_PLAYER_H

#include <pthread.h>

#include "device/device.h"
#include "tools/bench/bench_gpu_ping.h"

struct gpu_player {
    struct kvr_device *device;
    struct gpu_ping *ping; /* pinned */
    bool by_thread;
    pthread_t thread;
    void *module, *kernel, *stream; /* of CUDA */
};

/* UNSUPPORTED: a build without nvcc has no kernel. Close it all the same. */
kvr_status gpu_player_open(struct gpu_player *player, struct kvr_device *device,
                           struct kvr_error *error);
/* One turn begins; *player->ping says of how many pings. */
kvr_status gpu_player_begin(struct gpu_player *player, struct kvr_error *error);
/* It has ended, or is late. */
kvr_status gpu_player_end(struct gpu_player *player, struct kvr_error *error);
void gpu_player_close(struct gpu_player *player);

#endif
