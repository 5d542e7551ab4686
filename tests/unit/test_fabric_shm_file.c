/* Goal: what a killed process left of shm's files in /dev/shm is removed by the next one, and
 * nothing that somebody holds is, in whatever pid namespace he lives; who was told a name finds it.
 * Method: endpoints of this process and of others; a second name of a file, with a number that no
 * process here has, is what it is called there. Where it is allowed to, it has a /dev/shm of its
 * own: agents of other tests clean up too, and may be first. */
#include "tests/support/check.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fabric/fabric_ofi.h"
#include "fabric/fabric_ofi_state.h"
#include "fabric/fabric_provider.h"

#define PATH_BYTES 128

static bool helps; /* a process that a case has started */

static void must(kvr_status status, const struct kvr_error *error)
{
    if (status == KVR_OK)
        return;
    if (helps) {
        fprintf(stderr, "%s\n", error->detail);
        _exit(1);
    }
    fail_msg("%s", error->detail);
}

struct rail {
    struct kvr_fabric fabric;
    struct kvr_rail *rail;
};

static void rail_open(struct rail *rail)
{
    struct kvr_rail_options options = {.provider = "shm"};
    struct kvr_error error = {0};

    kvr_fabric_ofi(&rail->fabric);
    must(rail->fabric.ops->rail_open(NULL, &options, &rail->rail, &error), &error);
}

static struct kvr_endpoint *endpoint_open(const struct rail *rail, char ret_path[PATH_BYTES])
{
    struct kvr_endpoint *endpoint = NULL;
    struct kvr_error error = {0};

    must(rail->fabric.ops->endpoint_open(rail->rail, &endpoint, &error), &error);
    snprintf(ret_path, PATH_BYTES, "/dev/shm/%s", ofi_shm_name((const char *)endpoint->address));
    return endpoint;
}

static void endpoint_close(const struct rail *rail, struct kvr_endpoint *endpoint)
{
    rail->fabric.ops->endpoint_stop(endpoint);
    rail->fabric.ops->endpoint_close(endpoint);
}

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

/* It keeps its name for a while, but not its room. */
static void must_go(const char *path)
{
    struct stat status;

    assert_int_equal(stat(path, &status), 0);
    assert_true(status.st_blocks * 512 <= 65536);
    ofi_shm_drop_names();
    assert_false(is_there(path));
}

/* That of a process that has ended. */
static pid_t dead_number(void)
{
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0)
        _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    return child;
}

static void name_of_nobody(unsigned index, char ret_path[PATH_BYTES])
{
    snprintf(ret_path, PATH_BYTES, "/dev/shm/%d:%u:%u", (int)dead_number(), geteuid(), index);
}

/* As another program of libfabric's makes it in a container. */
static void what_is_not_marked_stays(void **state)
{
    char path[PATH_BYTES];
    int fd;

    (void)state;
    name_of_nobody(0, path);
    fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    ofi_shm_clean();
    assert_true(is_there(path));
    assert_int_equal(unlink(path), 0);
}

static void what_is_held_stays_until_its_end(void **state)
{
    char path[PATH_BYTES], elsewhere[PATH_BYTES];
    struct kvr_endpoint *endpoint;
    struct rail rail;

    (void)state;
    rail_open(&rail);
    endpoint = endpoint_open(&rail, path);
    name_of_nobody(1, elsewhere);
    assert_int_equal(link(path, elsewhere), 0);
    ofi_shm_clean();
    assert_true(is_there(path));
    assert_true(is_there(elsewhere));
    endpoint_close(&rail, endpoint);
    assert_false(is_there(path));
    assert_true(is_there(elsewhere));
    ofi_shm_clean();
    must_go(elsewhere);
    rail.fabric.ops->rail_close(rail.rail);
}

/* What has happened to the name since `notices` began to watch the folder. */
static bool was_away(int notices, const char *path)
{
    _Alignas(struct inotify_event) char room[4096];
    ssize_t bytes = read(notices, room, sizeof(room));

    for (ssize_t at = 0; at < bytes;) {
        const struct inotify_event *event = (const struct inotify_event *)(const void *)&room[at];

        if (event->len > 0 && strcmp(event->name, strrchr(path, '/') + 1) == 0)
            return true;
        at += (ssize_t)(sizeof(*event) + event->len);
    }
    return false;
}

/* See fabric_ofi_shm_name.c: who looks it up meanwhile always finds it. */
static void a_name_that_outlives_its_endpoint_is_held(void **state)
{
    char path[PATH_BYTES], target_path[PATH_BYTES];
    struct kvr_endpoint *endpoint, *target;
    struct kvr_fabric_write write = {.piece_count = 0};
    int notices = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    struct kvr_error error = {0};
    struct rail rail;

    (void)state;
    rail_open(&rail);
    target = endpoint_open(&rail, target_path);
    endpoint = endpoint_open(&rail, path);
    assert_int_equal(rail.fabric.ops->peer_insert(endpoint, target->address, target->address_bytes,
                                                  &write.peer, &error),
                     KVR_OK);
    endpoint->peers[write.peer].asked = true; /* and has not answered */
    assert_true(inotify_add_watch(notices, "/dev/shm", IN_DELETE | IN_MOVED_FROM) >= 0);
    endpoint_close(&rail, endpoint);
    assert_true(is_there(path));
    assert_false(was_away(notices, path));
    ofi_shm_clean();
    assert_true(is_there(path));
    endpoint_close(&rail, target);
    rail.fabric.ops->rail_close(rail.rail);
    assert_false(is_there(path));
    close(notices);
}

/* A child that does not outlive its parent. */
static pid_t fork_helper(void)
{
    pid_t child = fork();

    if (child == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        _exit(1);
    return child;
}

struct told {
    uint32_t bytes;
    uint8_t address[KVR_ADDRESS_BYTES];
};

/* In another process: asks the endpoint that it is told of, says so, and waits for its end. */
static void ask(int questions, int answers)
{
    struct kvr_fabric_write write_of_nothing = {.piece_count = 0};
    struct kvr_endpoint *endpoint;
    struct kvr_error error = {0};
    char path[PATH_BYTES] = "";
    struct told told;
    struct rail rail;

    helps = true;
    if (read(questions, &told, sizeof(told)) != sizeof(told))
        _exit(1);
    rail_open(&rail);
    endpoint = endpoint_open(&rail, path);
    must(rail.fabric.ops->peer_insert(endpoint, told.address, told.bytes, &write_of_nothing.peer,
                                      &error),
         &error);
    if (rail.fabric.ops->write(endpoint, &write_of_nothing) == KVR_AGAIN &&
        write(answers, path, PATH_BYTES) == PATH_BYTES)
        pause();
    _exit(1);
}

/* The provider would crash here. */
static void who_was_asked_by_a_killed_process_finds_its_name(void **state)
{
    char path[PATH_BYTES] = "", own_path[PATH_BYTES];
    struct kvr_completion completions[4];
    struct kvr_endpoint *endpoint;
    struct told told = {0};
    int questions[2], answers[2];
    struct rail rail;
    pid_t child;

    (void)state;
    assert_int_equal(pipe(questions), 0);
    assert_int_equal(pipe(answers), 0);
    child = fork_helper();
    assert_true(child >= 0);
    if (child == 0)
        ask(questions[0], answers[1]);
    close(answers[1]);
    rail_open(&rail);
    endpoint = endpoint_open(&rail, own_path);
    rail.fabric.ops->endpoint_address(endpoint, told.address, &told.bytes);
    assert_int_equal(write(questions[1], &told, sizeof(told)), sizeof(told));
    assert_int_equal(read(answers[0], path, PATH_BYTES), PATH_BYTES);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    ofi_shm_clean();
    assert_true(is_there(path));
    (void)rail.fabric.ops->poll(endpoint, completions, 4);
    must_go(path);
    endpoint_close(&rail, endpoint);
    rail.fabric.ops->rail_close(rail.rail);
    close(answers[0]);
    close(questions[0]);
    close(questions[1]);
}

/* In another process: opens an endpoint, says what its file is called, and waits for its end. */
static void hold(int answers)
{
    char path[PATH_BYTES] = "";
    struct rail rail;

    helps = true;
    rail_open(&rail);
    (void)endpoint_open(&rail, path);
    if (write(answers, path, PATH_BYTES) == PATH_BYTES)
        pause();
    _exit(1);
}

static void what_a_killed_process_left_goes(void **state)
{
    char path[PATH_BYTES];
    int pipes[2];
    pid_t child;

    (void)state;
    assert_int_equal(pipe(pipes), 0);
    child = fork_helper();
    assert_true(child >= 0);
    if (child == 0)
        hold(pipes[1]);
    close(pipes[1]);
    assert_int_equal(read(pipes[0], path, PATH_BYTES), PATH_BYTES);
    ofi_shm_clean();
    assert_true(is_there(path));
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(is_there(path));
    ofi_shm_clean();
    must_go(path);
    close(pipes[0]);
}

/* The first process of a new pid namespace, whose process of that number is the one that holds. */
static void rule(pid_t number, int answers)
{
    for (;;) {
        pid_t child = fork_helper();

        if (child < 0 || child > number)
            _exit(1);
        if (child == 0) {
            if (getpid() == number)
                hold(answers);
            _exit(0);
        }
        if (child == number)
            (void)pause();
        (void)waitpid(child, NULL, 0);
    }
}

/* Ends with 77 where this is not allowed; tells the number that the namespace's first has here. */
static void open_namespace(pid_t number, int rulers, int answers)
{
    pid_t ruler;

    if (unshare(CLONE_NEWPID) != 0)
        _exit(77);
    ruler = fork_helper();
    if (ruler == 0)
        rule(number, answers);
    if (ruler < 0 || write(rulers, &ruler, sizeof(ruler)) != sizeof(ruler))
        _exit(1);
    (void)waitpid(ruler, NULL, 0);
    _exit(0);
}

static pid_t lowest_dead_number(void)
{
    pid_t number = 2;

    while (kill(number, 0) == 0 || errno != ESRCH)
        number++;
    return number;
}

static void what_is_held_in_another_namespace_stays(void **state)
{
    pid_t number = lowest_dead_number(), ruler = 0, child;
    int rulers[2], answers[2], status;
    char path[PATH_BYTES], expected[32];

    (void)state;
    assert_int_equal(pipe(rulers), 0);
    assert_int_equal(pipe(answers), 0);
    child = fork_helper();
    assert_true(child >= 0);
    if (child == 0)
        open_namespace(number, rulers[1], answers[1]);
    close(rulers[1]);
    close(answers[1]);
    if (read(rulers[0], &ruler, sizeof(ruler)) != sizeof(ruler)) {
        close(rulers[0]);
        close(answers[0]);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 77);
        fprintf(stderr, "a pid namespace needs CAP_SYS_ADMIN\n");
        skip();
    }
    assert_int_equal(read(answers[0], path, PATH_BYTES), PATH_BYTES);
    snprintf(expected, sizeof(expected), "/dev/shm/%d:", (int)number);
    assert_memory_equal(path, expected, strlen(expected));
    ofi_shm_clean();
    assert_true(is_there(path));
    assert_int_equal(kill(ruler, SIGKILL), 0); /* and all others with it */
    assert_int_equal(waitpid(child, NULL, 0), child);
    ofi_shm_clean();
    must_go(path);
    close(rulers[0]);
    close(answers[0]);
}

static void own_shared_memory(void)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") != 0)
        fprintf(stderr, "/dev/shm is shared with other tests: %s\n", strerror(errno));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_killed_process_left_goes), /* forks: before there are threads */
        cmocka_unit_test(what_is_held_in_another_namespace_stays),
        cmocka_unit_test(who_was_asked_by_a_killed_process_finds_its_name),
        cmocka_unit_test(what_is_not_marked_stays),
        cmocka_unit_test(what_is_held_stays_until_its_end),
        cmocka_unit_test(a_name_that_outlives_its_endpoint_is_held),
    };
    struct kvr_rail_facts facts;
    struct kvr_error error;

    if (kvr_fabric_list("shm", &facts, 1, &error) == 0) {
        fprintf(stderr, "skipped: %s\n", error.detail);
        return 77;
    }
    own_shared_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
