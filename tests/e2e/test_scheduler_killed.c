/* Goal: a scheduler that is killed at any moment comes back with every event that it acknowledged,
 * and in the end has every event once. So has PostgreSQL when it dies, or one of two schedulers.
 * Method: the real programs under kill -9 at random moments while a reporter hands events over.
 * Each time another scheduler takes over what the crash left, and is killed now and then meanwhile;
 * no agent knows it, so what it stores is what was acknowledged. With PostgreSQL the database
 * itself is read: tests/support/postgres.sh. */
#include "tests/support/check.h"

#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/report/reporter.h"
#include "base/rng.h"
#include "scheduler/store.h"

#define BACKLOG_MAX 8000 /* events */

static char folder[64];

/* One of the schedulers. */
struct process {
    unsigned port;
    pid_t pid;
};

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

static void read_port(const char *path, unsigned *ret_port)
{
    FILE *file = NULL;

    for (int i = 0; i < 1200 && file == NULL; i++) {
        nap(25);
        file = fopen(path, "r");
    }
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%u", ret_port), 1);
    fclose(file);
    unlink(path);
}

static const char *postgres_url(void)
{
    return getenv("KVRAIL_TEST_POSTGRES");
}

/* waits: until its port is open. */
static void start_scheduler_at(struct process *process, int number, bool waits)
{
    const char *bin = getenv("KVRAIL_BIN_DIR"), *url = postgres_url();
    char program[512], listen_at[64], state_dir[96], port_file[128];

    snprintf(program, sizeof(program), "%s/kvrail-scheduler", bin != NULL ? bin : "bin");
    snprintf(listen_at, sizeof(listen_at), "127.0.0.1:%u", process->port);
    snprintf(state_dir, sizeof(state_dir), "%s/%d", folder, number);
    snprintf(port_file, sizeof(port_file), "%s/port", state_dir);
    (void)mkdir(state_dir, 0700);
    (void)unlink(port_file); /* of one that was killed */
    process->pid = fork();
    assert_true(process->pid >= 0);
    if (process->pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* it ends with the test */
        execl(program, program, "--insecure", "--listen", listen_at, "--state-dir", state_dir,
              "--port-file", port_file, "--log-level", "error",
              url != NULL ? "--database" : (char *)NULL, url, (char *)NULL);
        _exit(127);
    }
    if (waits)
        read_port(port_file, &process->port);
}

static void start_scheduler(struct process *process, int number)
{
    start_scheduler_at(process, number, true);
}

static void end_scheduler(struct process *process, int with)
{
    int status;

    assert_int_equal(kill(process->pid, with), 0);
    assert_int_equal(waitpid(process->pid, &status, 0), process->pid);
    if (with == SIGTERM)
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static uint64_t emitted, transfers_before; /* by this test; of the one before */

static void emit(struct kvr_reporter *reporter, uint64_t count)
{
    struct kvr_event_sink sink = kvr_reporter_sink(reporter);

    for (uint64_t i = 0; i < count; i++) {
        struct kvr_event event = {.kind = KVR_EVENT_ENDED,
                                  .role = KVR_ROLE_TARGET,
                                  .at = kvr_clock_now(),
                                  .transfer = transfers_before + ++emitted,
                                  .request = "request"};

        sink.emit(sink.self, &event);
    }
}

/* What the journal has becomes rows of the database. */
static void recover(struct kvr_rng *rng)
{
    struct process process = {0};

    for (uint64_t kills = kvr_rng_below(rng, 2); kills > 0; kills--) {
        struct process killed = {0};

        start_scheduler_at(&killed, 0, false);
        nap((unsigned)kvr_rng_between(rng, 0, 40));
        end_scheduler(&killed, SIGKILL);
    }
    start_scheduler(&process, 0);
    end_scheduler(&process, SIGTERM);
}

/* A writer, because reading a WAL that a crash left needs to write its index. */
static uint64_t stored_transfers(void)
{
    char state_dir[96];
    const struct store_place place = {.folder = state_dir, .url = postgres_url()};
    uint64_t counts[STATE_END], total = 0;
    struct store *store;

    snprintf(state_dir, sizeof(state_dir), "%s/0", folder);
    assert_int_equal(store_open_writer(&place, &store, NULL), KVR_OK);
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

static void burst(struct kvr_reporter *reporter, struct kvr_rng *rng)
{
    struct kvr_reporter_stats stats;

    for (int i = 0; i < 5; i++) {
        emit(reporter, kvr_rng_between(rng, 1, 400));
        nap((unsigned)kvr_rng_between(rng, 0, 120));
    }
    await_progress(reporter, &stats);
}

/* Two schedulers with PostgreSQL, one with SQLite. */
static struct kvr_reporter *begin(struct process processes[2])
{
    struct kvr_reporter_options options = {.agent = "decode-0", .close_ms = 10000};
    struct kvr_reporter *reporter;
    char addresses[2][64];

    options.boot = transfers_before + 1; /* another one than of the test before */
    for (int i = 0; i < (postgres_url() != NULL ? 2 : 1); i++) {
        processes[i] = (struct process){0};
        start_scheduler(&processes[i], i);
        snprintf(addresses[i], sizeof(addresses[i]), "127.0.0.1:%u", processes[i].port);
        options.schedulers[i] = addresses[i];
    }
    assert_int_equal(kvr_reporter_open(&options, &reporter, NULL), KVR_OK);
    return reporter;
}

static void end(struct kvr_reporter *reporter, struct process processes[2])
{
    struct kvr_reporter_stats stats;

    kvr_reporter_stats(reporter, &stats);
    for (int i = 0; i < 1200 && stats.acknowledged < emitted; i++) {
        nap(50);
        kvr_reporter_stats(reporter, &stats);
    }
    assert_int_equal(stats.acknowledged, emitted);
    assert_int_equal(stats.dropped, 0);
    kvr_reporter_close(reporter);
    for (int i = 0; i < (postgres_url() != NULL ? 2 : 1); i++)
        end_scheduler(&processes[i], SIGTERM);
    assert_int_equal(stored_transfers(), transfers_before + emitted);
    transfers_before += emitted;
    emitted = 0;
}

static void scheduler_keeps_what_it_acknowledged(void **state)
{
    uint64_t kills = postgres_url() != NULL ? check_cases(4, 20) : check_cases(8, 200);
    struct kvr_reporter_stats stats;
    struct process processes[2];
    struct kvr_reporter *reporter = begin(processes);
    struct kvr_rng rng;

    (void)state;
    kvr_rng_init(&rng, 11);
    for (uint64_t i = 0; i < kills; i++) {
        int which = postgres_url() != NULL ? (int)kvr_rng_below(&rng, 2) : 0;

        burst(reporter, &rng);
        end_scheduler(&processes[which], SIGKILL);
        kvr_reporter_stats(reporter, &stats);
        if (postgres_url() == NULL)
            recover(&rng);
        assert_true(stored_transfers() >= stats.acknowledged);
        if (postgres_url() != NULL) /* the other one alone, for a while */
            burst(reporter, &rng);
        start_scheduler(&processes[which], which);
    }
    end(reporter, processes);
}

static void control(const char *word)
{
    char command[256];

    snprintf(command, sizeof(command), "sh %s/control %s", getenv("KVRAIL_TEST_POSTGRES_DIR"),
             word);
    assert_int_equal(system(command), 0);
}

static void postgres_keeps_what_it_acknowledged(void **state)
{
    uint64_t kills = check_cases(4, 50);
    struct kvr_reporter_stats stats;
    struct process processes[2];
    struct kvr_reporter *reporter;
    struct kvr_rng rng;

    (void)state;
    if (postgres_url() == NULL)
        skip();
    reporter = begin(processes);
    kvr_rng_init(&rng, 12);
    for (uint64_t i = 0; i < kills; i++) {
        burst(reporter, &rng);
        control("kill");
        kvr_reporter_stats(reporter, &stats);
        nap((unsigned)kvr_rng_between(&rng, 0, 1500));
        emit(reporter, 100);
        control("start");
        assert_true(stored_transfers() >= transfers_before + stats.acknowledged);
    }
    end(reporter, processes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(scheduler_keeps_what_it_acknowledged),
                                       cmocka_unit_test(postgres_keeps_what_it_acknowledged)};
    int failed;

    strcpy(folder, "/tmp/kvrail-killed-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    return failed;
}
