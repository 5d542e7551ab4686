/* Goal: a ring loses nothing, duplicates nothing and keeps the order, also between threads. Method:
 * a queue of numbers beside it; then two real threads under ThreadSanitizer. */
#include "tests/support/check.h"

#include <pthread.h>
#include <sched.h>

#include "base/ring.h"
#include "base/rng.h"

struct message {
    uint64_t number, check, filler;
};

static void ring_keeps_order_and_bounds(void **state)
{
    struct message memory[8], message = {0}, got;
    uint64_t pushed = 0, popped = 0;
    uint64_t cases = check_cases(100000, 5000000);
    struct kvr_ring ring;
    struct kvr_rng rng;

    (void)state;
    kvr_rng_init(&rng, 5);
    assert_int_equal(kvr_ring_init(&ring, memory, 8, sizeof(message)), KVR_OK);
    for (uint64_t i = 0; i < cases; i++) {
        assert_int_equal(kvr_ring_count(&ring), pushed - popped);
        assert_int_equal(kvr_ring_room(&ring), 8 - (pushed - popped));
        if (kvr_rng_percent(&rng, 50)) {
            message.number = pushed;
            assert_int_equal(kvr_ring_push(&ring, &message), pushed - popped < 8);
            pushed += pushed - popped < 8;
        } else if (kvr_ring_pop(&ring, &got)) {
            assert_true(got.number == popped);
            popped++;
        } else {
            assert_true(pushed == popped);
        }
    }
    kvr_ring_done(&ring);
}

static void ring_shows_before_it_gives(void **state)
{
    struct kvr_ring ring;
    uint32_t number = 7, *shown;

    (void)state;
    assert_int_equal(kvr_ring_init(&ring, NULL, 1, sizeof(number)), KVR_OK);
    assert_null(kvr_ring_peek(&ring));
    assert_true(kvr_ring_push(&ring, &number));
    assert_false(kvr_ring_push(&ring, &number));
    shown = kvr_ring_peek(&ring);
    assert_int_equal(*shown, 7);
    assert_ptr_equal(kvr_ring_peek(&ring), shown);
    kvr_ring_drop(&ring);
    assert_null(kvr_ring_peek(&ring));
    kvr_ring_done(&ring);
}

/* The indices have 32 bits and wrap around. */
static void ring_survives_the_end_of_its_indices(void **state)
{
    struct kvr_ring ring;
    uint64_t number, got;

    (void)state;
    assert_int_equal(kvr_ring_init(&ring, NULL, 4, sizeof(number)), KVR_OK);
    atomic_store(&ring.tail, UINT32_MAX - 5);
    atomic_store(&ring.head, UINT32_MAX - 5);
    ring.head_seen = ring.tail_seen = UINT32_MAX - 5;
    for (number = 0; number < 20; number += 2) {
        uint64_t second = number + 1;

        assert_true(kvr_ring_push(&ring, &number) && kvr_ring_push(&ring, &second));
        assert_true(kvr_ring_pop(&ring, &got) && got == number);
        assert_true(kvr_ring_pop(&ring, &got) && got == second);
        assert_false(kvr_ring_pop(&ring, &got));
    }
    kvr_ring_done(&ring);
}

struct producer {
    struct kvr_ring *ring;
    uint64_t count;
};

static void *produce(void *argument)
{
    struct producer *producer = argument;

    for (uint64_t i = 0; i < producer->count; i++) {
        struct message message = {i, kvr_mix64(i), ~i};

        while (!kvr_ring_push(producer->ring, &message))
            sched_yield();
    }
    return NULL;
}

static void ring_carries_between_threads(void **state)
{
    struct kvr_ring ring;
    struct producer producer = {&ring, check_cases(300000, 30000000)};
    struct message message;
    pthread_t thread;

    (void)state;
    assert_int_equal(kvr_ring_init(&ring, NULL, 64, sizeof(message)), KVR_OK);
    assert_int_equal(pthread_create(&thread, NULL, produce, &producer), 0);
    for (uint64_t i = 0; i < producer.count; i++) {
        while (!kvr_ring_pop(&ring, &message))
            sched_yield();
        assert_true(message.number == i && message.check == kvr_mix64(i) && message.filler == ~i);
    }
    pthread_join(thread, NULL);
    assert_false(kvr_ring_pop(&ring, &message));
    kvr_ring_done(&ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_keeps_order_and_bounds),
        cmocka_unit_test(ring_shows_before_it_gives),
        cmocka_unit_test(ring_survives_the_end_of_its_indices),
        cmocka_unit_test(ring_carries_between_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
