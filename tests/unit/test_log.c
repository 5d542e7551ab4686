/* Goal: a line has the form that its reader needs, and a repeating sentence does not flood. Method:
 * stderr is a file while a case runs. */
#include "tests/support/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"

static char text[65536];

/* Returns the number of lines that `write` logs; text has them all. */
static int capture(void (*write)(void))
{
    FILE *file = tmpfile();
    int saved = dup(STDERR_FILENO), lines = 0;
    size_t bytes;

    assert_true(file != NULL && saved >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
    write();
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
    rewind(file);
    bytes = fread(text, 1, sizeof(text) - 1, file);
    text[bytes] = '\0';
    fclose(file);
    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    return lines;
}

static void write_each_level(void)
{
    errno = ENOENT;
    kvr_log_error("an error %d", 1);
    kvr_log_warning("a warning");
    kvr_log_info("two\nlines");
    kvr_log_debug("a detail");
    assert_int_equal(errno, ENOENT);
}

static void log_has_priority_and_time(void **state)
{
    (void)state;
    assert_int_equal(capture(write_each_level), 3);
    assert_memory_equal(text, "<3>20", 5);
    assert_non_null(strstr(text, "Z an error 1\n<4>"));
    assert_non_null(strstr(text, "Z two lines\n"));
    assert_null(strstr(text, "a detail"));
    kvr_log_set_level(KVR_LOG_DEBUG);
    assert_int_equal(capture(write_each_level), 4);
    kvr_log_set_level(KVR_LOG_ERROR);
    assert_int_equal(capture(write_each_level), 1);
    kvr_log_set_level(KVR_LOG_INFO);
}

static void write_many(void)
{
    for (int i = 0; i < 1000; i++)
        kvr_log_info("rail %d lost its peer", i);
    kvr_log_info("another sentence");
}

static void log_holds_repeats_back(void **state)
{
    (void)state;
    assert_int_equal(capture(write_many), KVR_LOG_BURST + 1);
    assert_non_null(strstr(text, "rail 9 lost"));
    assert_non_null(strstr(text, "another sentence"));
}

static void write_failure_and_long_line(void)
{
    char name[3000];
    struct kvr_error error;

    (void)kvr_error_set(&error, KVR_PEER_LOST, "channel", "10.0.0.7 is silent");
    kvr_log_failure(KVR_LOG_WARNING, "session 7", &error);
    memset(name, 'a', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    kvr_log_info("long %s", name);
}

static void log_says_failures_and_cuts_lines(void **state)
{
    (void)state;
    assert_int_equal(capture(write_failure_and_long_line), 2);
    assert_non_null(strstr(text, "session 7: 10.0.0.7 is silent (channel, peer_lost)\n"));
    assert_in_range(strlen(text), 1000, 1200);
}

static void log_levels_have_names(void **state)
{
    kvr_log_level level = KVR_LOG_INFO;

    (void)state;
    assert_true(kvr_log_level_from_name("debug", &level));
    assert_int_equal(level, KVR_LOG_DEBUG);
    assert_false(kvr_log_level_from_name("loud", &level));
    assert_int_equal(level, KVR_LOG_DEBUG);
}

/* The log's clock while a case sets it; 0: the real one. The linker puts it into log.c. */
static kvr_ns clock_now;
kvr_ns __real_kvr_clock_now(void);
kvr_ns __wrap_kvr_clock_now(void);

kvr_ns __wrap_kvr_clock_now(void)
{
    return clock_now != 0 ? clock_now : __real_kvr_clock_now();
}

static void write_flood(void)
{
    clock_now = KVR_S;
    for (int i = 0; i < 5001; i++) {
        clock_now += i < 5000 ? KVR_MS : KVR_LOG_WINDOW;
        kvr_log_warning("engine %d sent garbage", i);
    }
    clock_now = 0;
}

static void log_counts_what_it_holds_back(void **state)
{
    (void)state;
    assert_int_equal(capture(write_flood), KVR_LOG_BURST + 1);
    assert_non_null(strstr(text, "engine 9 sent garbage\n"));
    assert_non_null(strstr(text, "engine 5000 sent garbage (and 4990 more like it before)\n"));
}

static void write_flood_that_stops(void)
{
    clock_now = 100 * KVR_S;
    for (int i = 0; i < 500; i++)
        kvr_log_warning("peer %d is unknown", i);
    kvr_log_tick(); /* the repeated sentence may be logged again */
    clock_now += KVR_LOG_WINDOW;
    kvr_log_tick();
    kvr_log_tick();
    for (int i = 0; i < 30; i++)
        kvr_log_error("the disk is full");
    kvr_log_flush();
    kvr_log_flush();
    clock_now = 0;
}

static void log_totals_what_has_ceased(void **state)
{
    (void)state;
    (void)capture(kvr_log_flush); /* removes the lines of earlier cases */
    assert_int_equal(capture(write_flood_that_stops), 2 * KVR_LOG_BURST + 2);
    assert_non_null(strstr(text, "held back: 490 more lines like \"peer %d is unknown\"\n<3>"));
    assert_non_null(strstr(text, "held back: 20 more lines like \"the disk is full\"\n"));
}

/* A full pipe does not block; the loss is said when it is read again. Others that write to the pipe
 * still block, as they expect. */
static void log_never_waits_for_a_reader(void **state)
{
    int ends[2], saved = dup(STDERR_FILENO);
    ssize_t bytes;
    size_t all = 0;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    clock_now = 1000 * KVR_S;
    for (int i = 0; i < 3000; i++) {
        clock_now += KVR_LOG_WINDOW;
        kvr_log_warning("a line that is not read: %0500d", i);
    }
    assert_int_equal(fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK, 0);
    while (read(ends[0], text, sizeof(text)) > 0)
        continue;
    clock_now += KVR_LOG_WINDOW;
    kvr_log_warning("a process reads again");
    while ((bytes = read(ends[0], text + all, sizeof(text) - 1 - all)) > 0)
        all += (size_t)bytes;
    text[all] = '\0';
    clock_now = 0;
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
    close(ends[0]);
    close(ends[1]);
    assert_non_null(strstr(text, "lines of this log were lost: they were not read in time\n<4>"));
    assert_non_null(strstr(text, "a process reads again\n"));
}

static void expect_file(const char *path, const char *part)
{
    FILE *file = fopen(path, "r");
    size_t bytes;

    assert_non_null(file);
    bytes = fread(text, 1, sizeof(text) - 1, file);
    text[bytes] = '\0';
    fclose(file);
    assert_non_null(strstr(text, part));
    assert_ptr_equal(strchr(text, '\n'), text + bytes - 1); /* one line */
}

static void log_file_is_reopened_after_rotation(void **state)
{
    char folder[] = "/tmp/test_log.XXXXXX", path[64], old[64];
    struct kvr_error error;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/log", folder);
    snprintf(old, sizeof(old), "%s/log.1", folder);
    assert_int_equal(kvr_log_open(path, &error), KVR_OK);
    kvr_log_info("before");
    assert_int_equal(rename(path, old), 0);
    assert_int_equal(kvr_log_reopen(&error), KVR_OK);
    kvr_log_info("after");
    assert_int_equal(kvr_log_open("/nowhere/log", &error), KVR_SYSTEM);
    assert_non_null(strstr(error.detail, "/nowhere/log"));
    assert_int_equal(kvr_log_open("", &error), KVR_OK);
    expect_file(old, "Z before\n");
    expect_file(path, "Z after\n");
    assert_true(unlink(old) == 0 && unlink(path) == 0 && rmdir(folder) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log_has_priority_and_time),
        cmocka_unit_test(log_holds_repeats_back),
        cmocka_unit_test(log_counts_what_it_holds_back),
        cmocka_unit_test(log_totals_what_has_ceased),
        cmocka_unit_test(log_never_waits_for_a_reader),
        cmocka_unit_test(log_file_is_reopened_after_rotation),
        cmocka_unit_test(log_says_failures_and_cuts_lines),
        cmocka_unit_test(log_levels_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
