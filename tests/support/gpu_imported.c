/* What CUDA lets a process do with GPU memory that another process made, as agents do with the
 * memory of their engines. Prints a line: "PROBE-KIND yes", or "PROBE-KIND no: why".
 *
 *   gpu_imported PROBE KIND
 *
 *   own       the owner asks for a dmabuf
 *   dmabuf    the process that imported it asks for one
 *   memops    that process has transfers of the memory synchronized (SYNC_MEMOPS), as libfabric has
 *   killed    the owner is killed; then that process reads every byte, and lets go
 *   freed     the owner frees it; then the same
 *
 * A kind is ipc, of cuMemAlloc; vmm; or vmm_for_cards, with gpuDirectRDMACapable.
 *
 *   gpu_imported attributes    what the GPU says about cards
 *   gpu_imported free          the MiB that are free
 *
 * Exit 0: yes. 77: no, or there is no GPU. 1: there is no answer. */
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cuda_driver.h"
#include "wire/packet_socket.h"

#define BYTES   ((size_t)4 << 20)
#define PATTERN 0x5a

static const struct kvr_cuda *cuda;
static struct kvr_error error; /* of the first call that failed */

static bool did(CUresult code, const char *what)
{
    if (error.status == KVR_OK)
        (void)kvr_cuda_check(cuda, code, &error, what);
    return code == CUDA_SUCCESS;
}

static bool enter(void)
{
    CUcontext context;

    return kvr_cuda_open(&cuda, &error) == KVR_OK &&
           did(cuda->DevicePrimaryCtxRetain(&context, 0), "a context") &&
           did(cuda->CtxSetCurrent(context), "to enter a context");
}

/* A function of the driver that kvrail itself does not call. NULL: there is none. */
static void *function(const char *name, int version)
{
    PFN_cuGetProcAddress_v12000 get =
        (PFN_cuGetProcAddress_v12000)dlsym(RTLD_DEFAULT, "cuGetProcAddress_v2");
    CUdriverProcAddressQueryResult found;
    void *address = NULL;

    if (get == NULL ||
        get(name, &address, version, CU_GET_PROC_ADDRESS_DEFAULT, &found) != CUDA_SUCCESS)
        return NULL;
    return address;
}

/* ---- memory -------------------------------------------------------------------------------- */

/* From the owner to the other process, with the descriptor of a VMM allocation. */
struct offer {
    struct kvr_error error; /* why there is no memory */
    bool vmm;
    CUipcMemHandle handle;
};

struct memory {
    bool vmm;
    CUdeviceptr address;
    int fd;
};

static bool map(struct memory *memory, CUmemGenericAllocationHandle handle)
{
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    return did(cuda->MemAddressReserve(&memory->address, BYTES, 0, 0, 0), "addresses") &&
           did(cuda->MemMap(memory->address, BYTES, 0, handle, 0), "to map an allocation") &&
           did(cuda->MemSetAccess(memory->address, BYTES, &access, 1), "access to it") &&
           did(cuda->MemRelease(handle), "to release its handle");
}

static bool unmap(const struct memory *memory)
{
    return did(cuda->MemUnmap(memory->address, BYTES), "to unmap it") &&
           did(cuda->MemAddressFree(memory->address, BYTES), "to free its addresses");
}

static bool make_vmm(struct memory *memory, bool for_cards)
{
    CUmemAllocationProp wanted = kvr_cuda_shareable(cuda, 0);
    CUmemGenericAllocationHandle handle;

    wanted.allocFlags.gpuDirectRDMACapable = for_cards;
    return did(cuda->MemCreate(&handle, BYTES, &wanted, 0), "a VMM allocation") &&
           did(cuda->MemExportToShareableHandle(&memory->fd, handle,
                                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
               "a descriptor of it") &&
           map(memory, handle);
}

static bool fill(const struct memory *memory)
{
    uint8_t *bytes = malloc(BYTES);
    bool filled;

    if (bytes == NULL)
        return did(CUDA_ERROR_OUT_OF_MEMORY, "host memory");
    memset(bytes, PATTERN, BYTES);
    filled = did(cuda->MemcpyHtoDAsync(memory->address, bytes, BYTES, NULL), "a copy into it") &&
             did(cuda->StreamSynchronize(NULL), "the end of that copy");
    free(bytes);
    return filled;
}

static bool read_back(const struct memory *memory)
{
    uint8_t *bytes = calloc(1, BYTES);
    size_t right = 0;

    if (bytes == NULL)
        return did(CUDA_ERROR_OUT_OF_MEMORY, "host memory");
    if (did(cuda->MemcpyDtoHAsync(bytes, memory->address, BYTES, NULL), "a copy from it") &&
        did(cuda->StreamSynchronize(NULL), "the end of that copy"))
        while (right < BYTES && bytes[right] == PATTERN)
            right++;
    free(bytes);
    if (right < BYTES && error.status == KVR_OK)
        (void)kvr_error_set(&error, KVR_SYSTEM, "probe", "its byte %zu is wrong", right);
    return right == BYTES;
}

static bool make(struct memory *memory, const char *kind)
{
    memory->vmm = strcmp(kind, "ipc") != 0;
    memory->fd = -1;
    return (memory->vmm ? make_vmm(memory, strcmp(kind, "vmm_for_cards") == 0)
                        : did(cuda->MemAlloc(&memory->address, BYTES), "device memory")) &&
           fill(memory);
}

static bool import(struct memory *memory, const struct offer *offer, int fd)
{
    CUmemGenericAllocationHandle handle;

    memory->vmm = offer->vmm;
    if (!offer->vmm)
        return did(cuda->IpcOpenMemHandle(&memory->address, offer->handle,
                                          CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
                   "to open the CUDA IPC handle");
    return did(cuda->MemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
                                                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
               "to import the descriptor") &&
           map(memory, handle);
}

static bool let_go(const struct memory *memory)
{
    return memory->vmm ? unmap(memory)
                       : did(cuda->IpcCloseMemHandle(memory->address), "to close it");
}

/* ---- the owner ----------------------------------------------------------------------------- */

/* A process of its own. It frees the memory after one word, and ends with its socket. */
static void own(int socket, const char *kind)
{
    struct offer offer = {.vmm = strcmp(kind, "ipc") != 0};
    struct memory memory = {0};
    struct kvr_packet_fds fds = {0};
    char word;

    if (enter() && make(&memory, kind) && !offer.vmm)
        (void)did(cuda->IpcGetMemHandle(&offer.handle, memory.address), "a CUDA IPC handle");
    offer.error = error;
    if (error.status == KVR_OK && offer.vmm)
        fds = (struct kvr_packet_fds){.fds = {memory.fd}, .count = 1};
    if (kvr_packet_send(socket, (const uint8_t *)&offer, sizeof(offer), &fds) != KVR_OK)
        return;
    if (fds.count > 0)
        close(memory.fd);
    if (read(socket, &word, 1) != 1)
        return;
    (void)(memory.vmm ? unmap(&memory) : did(cuda->MemFree(memory.address), "to free it"));
    (void)!write(socket, &error, sizeof(error));
    (void)!read(socket, &word, 1);
}

static pid_t start_owner(int *ret_socket, const char *kind)
{
    int sockets[2];
    pid_t child;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) != 0)
        return -1;
    (void)fflush(NULL);
    child = fork();
    if (child == 0) {
        close(sockets[1]);
        own(sockets[0], kind);
        _exit(0);
    }
    close(sockets[0]);
    *ret_socket = sockets[1];
    return child;
}

/* ---- probes -------------------------------------------------------------------------------- */

static bool dmabuf_of(const struct memory *memory)
{
    int fd = -1;

    if (!did(cuda->MemGetHandleForAddressRange(&fd, memory->address, BYTES,
                                               CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
             "a dmabuf of it"))
        return false;
    close(fd);
    return true;
}

static bool memops_of(const struct memory *memory)
{
    PFN_cuPointerSetAttribute_v6000 set =
        (PFN_cuPointerSetAttribute_v6000)function("cuPointerSetAttribute", 6000);
    unsigned on = 1;

    return did(set != NULL ? set(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory->address)
                           : CUDA_ERROR_NOT_FOUND,
               "SYNC_MEMOPS of it");
}

static bool after_death(const struct memory *memory, pid_t owner)
{
    kill(owner, SIGKILL);
    (void)waitpid(owner, NULL, 0);
    return read_back(memory) && let_go(memory);
}

static bool after_free(const struct memory *memory, int socket)
{
    if (write(socket, "f", 1) != 1 || read(socket, &error, sizeof(error)) != sizeof(error))
        return did(CUDA_ERROR_UNKNOWN, "the owner to free it");
    return error.status == KVR_OK && read_back(memory) && let_go(memory);
}

static bool ask(const char *probe, const struct memory *memory, int socket, pid_t owner)
{
    if (strcmp(probe, "dmabuf") == 0)
        return dmabuf_of(memory);
    if (strcmp(probe, "memops") == 0)
        return memops_of(memory);
    return strcmp(probe, "killed") == 0 ? after_death(memory, owner) : after_free(memory, socket);
}

/* The descriptor is -1 where there is none. */
static bool receive(int socket, struct offer *offer, int *ret_fd)
{
    struct pollfd ready = {.fd = socket, .events = POLLIN};
    struct kvr_packet_fds fds = {0};
    size_t bytes = 0;

    if (poll(&ready, 1, -1) != 1 ||
        kvr_packet_receive(socket, (uint8_t *)offer, sizeof(*offer), &bytes, &fds) != KVR_OK ||
        bytes != sizeof(*offer))
        return did(CUDA_ERROR_UNKNOWN, "an answer of the owner");
    error = offer->error;
    *ret_fd = fds.count > 0 ? fds.fds[0] : -1;
    return error.status == KVR_OK;
}

static bool imported(const char *probe, const char *kind)
{
    struct memory memory = {0};
    struct offer offer;
    int socket = -1, fd = -1;
    pid_t owner = start_owner(&socket, kind); /* before this process has CUDA */

    return owner > 0 && enter() && receive(socket, &offer, &fd) && import(&memory, &offer, fd) &&
           ask(probe, &memory, socket, owner);
}

static bool owned(const char *kind)
{
    struct memory memory = {0};

    return enter() && make(&memory, kind) && dmabuf_of(&memory);
}

/* ---- facts --------------------------------------------------------------------------------- */

static bool attributes(void)
{
    static const struct {
        const char *name;
        CUdevice_attribute attribute;
    } known[] = {
        {"dma_buf", CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED},
        {"rdma", CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED},
        {"rdma_with_vmm", CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED},
        {"writes_ordering", CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING},
        {"flush_options", CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS},
        {"can_flush_in_streams", CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES},
        {"host_pointers", CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM},
    };
    int value = 0;

    if (!enter())
        return false;
    printf("driver %d", cuda->version);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (cuda->DeviceGetAttribute(&value, known[i].attribute, 0) == CUDA_SUCCESS)
            printf(", %s %d", known[i].name, value);
        else
            printf(", %s refused", known[i].name);
    }
    printf("\n");
    return true;
}

static bool free_memory(void)
{
    PFN_cuMemGetInfo_v3020 get = NULL;
    size_t unused = 0, total = 0;

    if (!enter())
        return false;
    get = (PFN_cuMemGetInfo_v3020)function("cuMemGetInfo", 3020);
    if (!did(get != NULL ? get(&unused, &total) : CUDA_ERROR_NOT_FOUND, "its free memory"))
        return false;
    printf("%zu\n", unused >> 20);
    return true;
}

static int facts(const char *name)
{
    if (strcmp(name, "attributes") == 0 ? attributes() : free_memory())
        return 0;
    printf("%s no: %s\n", name, error.detail);
    return error.status == KVR_OK ? 1 : 77;
}

int main(int argc, char **argv)
{
    bool yes;

    if (argc == 2)
        return facts(argv[1]);
    if (argc != 3) {
        fprintf(stderr, "usage: gpu_imported PROBE KIND\n");
        return 2;
    }
    yes = strcmp(argv[1], "own") == 0 ? owned(argv[2]) : imported(argv[1], argv[2]);
    printf("%s-%s %s%s\n", argv[1], argv[2], yes ? "yes" : "no: ", yes ? "" : error.detail);
    if (yes)
        return 0;
    return error.status == KVR_OK ? 1 : 77;
}
