/* Goal: a scheduler that is killed at any moment comes back with every event that it acknowledged,
 * and in the end has every event once.
 * Method: the real program under kill -9 at random moments while a reporter hands events over; each
 * time its database is read as the crash left it. */
#include "tests/support/check.h"

#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/report/reporter.h"
#include "base/rng.h"
#include "scheduler/store.h"

#define BACKLOG_MAX 8000 /* events */

static char folder[64];
static unsigned port;

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

static void nap(unsigned ms)
{
    struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};

    nanosleep(&time, NULL);
}

static void read_port(const char *path)
{
    FILE *file = NULL;

    for (int i = 0; i < 1200 && file == NULL; i++) {
        nap(25);
        file = fopen(path, "r");
    }
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%u", &port), 1);
    fclose(file);
    unlink(path);
}

static pid_t start_scheduler(void)
{
    const char *bin = getenv("KVRAIL_BIN_DIR");
    char program[512], listen_at[64], port_file[128];
    pid_t pid;

    snprintf(program, sizeof(program), "%s/kvrail-scheduler", bin != NULL ? bin : "bin");
    snprintf(listen_at, sizeof(listen_at), "127.0.0.1:%u", port);
    snprintf(port_file, sizeof(port_file), "%s/port", folder);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        execl(program, program, "--insecure", "--listen", listen_at, "--state-dir", folder,
              "--port-file", port_file, "--log-level", "warning", (char *)NULL);
        _exit(127);
    }
    read_port(port_file);
    return pid;
}

static void end_scheduler(pid_t pid, int with)
{
    int status;

    assert_int_equal(kill(pid, with), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (with == SIGTERM)
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static uint64_t emitted;

static void emit(struct kvr_reporter *reporter, uint64_t count)
{
    struct kvr_event_sink sink = kvr_reporter_sink(reporter);

    for (uint64_t i = 0; i < count; i++) {
        struct kvr_event event = {.kind = KVR_EVENT_ENDED,
                                  .role = KVR_ROLE_TARGET,
                                  .at = kvr_clock_now(),
                                  .transfer = ++emitted,
                                  .request = "request"};

        sink.emit(sink.self, &event);
    }
}

static uint64_t stored_transfers(void)
{
    uint64_t counts[STATE_END], total = 0;
    struct store *store;

    /* A writer, because reading a WAL that a crash left needs to write its index. */
    assert_int_equal(store_open_writer(folder, &store, NULL), KVR_OK);
    assert_true(store_count_states(store, counts));
    for (int state = 0; state < STATE_END; state++)
        total += counts[state];
    store_close(store);
    return total;
}

/* The reporter keeps so many events in memory. While a scheduler is killed again and again before
 * the reporter has tried it, they become more. */
static void await_progress(struct kvr_reporter *reporter, struct kvr_reporter_stats *stats)
{
    kvr_reporter_stats(reporter, stats);
    for (int i = 0; i < 1200 && emitted - stats->acknowledged > BACKLOG_MAX; i++) {
        nap(50);
        kvr_reporter_stats(reporter, stats);
    }
}

static void scheduler_keeps_what_it_acknowledged(void **state)
{
    struct kvr_reporter_options options = {.agent = "decode-0", .boot = 1, .close_ms = 10000};
    struct kvr_reporter_stats stats;
    struct kvr_reporter *reporter;
    uint64_t kills = check_cases(8, 200);
    struct kvr_rng rng;
    char address[64];
    pid_t pid;

    (void)state;
    kvr_rng_init(&rng, 11);
    pid = start_scheduler();
    snprintf(address, sizeof(address), "127.0.0.1:%u", port);
    options.scheduler = address;
    assert_int_equal(kvr_reporter_open(&options, &reporter, NULL), KVR_OK);
    for (uint64_t i = 0; i < kills; i++) {
        for (int burst = 0; burst < 5; burst++) {
            emit(reporter, kvr_rng_between(&rng, 1, 400));
            nap((unsigned)kvr_rng_between(&rng, 0, 120));
        }
        await_progress(reporter, &stats);
        end_scheduler(pid, SIGKILL);
        kvr_reporter_stats(reporter, &stats);
        assert_true(stored_transfers() >= stats.acknowledged);
        pid = start_scheduler();
    }
    for (int i = 0; i < 1200 && stats.acknowledged < emitted; i++) {
        nap(50);
        kvr_reporter_stats(reporter, &stats);
    }
    assert_int_equal(stats.acknowledged, emitted);
    assert_int_equal(stats.dropped, 0);
    kvr_reporter_close(reporter);
    end_scheduler(pid, SIGTERM);
    assert_int_equal(stored_transfers(), emitted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(scheduler_keeps_what_it_acknowledged)};
    int failed;

    strcpy(folder, "/tmp/kvrail-killed-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    return failed;
}
