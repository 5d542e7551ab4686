/* How many descriptors this process has open: what a test that must leak none compares. */
#ifndef KVR_TESTS_DESCRIPTORS_H
#define KVR_TESTS_DESCRIPTORS_H

#include "tests/support/check.h"

#include <dirent.h>

static inline uint32_t descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    uint32_t count = 0;

    assert_non_null(folder);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

#endif
