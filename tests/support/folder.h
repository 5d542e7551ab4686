/* A folder for a test's files, gone with all that is in it when the test ends. */
#ifndef KVR_TESTS_FOLDER_H
#define KVR_TESTS_FOLDER_H

#include "tests/support/check.h"

#include <ftw.h>
#include <stdio.h>

#define FOLDER_BYTES 32

static inline void folder_make(char ret_path[FOLDER_BYTES])
{
    strcpy(ret_path, "/tmp/kvrail-test.XXXXXX");
    assert_non_null(mkdtemp(ret_path));
}

static inline int folder_remove_entry(const char *path, const struct stat *status, int type,
                                      struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

static inline int folder_remove(const char *path)
{
    return nftw(path, folder_remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* Setup and teardown of a case; its state is the path. */
static inline int folder_open(void **state)
{
    *state = malloc(FOLDER_BYTES);
    assert_non_null(*state);
    folder_make(*state);
    return 0;
}

static inline int folder_close(void **state)
{
    int result = folder_remove(*state);

    free(*state);
    return result;
}

#endif
