/* Goal: a chain is never full, loses nothing, duplicates nothing and keeps the order, also between
 * threads. Method: a sequence of numbers with a reader far behind; then two real threads under
 * ThreadSanitizer. */
#include "tests/support/check.h"

#include <pthread.h>
#include <sched.h>

#include "base/chain.h"
#include "base/rng.h"

#define CAPACITY 4

static void chain_keeps_order_and_grows(void **state)
{
    uint64_t pushed = 0, popped = 0, got, cases = check_cases(100000, 5000000);
    struct kvr_chain chain;
    struct kvr_rng rng;

    (void)state;
    kvr_rng_init(&rng, 6);
    assert_int_equal(kvr_chain_init(&chain, CAPACITY, sizeof(pushed)), KVR_OK);
    for (uint64_t i = 0; i < cases; i++) {
        /* For a while pushes exceed pops, then pops exceed pushes. */
        bool push = kvr_rng_percent(&rng, i / 500 % 2 == 0 ? 60 : 30);

        assert_int_equal(kvr_chain_count(&chain), pushed - popped);
        if (push) {
            assert_true(kvr_chain_push(&chain, &pushed));
            pushed++;
        } else if (pushed == popped) {
            assert_null(kvr_chain_peek(&chain));
            assert_false(kvr_chain_pop(&chain, &got));
        } else {
            assert_true(*(const uint64_t *)kvr_chain_peek(&chain) == popped);
            assert_true(kvr_chain_pop(&chain, &got) && got == popped);
            popped++;
        }
    }
    assert_true(pushed > 100 * CAPACITY);
    kvr_chain_done(&chain); /* elements are left in it */
    kvr_chain_done(&chain);
}

/* A chain keeps the size that it has grown to: a queue that is long now and then allocates only
 * once. */
static void chain_stays_as_large_as_it_had_to_be(void **state)
{
    struct kvr_chain_link *grown;
    struct kvr_chain chain;
    uint64_t number = 0, got;

    (void)state;
    assert_int_equal(kvr_chain_init(&chain, CAPACITY, sizeof(number)), KVR_OK);
    for (unsigned i = 0; i < 3 * CAPACITY; i++)
        assert_true(kvr_chain_push(&chain, &number));
    grown = chain.last;
    assert_ptr_not_equal(chain.first, grown);
    for (unsigned round = 0; round < 3; round++) {
        while (kvr_chain_pop(&chain, &got))
            continue;
        assert_ptr_equal(chain.first, grown);
        for (unsigned i = 0; i < 2 * CAPACITY; i++)
            assert_true(kvr_chain_push(&chain, &number));
        assert_ptr_equal(chain.last, grown);
    }
    kvr_chain_done(&chain);
}

struct producer {
    struct kvr_chain *chain;
    uint64_t count;
};

static void *produce(void *argument)
{
    struct producer *producer = argument;

    for (uint64_t i = 0; i < producer->count; i++) {
        if (!kvr_chain_push(producer->chain, &i))
            abort();
        if (i % 64 == 0)
            sched_yield();
    }
    return NULL;
}

static void chain_carries_between_threads(void **state)
{
    struct kvr_chain chain;
    struct producer producer = {&chain, check_cases(300000, 30000000)};
    uint64_t got;
    pthread_t thread;

    (void)state;
    assert_int_equal(kvr_chain_init(&chain, CAPACITY, sizeof(got)), KVR_OK);
    assert_int_equal(pthread_create(&thread, NULL, produce, &producer), 0);
    for (uint64_t i = 0; i < producer.count; i++) {
        while (!kvr_chain_pop(&chain, &got))
            sched_yield();
        assert_true(got == i);
    }
    pthread_join(thread, NULL);
    assert_int_equal(kvr_chain_count(&chain), 0);
    kvr_chain_done(&chain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chain_keeps_order_and_grows),
        cmocka_unit_test(chain_stays_as_large_as_it_had_to_be),
        cmocka_unit_test(chain_carries_between_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
