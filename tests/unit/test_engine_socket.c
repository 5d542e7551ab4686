/* Goal: a process that sees the name of an engine socket can connect to it, and names of any
 * allowed length work. Method: --wrap looks at the folder when the socket is bound and does not
 * listen yet.
 */
#include "tests/support/folder.h"

#include <dirent.h>
#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/engine/engine_socket.h"

static const struct kvr_engine_access own_user;
static char path[128];
static int seen_early; /* how often the name was there before the socket listened */

int __real_listen(int fd, int backlog);
int __wrap_listen(int fd, int backlog);

static int try_to_connect(const char *to)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), failure;

    memcpy(address.sun_path, to, strlen(to));
    failure = connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 ? 0 : errno;
    close(fd);
    return failure;
}

int __wrap_listen(int fd, int backlog)
{
    seen_early += try_to_connect(path) != ENOENT;
    return __real_listen(fd, backlog);
}

static int entries_of(const char *folder)
{
    DIR *list = opendir(folder);
    int count = -2; /* . and .. */

    assert_non_null(list);
    while (readdir(list) != NULL)
        count++;
    closedir(list);
    return count;
}

/* A socket with this name listens, has mode 0600, is alone in its folder, and goes. */
static void check_name(const char *folder, const char *name)
{
    struct kvr_error error;
    struct stat status;
    int listener, second;

    assert_true(snprintf(path, sizeof(path), "%s/%s", folder, name) < (int)sizeof(path));
    seen_early = 0;
    assert_int_equal(kvr_engine_listen(path, &own_user, &listener, &error), KVR_OK);
    assert_int_equal(seen_early, 0);
    assert_int_equal(try_to_connect(path), 0);
    assert_int_equal(entries_of(folder), 1);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(kvr_engine_listen(path, &own_user, &second, &error), KVR_EXISTS);
    kvr_engine_unlink(path, listener);
    close(listener);
    assert_int_equal(entries_of(folder), 0);
}

static void a_name_means_that_it_listens(void **state)
{
    (void)state;
    check_name(*state, "a.sock");
    check_name(*state, "a.sock"); /* again */
}

/* 107 bytes are the most that a Unix socket's path has. */
static void any_length_that_is_allowed(void **state)
{
    char name[108] = "";
    struct kvr_error error;
    int listener;

    memset(name, 'n', 107 - strlen(*state) - 1);
    check_name(*state, name);
    assert_int_equal(strlen(path), 107);
    check_name(*state, "s");
    memset(path, 'p', 108);
    path[108] = '\0';
    assert_int_equal(kvr_engine_listen(path, &own_user, &listener, &error), KVR_INVALID);
}

static void in_the_present_folder_and_in_none(void **state)
{
    struct kvr_error error;
    char before[512];
    int listener;

    assert_non_null(getcwd(before, sizeof(before)));
    assert_int_equal(chdir(*state), 0);
    snprintf(path, sizeof(path), "b.sock");
    assert_int_equal(kvr_engine_listen(path, &own_user, &listener, &error), KVR_OK);
    assert_int_equal(try_to_connect(path), 0);
    kvr_engine_unlink(path, listener);
    close(listener);
    assert_int_equal(entries_of("."), 0);
    assert_int_equal(chdir(before), 0);
    snprintf(path, sizeof(path), "%s/none/b.sock", (char *)*state);
    assert_int_equal(kvr_engine_listen(path, &own_user, &listener, &error), KVR_SYSTEM);
    assert_non_null(strstr(error.detail, path));
}

/* What a dead agent left is replaced, what another has bound is not. */
static void a_stale_name_is_replaced(void **state)
{
    struct kvr_error error;
    int listener, again;

    snprintf(path, sizeof(path), "%s/c.sock", (char *)*state);
    assert_int_equal(kvr_engine_listen(path, &own_user, &listener, &error), KVR_OK);
    close(listener);
    assert_int_equal(try_to_connect(path), ECONNREFUSED);
    assert_int_equal(kvr_engine_listen(path, &own_user, &again, &error), KVR_OK);
    assert_int_equal(try_to_connect(path), 0);
    assert_int_equal(entries_of(*state), 1);
    kvr_engine_unlink(path, again);
    close(again);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, folder_open, folder_close)
    const struct CMUnitTest tests[] = {
        CASE(a_name_means_that_it_listens),
        CASE(any_length_that_is_allowed),
        CASE(in_the_present_folder_and_in_none),
        CASE(a_stale_name_is_replaced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
