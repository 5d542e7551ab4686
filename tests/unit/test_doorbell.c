/* Goal: a loop hears its doorbell, any number of rings as one, and never waits for a thread that
 * rings. Method: the write() of a thread does not return, as if the thread had lost its core
 * there; this program's write() is also libuv's. */
#include "tests/support/check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/doorbell.h"
#include "tests/support/loop.h"

static uv_loop_t loop;
static struct kvr_doorbell doorbell;
static int answers;
static _Thread_local bool stays_away;
static _Atomic bool may_return, returned;

__attribute__((visibility("default"))) ssize_t write(int fd, const void *bytes, size_t count)
{
    ssize_t result = syscall(SYS_write, fd, bytes, count);

    for (int i = 0; stays_away && !atomic_load(&may_return) && i < 5000; i++)
        usleep(1000);
    return result;
}

static void answer(void *self)
{
    assert_ptr_equal(self, &doorbell);
    answers++;
}

static int open_doorbell(void **state)
{
    struct kvr_error error;

    (void)state;
    answers = 0;
    uv_loop_init(&loop);
    assert_int_equal(kvr_doorbell_open(&doorbell, &loop, answer, &doorbell, &error), KVR_OK);
    return 0;
}

static int close_doorbell(void **state)
{
    (void)state;
    kvr_doorbell_close(&doorbell);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    kvr_doorbell_release(&doorbell);
    return 0;
}

static void doorbell_answers_rings_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        kvr_doorbell_ring(&doorbell);
    LOOP_UNTIL(&loop, answers == 1);
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(answers, 1);
    kvr_doorbell_ring(&doorbell);
    LOOP_UNTIL(&loop, answers == 2);
}

static void *ring(void *self)
{
    (void)self;
    stays_away = true;
    kvr_doorbell_ring(&doorbell);
    atomic_store(&returned, true);
    return NULL;
}

static void doorbell_waits_for_no_thread(void **state)
{
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, ring, NULL), 0);
    LOOP_UNTIL(&loop, answers == 1);
    assert_false(atomic_load(&returned));
    atomic_store(&may_return, true);
    pthread_join(thread, NULL);
}

static void doorbell_never_opened_is_closed(void **state)
{
    struct kvr_doorbell none = {0};

    (void)state;
    kvr_doorbell_close(&none);
    kvr_doorbell_release(&none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(doorbell_answers_rings_at_once, open_doorbell,
                                        close_doorbell),
        cmocka_unit_test_setup_teardown(doorbell_waits_for_no_thread, open_doorbell,
                                        close_doorbell),
        cmocka_unit_test(doorbell_never_opened_is_closed),
    };

    return cmocka_run_group_tests_name("doorbell", tests, NULL, NULL);
}
