/* Goal: an agent warns of a small limit of locked memory where the limit holds, and not where a
 * capability lifts it, as in a container. A capability of a user namespace lifts no limit of cards.
 * The agent keeps libfabric off GPUs that it does not use. Method: children with and without the
 * capability, and the log of each (skipped without root); the environment. */
#include "tests/support/check.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent_state.h"
#include "base/log.h"

#define STRANGER 61917 /* root's capabilities are lost with root's number */

typedef enum child_is { CAPABLE, STRANGE, IN_NAMESPACE } child_is;

static bool becomes(child_is kind)
{
    return kind == CAPABLE || (kind == STRANGE ? setresuid(STRANGER, STRANGER, STRANGER)
                                               : unshare(CLONE_NEWUSER)) == 0;
}

static bool makes_namespaces(void)
{
    pid_t child = fork();
    int status;

    if (child == 0)
        _exit(becomes(IN_NAMESPACE) ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status == 0;
}

/* Whether a child warns. */
static bool warns(bool pins_memory, child_is kind)
{
    char path[] = "/tmp/kvrail-checks.XXXXXX", line[512] = "";
    int fd = mkstemp(path), status;
    struct kvr_rail_facts facts = {.provider = "verbs", .pins_memory = pins_memory};
    pid_t child = fork();
    FILE *log;

    assert_true(fd >= 0);
    if (child == 0) {
        struct rlimit limit = {64 << 10, 64 << 10};

        if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || kvr_log_open(path, NULL) != KVR_OK ||
            !becomes(kind))
            _exit(1);
        agent_memlock_check(&facts);
        kvr_log_flush();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    log = fdopen(fd, "r");
    assert_non_null(log);
    while (strstr(line, "RLIMIT_MEMLOCK allows 64 KiB") == NULL &&
           fgets(line, sizeof(line), log) != NULL)
        continue;
    fclose(log);
    unlink(path);
    return strstr(line, "RLIMIT_MEMLOCK allows 64 KiB") != NULL;
}

static void a_limit_that_holds_is_warned_of(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    assert_true(warns(true, STRANGE));
    assert_false(warns(false, STRANGE)); /* tcp */
}

static void a_limit_that_a_capability_lifts_is_not(void **state)
{
    (void)state;
    if (geteuid() != 0 || prctl(PR_CAPBSET_READ, 14 /* CAP_IPC_LOCK */) != 1)
        skip();
    assert_false(warns(true, CAPABLE));
}

/* By the kernel's sources ib_umem_get() asks for it in the first user namespace. */
static void a_capability_of_a_user_namespace_lifts_nothing(void **state)
{
    (void)state;
    if (geteuid() != 0 || !makes_namespaces())
        skip();
    assert_true(warns(true, IN_NAMESPACE));
}

/* libfabric starts the drivers of GPUs at its first look-up, unless FI_HMEM forbids it. */
static void an_agent_without_gpus_keeps_libfabric_off_them(void **state)
{
    struct kvr_agent_config config = {.device = "cuda"};

    (void)state;
    unsetenv("FI_HMEM");
    agent_libfabric_prepare(&config);
    assert_null(getenv("FI_HMEM"));
    strcpy(config.device, "none");
    agent_libfabric_prepare(&config);
    assert_non_null(getenv("FI_HMEM"));
    assert_string_equal(getenv("FI_HMEM"), "system");
    setenv("FI_HMEM", "rocr", 1); /* a user's choice */
    agent_libfabric_prepare(&config);
    assert_string_equal(getenv("FI_HMEM"), "rocr");
    unsetenv("FI_HMEM");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_agent_without_gpus_keeps_libfabric_off_them),
        cmocka_unit_test(a_limit_that_holds_is_warned_of),
        cmocka_unit_test(a_limit_that_a_capability_lifts_is_not),
        cmocka_unit_test(a_capability_of_a_user_namespace_lifts_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
