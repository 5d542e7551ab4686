/* Goal: an engine gives its pages to no process of another user that listens at the agent's path.
 * Method: as root, a child of another user listens there. */
#include "tests/support/folder.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/kvrail.h"

#define STRANGER 54321

static int go_on[2]; /* closed: the child ends */

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    memcpy(address.sun_path, path, strlen(path));
    return bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 && listen(fd, 4) == 0
               ? 0
               : 1;
}

/* A process of that user listens when this returns. */
static pid_t listener_of(uid_t user, const char *path)
{
    int ready[2];
    char byte;
    pid_t child;

    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(go_on), 0);
    child = fork();
    if (child == 0) {
        close(go_on[1]);
        if ((user != geteuid() && setuid(user) != 0) || listen_at(path) != 0 ||
            write(ready[1], "x", 1) != 1)
            _exit(1);
        (void)!read(go_on[0], &byte, 1);
        _exit(0);
    }
    close(ready[1]);
    close(go_on[0]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return child;
}

static void end_listener(pid_t child)
{
    int status;

    close(go_on[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static kvrail_status open_at(const char *path, struct kvrail_error *error)
{
    struct kvrail_identity identity = {.size = sizeof(identity),
                                       .name = "e",
                                       .model = "m",
                                       .generation = 1,
                                       .tp_size = 1,
                                       .pp_size = 1};
    struct kvrail *engine = NULL;
    kvrail_status status;

    *error = (struct kvrail_error){.detail = ""};
    status = kvrail_open(path, &identity, 50, &engine, error);
    assert_null(engine);
    return status;
}

/* No agent answers there: an engine that trusts the listener waits in vain. */
static void its_own_user_is_trusted(void **state)
{
    struct kvrail_error error;
    char path[108];
    pid_t child;

    snprintf(path, sizeof(path), "%s/a.sock", (const char *)*state);
    child = listener_of(geteuid(), path);
    assert_int_equal(open_at(path, &error), KVRAIL_TIMED_OUT);
    end_listener(child);
}

static void another_user_is_not_trusted(void **state)
{
    struct kvrail_error error;
    char path[108];
    pid_t child;

    if (geteuid() != 0)
        skip();
    assert_int_equal(chmod(*state, 01777), 0); /* as /tmp */
    snprintf(path, sizeof(path), "%s/b.sock", (const char *)*state);
    child = listener_of(STRANGER, path);
    assert_int_equal(open_at(path, &error), KVRAIL_REFUSED);
    assert_non_null(strstr(error.detail, "user 54321 listens on "));
    assert_non_null(strstr(error.detail, "set KVRAIL_AGENT_USER to it"));
    assert_int_equal(setenv("KVRAIL_AGENT_USER", "12345", 1), 0);
    assert_int_equal(open_at(path, &error), KVRAIL_REFUSED);
    assert_int_equal(setenv("KVRAIL_AGENT_USER", "54321", 1), 0);
    assert_int_equal(open_at(path, &error), KVRAIL_TIMED_OUT);
    assert_int_equal(unsetenv("KVRAIL_AGENT_USER"), 0);
    end_listener(child);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(its_own_user_is_trusted, folder_open, folder_close),
        cmocka_unit_test_setup_teardown(another_user_is_not_trusted, folder_open, folder_close),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
