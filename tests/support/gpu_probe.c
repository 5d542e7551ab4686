/* What of CUDA this machine lets processes do, a line each: "ipc yes", or "ipc no: why".
 *
 *   ipc     memory of one process opened in another by a CUDA IPC handle
 *   vmm     the same by the descriptor of a VMM allocation
 *   dmabuf  a descriptor for cards
 *   memops  a word stored in a stream's order
 *
 * Exit 77: there is no GPU. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cuda_driver.h"
#include "device/allocation.h"
#include "device/device_cuda.h"

#define BYTES ((size_t)2 << 20)

static const struct kvr_cuda *cuda;

static void tell(const char *what, CUresult code, const char *step)
{
    struct kvr_error error = {0};

    if (kvr_cuda_check(cuda, code, &error, step) == KVR_OK)
        printf("%s yes\n", what);
    else
        printf("%s no: %s\n", what, error.detail);
}

static CUresult enter(void)
{
    CUcontext context;
    CUresult code = cuda->DevicePrimaryCtxRetain(&context, 0);

    return code == CUDA_SUCCESS ? cuda->CtxSetCurrent(context) : code;
}

/* In another process, which has no CUDA before. It prints the driver's code. */
static void open_ipc(int socket)
{
    CUresult code = CUDA_ERROR_NOT_INITIALIZED;
    CUipcMemHandle handle;
    CUdeviceptr address;

    if (read(socket, &handle, sizeof(handle)) != (ssize_t)sizeof(handle))
        return; /* there is none to open */
    if (kvr_cuda_open(&cuda, NULL) == KVR_OK)
        code = enter();
    if (code == CUDA_SUCCESS)
        code = cuda->IpcOpenMemHandle(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    (void)!write(socket, &code, sizeof(code));
}

static void probe_ipc(int socket, pid_t child)
{
    CUipcMemHandle handle;
    CUdeviceptr address = 0;
    CUresult code = cuda->MemAlloc(&address, BYTES);

    if (code == CUDA_SUCCESS)
        code = cuda->IpcGetMemHandle(&handle, address);
    if (code != CUDA_SUCCESS) {
        tell("ipc", code, "a CUDA IPC handle");
    } else {
        if (write(socket, &handle, sizeof(handle)) != (ssize_t)sizeof(handle) ||
            read(socket, &code, sizeof(code)) != (ssize_t)sizeof(code))
            code = CUDA_ERROR_UNKNOWN;
        tell("ipc", code, "to open a CUDA IPC handle in another process");
    }
    close(socket);
    (void)waitpid(child, NULL, 0);
    (void)cuda->MemFree(address);
}

static void probe_vmm(void)
{
    struct kvr_device_memory *memory = NULL;
    struct kvr_allocation allocation = {0};
    struct kvr_device *device = NULL;
    struct kvr_error error = {0};

    if (kvr_device_cuda_open(0, KVR_CUDA_COPIER_DRIVER, &device, &error) == KVR_OK &&
        kvr_allocation_open(device, BYTES, &allocation, &error) == KVR_OK &&
        device->ops->import(device, &allocation.import, &memory, &error) == KVR_OK) {
        printf("vmm %s\n", allocation.import.fd >= 0
                               ? "yes"
                               : "no: the driver gives no descriptor of device memory");
        device->ops->release(device, memory);
    } else {
        printf("vmm no: %s\n", error.detail);
    }
    kvr_allocation_close(&allocation);
    kvr_device_close(device);
    (void)enter(); /* closing left it */
}

static void probe_dmabuf(void)
{
    CUdeviceptr address = 0;
    CUresult code = cuda->MemAlloc(&address, BYTES);
    int fd = -1;

    if (code == CUDA_SUCCESS)
        code = cuda->MemGetHandleForAddressRange(&fd, address, BYTES,
                                                 CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    tell("dmabuf", code, "a dmabuf of device memory");
    if (fd >= 0)
        close(fd);
    (void)cuda->MemFree(address);
}

static void probe_memops(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CUdeviceptr address = 0;
    CUstream stream = NULL;
    CUresult code = cuda->MemHostRegister(
        page, 4096, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);

    if (code == CUDA_SUCCESS)
        code = cuda->MemHostGetDevicePointer(&address, page, 0);
    if (code == CUDA_SUCCESS)
        code = cuda->StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    if (code == CUDA_SUCCESS)
        code = cuda->StreamWriteValue64(stream, address, 42, CU_STREAM_WRITE_VALUE_DEFAULT);
    if (code == CUDA_SUCCESS)
        code = cuda->StreamSynchronize(stream);
    if (code == CUDA_SUCCESS && *(const volatile uint64_t *)page != 42)
        code = CUDA_ERROR_UNKNOWN;
    tell("memops", code, "a word stored by a stream");
    if (stream != NULL)
        (void)cuda->StreamDestroy(stream);
    (void)cuda->MemHostUnregister(page);
    munmap(page, 4096);
}

int main(void)
{
    struct kvr_error error = {0};
    int sockets[2];
    pid_t child;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0)
        return 1;
    (void)fflush(NULL);
    child = fork();
    if (child == 0) {
        close(sockets[1]);
        open_ipc(sockets[0]);
        _exit(0);
    }
    close(sockets[0]);
    if (kvr_cuda_open(&cuda, &error) != KVR_OK) {
        printf("%s\n", error.detail);
        return 77;
    }
    if (child < 0 || enter() != CUDA_SUCCESS)
        return 1;
    probe_ipc(sockets[1], child);
    probe_vmm();
    probe_dmabuf();
    probe_memops();
    return 0;
}
