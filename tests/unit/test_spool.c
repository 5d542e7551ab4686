/* Goal: whatever the disk makes of a spool, losses are counted, the damaged file is named, and
 * whole records are still given back. Method: records in a folder of the test's own, damaged by
 * hand. */
#include "tests/support/check.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "agent/report/spool.h"
#include "tests/support/folder.h"

#define REPORT_BYTES 40
#define HEADER_BYTES 32
#define RECORD_BYTES (HEADER_BYTES + REPORT_BYTES)
#define FILE_NAME    "events-00000000000000000001.spool"

static char folder[FOLDER_BYTES];
static struct kvr_spool *spool;
static const uint32_t events[3] = {5, 7, 9};

/* The linker puts these into the spool. */
static uint32_t synced;
int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_kvr_file_sync(const char *path);

int __wrap_fdatasync(int fd)
{
    synced |= 1;
    return __real_fdatasync(fd);
}

int __wrap_kvr_file_sync(const char *path)
{
    assert_string_equal(path, folder);
    synced |= 2;
    return 0;
}

static void reopen(void)
{
    spool = kvr_spool_close(spool);
    assert_int_equal(kvr_spool_open(folder, 1 << 20, &spool, NULL), KVR_OK);
}

/* Three records. */
static int setup(void **state)
{
    const uint8_t report[REPORT_BYTES] = "a report";
    uint64_t dropped = 0;

    (void)state;
    folder_make(folder);
    reopen();
    for (uint32_t i = 0; i < 3; i++) {
        struct kvr_spool_record record = {
            .boot = 1, .sequence_first = i, .event_count = events[i], .bytes = REPORT_BYTES};

        assert_int_equal(kvr_spool_append(spool, &record, report, &dropped), KVR_OK);
    }
    return dropped != 0;
}

static int teardown(void **state)
{
    char path[128];

    (void)state;
    spool = kvr_spool_close(spool);
    snprintf(path, sizeof(path), "%s/%s", folder, FILE_NAME);
    (void)unlink(path);
    return rmdir(folder);
}

static void damage(long offset)
{
    char path[128];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", folder, FILE_NAME);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "damage", 6, offset), 6);
    close(fd);
}

static void expect_front(uint32_t index)
{
    struct kvr_spool_record record;

    assert_true(kvr_spool_front(spool, &record));
    assert_int_equal(record.event_count, events[index]);
}

static void expect_loss(uint64_t lost)
{
    struct kvr_spool_loss loss;

    assert_true(kvr_spool_take_loss(spool, &loss));
    assert_int_equal(loss.events, lost);
    assert_string_equal(loss.file, FILE_NAME);
    assert_false(kvr_spool_take_loss(spool, &loss)); /* once */
}

static void what_is_whole_is_given_back(void **state)
{
    uint8_t report[REPORT_BYTES];
    struct kvr_spool_record record;
    struct kvr_spool_loss loss;

    (void)state;
    reopen();
    for (uint32_t i = 0; i < 3; i++) {
        expect_front(i);
        assert_true(kvr_spool_front(spool, &record));
        assert_true(kvr_spool_read(spool, &record, report));
        kvr_spool_drop(spool);
    }
    assert_false(kvr_spool_front(spool, &record));
    assert_false(kvr_spool_take_loss(spool, &loss));
}

static void what_lies_behind_a_damaged_header_is_lost_and_counted(void **state)
{
    struct kvr_spool_record record;

    (void)state;
    damage(RECORD_BYTES);
    expect_front(0);
    kvr_spool_drop(spool);
    assert_false(kvr_spool_front(spool, &record));
    expect_loss(events[1] + events[2]);
}

static void a_header_that_was_damaged_before_is_found_at_the_start(void **state)
{
    struct kvr_spool_record record;

    (void)state;
    damage(RECORD_BYTES);
    reopen();
    expect_loss(1); /* at least */
    expect_front(0);
    kvr_spool_drop(spool);
    assert_false(kvr_spool_front(spool, &record));
}

static void a_report_that_is_damaged_is_lost_alone(void **state)
{
    uint8_t report[REPORT_BYTES];
    struct kvr_spool_record record;

    (void)state;
    damage(HEADER_BYTES);
    assert_true(kvr_spool_front(spool, &record));
    assert_false(kvr_spool_read(spool, &record, report));
    kvr_spool_drop(spool);
    expect_loss(events[0]);
    expect_front(1);
}

/* The header's number of events, boot and first number. */
static void numbers_of_a_header_that_are_damaged_lose_its_record_alone(void **state)
{
    uint8_t report[REPORT_BYTES];
    struct kvr_spool_record record;

    (void)state;
    for (long i = 0; i < 3; i++) {
        damage(i * RECORD_BYTES + 12 + 6 * i);
        assert_true(kvr_spool_front(spool, &record));
        assert_false(kvr_spool_read(spool, &record, report));
        kvr_spool_drop(spool);
    }
    assert_false(kvr_spool_front(spool, &record));
}

/* As after a crash: the record was never whole, so it is no loss to report. */
static void what_a_crash_cut_off_is_no_loss(void **state)
{
    struct kvr_spool_loss loss;
    char path[128];

    (void)state;
    snprintf(path, sizeof(path), "%s/%s", folder, FILE_NAME);
    assert_int_equal(truncate(path, 3 * RECORD_BYTES - 1), 0);
    reopen();
    assert_false(kvr_spool_take_loss(spool, &loss));
    expect_front(0);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

/* A report that the agent has given up its memory for survives a host that loses power. */
static void what_is_spilled_is_on_the_disk(void **state)
{
    const struct kvr_spool_record record = {
        .boot = 1, .sequence_first = 9, .event_count = 1, .bytes = REPORT_BYTES};
    const uint8_t report[REPORT_BYTES] = "another";
    uint64_t dropped = 0;

    (void)state;
    synced = 0;
    kvr_spool_sync(spool);
    assert_int_equal(synced, 3); /* the file is new */
    synced = 0;
    kvr_spool_sync(spool);
    assert_int_equal(synced, 0);
    assert_int_equal(kvr_spool_append(spool, &record, report, &dropped), KVR_OK);
    kvr_spool_sync(spool);
    assert_int_equal(synced, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_is_spilled_is_on_the_disk),
        CASE(what_is_whole_is_given_back),
        CASE(what_lies_behind_a_damaged_header_is_lost_and_counted),
        CASE(a_header_that_was_damaged_before_is_found_at_the_start),
        CASE(a_report_that_is_damaged_is_lost_alone),
        CASE(numbers_of_a_header_that_are_damaged_lose_its_record_alone),
        CASE(what_a_crash_cut_off_is_no_loss),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
