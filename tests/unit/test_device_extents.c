/* Goal: the client describes memory over several VMM allocations, as PyTorch's expandable segments
 * have it, and the agent's device opens it, byte for byte. A failure on the way leaves nothing
 * behind. Method: the client, a hand-written agent side and the device, on the driver of host
 * memory. */
#include "tests/support/check.h"
#include "tests/support/descriptors.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cuda_driver.h"
#include "client/kvrail.h"
#include "device/allocation.h"
#include "device/device_cuda.h"

#define GRAIN ((size_t)2 << 20)
#define COUNT 5u
#define START 8192u

static const struct kvr_cuda *cuda;
static struct kvr_device *device;
static CUdeviceptr memory; /* COUNT + 1 grains are reserved; the last one has no memory */

static void map_one(uint32_t index, CUmemAllocationHandleType type)
{
    CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = type,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    };
    CUmemGenericAllocationHandle handle;

    assert_int_equal(cuda->MemCreate(&handle, GRAIN, &properties, 0), CUDA_SUCCESS);
    assert_int_equal(cuda->MemMap(memory + index * GRAIN, GRAIN, 0, handle, 0), CUDA_SUCCESS);
    assert_int_equal(cuda->MemRelease(handle), CUDA_SUCCESS);
}

static int setup(void **state)
{
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    (void)state;
    assert_int_equal(cuda->MemAddressReserve(&memory, (COUNT + 1) * GRAIN, 0, 0, 0), CUDA_SUCCESS);
    for (uint32_t i = 0; i < COUNT; i++)
        map_one(i, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    return cuda->MemSetAccess(memory, COUNT * GRAIN, &access, 1) == CUDA_SUCCESS ? 0 : 1;
}

static int teardown(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(cuda->MemUnmap(memory + i * GRAIN, GRAIN), CUDA_SUCCESS);
    return cuda->MemAddressFree(memory, (COUNT + 1) * GRAIN) == CUDA_SUCCESS ? 0 : 1;
}

/* The descriptors that an engine's library would send: one for each allocation of the range. */
static struct kvr_extents *exported(uint32_t count)
{
    struct kvr_extents *extents = kvr_extents_new(count);
    CUmemGenericAllocationHandle handle;

    for (uint32_t i = 0; i < count; i++) {
        int fd = -1;

        assert_int_equal(
            cuda->MemRetainAllocationHandle(&handle, (void *)(uintptr_t)(memory + i * GRAIN + 5)),
            CUDA_SUCCESS);
        assert_int_equal(cuda->MemExportToShareableHandle(
                             &fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                         CUDA_SUCCESS);
        assert_int_equal(cuda->MemRelease(handle), CUDA_SUCCESS);
        kvr_extents_add(extents, fd, GRAIN);
    }
    return extents;
}

static struct kvr_device_import import_of(struct kvr_extents *extents)
{
    return (struct kvr_device_import){.kind = KVR_DEVICE_VMM,
                                      .fd = -1,
                                      .extents = extents,
                                      .offset = START,
                                      .bytes = extents->count * GRAIN - 2 * START};
}

static void the_client_finds_them_all(void **state)
{
    struct kvrail_region region = {.size = sizeof(struct kvrail_region),
                                   .bytes = COUNT * GRAIN - START};
    uint32_t before = descriptors();

    (void)state;
    assert_int_equal(kvrail_region_of_device(&region, memory + START, NULL), KVRAIL_OK);
    assert_int_equal(region.memory, KVRAIL_MEMORY_CUDA_VMM);
    assert_int_equal(region.allocation_count, COUNT);
    assert_true(region.address == memory + START);
    assert_null(region.allocations);
    assert_int_equal(region.fd, -1);
    assert_int_equal(region.fd_offset, START);
    assert_int_equal(region.device, 0);
    assert_int_equal(descriptors(), before); /* nothing to close */
    region.bytes = GRAIN;                    /* of two */
    assert_int_equal(kvrail_region_of_device(&region, memory + GRAIN + START, NULL), KVRAIL_OK);
    assert_int_equal(region.allocation_count, 2);
    region.bytes = GRAIN - START; /* of one alone, to its last byte */
    assert_int_equal(kvrail_region_of_device(&region, memory + GRAIN + START, NULL), KVRAIL_OK);
    assert_int_equal(region.allocation_count, 0);
    assert_true(region.fd >= 0);
    close(region.fd);
}

static void what_is_not_all_memory_is_refused(void **state)
{
    struct kvrail_region region = {.size = sizeof(struct kvrail_region),
                                   .bytes = COUNT * GRAIN + 1};
    struct kvrail_error error = {0};
    CUdeviceptr plain = 0;

    (void)state;
    assert_int_equal(kvrail_region_of_device(&region, memory, &error), KVRAIL_INVALID);
    assert_non_null(strstr(error.detail, "of which the first 10485760 alone are device memory"));
    region.bytes = UINT64_MAX;
    assert_int_equal(kvrail_region_of_device(&region, memory, &error), KVRAIL_INVALID);
    region.bytes = 0;
    assert_int_equal(kvrail_region_of_device(&region, memory, &error), KVRAIL_INVALID);
    assert_int_equal(cuda->MemAlloc(&plain, 4096), CUDA_SUCCESS);
    region.bytes = 1 << 30;
    assert_int_equal(kvrail_region_of_device(&region, plain, &error), KVRAIL_INVALID);
    assert_non_null(strstr(error.detail, "several regions"));
    assert_int_equal(cuda->MemFree(plain), CUDA_SUCCESS);
    region.bytes = COUNT * GRAIN;
    setenv("FAKE_CUDA_NO_VMM", "1", 1);
    assert_int_equal(kvrail_region_of_device(&region, memory, &error), KVRAIL_SYSTEM);
    unsetenv("FAKE_CUDA_NO_VMM");
    assert_non_null(strstr(error.detail, "made with POSIX descriptors allowed?"));
    assert_non_null(strstr(error.detail, "TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC=1; vLLM: no sleep"));
}

static void both_ends_see_the_same_bytes(void **state)
{
    struct kvr_extents *extents = exported(COUNT);
    struct kvr_device_import import = import_of(extents);
    struct kvr_device_memory *opened = NULL;
    const uint8_t *seen;
    struct kvr_error error;
    uint32_t before;

    (void)state;
    assert_int_equal(device->ops->import(device, &import, &opened, &error), KVR_OK);
    before = descriptors();
    kvr_extents_release(extents); /* the mapping needs no descriptor */
    assert_int_equal(descriptors(), before - COUNT);
    seen = (const uint8_t *)(uintptr_t)device->ops->hint(opened).address;
    for (uint32_t i = 0; i < COUNT; i++) { /* this driver's device addresses are the host's */
        *(uint8_t *)(uintptr_t)(memory + i * GRAIN + START) = (uint8_t)(11 + i);
        assert_int_equal(seen[i * GRAIN], 11 + i);
    }
    device->ops->release(device, opened);
}

static void a_dmabuf_covers_them(void **state)
{
    struct kvrail_region region = {.size = sizeof(struct kvrail_region),
                                   .bytes = COUNT * GRAIN - 4096};
    struct kvr_extents *extents = exported(COUNT);
    struct kvr_device_import import = import_of(extents);
    struct kvr_device_memory *opened = NULL;
    struct kvrail_error said = {0};
    struct kvr_error error;

    (void)state;
    assert_int_equal(kvrail_region_dmabuf_of_device(&region, memory + 4096, &said), KVRAIL_OK);
    assert_int_equal(region.memory, KVRAIL_MEMORY_DMABUF);
    assert_int_equal(region.allocation_count, 0);
    assert_int_equal(lseek(region.fd, 0, SEEK_END), COUNT * GRAIN - 4096);
    close(region.fd);
    import.for_cards = true;
    assert_int_equal(device->ops->import(device, &import, &opened, &error), KVR_OK);
    assert_true(device->ops->hint(opened).dmabuf >= 0);
    device->ops->release(device, opened);
    setenv("FAKE_CUDA_DMABUF_OF_ONE", "1",
           1); /* a driver that exports no dmabuf over several allocations */
    assert_int_equal(kvrail_region_dmabuf_of_device(&region, memory + 4096, &said), KVRAIL_SYSTEM);
    assert_non_null(strstr(said.detail, "kvrail_region_of_device needs none"));
    assert_int_equal(device->ops->import(device, &import, &opened, &error), KVR_OK);
    assert_int_equal(device->ops->hint(opened).dmabuf,
                     -1); /* then the region is imported without one */
    device->ops->release(device, opened);
    unsetenv("FAKE_CUDA_DMABUF_OF_ONE");
    kvr_extents_release(extents);
}

/* Repeated more often than this driver has addresses or allocations: each must be given back. */
static void what_fails_leaves_nothing_behind(void **state)
{
    struct kvr_extents *extents = exported(COUNT);
    struct kvr_device_import import = import_of(extents);
    struct kvr_device_memory *opened = NULL;
    int good = extents->at[COUNT - 1].fd, none = open("/dev/null", O_RDONLY | O_CLOEXEC);
    uint32_t before = descriptors();
    struct kvr_error error;

    (void)state;
    for (int i = 0; i < 600; i++) {
        extents->at[COUNT - 1].fd = none;
        assert_int_equal(device->ops->import(device, &import, &opened, &error), KVR_SYSTEM);
        assert_non_null(strstr(error.detail, "to import the descriptor of a VMM allocation"));
        extents->at[COUNT - 1].fd = good;
        extents->at[COUNT - 1].bytes = 2 * GRAIN; /* more than it has */
        import.bytes = (COUNT + 1) * GRAIN - START;
        assert_int_equal(device->ops->import(device, &import, &opened, &error), KVR_SYSTEM);
        assert_non_null(strstr(error.detail, "is the region inside it?"));
        extents->at[COUNT - 1].bytes = GRAIN;
        import = import_of(extents);
        setenv("FAKE_CUDA_ORDINAL", "5", 1);
        assert_int_equal(device->ops->import(device, &import, &opened, &error), KVR_INVALID);
        unsetenv("FAKE_CUDA_ORDINAL");
    }
    extents->at[1].bytes = 4096; /* the GPU's grain is larger */
    assert_int_equal(device->ops->import(device, &import, &opened, &error), KVR_INVALID);
    assert_non_null(strstr(error.detail, "allocation 1 of the region has 4096 bytes"));
    extents->at[1].bytes = GRAIN;
    assert_null(opened);
    assert_int_equal(descriptors(), before);
    assert_int_equal(device->ops->import(device, &import, &opened, &error), KVR_OK);
    device->ops->release(device, opened);
    assert_int_equal(descriptors(), before);
    close(none);
    kvr_extents_release(extents);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(the_client_finds_them_all),        CASE(what_is_not_all_memory_is_refused),
        CASE(both_ends_see_the_same_bytes),     CASE(a_dmabuf_covers_them),
        CASE(what_fails_leaves_nothing_behind),
    };
    struct kvr_error error;
    int failed;

    if (kvr_cuda_open(&cuda, &error) != KVR_OK ||
        kvr_device_cuda_open(0, KVR_CUDA_COPIER_DRIVER, &device, &error) != KVR_OK) {
        printf("%s\n", error.detail);
        return 77;
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    kvr_device_close(device);
    return failed;
}
