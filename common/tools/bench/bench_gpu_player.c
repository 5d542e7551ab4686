#include "tools/bench/bench_gpu_player.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "device/kernel_image.h"
#include "tools/bench/bench_gpu_ping_host.h"

static void *play(void *self)
{
    gpu_ping_host_play(self);
    return NULL;
}

#ifdef KVRAIL_HAVE_CUDA

#include "base/cuda_driver.h"

KVR_KERNEL_IMAGE(gpu_ping_image);
extern const unsigned char gpu_ping_image[], gpu_ping_image_end[];

static kvr_status kernel_open(struct gpu_player *player, struct kvr_error *error)
{
    const struct kvr_cuda *cuda;
    kvr_status status = kvr_cuda_open(&cuda, error);
    CUmodule module = NULL;
    CUfunction kernel = NULL;
    CUstream stream = NULL;

    if (status != KVR_OK)
        return status;
    if (&gpu_ping_image[0] == &gpu_ping_image_end[0])
        return kvr_error_set(error, KVR_UNSUPPORTED, "bench",
                             "this build has no kernel for it: nvcc was not found");
    status = kvr_cuda_check(cuda, cuda->ModuleLoadDataEx(&module, gpu_ping_image, 0, NULL, NULL),
                            error, "the kernel of the ping-pong");
    player->module = module;
    if (status == KVR_OK)
        status = kvr_cuda_check(cuda, cuda->ModuleGetFunction(&kernel, module, GPU_PING_KERNEL),
                                error, "the kernel's entry");
    player->kernel = kernel;
    if (status == KVR_OK)
        status = kvr_cuda_check(cuda, cuda->StreamCreate(&stream, CU_STREAM_NON_BLOCKING), error,
                                "a stream");
    player->stream = stream;
    return status;
}

static kvr_status kernel_begin(const struct gpu_player *player, struct kvr_error *error)
{
    CUdeviceptr ping = 0;
    void *arguments[] = {&ping};
    const struct kvr_cuda *cuda;
    kvr_status status = kvr_cuda_open(&cuda, error);

    if (status == KVR_OK)
        status = kvr_cuda_check(cuda, cuda->MemHostGetDevicePointer(&ping, player->ping, 0), error,
                                "the GPU's address of pinned memory");
    if (status != KVR_OK)
        return status;
    return kvr_cuda_check(
        cuda,
        cuda->LaunchKernel(player->kernel, 1, 1, 1, 1, 1, 1, 0, player->stream, arguments, NULL),
        error, "to launch the kernel of the ping-pong");
}

static kvr_status kernel_end(const struct gpu_player *player, struct kvr_error *error)
{
    const struct kvr_cuda *cuda;
    kvr_status status = kvr_cuda_open(&cuda, error);

    if (status != KVR_OK)
        return status;
    return kvr_cuda_check(cuda, cuda->StreamSynchronize(player->stream), error,
                          "the kernel of the ping-pong");
}

static void kernel_close(const struct gpu_player *player)
{
    const struct kvr_cuda *cuda;

    if (player->module == NULL || kvr_cuda_open(&cuda, NULL) != KVR_OK)
        return;
    if (player->stream != NULL)
        (void)cuda->StreamDestroy(player->stream);
    (void)cuda->ModuleUnload(player->module);
}

#else

static kvr_status kernel_open(struct gpu_player *player, struct kvr_error *error)
{
    (void)player;
    return kvr_error_set(error, KVR_UNSUPPORTED, "bench", "this build has no CUDA part");
}

static kvr_status kernel_begin(const struct gpu_player *player, struct kvr_error *error)
{
    (void)player, (void)error;
    return KVR_UNSUPPORTED;
}

static kvr_status kernel_end(const struct gpu_player *player, struct kvr_error *error)
{
    (void)player, (void)error;
    return KVR_UNSUPPORTED;
}

static void kernel_close(const struct gpu_player *player)
{
    (void)player;
}

#endif

kvr_status gpu_player_open(struct gpu_player *player, struct kvr_device *device,
                           struct kvr_error *error)
{
    void *ping = mmap(NULL, sizeof(struct gpu_ping), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    kvr_status status;

    *player =
        (struct gpu_player){.device = device, .by_thread = strcmp(device->ops->name, "cuda") != 0};
    if (ping == MAP_FAILED)
        return kvr_error_system(error, "bench", errno, "memory of a ping-pong");
    status = device->ops->pin(device, ping, sizeof(struct gpu_ping), error);
    if (status != KVR_OK) {
        munmap(ping, sizeof(struct gpu_ping));
        return status;
    }
    player->ping = ping;
    return player->by_thread ? KVR_OK : kernel_open(player, error);
}

kvr_status gpu_player_begin(struct gpu_player *player, struct kvr_error *error)
{
    int code;

    if (!player->by_thread)
        return kernel_begin(player, error);
    code = pthread_create(&player->thread, NULL, play, player->ping);
    return code == 0 ? KVR_OK : kvr_error_system(error, "bench", code, "a thread");
}

kvr_status gpu_player_end(struct gpu_player *player, struct kvr_error *error)
{
    kvr_status status = KVR_OK;

    if (player->by_thread)
        (void)pthread_join(player->thread, NULL);
    else
        status = kernel_end(player, error);
    if (status == KVR_OK && player->ping->late != 0)
        status = kvr_error_set(error, KVR_TIMED_OUT, "bench",
                               "a ping was not answered within %llu s", GPU_PING_LATE_NS / KVR_S);
    return status;
}

void gpu_player_close(struct gpu_player *player)
{
    if (player->ping == NULL)
        return;
    kernel_close(player);
    player->device->ops->unpin(player->device, player->ping);
    munmap(player->ping, sizeof(struct gpu_ping));
    player->ping = NULL;
}
