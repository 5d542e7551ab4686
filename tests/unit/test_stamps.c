/* Goal: one process reads the stamps of another, the last first, and only as far back as they are
 * kept. Only a file made for stamps is taken. */
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/stamps.h"

static char folder[] = "/tmp/kvrail-stamps.XXXXXX", path[64];

static void stamps_are_read_backwards(void **state)
{
    struct kvr_stamps *measurer, *agent;
    struct kvr_error error;
    struct stat facts;

    (void)state;
    assert_int_equal(kvr_stamps_create(path, &measurer, &error), KVR_OK);
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    assert_int_equal(kvr_stamps_open(path, &agent, &error), KVR_OK);
    assert_int_equal(kvr_stamp_before(measurer, KVR_STATION_SEEN, 0), 0);
    for (kvr_ns at = 1; at <= KVR_STAMPS_KEPT + 10; at++)
        kvr_stamp(agent, KVR_STATION_SEEN, at);
    kvr_stamp(NULL, KVR_STATION_SEEN, 1);
    assert_int_equal(kvr_stamp_before(measurer, KVR_STATION_SEEN, 0), KVR_STAMPS_KEPT + 10);
    assert_int_equal(kvr_stamp_before(measurer, KVR_STATION_SEEN, KVR_STAMPS_KEPT - 1), 11);
    assert_int_equal(kvr_stamp_before(measurer, KVR_STATION_SEEN, KVR_STAMPS_KEPT), 0);
    assert_int_equal(kvr_stamp_before(measurer, KVR_STATION_LANDED, 0), 0);
    kvr_stamps_close(agent);
    kvr_stamps_close(measurer);
    assert_int_equal(kvr_stamps_create(path, &measurer, &error), KVR_SYSTEM);
}

static void another_file_is_refused(void **state)
{
    struct kvr_stamps *stamps;
    struct kvr_error error;

    (void)state;
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(kvr_stamps_open(path, &stamps, &error), KVR_INVALID);
    assert_non_null(strstr(error.detail, "not a file for stamps"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(kvr_stamps_open(path, &stamps, &error), KVR_SYSTEM);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stamps_are_read_backwards),
        cmocka_unit_test(another_file_is_refused),
    };

    if (mkdtemp(folder) == NULL)
        return 1;
    snprintf(path, sizeof(path), "%s/stamps", folder);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
