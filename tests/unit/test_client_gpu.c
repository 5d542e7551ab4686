/* Goal: a region of device memory reaches the agent with the names of its GPU, and with a dmabuf
 * where the owner's driver gives one. Method: the library against a scripted agent in a thread, on
 * the driver of host memory, with the second of two GPUs visible alone. */
#include "tests/support/check.h"

#include <stdio.h>
#include <unistd.h>

#include "base/cuda_driver.h"
#include "client/client.h"
#include "tests/support/client_case.h"
#include "tests/support/descriptors.h"

static const struct kvr_cuda *cuda;
static CUdeviceptr memory;

/* What the agent got of the region. */
static const struct kvr_req_region *added(struct kvrail *engine, struct kvrail_region *region)
{
    uint32_t id = 0;

    assert_int_equal(kvrail_region_add(engine, region, 10000, &id), KVRAIL_OK);
    return &agent.record->region;
}

static struct kvrail_region region_at(CUdeviceptr address)
{
    struct kvrail_region region = small_region("kv");

    assert_int_equal(kvrail_region_of_device(&region, address, NULL), KVRAIL_OK);
    return region;
}

static void a_region_names_its_gpu(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    struct kvrail_region region = region_at(memory);
    const struct kvr_req_region *got = added(engine, &region);

    (void)state;
    assert_int_equal(got->device, 0);
    assert_int_equal(got->gpu.uuid.bytes[0], 1);
    assert_int_equal(got->gpu.uuid.bytes[1], 0x5a);
    assert_string_equal(got->gpu.pci, "0000:9b:00.0");
    region.device = 4; /* none of this process's */
    got = added(engine, &region);
    assert_int_equal(got->device, 4);
    assert_string_equal(got->gpu.pci, "");
    kvrail_close(engine);
}

static void a_region_brings_a_dmabuf(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    struct kvrail_region region = region_at(memory + 256);
    uint32_t before = descriptors();

    (void)state;
    assert_int_equal(region.memory, KVRAIL_MEMORY_CUDA_IPC);
    assert_int_equal(added(engine, &region)->dmabuf_offset, 256);
    assert_true(agent.record->region.dmabuf && agent.record->dmabuf);
    assert_int_equal(descriptors(), before);
    setenv("FAKE_CUDA_NO_DMABUF", "1", 1);
    assert_false(added(engine, &region)->dmabuf);
    unsetenv("FAKE_CUDA_NO_DMABUF");
    region.address = 0; /* as an older program leaves it */
    assert_false(added(engine, &region)->dmabuf);
    kvrail_close(engine);
}

/* Its memory can be opened from another container, and cards reach it where the GPU allows that. */
static void device_memory_suits_every_way(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    struct kvrail_device_memory own;
    struct kvrail_region region;
    struct kvrail_error error = {.status = KVRAIL_OK};
    int capable = 0;

    (void)state;
    assert_int_equal(kvrail_device_memory_create(0, 5000, &own, &error), KVRAIL_OK);
    assert_true(own.address != 0 && own.bytes >= 5000 && own.device == 0);
    region = region_at(own.address);
    assert_int_equal(region.memory, KVRAIL_MEMORY_CUDA_VMM);
    assert_int_equal(cuda->PointerGetAttribute(
                         &capable, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, own.address),
                     CUDA_SUCCESS);
    assert_int_equal(capable, 1);
    assert_true(added(engine, &region)->dmabuf);
    assert_int_equal(agent.record->region.memory, KVR_MEMORY_CUDA_VMM);
    close(region.fd);
    kvrail_device_memory_destroy(&own);
    assert_true(own.address == 0);
    kvrail_device_memory_destroy(&own);
    setenv("FAKE_CUDA_NO_VMM_RDMA", "1", 1); /* such a GPU refuses the flag */
    assert_int_equal(kvrail_device_memory_create(0, 5000, &own, &error), KVRAIL_OK);
    kvrail_device_memory_destroy(&own);
    unsetenv("FAKE_CUDA_NO_VMM_RDMA");
    assert_int_equal(kvrail_device_memory_create(0, 0, &own, &error), KVRAIL_INVALID);
    assert_int_equal(kvrail_device_memory_create(1, 5000, &own, &error), KVRAIL_SYSTEM);
    assert_non_null(strstr(error.detail, "the GPU"));
    kvrail_close(engine);
}

static void an_older_agent_gets_no_dmabuf(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    struct kvrail_region region = region_at(memory);

    (void)state;
    engine->abilities &= ~KVR_ABILITY_DMABUF;
    assert_false(added(engine, &region)->dmabuf);
    assert_false(agent.record->dmabuf);
    kvrail_close(engine);
}

/* A fetch of which the agent says that all is in place: how it ends for the engine. */
static kvrail_event_kind ended(struct kvrail *engine, bool *ret_layer_in)
{
    kvrail_handle target = scripted_target(engine, "whole");
    struct kvrail_event event;
    uint32_t id = 3;

    assert_int_equal(kvrail_target_pages(engine, target, 0, &id, 1), KVRAIL_OK);
    *ret_layer_in = false;
    do {
        assert_int_equal(scripted_event(engine, &event), 1);
        *ret_layer_in |= event.kind == KVRAIL_EVENT_LAYER_IN;
    } while (!event.terminal);
    if (event.kind == KVRAIL_EVENT_FAILED) {
        assert_int_equal(event.status, KVRAIL_COPY_FAILED);
        assert_true(event.token_first == 0 && event.token_end == 64);
        assert_non_null(strstr(event.detail, "to flush the writes of cards"));
    }
    return event.kind;
}

/* Such a flush fails here: bytes from before it are not announced. */
static kvrail_event_kind ended_unflushed(const char *ordering, bool *ret_layer_in)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    struct kvrail_region region = region_at(memory);
    kvrail_event_kind kind;

    setenv("FAKE_CUDA_ORDERING", ordering, 1);
    (void)added(engine, &region);
    setenv("FAKE_CUDA_NO_FLUSH_NOW", "1", 1);
    kind = ended(engine, ret_layer_in);
    unsetenv("FAKE_CUDA_NO_FLUSH_NOW");
    unsetenv("FAKE_CUDA_ORDERING");
    kvrail_close(engine);
    return kind;
}

static void events_come_behind_a_flush(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    struct kvrail_region region = region_at(memory);
    bool layer_in;

    (void)state;
    setenv("FAKE_CUDA_ORDERING", "0", 1); /* of an A100 */
    assert_int_equal(added(engine, &region)->order, KVR_ORDER_FLUSHED);
    unsetenv("FAKE_CUDA_ORDERING");
    assert_int_equal(ended(engine, &layer_in), KVRAIL_EVENT_DONE);
    assert_true(layer_in);
    kvrail_close(engine);
    assert_int_equal(ended_unflushed("0", &layer_in), KVRAIL_EVENT_FAILED);
    assert_false(layer_in);
    assert_int_equal(ended_unflushed("100", &layer_in), KVRAIL_EVENT_DONE); /* nothing to flush */
    assert_true(layer_in);
}

static void the_agent_hears_of_the_order_of_writes(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    struct kvrail_region region = region_at(memory);

    (void)state;
    assert_int_equal(added(engine, &region)->order, KVR_ORDER_KEPT);
    setenv("FAKE_CUDA_ORDERING", "0", 1);
    setenv("FAKE_CUDA_FLUSH_OPTIONS", "2", 1);
    assert_int_equal(added(engine, &region)->order, KVR_ORDER_NONE);
    unsetenv("FAKE_CUDA_FLUSH_OPTIONS");
    unsetenv("FAKE_CUDA_ORDERING");
    kvrail_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_region_names_its_gpu, start_thread, stop),
        cmocka_unit_test_setup_teardown(a_region_brings_a_dmabuf, start_thread, stop),
        cmocka_unit_test_setup_teardown(device_memory_suits_every_way, start_thread, stop),
        cmocka_unit_test_setup_teardown(an_older_agent_gets_no_dmabuf, start_thread, stop),
        cmocka_unit_test_setup_teardown(events_come_behind_a_flush, start_thread, stop),
        cmocka_unit_test_setup_teardown(the_agent_hears_of_the_order_of_writes, start_thread, stop),
    };
    struct kvr_error error;
    CUcontext context;

    setenv("FAKE_CUDA_GPUS", "2", 1);
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    if (kvr_cuda_open(&cuda, &error) != KVR_OK) {
        printf("%s\n", error.detail);
        return 77;
    }
    if (cuda->DevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
        cuda->CtxSetCurrent(context) != CUDA_SUCCESS ||
        cuda->MemAlloc(&memory, 1 << 20) != CUDA_SUCCESS)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
