/* Goal: a stream raises a readiness word in its order, by memory operation or by host function. The
 * agent learns that such words ring no bell, and a call that cannot be right is refused.
 * Method: the library against a scripted agent in a thread, on the driver of host memory. That
 * driver runs its streams when the test waits for them. */
#include "tests/support/check.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cuda_driver.h"
#include "tests/support/client_case.h"

static const struct kvr_cuda *cuda;
static CUstream stream;

/* The page as the connection maps it; this driver's device addresses are the host's. */
static struct kvr_shared_page *page_of(struct kvrail *engine)
{
    uint64_t address = 0;

    assert_int_equal(kvrail_words_on_device(engine, &address), KVRAIL_OK);
    return (struct kvr_shared_page *)(uintptr_t)(address - offsetof(struct kvr_shared_page, words));
}

static uint64_t word_at(struct kvrail *engine, uint32_t word)
{
    return atomic_load(&page_of(engine)->words[word]);
}

static void a_stream_raises_a_word_in_its_order(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    kvrail_store store;

    (void)state;
    assert_int_equal(kvrail_ready_on_stream(engine, 3, 7, stream, &store), KVRAIL_OK);
    assert_int_equal(kvrail_ready_on_stream(engine, 3, 9, stream, NULL), KVRAIL_OK);
    assert_int_equal(store, KVRAIL_STORE_GPU);
    assert_int_equal(word_at(engine, 3), 0);
    assert_int_equal(cuda->StreamSynchronize(stream), CUDA_SUCCESS);
    assert_int_equal(word_at(engine, 3), 9);
    kvrail_close(engine);
}

static void a_host_function_does_where_the_gpu_cannot(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    kvrail_store store;

    (void)state;
    setenv("FAKE_CUDA_NO_MEMORY_OPERATIONS", "1", 1);
    assert_int_equal(kvrail_ready_on_stream(engine, 511, 1, stream, &store), KVRAIL_OK);
    unsetenv("FAKE_CUDA_NO_MEMORY_OPERATIONS");
    assert_int_equal(store, KVRAIL_STORE_HOST);
    assert_int_equal(word_at(engine, 511), 0);
    assert_int_equal(cuda->StreamSynchronize(stream), CUDA_SUCCESS);
    assert_int_equal(word_at(engine, 511), 1);
    kvrail_close(engine);
}

static void what_a_word_cannot_be_is_refused(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");

    (void)state;
    assert_int_equal(kvrail_ready(engine, 0, 5), KVRAIL_OK);
    assert_int_equal(kvrail_ready_on_stream(engine, 0, 4, stream, NULL), KVRAIL_INVALID);
    assert_int_equal(kvrail_ready_on_stream(engine, KVRAIL_WORDS_MAX, 1, stream, NULL),
                     KVRAIL_INVALID);
    setenv("FAKE_CUDA_CAPTURING", "1", 1);
    assert_int_equal(kvrail_ready_on_stream(engine, 0, 6, stream, NULL), KVRAIL_UNSUPPORTED);
    unsetenv("FAKE_CUDA_CAPTURING");
    assert_non_null(strstr(kvrail_last_error(engine)->detail, "kvrail_words_on_device"));
    assert_int_equal(cuda->StreamSynchronize(stream), CUDA_SUCCESS);
    assert_int_equal(word_at(engine, 0), 5);
    kvrail_close(engine);
}

/* An agent asleep until the bell would sleep too long: it is notified, and rung this once. */
static void the_agent_is_told_that_nothing_rings(void **state)
{
    struct kvrail *engine;
    uint64_t address = 0, again = 0;

    (void)state;
    atomic_store(&agent.record->sleepy, true);
    engine = scripted_engine(&agent, "asleep");
    assert_int_equal(kvrail_words_on_device(engine, &address), KVRAIL_OK);
    assert_int_equal(atomic_load(&page_of(engine)->streamed), 1);
    assert_int_equal(kvrail_words_on_device(engine, &again), KVRAIL_OK);
    assert_true(address == again);
    assert_int_equal(kvrail_why(engine, 1), KVRAIL_OK);
    assert_event(engine, KVRAIL_EVENT_WHY, 1);
    assert_int_equal(agent.record->rung, 1);
    ((uint64_t *)(uintptr_t)address)[2] = 8; /* as a kernel would */
    assert_int_equal(word_at(engine, 2), 8);
    kvrail_close(engine);
}

/* The driver has room for 64 such pages. */
static void a_closed_connection_takes_its_words_back(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 70; i++) {
        struct kvrail *engine = scripted_engine(&agent, "engine");
        uint64_t address;

        assert_int_equal(kvrail_words_on_device(engine, &address), KVRAIL_OK);
        kvrail_close(engine);
        assert_true(scripted_reached(&agent.record->downs, i + 1));
    }
}

/* An engine may close the connection in a thread that has never used the GPU; another page soon
 * takes the same addresses. */
static void a_thread_without_a_context_closes_it(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    struct kvr_shared_page *page = page_of(engine);
    CUcontext context, left;
    CUdeviceptr address;

    (void)state;
    assert_int_equal(cuda->CtxGetCurrent(&context), CUDA_SUCCESS);
    assert_int_equal(cuda->MemHostGetDevicePointer(&address, page, 0), CUDA_SUCCESS);
    assert_int_equal(cuda->CtxSetCurrent(NULL), CUDA_SUCCESS);
    kvrail_close(engine);
    assert_int_equal(cuda->CtxGetCurrent(&left), CUDA_SUCCESS);
    assert_null(left);
    assert_int_equal(cuda->CtxSetCurrent(context), CUDA_SUCCESS);
    assert_int_not_equal(cuda->MemHostGetDevicePointer(&address, page, 0), CUDA_SUCCESS);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, start_thread, stop)
    const struct CMUnitTest tests[] = {
        CASE(a_stream_raises_a_word_in_its_order),
        CASE(a_host_function_does_where_the_gpu_cannot),
        CASE(what_a_word_cannot_be_is_refused),
        CASE(the_agent_is_told_that_nothing_rings),
        CASE(a_closed_connection_takes_its_words_back),
        CASE(a_thread_without_a_context_closes_it),
    };
    struct kvr_error error;
    CUcontext context;

    if (kvr_cuda_open(&cuda, &error) != KVR_OK) {
        printf("%s\n", error.detail);
        return 77;
    }
    if (cuda->DevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
        cuda->CtxSetCurrent(context) != CUDA_SUCCESS ||
        cuda->StreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
