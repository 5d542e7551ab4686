/* Goal: the last holder closes descriptors of memory over several allocations, once. Only a region
 * that lies in all its allocations is taken. A process knows how many more files it may open.
 * Method: the other ends of pipes see the close; sizes around each edge; a lowered limit. */
#include "tests/support/check.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/extents.h"
#include "base/need.h"

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static struct kvr_extents *three(uint64_t first, uint64_t second, uint64_t third)
{
    struct kvr_extents *extents = kvr_extents_new(4);

    assert_non_null(extents);
    kvr_extents_add(extents, dup(0), first);
    kvr_extents_add(extents, dup(0), second);
    kvr_extents_add(extents, dup(0), third);
    return extents;
}

static void the_last_one_closes(void **state)
{
    struct kvr_extents *extents = three(4096, 4096, 4096);
    int fds[3];

    (void)state;
    assert_int_equal(extents->count, 3);
    for (int i = 0; i < 3; i++)
        fds[i] = extents->at[i].fd;
    assert_ptr_equal(kvr_extents_keep(extents), extents);
    kvr_extents_release(extents);
    for (int i = 0; i < 3; i++)
        assert_true(is_open(fds[i]));
    kvr_extents_release(extents);
    for (int i = 0; i < 3; i++)
        assert_false(is_open(fds[i]));
    kvr_extents_release(NULL);
    assert_null(kvr_extents_keep(NULL));
}

static kvr_status check(const struct kvr_extents *extents, uint64_t offset, uint64_t bytes,
                        const char *sentence)
{
    struct kvr_error error = {0};
    uint64_t whole = 0;
    kvr_status status = kvr_extents_check(extents, offset, bytes, 4096, "test", &whole, &error);

    if (status == KVR_OK)
        assert_int_equal(whole, 5 * 4096);
    else
        assert_non_null(strstr(error.detail, sentence));
    return status;
}

static void a_region_lies_in_all_of_them(void **state)
{
    struct kvr_extents *good = three(8192, 4096, 8192), *odd = three(4096, 4095, 4096);
    struct kvr_extents *empty = three(4096, 0, 4096), *huge = three(4096, UINT64_MAX - 4095, 4096);
    struct kvr_extents *none = kvr_extents_new(1);

    (void)state;
    assert_int_equal(check(good, 0, 5 * 4096, ""), KVR_OK);
    assert_int_equal(check(good, 8191, 4098, ""), KVR_OK); /* a byte of the first and of the last */
    assert_int_equal(check(good, 8192, 8192, "begin in the first"), KVR_INVALID);
    assert_int_equal(check(good, 8191, 4097, "end in the last"), KVR_INVALID);
    assert_int_equal(check(good, 1, 5 * 4096, "of 20480 bytes together"), KVR_INVALID);
    assert_int_equal(check(good, 4096, UINT64_MAX, "end in the last"), KVR_INVALID);
    assert_int_equal(check(good, 0, 0, "begin in"), KVR_INVALID);
    assert_int_equal(check(odd, 0, 3 * 4096, "allocation 1 of the region has 4095 bytes"),
                     KVR_INVALID);
    assert_int_equal(check(empty, 0, 8192, "allocation 1 of the region has 0 bytes"), KVR_INVALID);
    assert_int_equal(check(huge, 0, 8192, "allocation 1"), KVR_INVALID);
    assert_int_equal(check(none, 0, 4096, "of 0 allocations"), KVR_INVALID);
    kvr_extents_release(good);
    kvr_extents_release(odd);
    kvr_extents_release(empty);
    kvr_extents_release(huge);
    kvr_extents_release(none);
}

static void a_process_says_how_many_more_it_may_open(void **state)
{
    struct rlimit limit, low;
    struct kvr_error error;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    low = limit;
    low.rlim_cur = 128;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    assert_int_equal(kvr_need_more_files(300, &error), KVR_OK); /* the limit is raised */
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &low), 0);
    assert_true(low.rlim_cur == limit.rlim_max);
    assert_int_equal(kvr_need_more_files(limit.rlim_max, &error), KVR_SYSTEM);
    assert_non_null(strstr(error.detail, "LimitNOFILE="));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_one_closes),
        cmocka_unit_test(a_region_lies_in_all_of_them),
        cmocka_unit_test(a_process_says_how_many_more_it_may_open),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
