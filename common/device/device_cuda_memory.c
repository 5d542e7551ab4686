/* Imports an engine's memory into this process. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/device_cuda_state.h"
#include "device/dmabuf.h"

/* An older library names the GPU by its own ordinal, which may be another GPU's here
 * (CUDA_VISIBLE_DEVICES), so the driver reports the GPU of the memory itself. */
static kvr_status check_ordinal(const struct device_cuda *cuda, CUdeviceptr address,
                                struct kvr_error *error)
{
    int ordinal = -1;
    kvr_status status = kvr_cuda_check(
        cuda->cuda,
        cuda->cuda->PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address),
        error, "to tell which GPU imported memory is of");

    if (status != KVR_OK || ordinal == cuda->device.ordinal)
        return status;
    return kvr_error_set(error, KVR_INVALID, "device",
                         "the region's memory is of GPU %d, and the engine says %d: give the "
                         "region's own GPU; with an older libkvrail, agent and engine have to "
                         "number GPUs alike (CUDA_VISIBLE_DEVICES)",
                         ordinal, cuda->device.ordinal);
}

/* A handle names a whole allocation; the driver knows the size. */
static kvr_status open_ipc(const struct device_cuda *cuda, const struct kvr_device_import *import,
                           struct cuda_memory *memory, struct kvr_error *error)
{
    CUipcMemHandle handle;
    size_t bytes = 0;

    static_assert(sizeof(handle) == sizeof(import->ipc), "CUDA's handle");
    memcpy(&handle, import->ipc, sizeof(handle));
    KVR_TRY(kvr_cuda_check(
        cuda->cuda,
        cuda->cuda->IpcOpenMemHandle(&memory->base, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
        error,
        "to open a CUDA IPC handle (from another PID namespace, as another container has, none can "
        "be opened: use VMM memory, as kvrail_device_memory_create makes)"));
    memory->kind = KVR_DEVICE_IPC;
    KVR_TRY(kvr_cuda_check(cuda->cuda, cuda->cuda->MemGetAddressRange(NULL, &bytes, memory->base),
                           error, "to tell the size of what a CUDA IPC handle names"));
    if (import->offset > bytes || import->bytes > bytes - import->offset)
        return kvr_error_set(error, KVR_INVALID, "device",
                             "%llu bytes at offset %llu lie outside the allocation of %zu bytes",
                             (unsigned long long)import->bytes, (unsigned long long)import->offset,
                             bytes);
    memory->address = memory->base + import->offset;
    return import->neighbour ? KVR_OK : check_ordinal(cuda, memory->address, error);
}

/* Memory of this process: for benchmarks and tests where no other process may open memory. */
static kvr_status take_mapped(const struct device_cuda *cuda,
                              const struct kvr_device_import *import, struct cuda_memory *memory,
                              struct kvr_error *error)
{
    CUdeviceptr address = (uintptr_t)import->address, base = 0;
    size_t bytes = 0;
    kvr_status status =
        kvr_cuda_check(cuda->cuda, cuda->cuda->MemGetAddressRange(&base, &bytes, address), error,
                       "the allocation of a device pointer");

    if (status != KVR_OK)
        return status;
    if (import->offset != 0 || import->bytes > bytes - (address - base))
        return kvr_error_set(error, KVR_INVALID, "device",
                             "%llu bytes lie outside the allocation of %zu bytes",
                             (unsigned long long)import->bytes, bytes);
    memory->address = address;
    return KVR_OK;
}

/* The handle is released at once: a mapping stays until it is unmapped. */
static kvr_status map_extent(const struct device_cuda *cuda, const struct kvr_extent *extent,
                             CUdeviceptr address, struct kvr_error *error)
{
    const struct kvr_cuda *driver = cuda->cuda;
    CUmemGenericAllocationHandle allocation = 0;
    kvr_status status;

    KVR_TRY(kvr_cuda_check(
        driver,
        driver->MemImportFromShareableHandle(&allocation, (void *)(uintptr_t)extent->fd,
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
        error, "to import the descriptor of a VMM allocation"));
    status = kvr_cuda_check(driver, driver->MemMap(address, extent->bytes, 0, allocation, 0), error,
                            "to map a VMM allocation (is the region inside it?)");
    (void)driver->MemRelease(allocation);
    return status;
}

/* Maps extents one after the other into one reserved range. If one fails, release undoes the
 * others. */
static kvr_status map_vmm(const struct device_cuda *cuda, const struct kvr_extent *extents,
                          uint32_t count, uint64_t whole, struct cuda_memory *memory,
                          struct kvr_error *error)
{
    const struct kvr_cuda *driver = cuda->cuda;
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = cuda->number},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr at;

    memory->mapped = calloc(count, sizeof(memory->mapped[0]));
    if (memory->mapped == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "device", "no memory for a region");
    KVR_TRY(kvr_cuda_check(driver, driver->MemAddressReserve(&memory->base, whole, 0, 0, 0), error,
                           "addresses for VMM allocations"));
    memory->base_bytes = whole;
    at = memory->base;
    for (uint32_t i = 0; i < count; i++) {
        KVR_TRY(map_extent(cuda, &extents[i], at, error));
        memory->mapped[memory->mapped_count++] = extents[i].bytes;
        at += extents[i].bytes;
    }
    return kvr_cuda_check(driver, driver->MemSetAccess(memory->base, whole, &access, 1), error,
                          "access to VMM allocations");
}

static void unmap_vmm(const struct kvr_cuda *driver, struct cuda_memory *memory)
{
    CUdeviceptr at = memory->base;

    for (uint32_t i = 0; i < memory->mapped_count; i++) {
        (void)driver->MemUnmap(at, memory->mapped[i]);
        at += memory->mapped[i];
    }
    if (memory->base_bytes > 0)
        (void)driver->MemAddressFree(memory->base, memory->base_bytes);
    free(memory->mapped);
}

/* Checks each extent, because each may have been made on another GPU. */
static kvr_status check_ordinals(const struct device_cuda *cuda, const struct cuda_memory *memory,
                                 struct kvr_error *error)
{
    CUdeviceptr at = memory->base;
    kvr_status status = KVR_OK;

    for (uint32_t i = 0; i < memory->mapped_count && status == KVR_OK; i++) {
        status = check_ordinal(cuda, at, error);
        at += memory->mapped[i];
    }
    return status;
}

/* A descriptor does not carry its size. A single one is mapped as far as the region reaches; the
 * driver refuses a range longer than the allocation. */
static kvr_status open_vmm(const struct device_cuda *cuda, const struct kvr_device_import *import,
                           struct cuda_memory *memory, struct kvr_error *error)
{
    struct kvr_extent one = {.fd = import->fd};
    uint64_t end, whole;
    size_t grain = 0;

    KVR_TRY(kvr_cuda_granularity(cuda->cuda, cuda->number, &grain, error));
    if (__builtin_add_overflow(import->offset, import->bytes, &end) || end > UINT64_MAX - grain)
        return kvr_error_set(error, KVR_INVALID, "device", "%llu bytes at offset %llu",
                             (unsigned long long)import->bytes, (unsigned long long)import->offset);
    one.bytes = whole = (end + grain - 1) / grain * grain;
    if (import->extents != NULL)
        KVR_TRY(kvr_extents_check(import->extents, import->offset, import->bytes, grain, "device",
                                  &whole, error));
    memory->kind = KVR_DEVICE_VMM;
    if (import->extents != NULL)
        KVR_TRY(map_vmm(cuda, import->extents->at, import->extents->count, whole, memory, error));
    else
        KVR_TRY(map_vmm(cuda, &one, 1, whole, memory, error));
    memory->address = memory->base + import->offset;
    return import->neighbour ? KVR_OK : check_ordinals(cuda, memory, error);
}

static kvr_status keep_dmabuf(const struct kvr_device_dmabuf *dmabuf, uint64_t bytes,
                              struct cuda_memory *memory, struct kvr_error *error)
{
    KVR_TRY(kvr_dmabuf_check(dmabuf->fd, dmabuf->offset, bytes, error));
    memory->dmabuf = fcntl(dmabuf->fd, F_DUPFD_CLOEXEC, 0);
    if (memory->dmabuf < 0)
        return kvr_error_system(error, "device", errno, "to keep a region's dmabuf descriptor");
    memory->dmabuf_offset = dmabuf->offset;
    return KVR_OK;
}

/* A dmabuf is for cards. Memory that a card cannot take has to be copied, which also needs the
 * memory's handle. */
static kvr_status open_dmabuf(const struct kvr_device_import *import, struct cuda_memory *memory,
                              struct kvr_error *error)
{
    struct kvr_device_dmabuf own = {.fd = import->fd, .offset = import->offset};

    return keep_dmabuf(&own, import->bytes, memory, error);
}

/* The owner's, or else one of the memory as it was opened here, which some drivers refuse: CUDA
 * promises a dmabuf to the process that allocated. Without one, cards take another way. */
static void find_dmabuf(const struct device_cuda *cuda, const struct kvr_device_import *import,
                        struct cuda_memory *memory)
{
    if (import->dmabuf != NULL &&
        keep_dmabuf(import->dmabuf, import->bytes, memory, NULL) == KVR_OK)
        return;
    if (kvr_cuda_dmabuf(cuda->cuda, memory->address, memory->memory.bytes, "a dmabuf",
                        &memory->dmabuf, &memory->dmabuf_offset, NULL) != KVR_OK)
        memory->dmabuf = -1;
}

/* False: CUDA says that a card may not reach the memory. */
static bool made_for_cards(const struct device_cuda *cuda, CUdeviceptr address)
{
    int capable = 1;

    if (cuda->cuda->PointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
                                        address) != CUDA_SUCCESS)
        return true; /* not known */
    return capable != 0;
}

kvr_status cuda_memory_import(struct kvr_device *device, const struct kvr_device_import *import,
                              struct kvr_device_memory **ret_memory, struct kvr_error *error)
{
    const struct device_cuda *cuda = (const struct device_cuda *)device;
    struct cuda_memory *memory;
    kvr_status status;

    KVR_TRY(cuda_enter(cuda, error));
    if (import->bytes == 0 || import->offset % 256 != 0)
        return kvr_error_set(error, KVR_INVALID, "device",
                             "%llu bytes at offset %llu: there must be some, and the offset must "
                             "be a multiple of 256",
                             (unsigned long long)import->bytes, (unsigned long long)import->offset);
    memory = calloc(1, sizeof(*memory));
    if (memory == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "device", "no memory for a region");
    memory->memory.bytes = import->bytes;
    memory->kind = KVR_DEVICE_MAPPED; /* nothing to undo yet */
    memory->dmabuf = -1;
    memory->ordinal = device->ordinal;
    if (import->kind == KVR_DEVICE_IPC)
        status = open_ipc(cuda, import, memory, error);
    else if (import->kind == KVR_DEVICE_VMM)
        status = open_vmm(cuda, import, memory, error);
    else if (import->kind == KVR_DEVICE_DMABUF)
        status = open_dmabuf(import, memory, error);
    else if (import->kind == KVR_DEVICE_MAPPED)
        status = take_mapped(cuda, import, memory, error);
    else
        status = kvr_error_set(error, KVR_UNSUPPORTED, "device",
                               "a GPU imports device memory: dmabuf, CUDA IPC or VMM");
    if (status != KVR_OK) {
        cuda_memory_release(device, &memory->memory);
        return status;
    }
    if (import->for_cards && memory->dmabuf < 0)
        find_dmabuf(cuda, import, memory);
    memory->not_for_cards = memory->address != 0 && !made_for_cards(cuda, memory->address);
    *ret_memory = &memory->memory;
    return KVR_OK;
}

void cuda_memory_release(struct kvr_device *device, struct kvr_device_memory *head)
{
    const struct kvr_cuda *driver = ((struct device_cuda *)device)->cuda;
    struct cuda_memory *memory = (struct cuda_memory *)head;

    if (memory == NULL)
        return;
    (void)cuda_enter((struct device_cuda *)device, NULL);
    if (memory->kind == KVR_DEVICE_IPC)
        (void)driver->IpcCloseMemHandle(memory->base);
    if (memory->kind == KVR_DEVICE_VMM)
        unmap_vmm(driver, memory);
    if (memory->dmabuf >= 0)
        close(memory->dmabuf);
    free(memory);
}

struct kvr_device_hint cuda_memory_hint(const struct kvr_device_memory *head)
{
    const struct cuda_memory *memory = (const struct cuda_memory *)head;

    return (struct kvr_device_hint){
        .addressable = memory->address != 0,
        .address = memory->address,
        .dmabuf = memory->dmabuf,
        .dmabuf_offset = memory->dmabuf_offset,
        .ordinal = memory->ordinal,
        .not_for_cards = memory->not_for_cards,
    };
}
