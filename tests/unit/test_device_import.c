/* Goal: the agent opens exactly the device memory that the engine describes. Memory outside it, on
 * another GPU or misaligned is refused with a sentence. Method: the client's helpers and the
 * agent's device on the driver of host memory, in one process, which that driver allows. */
#include "tests/support/check.h"

#include <stdio.h>
#include <unistd.h>

#include "base/cuda_driver.h"
#include "client/kvrail.h"
#include "device/allocation.h"
#include "device/device_cuda.h"

#define BYTES (4u << 20)
#define START 8192u

static const struct kvr_cuda *cuda;
static struct kvr_device *device;
static CUdeviceptr memory;

static int setup(void **state)
{
    (void)state;
    return cuda->MemAlloc(&memory, BYTES) == CUDA_SUCCESS ? 0 : 1;
}

static int teardown(void **state)
{
    (void)state;
    return cuda->MemFree(memory) == CUDA_SUCCESS ? 0 : 1;
}

static struct kvr_device_import import_of(const struct kvrail_region *region)
{
    struct kvr_device_import import = {.kind = KVR_DEVICE_IPC,
                                       .fd = -1,
                                       .offset = region->fd_offset,
                                       .bytes = region->bytes,
                                       .for_cards = true};

    memcpy(import.ipc, region->ipc, sizeof(import.ipc));
    return import;
}

static struct kvr_device_import imported(uint64_t bytes)
{
    struct kvrail_region region = {.size = sizeof(struct kvrail_region), .bytes = bytes};

    assert_int_equal(kvrail_region_of_device(&region, memory + START, NULL), KVRAIL_OK);
    assert_int_equal(region.memory, KVRAIL_MEMORY_CUDA_IPC);
    assert_int_equal(region.fd_offset, START);
    assert_int_equal(region.device, 0);
    return import_of(&region);
}

static void both_ends_see_the_same_bytes(void **state)
{
    struct kvr_device_import import = imported(BYTES - START);
    struct kvr_device_memory *opened = NULL;
    struct kvr_device_hint hint;
    struct kvr_error error;

    (void)state;
    assert_int_equal(device->ops->import(device, &import, &opened, &error), KVR_OK);
    hint = device->ops->hint(opened);
    assert_true(hint.addressable);
    assert_int_equal(hint.ordinal, 0);
    *(uint8_t *)(uintptr_t)(memory + START) =
        91; /* this driver's device addresses are the host's */
    assert_int_equal(*(const uint8_t *)(uintptr_t)hint.address, 91);
    device->ops->release(device, opened);
}

static struct kvr_device_hint hint_of(const struct kvr_device_import *import)
{
    struct kvr_device_memory *opened = NULL;
    struct kvr_device_hint hint;
    struct kvr_error error;

    assert_int_equal(device->ops->import(device, import, &opened, &error), KVR_OK);
    hint = device->ops->hint(opened);
    device->ops->release(device, opened);
    return hint;
}

static void a_dmabuf_is_made_for_cards_that_take_it(void **state)
{
    struct kvr_allocation allocation;
    struct kvr_device_import import;
    struct kvr_error error;

    (void)state;
    assert_int_equal(kvr_allocation_open(device, BYTES, &allocation, &error), KVR_OK);
    import = allocation.import;
    assert_int_equal(import.kind, KVR_DEVICE_VMM);
    import.for_cards = true;
    import.offset = START + 256; /* the engine's pages need not begin where the host's do */
    import.bytes = BYTES - START - 612;
    assert_true(hint_of(&import).dmabuf >= 0);
    assert_int_equal(hint_of(&import).dmabuf_offset, 256);
    import.for_cards = false;
    assert_int_equal(hint_of(&import).dmabuf, -1);
    import.for_cards = true;
    setenv("FAKE_CUDA_NO_DMABUF", "1", 1); /* then the memory is imported without one */
    assert_int_equal(hint_of(&import).dmabuf, -1);
    assert_true(hint_of(&import).addressable);
    unsetenv("FAKE_CUDA_NO_DMABUF");
    kvr_allocation_close(&allocation);
    import = imported(BYTES - START); /* a driver exports no dmabuf of another process's memory */
    assert_int_equal(hint_of(&import).dmabuf, -1);
    assert_true(hint_of(&import).addressable);
}

static bool any_is_dmabuf; /* the driver of host memory gives memfds */

kvr_status __real_kvr_dmabuf_check(int fd, uint64_t offset, uint64_t bytes,
                                   struct kvr_error *error);
kvr_status __wrap_kvr_dmabuf_check(int fd, uint64_t offset, uint64_t bytes,
                                   struct kvr_error *error);
kvr_status __wrap_kvr_dmabuf_check(int fd, uint64_t offset, uint64_t bytes, struct kvr_error *error)
{
    return any_is_dmabuf ? KVR_OK : __real_kvr_dmabuf_check(fd, offset, bytes, error);
}

/* The allocations of benchmarks and tests are such as cards can reach. */
static void memory_says_whether_it_is_for_cards(void **state)
{
    struct kvr_allocation allocation;
    struct kvr_error error;

    (void)state;
    assert_int_equal(kvr_allocation_open(device, BYTES, &allocation, &error), KVR_OK);
    assert_false(hint_of(&allocation.import).not_for_cards);
    kvr_allocation_close(&allocation);
    setenv("FAKE_CUDA_NO_VMM_RDMA", "1", 1); /* as an allocator makes it that does not ask */
    assert_int_equal(kvr_allocation_open(device, BYTES, &allocation, &error), KVR_OK);
    unsetenv("FAKE_CUDA_NO_VMM_RDMA");
    assert_true(hint_of(&allocation.import).not_for_cards);
    kvr_allocation_close(&allocation);
}

/* A driver exports no dmabuf of memory that was opened by an IPC handle; its owner can. */
static void the_owner_s_dmabuf_goes_to_cards(void **state)
{
    struct kvrail_region region = {.size = sizeof(struct kvrail_region), .bytes = BYTES - START};
    struct kvr_device_import import = imported(BYTES - START);
    struct kvr_device_dmabuf dmabuf;
    struct kvr_device_hint hint;

    (void)state;
    assert_int_equal(kvrail_region_dmabuf_of_device(&region, memory + START, NULL), KVRAIL_OK);
    dmabuf = (struct kvr_device_dmabuf){.fd = region.fd, .offset = 512};
    import.dmabuf = &dmabuf;
    assert_int_equal(hint_of(&import).dmabuf, -1); /* it is none */
    any_is_dmabuf = true;
    hint = hint_of(&import);
    assert_true(hint.dmabuf >= 0 && hint.dmabuf != region.fd);
    assert_int_equal(hint.dmabuf_offset, 512);
    import.for_cards = false;
    assert_int_equal(hint_of(&import).dmabuf, -1);
    any_is_dmabuf = false;
    close(region.fd);
}

static long page_bytes; /* 0: the system's */

long __real_sysconf(int name);
long __wrap_sysconf(int name);
long __wrap_sysconf(int name)
{
    return name == _SC_PAGESIZE && page_bytes > 0 ? page_bytes : __real_sysconf(name);
}

/* A driver refuses less than whole pages of the host, which may have 64 KiB. */
static void a_dmabuf_is_of_whole_pages_of_the_host(void **state)
{
    struct kvr_allocation allocation;
    struct kvr_device_import import;
    struct kvr_device_hint hint;
    struct kvr_error error;

    (void)state;
    assert_int_equal(kvr_allocation_open(device, BYTES, &allocation, &error), KVR_OK);
    import = allocation.import;
    import.for_cards = true;
    import.offset = START;
    import.bytes = BYTES - 2 * START;
    setenv("FAKE_CUDA_PAGE_BYTES", "65536", 1);
    page_bytes = 65536;
    hint = hint_of(&import);
    page_bytes = 0;
    unsetenv("FAKE_CUDA_PAGE_BYTES");
    assert_true(hint.dmabuf >= 0);
    assert_int_equal(hint.dmabuf_offset, START);
    kvr_allocation_close(&allocation);
}

/* A caching allocator places many tensors in one allocation. */
static void an_allocation_is_opened_more_than_once(void **state)
{
    struct kvr_device_import import = imported(4096), next = import;
    struct kvr_device_memory *first = NULL, *second = NULL;
    struct kvr_error error;
    uint64_t address;

    (void)state;
    next.offset += 4096;
    assert_int_equal(device->ops->import(device, &import, &first, &error), KVR_OK);
    assert_int_equal(device->ops->import(device, &next, &second, &error), KVR_OK);
    address = device->ops->hint(first).address;
    assert_int_equal(device->ops->hint(second).address, address + 4096);
    device->ops->release(device, first);
    *(volatile uint8_t *)(uintptr_t)(address + 4096) = 1; /* still there */
    device->ops->release(device, second);
}

/* A VMM descriptor maps no more than the allocation has. */
static void a_descriptor_is_mapped_as_far_as_it_reaches(void **state)
{
    struct kvr_allocation allocation;
    struct kvr_device_memory *opened = NULL;
    struct kvr_device_import import;
    struct kvr_error error;

    (void)state;
    assert_int_equal(kvr_allocation_open(device, BYTES, &allocation, &error), KVR_OK);
    import = allocation.import;
    import.offset = 4096;
    import.bytes = 8192; /* a part of the first half */
    assert_true(hint_of(&import).addressable);
    import.bytes = BYTES;
    assert_int_equal(device->ops->import(device, &import, &opened, &error), KVR_SYSTEM);
    assert_non_null(strstr(error.detail, "is the region inside it?"));
    import.bytes = 8192;
    setenv("FAKE_CUDA_ORDINAL", "5", 1);
    assert_int_equal(device->ops->import(device, &import, &opened, &error), KVR_INVALID);
    unsetenv("FAKE_CUDA_ORDINAL");
    assert_non_null(strstr(error.detail, "of GPU 5, and the engine says 0"));
    assert_null(opened);
    kvr_allocation_close(&allocation);
}

/* An engine and its agent may each see other GPUs, in another order. */
static void a_gpu_is_found_by_its_uuid(void **state)
{
    struct kvr_error error;
    struct kvr_gpu gpu;
    int32_t ordinal = -1;

    (void)state;
    assert_int_equal(kvr_cuda_gpu(cuda, 1, &gpu, &error), KVR_OK);
    assert_string_equal(gpu.pci, "0000:9b:00.0");
    assert_int_equal(kvr_device_cuda_ordinal(&gpu, &ordinal, &error), KVR_OK);
    assert_int_equal(ordinal, 1);
    gpu.uuid.bytes[15] ^= 1;
    assert_int_equal(kvr_device_cuda_ordinal(&gpu, &ordinal, &error), KVR_INVALID);
    assert_non_null(strstr(error.detail, "on GPU-015a5a5a-5a5a-5a5a-5a5a-5a5a5a5a5a5b "
                                         "(0000:9b:00.0), and the agent sees 2 other GPUs"));
}

static void memory_that_cannot_be_shared_is_refused(void **state)
{
    struct kvrail_region region = {.size = sizeof(struct kvrail_region), .bytes = 4096};
    struct kvrail_error error = {0};
    CUcontext context;

    (void)state;
    setenv("FAKE_CUDA_POOL", "1", 1);
    assert_int_equal(kvrail_region_of_device(&region, memory, &error), KVRAIL_SYSTEM);
    unsetenv("FAKE_CUDA_POOL");
    assert_non_null(strstr(error.detail, "memory pool"));
    assert_int_equal(cuda->CtxGetCurrent(&context), CUDA_SUCCESS);
    assert_int_equal(cuda->CtxSetCurrent(NULL), CUDA_SUCCESS);
    assert_int_equal(kvrail_region_of_device(&region, memory, &error), KVRAIL_SYSTEM);
    assert_int_equal(cuda->CtxSetCurrent(context), CUDA_SUCCESS);
    assert_non_null(strstr(error.detail, "is a context current in this thread?"));
}

static kvr_write_order order_of_device(const char *ordering, const char *options)
{
    struct kvr_device *other = NULL;
    struct kvr_error error;
    kvr_write_order order;
    CUcontext context;

    assert_int_equal(cuda->CtxGetCurrent(&context), CUDA_SUCCESS);
    setenv("FAKE_CUDA_ORDERING", ordering, 1);
    setenv("FAKE_CUDA_FLUSH_OPTIONS", options, 1);
    assert_int_equal(kvr_device_cuda_open(0, KVR_CUDA_COPIER_DRIVER, &other, &error), KVR_OK);
    order = other->order;
    assert_int_equal(other->ops->flush(other), strcmp(options, "0") == 0 ? KVR_SYSTEM : KVR_OK);
    unsetenv("FAKE_CUDA_FLUSH_OPTIONS");
    unsetenv("FAKE_CUDA_ORDERING");
    kvr_device_close(other);
    assert_int_equal(cuda->CtxSetCurrent(context), CUDA_SUCCESS);
    return order;
}

static void the_driver_says_the_order_of_writes(void **state)
{
    (void)state;
    assert_int_equal(order_of_device("200", "0"), KVR_ORDER_KEPT);
    assert_int_equal(order_of_device("100", "3"), KVR_ORDER_KEPT);
    assert_int_equal(order_of_device("0", "3"), KVR_ORDER_FLUSHED);
    assert_int_equal(order_of_device("0", "0"), KVR_ORDER_NONE);
}

static void a_kernel_that_the_driver_is_too_old_for_is_said(void **state)
{
    struct kvr_device *other = NULL;
    struct kvr_error error;
    CUcontext context;
    kvr_status status;

    (void)state;
    assert_int_equal(cuda->CtxGetCurrent(&context), CUDA_SUCCESS);
    setenv("FAKE_CUDA_OLD", "1", 1);
    status = kvr_device_cuda_open(0, KVR_CUDA_COPIER_KERNEL, &other, &error);
    unsetenv("FAKE_CUDA_OLD");
    assert_int_equal(cuda->CtxSetCurrent(context), CUDA_SUCCESS); /* opening left the context */
    if (status == KVR_UNSUPPORTED)
        skip(); /* no nvcc, no kernel */
    assert_int_equal(status, KVR_SYSTEM);
    assert_non_null(strstr(error.detail, "older than the toolkit"));
    assert_null(other);
    setenv("FAKE_CUDA_OLD", "1", 1); /* without a wish for the kernel the driver copies */
    setenv("FAKE_CUDA_MPS", "1", 1);
    status = kvr_device_cuda_open(0, KVR_CUDA_COPIER_AUTO, &other, &error);
    unsetenv("FAKE_CUDA_MPS");
    unsetenv("FAKE_CUDA_OLD");
    assert_int_equal(status, KVR_OK);
    assert_int_equal(other->slower.status, KVR_SYSTEM);
    assert_non_null(strstr(other->slower.detail, "older than the toolkit"));
    kvr_device_close(other);
    assert_int_equal(cuda->CtxSetCurrent(context), CUDA_SUCCESS);
    assert_int_equal(device->slower.status, KVR_OK);
}

static void what_is_not_in_the_memory_is_refused(void **state)
{
    static const struct {
        uint64_t offset, bytes;
        const char *sentence;
    } bad[] = {
        {START, BYTES - START + 1, "lie outside the allocation"},
        {BYTES, 256, "lie outside the allocation"},
        {UINT64_MAX - 255, 256, "lie outside the allocation"},
        {START, UINT64_MAX, "lie outside the allocation"},
        {START, 0, "there must be some"},
        {START + 8, 256, "multiple of 256"},
    };
    struct kvr_device_import import = imported(256);
    struct kvr_device_memory *opened = NULL;
    struct kvr_error error;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        import.offset = bad[i].offset;
        import.bytes = bad[i].bytes;
        assert_int_equal(device->ops->import(device, &import, &opened, &error), KVR_INVALID);
        assert_non_null(strstr(error.detail, bad[i].sentence));
    }
    import = imported(256);
    setenv("FAKE_CUDA_ORDINAL", "5", 1);
    assert_int_equal(device->ops->import(device, &import, &opened, &error), KVR_INVALID);
    unsetenv("FAKE_CUDA_ORDINAL");
    assert_non_null(strstr(error.detail, "of GPU 5, and the engine says 0"));
    import.ipc[0] ^= 1; /* a handle that no driver made */
    assert_int_equal(device->ops->import(device, &import, &opened, &error), KVR_SYSTEM);
    assert_non_null(strstr(error.detail, "from another PID namespace"));
    assert_null(opened);
}

static void the_client_makes_a_dmabuf(void **state)
{
    struct kvrail_region region = {.size = sizeof(struct kvrail_region), .bytes = 5000};
    struct kvrail_error error = {0};

    (void)state;
    assert_int_equal(kvrail_region_dmabuf_of_device(&region, memory + START, &error), KVRAIL_OK);
    assert_int_equal(region.memory, KVRAIL_MEMORY_DMABUF);
    assert_int_equal(region.fd_offset, 0);
    assert_true(region.fd >= 0);
    close(region.fd);
    assert_int_equal(kvrail_region_dmabuf_of_device(&region, memory + START + 256, &error),
                     KVRAIL_INVALID);
    assert_non_null(strstr(error.detail, "multiple of 4096"));
    region.bytes = BYTES;
    assert_int_equal(kvrail_region_dmabuf_of_device(&region, memory + START, &error),
                     KVRAIL_INVALID);
    assert_non_null(strstr(error.detail, "several regions"));
    region.bytes = 4096;
    setenv("FAKE_CUDA_NO_DMABUF", "1", 1);
    assert_int_equal(kvrail_region_dmabuf_of_device(&region, memory + START, &error),
                     KVRAIL_SYSTEM);
    unsetenv("FAKE_CUDA_NO_DMABUF");
    assert_non_null(strstr(error.detail, "a dmabuf of device memory"));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(both_ends_see_the_same_bytes),
        CASE(a_dmabuf_is_made_for_cards_that_take_it),
        CASE(memory_says_whether_it_is_for_cards),
        CASE(the_owner_s_dmabuf_goes_to_cards),
        CASE(a_dmabuf_is_of_whole_pages_of_the_host),
        CASE(an_allocation_is_opened_more_than_once),
        CASE(a_descriptor_is_mapped_as_far_as_it_reaches),
        CASE(a_gpu_is_found_by_its_uuid),
        CASE(memory_that_cannot_be_shared_is_refused),
        CASE(the_driver_says_the_order_of_writes),
        CASE(a_kernel_that_the_driver_is_too_old_for_is_said),
        CASE(what_is_not_in_the_memory_is_refused),
        CASE(the_client_makes_a_dmabuf),
    };
    struct kvr_error error;
    int failed;

    setenv("FAKE_CUDA_OWN_IPC", "1", 1);
    setenv("FAKE_CUDA_GPUS", "2", 1);
    if (kvr_cuda_open(&cuda, &error) != KVR_OK ||
        kvr_device_cuda_open(0, KVR_CUDA_COPIER_DRIVER, &device, &error) != KVR_OK) {
        printf("%s\n", error.detail);
        return 77;
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    kvr_device_close(device);
    return failed;
}
