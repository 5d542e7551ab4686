#include "base/cuda_driver.h"

#include <assert.h>
#include <ctype.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define VERSION_MIN 12000
#define UUID_TEXT   37 /* with its NUL */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct kvr_cuda driver;
static void *library;            /* for the life of the process */
static struct kvr_error failure; /* of the one try; status KVR_OK: none */

static bool has(PFN_cuGetProcAddress_v12000 get, const char *name, int version, void **ret)
{
    CUdriverProcAddressQueryResult found;

    return get(name, ret, version, CU_GET_PROC_ADDRESS_DEFAULT, &found) == CUDA_SUCCESS &&
           *ret != NULL;
}

static kvr_status find(PFN_cuGetProcAddress_v12000 get, const char *name, int version, void **ret)
{
    if (has(get, name, version, ret))
        return KVR_OK;
    return kvr_error_set(&failure, KVR_UNSUPPORTED, "cuda",
                         "libcuda.so.1 has no %s of version %d: install a driver of CUDA 12.0 or "
                         "later",
                         name, version);
}

static kvr_status find_all(PFN_cuGetProcAddress_v12000 get)
{
    kvr_status status = KVR_OK;
    void *found = NULL;

    /* POSIX lets an object pointer be a function's. */
#define X(name, of)                                                                                \
    if (status == KVR_OK && (status = find(get, "cu" #name, (of), &found)) == KVR_OK)              \
        driver.name = (PFN_cu##name##_v##of)found;
    KVR_CUDA_LIST(X)
#undef X
    return status;
}

static void find_later(PFN_cuGetProcAddress_v12000 get)
{
    void *found = NULL;

    (void)get, (void)found; /* headers before CUDA 12.8 leave the list empty */
#define X(name, of)                                                                                \
    if (has(get, "cu" #name, (of), &found))                                                        \
        driver.name = (PFN_cu##name##_v##of)found;
    KVR_CUDA_LATER_LIST(X)
#undef X
}

static kvr_status start(PFN_cuGetProcAddress_v12000 get)
{
    char what[64];

    if (find_all(get) != KVR_OK)
        return failure.status;
    find_later(get);
    if (kvr_cuda_check(&driver, driver.DriverGetVersion(&driver.version), &failure,
                       "the version of the driver") != KVR_OK)
        return failure.status;
    if (driver.version < VERSION_MIN)
        return kvr_error_set(&failure, KVR_UNSUPPORTED, "cuda",
                             "the driver speaks CUDA %d.%d; 12.0 or later is needed",
                             driver.version / 1000, driver.version % 1000 / 10);
    snprintf(what, sizeof(what), "to start the driver of CUDA %d.%d", driver.version / 1000,
             driver.version % 1000 / 10);
    if (kvr_cuda_check(&driver, driver.Init(0), &failure, what) != KVR_OK ||
        kvr_cuda_check(&driver, driver.DeviceGetCount(&driver.device_count), &failure,
                       "to count the GPUs") != KVR_OK)
        return failure.status;
    if (driver.device_count == 0)
        return kvr_error_set(&failure, KVR_UNSUPPORTED, "cuda", "the driver shows no GPU");
    return KVR_OK;
}

static void start_once(void)
{
    void *get;

    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    get = library != NULL ? dlsym(library, "cuGetProcAddress_v2") : NULL;
    if (library == NULL)
        (void)kvr_error_set(&failure, KVR_UNSUPPORTED, "cuda",
                            "this host has no NVIDIA driver (libcuda.so.1): %s", dlerror());
    else if (get == NULL)
        (void)kvr_error_set(&failure, KVR_UNSUPPORTED, "cuda",
                            "libcuda.so.1 has no cuGetProcAddress_v2: install a driver of CUDA "
                            "12.0 or later");
    else
        (void)start((PFN_cuGetProcAddress_v12000)get);
}

kvr_status kvr_cuda_open(const struct kvr_cuda **ret_cuda, struct kvr_error *error)
{
    pthread_once(&once, start_once);
    if (failure.status != KVR_OK) {
        if (error != NULL)
            *error = failure;
        return failure.status;
    }
    *ret_cuda = &driver;
    return KVR_OK;
}

kvr_status kvr_cuda_check(const struct kvr_cuda *cuda, CUresult code, struct kvr_error *error,
                          const char *what)
{
    const char *name = NULL, *text = NULL;

    if (code == CUDA_SUCCESS)
        return KVR_OK;
    (void)cuda->GetErrorName(code, &name);
    (void)cuda->GetErrorString(code, &text);
    (void)kvr_error_set(error, KVR_SYSTEM, "cuda", "the GPU's driver refuses %s: %s, %s", what,
                        name != NULL ? name : "an error without a name",
                        text != NULL ? text : "without a text");
    if (error != NULL)
        error->provider_code = (int)code;
    return KVR_SYSTEM;
}

/* ---- GPUs ---------------------------------------------------------------------------------- */

kvr_status kvr_cuda_gpu(const struct kvr_cuda *cuda, int32_t ordinal, struct kvr_gpu *ret_gpu,
                        struct kvr_error *error)
{
    struct kvr_gpu gpu = {.pci = ""};
    CUdevice device;
    CUuuid uuid;

    static_assert(sizeof(uuid.bytes) == sizeof(gpu.uuid.bytes), "CUDA's UUID");
    KVR_TRY(kvr_cuda_check(cuda, cuda->DeviceGet(&device, ordinal), error, "the GPU"));
    KVR_TRY(kvr_cuda_check(cuda, cuda->DeviceGetUuid(&uuid, device), error, "the GPU's UUID"));
    KVR_TRY(kvr_cuda_check(cuda, cuda->DeviceGetPCIBusId(gpu.pci, (int)sizeof(gpu.pci), device),
                           error, "the GPU's PCI address"));
    memcpy(gpu.uuid.bytes, uuid.bytes, sizeof(gpu.uuid.bytes));
    for (char *at = gpu.pci; *at != '\0'; at++) /* as the kernel writes it */
        *at = (char)tolower((unsigned char)*at);
    *ret_gpu = gpu;
    return KVR_OK;
}

/* As nvidia-smi writes it. */
static void uuid_show(const struct kvr_uuid *uuid, char ret_text[UUID_TEXT])
{
    size_t at = 0;

    for (size_t i = 0; i < sizeof(uuid->bytes); i++)
        at += (size_t)snprintf(ret_text + at, UUID_TEXT - at, "%s%02x",
                               i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid->bytes[i]);
}

kvr_status kvr_cuda_ordinal(const struct kvr_cuda *cuda, const struct kvr_gpu *gpu,
                            int32_t *ret_ordinal, struct kvr_error *error)
{
    char uuid[UUID_TEXT];
    struct kvr_gpu at;

    for (int32_t i = 0; i < cuda->device_count; i++) {
        KVR_TRY(kvr_cuda_gpu(cuda, i, &at, error));
        if (kvr_uuid_equal(&at.uuid, &gpu->uuid)) {
            *ret_ordinal = i;
            return KVR_OK;
        }
    }
    uuid_show(&gpu->uuid, uuid);
    return kvr_error_set(error, KVR_INVALID, "cuda",
                         "the region is on GPU-%s (%s), and the agent sees %d other GPUs: give it "
                         "every GPU of its engines (CUDA_VISIBLE_DEVICES, the container's devices)",
                         uuid, gpu->pci[0] != '\0' ? gpu->pci : "no PCI address",
                         cuda->device_count);
}

/* ---- attributes ---------------------------------------------------------------------------- */

static int ask(const struct kvr_cuda *cuda, CUdevice_attribute attribute, CUdevice device)
{
    int value = 0;

    return cuda->DeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS ? value : 0;
}

bool kvr_cuda_mps(const struct kvr_cuda *cuda, CUdevice device)
{
    /* CU_DEVICE_ATTRIBUTE_MPS_ENABLED, which the headers of CUDA 12.0 lack. */
    return ask(cuda, (CUdevice_attribute)133, device) != 0;
}

kvr_write_order kvr_cuda_write_order(const struct kvr_cuda *cuda, CUdevice device)
{
    int order = ask(cuda, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, device);
    int options = ask(cuda, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, device);

    if (order >= CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER)
        return KVR_ORDER_KEPT;
    return (options & CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST) != 0 ? KVR_ORDER_FLUSHED
                                                                        : KVR_ORDER_NONE;
}

kvr_status kvr_cuda_flush_writes(const struct kvr_cuda *cuda, struct kvr_error *error)
{
    return kvr_cuda_check(
        cuda,
        cuda->FlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                       CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER),
        error, "to flush the writes of cards to the GPU's memory");
}

/* ---- allocations --------------------------------------------------------------------------- */

CUmemAllocationProp kvr_cuda_shareable(const struct kvr_cuda *cuda, CUdevice device)
{
    int cards = ask(cuda, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, device);

    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
        .allocFlags = {.gpuDirectRDMACapable = cards != 0},
    };
}

kvr_status kvr_cuda_granularity(const struct kvr_cuda *cuda, CUdevice device, size_t *ret_bytes,
                                struct kvr_error *error)
{
    CUmemAllocationProp wanted = kvr_cuda_shareable(cuda, device);

    return kvr_cuda_check(
        cuda,
        cuda->MemGetAllocationGranularity(ret_bytes, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
        error, "the granularity of VMM allocations");
}

/* ---- dmabufs ------------------------------------------------------------------------------- */

/* Without CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE: where a GPU has two ways (Grace), that flag
 * takes the data by PCIe and leaves our words to the other way, in no order that CUDA offers. */
kvr_status kvr_cuda_dmabuf(const struct kvr_cuda *cuda, CUdeviceptr address, uint64_t bytes,
                           const char *what, int *ret_fd, uint64_t *ret_offset,
                           struct kvr_error *error)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    CUdeviceptr from = address / page * page;
    CUdeviceptr end = (address + bytes + page - 1) / page * page;
    int fd = -1;

    KVR_TRY(kvr_cuda_check(cuda,
                           cuda->MemGetHandleForAddressRange(
                               &fd, from, end - from, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
                           error, what));
    *ret_fd = fd;
    *ret_offset = address - from;
    return KVR_OK;
}
