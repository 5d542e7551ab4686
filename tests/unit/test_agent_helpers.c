/* Goal: every job runs once, a few at a time, and name look-ups go on however long the jobs last.
 * Method: jobs that last until the case releases them, on a loop of its own. */
#include "tests/support/check.h"

#include <semaphore.h>

#include "agent/agent_helpers.h"
#include "tests/support/loop.h"

#define JOBS 12

static uv_loop_t loop;
static struct agent_helpers helpers;
static struct agent_job jobs[JOBS];
static sem_t let_go;
static uint32_t order[JOBS], ended;
static _Atomic uint32_t begun;
static bool resolved;

static void run(uv_work_t *work)
{
    (void)work;
    begun++;
    while (sem_wait(&let_go) != 0)
        continue;
}

static void done(uv_work_t *work, int cancelled)
{
    assert_int_equal(cancelled, 0);
    order[ended++] = (uint32_t)((struct agent_job *)work - jobs);
}

static void on_resolved(uv_getaddrinfo_t *request, int result, struct addrinfo *list)
{
    (void)request;
    assert_int_equal(result, 0);
    uv_freeaddrinfo(list);
    resolved = true;
}

static int begin(void **state)
{
    (void)state;
    uv_loop_init(&loop);
    helpers = (struct agent_helpers){.loop = &loop};
    sem_init(&let_go, 0, 0);
    begun = ended = 0;
    resolved = false;
    for (uint32_t i = 0; i < JOBS; i++)
        agent_help(&helpers, &jobs[i], run, done);
    LOOP_UNTIL(&loop, begun == AGENT_HELPERS);
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < JOBS; i++)
        sem_post(&let_go);
    LOOP_UNTIL(&loop, ended == JOBS);
    assert_int_equal(helpers.busy, 0);
    assert_null(helpers.first);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    sem_destroy(&let_go);
    return 0;
}

static void a_name_is_looked_up_while_all_are_busy(void **state)
{
    uv_getaddrinfo_t request;

    (void)state;
    assert_int_equal(uv_getaddrinfo(&loop, &request, on_resolved, "127.0.0.1", "80", NULL), 0);
    LOOP_UNTIL(&loop, resolved);
    assert_int_equal(ended, 0);
}

static void they_go_in_order_a_few_at_a_time(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < JOBS; i++) {
        uint32_t most = i + AGENT_HELPERS < JOBS ? i + AGENT_HELPERS : JOBS;

        assert_int_equal(begun, most);
        sem_post(&let_go);
        LOOP_UNTIL(&loop, ended == i + 1 && begun == (most < JOBS ? most + 1 : JOBS));
        assert_true(order[i] < most);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_name_is_looked_up_while_all_are_busy, begin, end),
        cmocka_unit_test_setup_teardown(they_go_in_order_a_few_at_a_time, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
