/* Goal: an agent watches the end of the very process that attached, even where another process may
 * have its number by then. Old kernels name only that number. Method: a child that attaches and
 * ends; --wrap plays a kernel before Linux 6.5. */
#include "tests/support/check.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/engine/engine_socket.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes);
int __real_kvr_pidfd_open(pid_t pid);
int __wrap_kvr_pidfd_open(pid_t pid);

static const struct kvr_engine_access own_user;
static pid_t number_reused_by; /* the process that has the number now; 0: still the child */

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes)
{
    if (name == SO_PEERPIDFD) {
        errno = ENOPROTOOPT;
        return -1;
    }
    return __real_getsockopt(fd, level, name, value, bytes);
}

int __wrap_kvr_pidfd_open(pid_t pid)
{
    return __real_kvr_pidfd_open(number_reused_by != 0 ? number_reused_by : pid);
}

/* A socket that a child connected to us and, when `ends`, closed by ending. */
static int attached(bool ends, pid_t *ret_child, int *ret_hold)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t bytes = sizeof(sa_family_t);
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), hold[2], fd;

    assert_int_equal(bind(listener, (struct sockaddr *)&address, bytes), 0); /* a name of its own */
    assert_int_equal(listen(listener, 1), 0);
    bytes = sizeof(address);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
    assert_int_equal(pipe(hold), 0);
    *ret_child = fork();
    assert_true(*ret_child >= 0);
    if (*ret_child == 0) {
        char byte;

        close(hold[1]);
        close(listener);
        fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        if (connect(fd, (struct sockaddr *)&address, bytes) != 0)
            _exit(1);
        _exit(!ends && read(hold[0], &byte, 1) != 0);
    }
    close(hold[0]);
    *ret_hold = hold[1];
    fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd >= 0);
    close(listener);
    if (ends)
        assert_int_equal(waitpid(*ret_child, NULL, 0), *ret_child);
    return fd;
}

static void the_number_of_one_that_lives_is_its_own(void **state)
{
    struct kvr_error error;
    int pidfd = -1, hold, fd;
    struct kvr_engine_peer peer;
    pid_t child;

    (void)state;
    fd = attached(false, &child, &hold);
    assert_int_equal(kvr_engine_peer(fd, &own_user, &pidfd, &peer, &error), KVR_OK);
    assert_int_equal(peer.pid, child);
    assert_int_equal(peer.user, geteuid());
    assert_int_equal(peer.group, getegid());
    assert_true(pidfd >= 0);
    close(hold);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(pidfd);
    close(fd);
}

static void the_number_of_one_that_ended_is_nobodys(void **state)
{
    struct kvr_error error;
    int pidfd = -1, hold, fd;
    struct kvr_engine_peer peer;
    pid_t child;

    (void)state;
    fd = attached(true, &child, &hold);
    number_reused_by = getpid();
    assert_int_equal(kvr_engine_peer(fd, &own_user, &pidfd, &peer, &error), KVR_OK);
    number_reused_by = 0;
    assert_int_equal(pidfd, -1);
    close(hold);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_number_of_one_that_lives_is_its_own),
        cmocka_unit_test(the_number_of_one_that_ended_is_nobodys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
