/* Goal: every list of copies is done in full, by any number of threads, and writes nothing beside
 * its bytes. Method: random lists, of few bytes and of many, at odd addresses; the memory after
 * each list equals the result of one memcpy after the other. */
#include "tests/support/check.h"

#include <time.h>

#include "base/rng.h"
#include "fabric/local/local_copy.h"

#define BYTES    (4u << 20)
#define JOBS_MAX 600u

static uint8_t *source, *target, *wanted;

static int setup(void **state)
{
    struct kvr_rng rng;

    (void)state;
    source = malloc(BYTES);
    target = malloc(BYTES);
    wanted = malloc(BYTES);
    kvr_rng_init(&rng, 1);
    for (uint32_t i = 0; i + 8 <= BYTES; i += 8) {
        uint64_t word = kvr_rng_next(&rng);

        memcpy(source + i, &word, sizeof(word));
    }
    memset(target, 0, BYTES);
    memset(wanted, 0, BYTES);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(source);
    free(target);
    free(wanted);
    return 0;
}

/* Copies follow each other at the target, with and without gaps; at the source they lie anywhere.
 */
static uint32_t list_make(struct kvr_rng *rng, struct local_job *jobs)
{
    uint64_t largest = UINT64_C(1) << kvr_rng_between(rng, 1, 19), at = kvr_rng_below(rng, 64);
    uint32_t count = 0, most = (uint32_t)kvr_rng_below(rng, JOBS_MAX);

    while (count < most) {
        uint64_t bytes = 1 + kvr_rng_below(rng, largest);

        if (at + bytes > BYTES)
            break;
        jobs[count++] = (struct local_job){
            target + at, source + kvr_rng_below(rng, BYTES - bytes + 1), (size_t)bytes};
        at += bytes + (kvr_rng_percent(rng, 50) ? kvr_rng_below(rng, 100) : 0);
    }
    return count;
}

static void lists_are_copied(void **state)
{
    static struct local_job jobs[JOBS_MAX];
    uint64_t lists = check_cases(200, 20000);
    struct kvr_rng rng;

    (void)state;
    kvr_rng_init(&rng, 2);
    for (uint32_t threads = 1; threads <= 4; threads++) {
        struct local_copier *copier = NULL;
        struct kvr_error error;

        assert_int_equal(local_copier_open(threads, &copier, &error), KVR_OK);
        for (uint64_t i = 0; i < lists; i++) {
            uint32_t count = list_make(&rng, jobs);

            for (uint32_t k = 0; k < count; k++)
                memcpy(wanted + ((uint8_t *)jobs[k].target - target), jobs[k].source,
                       jobs[k].bytes);
            local_copier_run(copier, jobs, count);
            assert_memory_equal(target, wanted, BYTES);
            if (i % 16 == 0) /* lets the helpers fall asleep now and then */
                nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        }
        local_copier_close(copier);
    }
}

/* Helpers may be about to sleep, asleep or at work. */
static void a_copier_closes_at_any_time(void **state)
{
    struct local_job jobs[4];
    struct kvr_error error;

    (void)state;
    for (uint32_t i = 0; i < 4; i++)
        jobs[i] = (struct local_job){target + i * (BYTES / 4), source, BYTES / 4};
    for (uint64_t i = 0; i < check_cases(200, 10000); i++) {
        struct local_copier *copier = NULL;

        assert_int_equal(local_copier_open(3, &copier, &error), KVR_OK);
        if (i % 2 == 0)
            local_copier_run(copier, jobs, 4);
        if (i % 3 == 0)
            nanosleep(&(struct timespec){.tv_nsec = (long)(i * 1000)}, NULL);
        local_copier_close(copier);
    }
    local_copier_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lists_are_copied, setup, teardown),
        cmocka_unit_test_setup_teardown(a_copier_closes_at_any_time, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
