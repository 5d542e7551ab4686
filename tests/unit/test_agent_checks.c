/* Goal: an agent warns of a small limit of locked memory where the limit holds, and not where a
 * capability lifts it, as in a container. Method: children with and without the capability, and the
 * log of each. Skipped without root. */
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent_state.h"
#include "base/log.h"

#define STRANGER 61917 /* root's capabilities are lost with root's number */

/* Whether a child warns. */
static bool warns(bool pins_memory, bool capable)
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
            (!capable && setresuid(STRANGER, STRANGER, STRANGER) != 0))
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
    assert_true(warns(true, false));
    assert_false(warns(false, false)); /* tcp */
}

static void a_limit_that_a_capability_lifts_is_not(void **state)
{
    (void)state;
    if (geteuid() != 0 || prctl(PR_CAPBSET_READ, 14 /* CAP_IPC_LOCK */) != 1)
        skip();
    assert_false(warns(true, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_that_holds_is_warned_of),
        cmocka_unit_test(a_limit_that_a_capability_lifts_is_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
