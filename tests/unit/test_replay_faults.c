/* Goal: a fault that a replay plays excuses the requests that it met, and no others: a signal that
 * does not get there is no fault. A killed agent gets no further signal. Method: child processes
 * that wait stand for agents; a router with one request on its way. */
#include "tests/support/check.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/replay/replay_faults.h"
#include "tools/replay/replay_router.h"
#include "tools/replay/replay_setup.h"

static struct replay_setup replay;
static struct replay_figures figures;
static struct replay_router router;
static struct replay_recorded_agent recorded[] = {{.role = KVR_ROLE_SOURCE}};
static struct replay_recorded_fault faults[2];
static struct replay_live live;

static pid_t start_agent(void)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* also where the test fails */
    while (pid == 0)
        pause();
    return pid;
}

static void end_agent(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* A fault that is due, of the agent with this process. */
static void record(const char *kind, pid_t pid)
{
    struct replay_recorded_fault *fault = &faults[replay.recording.fault_count++];

    *fault = (struct replay_recorded_fault){.for_us = 1};
    snprintf(fault->kind, sizeof(fault->kind), "%s", kind);
    replay.agents.items[0].pid = pid;
}

static uint64_t sum(const struct replay_reasons *reasons)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < reasons->count; i++)
        count += reasons->items[i].count;
    return count;
}

static int setup(void **state)
{
    (void)state;
    memset(&replay, 0, sizeof(replay));
    memset(&figures, 0, sizeof(figures));
    memset(&router, 0, sizeof(router));
    snprintf(replay.options.faults, sizeof(replay.options.faults), "agents");
    replay.agents.counts[KVR_ROLE_SOURCE] = replay.agents.counts[KVR_ROLE_TARGET] = 1;
    replay.agents.items[1].role = KVR_ROLE_TARGET;
    replay.recording.agents = recorded;
    replay.recording.agent_count = 1;
    replay.recording.faults = faults;
    live = (struct replay_live){.engines = {0, 1}};
    router.setup = &replay;
    router.figures = &figures;
    router.engine_count = 2;
    router.live = &live;
    router.live_count = 1;
    return 0;
}

static void a_signal_that_fails_excuses_nothing(void **state)
{
    pid_t gone = start_agent();

    (void)state;
    end_agent(gone);
    router.faults.struck[0].down = true; /* its engine is being started anew */
    record("agent_silent", gone);
    record("agent_ended", gone);
    replay_faults_play(&router, kvr_clock_now());
    assert_int_equal(sum(&figures.faults_played), 0);
    assert_int_equal(sum(&figures.faults_not_played), 2);
    assert_false(live.struck);
    assert_true(router.faults.struck[0].down);
    assert_int_equal(router.faults.struck[0].thaw_at, 0);
}

static void a_stopped_agent_goes_on(void **state)
{
    pid_t agent = start_agent();
    int status;

    (void)state;
    record("agent_silent", agent);
    replay_faults_play(&router, kvr_clock_now());
    assert_int_equal(sum(&figures.faults_played), 1);
    assert_true(live.struck);
    assert_int_equal(waitpid(agent, &status, WUNTRACED), agent);
    assert_true(WIFSTOPPED(status));
    replay_faults_play(&router, kvr_clock_now() + KVR_S);
    assert_int_equal(waitpid(agent, &status, WCONTINUED), agent);
    assert_true(WIFCONTINUED(status));
    end_agent(agent);
}

static void a_killed_agent_gets_no_further_signal(void **state)
{
    pid_t agent = start_agent(), other = start_agent();

    (void)state;
    record("agent_ended", agent);
    replay_faults_play(&router, kvr_clock_now());
    assert_int_equal(waitpid(agent, NULL, 0), agent);
    assert_true(live.struck);
    /* Something has started it again, and its old number is another process's. */
    router.faults.struck[0].down = false;
    live.struck = false;
    record("agent_ended", other);
    replay_faults_play(&router, kvr_clock_now());
    assert_int_equal(sum(&figures.faults_played), 1);
    assert_int_equal(sum(&figures.faults_not_played), 1);
    assert_false(live.struck);
    assert_int_equal(waitpid(other, NULL, WNOHANG), 0);
    end_agent(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_signal_that_fails_excuses_nothing, setup),
        cmocka_unit_test_setup(a_stopped_agent_goes_on, setup),
        cmocka_unit_test_setup(a_killed_agent_gets_no_further_signal, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
