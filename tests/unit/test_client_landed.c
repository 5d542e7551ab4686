/* Goal: a decode stream waits for layers by a word, on the GPU or by a host function. It goes on
 * when the fetch fails or its agent dies. A call that cannot be right is refused. Method: the
 * library against a scripted agent, on the driver of host memory; the test raises words as an agent
 * would. */
#include "tests/support/check.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>

#include "base/cuda_driver.h"
#include "tests/support/client_case.h"

#define WORD 9

static const struct kvr_cuda *cuda;
static CUstream stream;
static CUevent behind;

/* The word as the connection maps it; this driver's device addresses are the host's. */
static _Atomic uint64_t *word_of(struct kvrail *engine)
{
    uint64_t address = 0;

    assert_int_equal(kvrail_landed_on_device(engine, &address), KVRAIL_OK);
    return (_Atomic uint64_t *)(uintptr_t)address + WORD;
}

/* True when all queued work is done; the event is queried twice. */
static bool stream_is_through(void)
{
    (void)cuda->EventQuery(behind);
    return cuda->EventQuery(behind) == CUDA_SUCCESS;
}

static void a_stream_waits_for_layers(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    _Atomic uint64_t *word = word_of(engine);
    kvrail_store by = KVRAIL_STORE_HOST;

    (void)state;
    assert_int_equal(kvrail_landed_on_stream(engine, WORD, 3, stream, &by), KVRAIL_OK);
    assert_int_equal(by, KVRAIL_STORE_GPU);
    assert_int_equal(cuda->EventRecord(behind, stream), CUDA_SUCCESS);
    assert_false(stream_is_through());
    atomic_store(word, 2);
    assert_false(stream_is_through());
    atomic_store(word, 3);
    assert_true(stream_is_through());
    assert_int_equal(kvrail_landed(engine, WORD), 3);
    assert_int_equal(kvrail_landed(engine, KVRAIL_WORDS_MAX), 0);
    kvrail_close(engine);
}

/* The wait's flush makes earlier writes of the cards visible. */
static void a_wait_flushes_where_the_gpu_can(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    kvrail_store by = KVRAIL_STORE_HOST;

    (void)state;
    atomic_store(word_of(engine), 1);
    setenv("FAKE_CUDA_FLUSHES", "1", 1);
    assert_int_equal(kvrail_landed_on_stream(engine, WORD, 1, stream, &by), KVRAIL_OK);
    unsetenv("FAKE_CUDA_FLUSHES");
    assert_int_equal(by, KVRAIL_STORE_GPU);
    assert_int_equal(cuda->StreamSynchronize(stream), CUDA_SUCCESS);
    kvrail_close(engine);
}

static void *raise_later(void *word)
{
    struct timespec pause = {.tv_nsec = 2000000};

    nanosleep(&pause, NULL);
    atomic_store((_Atomic uint64_t *)word, 5);
    return NULL;
}

static void a_host_function_waits_where_the_gpu_cannot(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    _Atomic uint64_t *word = word_of(engine);
    kvrail_store by = KVRAIL_STORE_GPU;
    pthread_t raiser;

    (void)state;
    setenv("FAKE_CUDA_NO_MEMORY_OPERATIONS", "1", 1);
    assert_int_equal(kvrail_landed_on_stream(engine, WORD, 5, stream, &by), KVRAIL_OK);
    unsetenv("FAKE_CUDA_NO_MEMORY_OPERATIONS");
    assert_int_equal(by, KVRAIL_STORE_HOST);
    assert_int_equal(pthread_create(&raiser, NULL, raise_later, word), 0);
    assert_int_equal(cuda->StreamSynchronize(stream), CUDA_SUCCESS);
    assert_int_equal(atomic_load(word), 5);
    pthread_join(raiser, NULL);
    kvrail_close(engine);
}

static void what_cannot_be_right_is_refused(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    kvrail_handle target = scripted_target(engine, "hold"), source = scripted_source(engine, "r");

    (void)state;
    atomic_store(word_of(engine), 4);
    assert_int_equal(kvrail_target_watch(engine, target, KVRAIL_WORDS_MAX, 4), KVRAIL_INVALID);
    assert_int_equal(kvrail_target_watch(engine, target, WORD, 3), KVRAIL_INVALID);
    assert_int_equal(kvrail_target_watch(engine, source, WORD, 4), KVRAIL_NOT_FOUND);
    assert_int_equal(kvrail_target_watch(engine, target, WORD, 4), KVRAIL_OK);
    assert_int_equal(kvrail_target_watch(engine, target, WORD, 4), KVRAIL_EXISTS);
    assert_int_equal(kvrail_landed_on_stream(engine, KVRAIL_WORDS_MAX, 1, stream, NULL),
                     KVRAIL_INVALID);
    setenv("FAKE_CUDA_CAPTURING", "1", 1);
    assert_int_equal(kvrail_landed_on_stream(engine, WORD, 1, stream, NULL), KVRAIL_UNSUPPORTED);
    unsetenv("FAKE_CUDA_CAPTURING");
    assert_non_null(strstr(kvrail_last_error(engine)->detail, "kvrail_landed_on_device"));
    kvrail_close(engine);
}

static void who_waits_goes_on_when_the_agent_dies(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    kvrail_handle target = scripted_target(engine, "hold");

    (void)state;
    (void)word_of(engine);
    assert_int_equal(kvrail_target_watch(engine, target, WORD, 6), KVRAIL_OK);
    assert_int_equal(kvrail_landed_on_stream(engine, WORD, 7, stream, NULL), KVRAIL_OK);
    assert_int_equal(cuda->EventRecord(behind, stream), CUDA_SUCCESS);
    assert_true(scripted_reached(&agent.record->targets, 1));
    kill(agent.pid, SIGKILL);
    assert_event(engine, KVRAIL_EVENT_AGENT_LOST, 0);
    assert_event(engine, KVRAIL_EVENT_FAILED, target);
    assert_true(kvrail_landed(engine, WORD) == 6 + KVRAIL_LANDED_FAILED);
    assert_true(stream_is_through());
    kvrail_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_stream_waits_for_layers, start_thread, stop),
        cmocka_unit_test_setup_teardown(a_wait_flushes_where_the_gpu_can, start_thread, stop),
        cmocka_unit_test_setup_teardown(a_host_function_waits_where_the_gpu_cannot, start_thread,
                                        stop),
        cmocka_unit_test_setup_teardown(what_cannot_be_right_is_refused, start_thread, stop),
        cmocka_unit_test_setup_teardown(who_waits_goes_on_when_the_agent_dies, start_process, stop),
    };
    struct kvr_error error;
    CUcontext context;

    if (kvr_cuda_open(&cuda, &error) != KVR_OK) {
        printf("%s\n", error.detail);
        return 77;
    }
    if (cuda->DevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
        cuda->CtxSetCurrent(context) != CUDA_SUCCESS ||
        cuda->StreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
        cuda->EventCreate(&behind, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
