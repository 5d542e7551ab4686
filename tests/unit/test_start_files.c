/* Goal: files that a program is given at its start: a state folder has one process, and a port file
 * is whole or an error. Method: fresh folders, and a second process where one must end. */
#include "tests/support/check.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/port_file.h"
#include "base/state_folder.h"

#define MIB (1u << 20)

static char work[64];

static const char *in_work(const char *name)
{
    static char path[128];

    snprintf(path, sizeof(path), "%s/%s", work, name);
    return path;
}

static void state_folder_is_one_process_s(void **state)
{
    struct kvr_error error;
    char holder[32];
    pid_t child;
    int told[2], status;

    (void)state;
    assert_int_equal(pipe(told), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char taken = kvr_state_folder_take(in_work("state"), MIB, &error) == KVR_OK;

        if (write(told[1], &taken, 1) == 1)
            pause();
        _exit(0);
    }
    assert_int_equal(read(told[0], holder, 1), 1);
    assert_int_equal(holder[0], 1);
    assert_int_equal(kvr_state_folder_take(in_work("state"), MIB, &error), KVR_EXISTS);
    snprintf(holder, sizeof(holder), "process %d:", (int)child);
    assert_non_null(strstr(error.detail, holder));
    kill(child, SIGKILL); /* the process's lock goes with it, however it ends */
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(kvr_state_folder_take(in_work("state"), MIB, &error), KVR_OK);
    assert_int_equal(kvr_state_folder_take(in_work("state"), MIB, &error), KVR_EXISTS);
    close(told[0]);
    close(told[1]);
}

static void state_folder_says_what_it_lacks(void **state)
{
    struct kvr_error error;
    FILE *file = fopen(in_work("file"), "w");

    (void)state;
    assert_non_null(file);
    fclose(file);
    assert_int_equal(kvr_state_folder_take(in_work("file"), MIB, &error), KVR_INVALID);
    assert_non_null(strstr(error.detail, "is no folder"));
    assert_int_equal(kvr_state_folder_take(in_work("none/below"), MIB, &error), KVR_SYSTEM);
    assert_non_null(strstr(error.detail, "cannot be made"));
    assert_int_equal(kvr_state_folder_take(in_work("large"), UINT64_MAX, &error), KVR_SYSTEM);
    assert_non_null(strstr(error.detail, "are needed"));
}

static void port_file_is_whole_or_an_error(void **state)
{
    struct kvr_error error;
    struct stat is;
    char text[16] = "";
    FILE *file;
    int ends[2];

    (void)state;
    assert_int_equal(kvr_port_file_write(in_work("port"), 12345, &error), KVR_OK);
    file = fopen(in_work("port"), "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof(text), file));
    fclose(file);
    assert_string_equal(text, "12345\n");
    assert_int_not_equal(stat(in_work("port.part"), &is), 0);
    assert_int_equal(kvr_port_file_write(in_work("none/port"), 1, &error), KVR_SYSTEM);
    assert_non_null(strstr(error.detail, "none/port cannot be written"));
    /* A path that is no regular file is not replaced by one. */
    assert_int_equal(kvr_port_file_write("/dev/full", 1, &error), KVR_SYSTEM);
    assert_int_equal(stat("/dev/full", &is), 0);
    assert_true(S_ISCHR(is.st_mode));
    assert_int_equal(pipe(ends), 0);
    snprintf(text, sizeof(text), "/dev/fd/%d", ends[1]);
    assert_int_equal(kvr_port_file_write(text, 7, &error), KVR_OK);
    assert_int_equal(read(ends[0], text, sizeof(text)), 2);
    assert_memory_equal(text, "7\n", 2);
    close(ends[0]);
    close(ends[1]);
}

static int begin(void **state)
{
    (void)state;
    strcpy(work, "/tmp/kvrail-start-XXXXXX");
    return mkdtemp(work) == NULL;
}

static int end(void **state)
{
    static const char *const files[] = {"state/lock", "state", "file", "large", "port"};

    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        (void)remove(in_work(files[i]));
    return rmdir(work);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(state_folder_is_one_process_s),
        cmocka_unit_test(state_folder_says_what_it_lacks),
        cmocka_unit_test(port_file_is_whole_or_an_error),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
