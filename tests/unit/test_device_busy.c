/* Goal: an agent disturbs a GPU that computes for an engine as little as it can. Its copies launch
 * kernels with MPS alone, and only for small pieces, unless the user says so; moves by the driver
 * would disturb more than the kernel does. A rail's thread that waits for moves leaves the core to
 * others. Method: a driver of host memory that counts launches, and that lets work wait. */
#include "tests/support/check.h"

#include <dlfcn.h>
#include <time.h>

#include "device/device_cuda.h"
#include "tests/support/device_rig.h"

#define BYTES 65536u
#define SMALL 4096u
#define LARGE 32768u

static unsigned launches(void)
{
    /* POSIX lets an object pointer be a function's. */
    unsigned (*count)(void) = (unsigned (*)(void))dlsym(RTLD_DEFAULT, "fake_cuda_launches");

    assert_non_null(count);
    return count();
}

struct launched {
    unsigned by_copy, by_move;
};

/* A copy of two pieces of so many bytes and a move, to their ends. */
static struct launched launched_by(const char *copier, const char *mps, uint64_t bytes)
{
    static uint8_t host[BYTES] __attribute__((aligned(4096)));
    struct kvr_device_piece pieces[2] = {{.host = host, .bytes = bytes},
                                         {.host = host + bytes, .offset = bytes, .bytes = bytes}};
    struct kvr_device_move move = {.bytes = BYTES};
    struct device_rig rig;
    struct launched launched;
    struct kvr_error error;
    unsigned before;

    if (mps != NULL)
        setenv("FAKE_CUDA_MPS", mps, 1);
    device_rig_open(&rig, copier);
    unsetenv("FAKE_CUDA_MPS");
    pieces[0].memory = pieces[1].memory = move.source = device_rig_memory(&rig, BYTES);
    move.target = device_rig_memory(&rig, BYTES);
    assert_int_equal(rig.device->ops->pin(rig.device, host, BYTES, &error), KVR_OK);
    before = launches();
    assert_int_equal(device_rig_copy(&rig, KVR_DEVICE_SCATTER, pieces, 2), KVR_OK);
    launched.by_copy = launches() - before;
    before = launches();
    assert_int_equal(rig.device->ops->move(rig.device, &move, 1), KVR_OK);
    launched.by_move = launches() - before;
    rig.device->ops->unpin(rig.device, host);
    device_rig_close(&rig);
    return launched;
}

static void without_mps_no_copy_launches_a_kernel(void **state)
{
    (void)state;
    assert_int_equal(launched_by("cuda", NULL, SMALL).by_copy, 0);
    assert_int_equal(launched_by("cuda", "unknown", SMALL).by_copy, 0); /* an older driver */
    assert_int_equal(launched_by("cuda_driver", "1", SMALL).by_copy, 0);
    assert_int_equal(launched_by("cuda_driver", "1", SMALL).by_move, 0);
}

static void a_kernel_copies_small_pieces_with_mps_or_on_request(void **state)
{
    (void)state;
    if (!device_rig_possible("cuda_kernel"))
        skip(); /* no nvcc, no kernel */
    assert_int_equal(launched_by("cuda", "1", SMALL).by_copy, 1);
    assert_int_equal(launched_by("cuda", "1", LARGE).by_copy, 0);
    assert_int_equal(launched_by("cuda_kernel", NULL, LARGE).by_copy, 1);
    assert_int_equal(launched_by("cuda_packed", NULL, LARGE).by_copy, 1);
}

static void the_kernel_moves_pieces(void **state)
{
    (void)state;
    if (!device_rig_possible("cuda_kernel"))
        skip();
    assert_int_equal(launched_by("cuda", NULL, SMALL).by_move, 1);
    assert_int_equal(launched_by("cuda", "1", SMALL).by_move, 1);
}

static double seconds(clockid_t clock)
{
    struct timespec now;

    assert_int_equal(clock_gettime(clock, &now), 0);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void a_thread_sleeps_while_moves_wait_for_the_gpu(void **state)
{
    struct kvr_device_move move = {.bytes = BYTES};
    struct device_rig rig;
    double wall, computed;

    (void)state;
    device_rig_open(&rig, "cuda_driver");
    move.source = device_rig_memory(&rig, BYTES);
    move.target = device_rig_memory(&rig, BYTES);
    setenv("FAKE_CUDA_BUSY_US", "100000", 1);
    wall = seconds(CLOCK_MONOTONIC);
    computed = seconds(CLOCK_THREAD_CPUTIME_ID);
    assert_int_equal(rig.device->ops->move(rig.device, &move, 1), KVR_OK);
    wall = seconds(CLOCK_MONOTONIC) - wall;
    computed = seconds(CLOCK_THREAD_CPUTIME_ID) - computed;
    unsetenv("FAKE_CUDA_BUSY_US");
    device_rig_close(&rig);
    assert_true(wall >= 0.1);
    if (computed > 0.05)
        fail_msg("the thread computed for %.3f of %.3f s", computed, wall);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_mps_no_copy_launches_a_kernel),
        cmocka_unit_test(a_kernel_copies_small_pieces_with_mps_or_on_request),
        cmocka_unit_test(the_kernel_moves_pieces),
        cmocka_unit_test(a_thread_sleeps_while_moves_wait_for_the_gpu),
    };

    if (!device_rig_possible("cuda_driver"))
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
