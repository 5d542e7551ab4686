/* Goal: a file that was written, replaced or removed has another stamp, and one that was only read
 * has not. */
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file_stamp.h"

static void put(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void a_change_changes_the_stamp(void **state)
{
    char folder[] = "/tmp/kvrail-stamp.XXXXXX", path[64], other[64];
    struct kvr_file_stamp none, first, second, third;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/a", folder);
    snprintf(other, sizeof(other), "%s/b", folder);
    none = kvr_file_stamp(path);
    put(path, "one");
    first = kvr_file_stamp(path);
    second = kvr_file_stamp(path);
    assert_true(kvr_file_stamp_same(&first, &second));
    assert_false(kvr_file_stamp_same(&none, &first));
    put(path, "three");
    second = kvr_file_stamp(path);
    assert_false(kvr_file_stamp_same(&first, &second));
    put(other, "three");
    assert_int_equal(rename(other, path), 0);
    third = kvr_file_stamp(path);
    assert_false(kvr_file_stamp_same(&second, &third));
    assert_int_equal(unlink(path), 0);
    third = kvr_file_stamp(path);
    assert_true(kvr_file_stamp_same(&none, &third));
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_change_changes_the_stamp)};

    return cmocka_run_group_tests_name("file_stamp", tests, NULL, NULL);
}
