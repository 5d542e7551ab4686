/* What every unit test includes: cmocka with the headers that it wants before it, and the number of
 * cases that a randomised test should run. */
#ifndef KVR_TESTS_CHECK_H
#define KVR_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* `count` cases in a usual run; KVRAIL_SCALE (percent) makes it fewer where a sanitizer slows every
 * case, KVRAIL_CAMPAIGN=1 makes it `campaign_count`. At least 1. */
static inline uint64_t check_cases(uint64_t count, uint64_t campaign_count)
{
    const char *campaign = getenv("KVRAIL_CAMPAIGN");
    const char *scale = getenv("KVRAIL_SCALE");
    uint64_t cases = campaign != NULL && strcmp(campaign, "1") == 0 ? campaign_count : count;

    if (scale != NULL && atoi(scale) > 0)
        cases = cases * (uint64_t)atoi(scale) / 100;
    return cases > 0 ? cases : 1;
}

#endif
