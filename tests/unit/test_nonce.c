/* Goal: names of transfers are unique within a boot and show nothing of each other. Method: many of
 * two boots. */
#include "tests/support/check.h"

#include "wire/nonce.h"

#define COUNT 20000

static int compare(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;

    return (*left > *right) - (*left < *right);
}

static void none_comes_twice(void **state)
{
    static uint64_t seen[2 * COUNT];
    struct kvr_nonces first = {.key = {1, 2}}, second = {.key = {1, 3}};

    (void)state;
    for (uint32_t i = 0; i < COUNT; i++) {
        seen[2 * i] = kvr_nonce_next(&first);
        seen[2 * i + 1] = kvr_nonce_next(&second);
    }
    qsort(seen, 2 * (size_t)COUNT, sizeof(seen[0]), compare);
    for (uint32_t i = 1; i < 2 * COUNT; i++)
        assert_true(seen[i] != seen[i - 1]);
    assert_true(seen[0] != 0);
}

/* A step from one to the next says nothing: no two steps are equal, and half of the bits change. */
static void steps_are_not_to_be_guessed(void **state)
{
    struct kvr_nonces nonces = {.key = {7, 8}};
    uint64_t last = kvr_nonce_next(&nonces), step = 0, changed = 0;

    (void)state;
    for (uint32_t i = 0; i < COUNT; i++) {
        uint64_t next = kvr_nonce_next(&nonces);

        assert_true(next - last != step);
        step = next - last;
        changed += (uint64_t)__builtin_popcountll(next ^ last);
        last = next;
    }
    assert_in_range(changed, 31 * COUNT, 33 * COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_comes_twice),
        cmocka_unit_test(steps_are_not_to_be_guessed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
