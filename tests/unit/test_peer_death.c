/* Goal: a peer that is killed, stopped or started again is lost once, with the reason; the first
 * two within three beats. Method: child processes with a table of their own. */
#include "tests/support/check.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/peer_probe.h"

/* Three beats of silence, one more after an absence of our own, and one to spare. */
#define MOST_BEATS 5

/* test_peer_death --child BEAT-MS AT BOOT DIALS: one table in a process of its own; it prints its
 * port on standard output. "-": does not listen, does not dial. */
static int child_main(char **arguments)
{
    static struct probe child;
    uint16_t port;
    uint32_t peer;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    uv_loop_init(&loop);
    beat_ms = (uint32_t)strtoul(arguments[0], NULL, 10);
    open_table(&child, &loop, "child", strtoull(arguments[2], NULL, 10));
    if (arguments[1][0] != '-')
        listen_at(&child, arguments[1]);
    port = kvr_peers_port(child.peers);
    if (write(STDOUT_FILENO, &port, sizeof(port)) != sizeof(port))
        return 1;
    if (arguments[3][0] != '-' && kvr_peers_dial(child.peers, arguments[3], &peer, NULL) != KVR_OK)
        return 1;
    return uv_run(&loop, UV_RUN_DEFAULT);
}

/* Runs our own program again instead of a fork: a fork lacks the threads that sanitizers need. */
static pid_t start_child(const char *at, const char *boot, const char *dials)
{
    char beat[16];
    char *arguments[] = {(char *)"test_peer_death",
                         (char *)"--child",
                         beat,
                         (char *)at,
                         (char *)boot,
                         (char *)dials,
                         NULL};
    posix_spawn_file_actions_t actions;
    int ends[2];
    uint16_t port = 0;
    pid_t pid;

    snprintf(beat, sizeof(beat), "%u", beat_ms);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    assert_int_equal(posix_spawn(&pid, "/proc/self/exe", &actions, NULL, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    assert_int_equal(read(ends[0], &port, sizeof(port)), sizeof(port));
    close(ends[0]);
    if (at[0] != '-')
        snprintf(address, sizeof(address), "127.0.0.1:%u", port);
    return pid;
}

static void kill_child(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void peer_killed_is_lost_within_three_beats(void **state)
{
    pid_t pid = start_child("127.0.0.1:0", "1", "-");
    kvr_ns ran;

    (void)state;
    dial(address);
    LOOP_UNTIL(&loop, target.up == 1);
    run_for(beat_ms * 2);
    kill_child(pid);
    ran = loop_ran_ns;
    LOOP_UNTIL(&loop, target.lost == 1);
    assert_true(loop_ran_ns - ran <= MOST_BEATS * beat_ms * KVR_MS);
    expect_lost(&target, KVR_PEER_LOST, "connection refused");
    run_for(beat_ms * 2);
    assert_int_equal(target.lost, 1);
}

static void peer_stopped_is_lost_within_three_beats(void **state)
{
    pid_t pid = start_child("127.0.0.1:0", "1", "-");
    kvr_ns ran;

    (void)state;
    dial(address);
    LOOP_UNTIL(&loop, target.up == 1);
    kill(pid, SIGSTOP);
    ran = loop_ran_ns;
    LOOP_UNTIL(&loop, target.lost == 1);
    assert_true(loop_ran_ns - ran <= MOST_BEATS * beat_ms * KVR_MS);
    expect_lost(&target, KVR_PEER_LOST, "nothing was heard from it for");
    kill_child(pid);
}

static void peer_restarted_source(void **state)
{
    pid_t pid = start_child("127.0.0.1:0", "1", "-");
    char same[64];
    uint32_t peer;

    (void)state;
    strcpy(same, address);
    peer = dial(address);
    LOOP_UNTIL(&loop, target.up == 1);
    kill_child(pid);
    pid = start_child(same, "2", "-");
    LOOP_UNTIL(&loop, target.lost == 1);
    expect_lost(&target, KVR_PEER_RESTARTED, "another boot");
    assert_int_equal(dial(same), peer);
    LOOP_UNTIL(&loop, target.up == 2);
    kill_child(pid);
}

static void peer_restarted_target(void **state)
{
    pid_t pid = start_child("-", "1", address);

    (void)state;
    LOOP_UNTIL(&loop, source.up == 1);
    kill_child(pid);
    pid = start_child("-", "2", address);
    LOOP_UNTIL(&loop, source.lost == 1 && source.up == 2);
    expect_lost(&source, KVR_PEER_RESTARTED, "started again");
    run_for(1000);
    assert_int_equal(source.lost, 1);
    kill_child(pid);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        /* With shorter beats than an agent's, a child without CPU time is silent before it is
         * killed. */
        cmocka_unit_test_setup_teardown(peer_killed_is_lost_within_three_beats, begin_as_agents,
                                        end),
        cmocka_unit_test_setup_teardown(peer_stopped_is_lost_within_three_beats, begin_as_agents,
                                        end),
        patient_peer_test(peer_restarted_source),
        patient_peer_test(peer_restarted_target),
    };

    if (argc == 6 && strcmp(argv[1], "--child") == 0)
        return child_main(argv + 2);
    return cmocka_run_group_tests_name("peer_death", tests, NULL, NULL);
}
