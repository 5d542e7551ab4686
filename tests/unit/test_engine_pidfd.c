/* Goal: an agent sees the end of an engine of another pid namespace also where the kernel shows no
 * pidfd of the peer: by the one that the library sends. A descriptor that is none, or of another
 * process, misleads the agent about its sender alone. Method: --wrap plays a kernel before Linux
 * 6.5 and another pid namespace; engines with children that hold the socket open; raw engines. */
#include "tests/support/check.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/pidfd.h"
#include "tests/support/client_case.h"
#include "tests/support/descriptors.h"
#include "tests/support/raw_engine.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes);
/* Visible: with a sanitizer the linker binds libkvrail's calls to it too. */
__attribute__((visibility("default"))) int __wrap_getsockopt(int fd, int level, int name,
                                                             void *value, socklen_t *bytes);

static bool elsewhere; /* engines are in another pid namespace, and the kernel is old */

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes)
{
    int result;

    if (elsewhere && name == SO_PEERPIDFD) {
        errno = ENOPROTOOPT;
        return -1;
    }
    result = __real_getsockopt(fd, level, name, value, bytes);
    if (elsewhere && name == SO_PEERCRED && result == 0)
        ((struct ucred *)value)->pid = 0;
    return result;
}

static int start_elsewhere(void **state)
{
    elsewhere = true;
    return start_thread(state);
}

static int stop_elsewhere(void **state)
{
    elsewhere = false;
    return stop(state);
}

/* The pidfd of a process that has ended. */
static int dead_pidfd(void)
{
    pid_t child = fork();
    int pidfd;

    if (child == 0)
        _exit(0);
    pidfd = kvr_pidfd_open(child);
    assert_true(pidfd >= 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    return pidfd;
}

/* Attaches with these beside the packet, which are closed here. */
static int attach_with(const int *fds, uint32_t count)
{
    struct kvr_request request = {.kind = KVR_REQ_ATTACH};
    struct kvr_packet_fds beside = {.count = count};
    struct kvr_notice notice;
    int fd = raw_connect(agent.path);

    request.attach.rank.tp_size = request.attach.rank.pp_size = 1;
    for (uint32_t i = 0; i < count; i++)
        beside.fds[i] = fds[i];
    raw_send(fd, &request, &beside);
    kvr_packet_fds_close(&beside);
    assert_int_equal(raw_notice(fd, &notice), KVR_OK);
    assert_int_equal(notice.kind, KVR_NOTICE_ATTACHED);
    return fd;
}

static void assert_served(int fd)
{
    struct kvr_request request = {.kind = KVR_REQ_WHY};
    struct kvr_notice notice;

    for (int i = 0; i < 3; i++) { /* each in a turn of the agent's loop */
        raw_send(fd, &request, NULL);
        assert_int_equal(raw_notice(fd, &notice), KVR_OK);
        assert_int_equal(notice.kind, KVR_NOTICE_WHY);
    }
}

static void the_library_brings_its_own(void **state)
{
    int hold;

    (void)state;
    scripted_engine_with_child(&agent, &hold);
    assert_true(scripted_reached(&agent.record->downs, 1));
    assert_int_equal(agent.record->down_why, KVR_ENGINE_LOST);
    assert_non_null(strstr(agent.record->down_detail, "another pid namespace"));
    close(hold);
}

/* An older library brings none. */
static void without_one_the_socket_shows_the_end(void **state)
{
    int fd = attach_with(NULL, 0);

    (void)state;
    assert_served(fd);
    close(fd);
    assert_true(scripted_reached(&agent.record->downs, 1));
    assert_int_equal(agent.record->down_why, KVR_ENGINE_LOST);
}

/* Each of these would be readable at once. */
static void what_is_no_pidfd_is_not_watched(void **state)
{
    int ends[2], folder = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC), fds[3];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    close(ends[1]);
    fds[0] = attach_with(&ends[0], 1);
    ends[0] = eventfd(1, EFD_CLOEXEC);
    fds[1] = attach_with(&ends[0], 1);
    fds[2] = attach_with(&folder, 1);
    for (int i = 0; i < 3; i++)
        assert_served(fds[i]);
    assert_int_equal(agent.record->downs, 0);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    assert_true(scripted_reached(&agent.record->downs, 3));
}

static void a_lie_is_about_its_teller(void **state)
{
    struct kvrail *other = scripted_engine(&agent, "other");
    int dead = dead_pidfd(), fd = attach_with(&dead, 1);

    (void)state;
    assert_true(scripted_reached(&agent.record->downs, 1));
    assert_int_equal(agent.record->down_why, KVR_ENGINE_LOST);
    close(fd);
    assert_int_equal(kvrail_why(other, 1), KVRAIL_OK);
    assert_int_equal(scripted_event(other, &(struct kvrail_event){0}), 1);
    kvrail_close(other);
}

/* Any number of them; the last is taken. */
static void those_that_are_left_over_are_closed(void **state)
{
    uint32_t before = descriptors();
    int fds[KVR_PACKET_FDS_MAX], fd;

    (void)state;
    for (int i = 0; i < KVR_PACKET_FDS_MAX; i++)
        fds[i] = kvr_pidfd_open(getpid());
    fd = attach_with(fds, KVR_PACKET_FDS_MAX);
    assert_served(fd);
    close(fd);
    assert_true(scripted_reached(&agent.record->downs, 1));
    kvrail_close(scripted_engine(&agent, "next"));
    assert_true(scripted_reached(&agent.record->downs, 2));
    assert_true(descriptors() <= before + 8); /* an eventfd and a page may not be closed yet */
}

/* As on every Linux from 6.5 on. */
static void the_kernels_word_counts_more(void **state)
{
    int dead = dead_pidfd(), fd = attach_with(&dead, 1), hold;

    (void)state;
    assert_served(fd);
    assert_int_equal(agent.record->downs, 0);
    scripted_engine_with_child(&agent, &hold);
    assert_true(scripted_reached(&agent.record->downs, 1));
    close(hold);
    close(fd);
    assert_true(scripted_reached(&agent.record->downs, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_library_brings_its_own, start_elsewhere,
                                        stop_elsewhere),
        cmocka_unit_test_setup_teardown(without_one_the_socket_shows_the_end, start_elsewhere,
                                        stop_elsewhere),
        cmocka_unit_test_setup_teardown(what_is_no_pidfd_is_not_watched, start_elsewhere,
                                        stop_elsewhere),
        cmocka_unit_test_setup_teardown(a_lie_is_about_its_teller, start_elsewhere, stop_elsewhere),
        cmocka_unit_test_setup_teardown(those_that_are_left_over_are_closed, start_elsewhere,
                                        stop_elsewhere),
        cmocka_unit_test_setup_teardown(the_kernels_word_counts_more, start_thread, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
