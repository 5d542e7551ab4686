/* Goal: only processes that the options name attach, and the socket's file lets no more connect
 * than it must. Method: numbers and names through the functions; a pair of sockets; and, as root, a
 * child of another user. */
#include "tests/support/folder.h"

#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/engine/engine_socket.h"
#include "base/user_namespace.h"

#define STRANGER 12345 /* a user and a group that this host need not know */

static struct kvr_option_list list_of(const char *item)
{
    struct kvr_option_list list = {.count = item != NULL};

    if (item != NULL)
        snprintf(list.items[0], sizeof(list.items[0]), "%s", item);
    return list;
}

static struct kvr_engine_access access_of(const char *user, const char *group)
{
    struct kvr_option_list users = list_of(user), groups = list_of(group);
    struct kvr_engine_access access;
    struct kvr_error error;

    assert_int_equal(kvr_engine_access_read(&users, &groups, &access, &error), KVR_OK);
    return access;
}

static void names_and_numbers_are_read(void **state)
{
    struct kvr_option_list none = list_of(NULL), wrong = list_of("no such user"),
                           minus = list_of("-1");
    struct kvr_engine_access access = access_of("root", "12345");
    struct kvr_error error;

    (void)state;
    assert_int_equal(access.users[0], 0);
    assert_int_equal(access.groups[0], STRANGER);
    assert_int_equal(kvr_engine_access_read(&wrong, &none, &access, &error), KVR_INVALID);
    assert_string_equal(error.detail, "--engine-user no such user: this host has no such user");
    assert_int_equal(kvr_engine_access_read(&none, &wrong, &access, &error), KVR_INVALID);
    assert_int_equal(kvr_engine_access_read(&none, &minus, &access, &error), KVR_INVALID);
}

static void the_file_lets_in_what_it_must(void **state)
{
    struct kvr_engine_access none = access_of(NULL, NULL), group = access_of(NULL, "12345"),
                             user = access_of("12345", "12345");
    gid_t owner;

    (void)state;
    assert_int_equal(kvr_engine_access_mode(&none, &owner), 0600);
    assert_int_equal(owner, (gid_t)-1);
    assert_int_equal(kvr_engine_access_mode(&group, &owner), 0660);
    assert_int_equal(owner, STRANGER);
    assert_int_equal(kvr_engine_access_mode(&user, &owner), 0666);
}

static void strangers_are_refused(void **state)
{
    struct kvr_engine_access none = access_of(NULL, NULL), user = access_of("12345", NULL),
                             group = access_of(NULL, "12345");
    struct kvr_engine_peer own = {geteuid(), getegid(), 1, 0}, root = {0, 0, 1, 0},
                           stranger = {STRANGER, 54321, 1, 0}, member = {54321, STRANGER, 1, 0},
                           unknown = {kvr_overflow_user(), 54321, 1, 0};
    struct kvr_error error;
    int ends[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(kvr_engine_access_check(&none, ends[0], &own, &error), KVR_OK);
    assert_int_equal(kvr_engine_access_check(&none, ends[0], &root, &error), KVR_OK);
    assert_int_equal(kvr_engine_access_check(&none, ends[0], &stranger, &error), KVR_REFUSED);
    assert_non_null(strstr(error.detail, "user 12345, group 54321 may not attach"));
    assert_int_equal(kvr_engine_access_check(&none, ends[0], &unknown, &error), KVR_REFUSED);
    assert_int_equal(kvr_engine_access_check(&user, ends[0], &stranger, &error), KVR_OK);
    assert_int_equal(kvr_engine_access_check(&user, ends[0], &member, &error), KVR_REFUSED);
    assert_int_equal(kvr_engine_access_check(&group, ends[0], &member, &error), KVR_OK);
    assert_int_equal(kvr_engine_access_check(&group, ends[0], &stranger, &error), KVR_REFUSED);
    close(ends[0]);
    close(ends[1]);
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    memcpy(address.sun_path, path, strlen(path));
    return connect(fd, (const struct sockaddr *)&address, sizeof(address));
}

/* The kernel's word on a process that has the group beside others. */
static void a_further_group_counts(void **state)
{
    static const gid_t groups[] = {STRANGER};
    struct kvr_engine_access access = access_of(NULL, "12345"), none = access_of(NULL, NULL);
    const char *folder = *state;
    struct kvr_engine_peer peer;
    char path[108];
    struct kvr_error error;
    struct stat file;
    int listener, accepted, pidfd = -1, status;
    pid_t child;

    if (geteuid() != 0 || !kvr_sees_every_user())
        skip();
    assert_int_equal(chmod(folder, 0711), 0);
    snprintf(path, sizeof(path), "%s/e.sock", folder);
    assert_int_equal(kvr_engine_listen(path, &access, &listener, &error), KVR_OK);
    assert_int_equal(stat(path, &file), 0);
    assert_int_equal(file.st_mode & 07777, 0660);
    assert_int_equal(file.st_gid, STRANGER);
    child = fork();
    if (child == 0)
        _exit(setgroups(1, groups) != 0 || setgid(54321) != 0 || setuid(54321) != 0 ||
              connect_to(path) < 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(accepted >= 0);
    assert_int_equal(kvr_engine_peer(accepted, &access, &pidfd, &peer, &error), KVR_OK);
    assert_int_equal(peer.user, 54321);
    assert_int_equal(kvr_engine_peer(accepted, &none, &pidfd, &peer, &error), KVR_REFUSED);
    close(accepted);
    kvr_engine_unlink(path, listener);
    close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_numbers_are_read),
        cmocka_unit_test(the_file_lets_in_what_it_must),
        cmocka_unit_test(strangers_are_refused),
        cmocka_unit_test_setup_teardown(a_further_group_counts, folder_open, folder_close),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
