/* Goal: a process of another user is never taken for one of ours, at either end of a socket that
 * all processes may dial. In a user namespace all unknown users read as one number, and that does
 * not help them. Method: processes of other users, and one in a user namespace where that number is
 * its own. Skipped without root. */
#include "tests/support/check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wire/abstract_socket.h"

#define STRANGER      61917
#define OVERFLOW_USER 65534

static char name[64];

static int choose_name(void **state)
{
    (void)state;
    snprintf(name, sizeof(name), "kvrail-test-%d", (int)getpid());
    return 0;
}

/* A connection waits at the listener, or comes in time. */
static int next(int listener)
{
    struct pollfd readable = {.fd = listener, .events = POLLIN};

    assert_int_equal(poll(&readable, 1, 10000), 1);
    return kvr_abstract_accept(listener);
}

static void assert_child_ends_well(pid_t child)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void processes_of_one_user_meet(void **state)
{
    int listener = kvr_abstract_listen(name, 8), near, far;
    char byte = 0;

    (void)state;
    assert_true(listener >= 0);
    assert_int_equal(kvr_abstract_listen(name, 8), -1);
    assert_int_equal(errno, EADDRINUSE);
    assert_int_equal(kvr_abstract_accept(listener), -1);
    near = kvr_abstract_connect(name);
    assert_true(near >= 0);
    far = next(listener);
    assert_true(far >= 0);
    assert_int_equal(write(near, "x", 1), 1);
    assert_int_equal(read(far, &byte, 1), 1);
    assert_int_equal(byte, 'x');
    close(near);
    close(far);
    close(listener);
    assert_int_equal(kvr_abstract_connect(name), -1);
    assert_int_equal(errno, ECONNREFUSED);
}

static void others_are_turned_away(void **state)
{
    int listener, ready[2], hold[2];
    pid_t child;
    char byte;

    (void)state;
    if (geteuid() != 0)
        skip();
    listener = kvr_abstract_listen(name, 8);
    child = fork();
    if (child == 0)
        _exit(setresuid(STRANGER, STRANGER, STRANGER) != 0 || kvr_abstract_connect(name) != -1 ||
                      errno != EPERM
                  ? 1
                  : 0);
    assert_int_equal(next(listener), -1);
    assert_child_ends_well(child);
    close(listener);

    assert_int_equal(pipe(ready) | pipe(hold), 0);
    child = fork();
    if (child == 0) {
        close(hold[1]);
        if (setresuid(STRANGER, STRANGER, STRANGER) != 0 || kvr_abstract_listen(name, 8) < 0 ||
            write(ready[1], "r", 1) != 1)
            _exit(1);
        _exit(read(hold[0], &byte, 1) == 0 ? 0 : 1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(kvr_abstract_connect(name), -1);
    assert_int_equal(errno, EPERM);
    close(hold[1]);
    assert_child_ends_well(child);
    close(ready[0]);
    close(ready[1]);
    close(hold[0]);
}

/* However many others dial, those behind them are found. */
static void a_crowd_of_others_hides_nobody(void **state)
{
    int listener, fd, near = -1, tries = 0;
    pid_t child;

    (void)state;
    if (geteuid() != 0)
        skip();
    listener = kvr_abstract_listen(name, 256);
    child = fork();
    if (child == 0) {
        if (setresuid(STRANGER, STRANGER, STRANGER) != 0)
            _exit(1);
        for (int i = 0; i < 150; i++)
            (void)kvr_abstract_connect(name);
        _exit(0);
    }
    assert_child_ends_well(child);
    near = kvr_abstract_connect(name);
    assert_true(near >= 0);
    while ((fd = kvr_abstract_accept(listener)) < 0) {
        assert_int_equal(errno, EBUSY);
        assert_true(++tries < 4);
    }
    assert_true(tries > 0);
    assert_int_equal(kvr_abstract_accept(listener), -1);
    assert_int_equal(errno, EAGAIN);
    close(fd);
    close(near);
    close(listener);
}

static bool write_map(pid_t child)
{
    char path[64], map[32];
    int fd, length = snprintf(map, sizeof(map), "%d 0 1", OVERFLOW_USER);
    bool written;

    snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)child);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    written = fd >= 0 && write(fd, map, (size_t)length) == length;
    close(fd);
    return written;
}

/* In a namespace where this user is that number. 0: the stranger was turned away. 77: no such
 * namespace can be had. */
static int listen_as_overflow_user(int go, int ready)
{
    char byte;
    int listener;

    if (unshare(CLONE_NEWUSER) != 0)
        return write(ready, "n", 1) == 1 ? 77 : 1;
    if (write(ready, "u", 1) != 1 || read(go, &byte, 1) != 1 || geteuid() != OVERFLOW_USER)
        return 1;
    listener = kvr_abstract_listen(name, 8);
    if (listener < 0 || write(ready, "l", 1) != 1)
        return 2;
    return poll(&(struct pollfd){.fd = listener, .events = POLLIN}, 1, 10000) == 1 &&
                   kvr_abstract_accept(listener) == -1
               ? 0
               : 3;
}

static void the_number_of_unknown_users_is_not_ours(void **state)
{
    int go[2], ready[2], status;
    pid_t listens, stranger;
    char byte;

    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(pipe(go) | pipe(ready), 0);
    listens = fork();
    if (listens == 0)
        _exit(listen_as_overflow_user(go[0], ready[1]));
    assert_int_equal(read(ready[0], &byte, 1), 1);
    if (byte == 'n') {
        waitpid(listens, NULL, 0);
        skip();
    }
    assert_true(write_map(listens));
    assert_int_equal(write(go[1], "g", 1), 1);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    stranger = fork();
    if (stranger == 0)
        _exit(setresuid(STRANGER, STRANGER, STRANGER) != 0 || kvr_abstract_connect(name) != -1 ? 1
                                                                                               : 0);
    assert_int_equal(waitpid(listens, &status, 0), listens);
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_child_ends_well(stranger);
    close(go[0]);
    close(go[1]);
    close(ready[0]);
    close(ready[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(processes_of_one_user_meet, choose_name),
        cmocka_unit_test_setup(others_are_turned_away, choose_name),
        cmocka_unit_test_setup(a_crowd_of_others_hides_nobody, choose_name),
        cmocka_unit_test_setup(the_number_of_unknown_users_is_not_ours, choose_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
