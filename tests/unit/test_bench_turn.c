/* Goal: a bench counts for a turn only what belongs to that turn. Method: a fabric on paper that
 * delays an arrival or loses it, and a clock that advances with each reading. */
#include "tests/support/check.h"

#include "base/clock.h"
#include "tools/bench/bench_turn.h"

#define LATE_NS (200 * KVR_MS)
#define WRITES  20u
#define HELD    7u /* a write of the turn with a delayed arrival */

kvr_ns __wrap_kvr_clock_now(void);

static kvr_ns clock_now = KVR_S;

kvr_ns __wrap_kvr_clock_now(void)
{
    return clock_now += KVR_MS;
}

struct kvr_endpoint {
    bool source;
};

static struct kvr_endpoint ends[2] = {{true}, {false}};
static struct kvr_completion queues[2][4 * WRITES]; /* by end: source, target */
static uint32_t counts[2];
static kvr_ns hold_ns; /* how long an arrival of the turn is delayed; 0: not at all */
static struct kvr_completion held;
static kvr_ns release_at; /* KVR_NEVER: none is delayed, or it is lost */
static uint32_t posted_while_held;

static unsigned fake_poll(struct kvr_endpoint *endpoint, struct kvr_completion *ret_completions,
                          unsigned capacity)
{
    uint32_t end = endpoint->source ? 0 : 1, count;

    if (end == 1 && kvr_clock_now() >= release_at) {
        queues[1][counts[1]++] = held;
        release_at = KVR_NEVER;
    }
    count = counts[end] < capacity ? counts[end] : capacity;
    memcpy(ret_completions, queues[end], count * sizeof(queues[end][0]));
    counts[end] -= count;
    memmove(queues[end], queues[end] + count, counts[end] * sizeof(queues[end][0]));
    return count;
}

static const struct kvr_fabric_ops ops = {.poll = fake_poll};
static struct bench_turns turns;

static kvr_status fake_post(void *self, uint32_t number, uint64_t context)
{
    struct kvr_completion arrived = {.kind = KVR_COMPLETION_ARRIVED, .immediate = number};

    (void)self;
    posted_while_held += release_at != KVR_NEVER && held.immediate != number;
    queues[0][counts[0]++] = (struct kvr_completion){
        .kind = KVR_COMPLETION_WRITTEN, .has_context = true, .context = context};
    if (hold_ns == 0 || (context & UINT32_MAX) != HELD) {
        queues[1][counts[1]++] = arrived;
        return KVR_OK;
    }
    held = arrived;
    release_at = hold_ns == KVR_NEVER ? KVR_NEVER : kvr_clock_now() + hold_ns;
    return KVR_OK;
}

static kvr_status refuse(void *self, uint32_t number, uint64_t context)
{
    (void)self, (void)number, (void)context;
    return KVR_UNSUPPORTED;
}

static int setup(void **state)
{
    (void)state;
    turns = (struct bench_turns){
        .ops = &ops, .source = &ends[0], .target = &ends[1], .late_ns = LATE_NS};
    counts[0] = counts[1] = posted_while_held = 0;
    release_at = KVR_NEVER;
    hold_ns = 0;
    return 0;
}

static kvr_ns turn(void)
{
    return bench_turn(&turns, WRITES, fake_post, NULL);
}

static void a_turn_has_its_time(void **state)
{
    (void)state;
    assert_true(turn() > 0);
    assert_int_equal(bench_turn(&turns, WRITES, refuse, NULL), 0);
    assert_true(turn() > 0); /* the next turn succeeds */
}

static void what_comes_late_is_waited_for(void **state)
{
    (void)state;
    hold_ns = LATE_NS + LATE_NS / 2; /* in the middle of the second wait */
    assert_int_equal(turn(), 0);
    hold_ns = 0;
    assert_true(turn() > 0);
    assert_int_equal(posted_while_held, 0);
}

/* The arrival is so late that the next turn is under way. That turn lacks an arrival, and must not
 * seem complete. */
static void what_comes_later_still_is_nobodys(void **state)
{
    (void)state;
    hold_ns = KVR_NEVER;
    assert_int_equal(turn(), 0);
    queues[1][counts[1]++] = held;
    assert_int_equal(turn(), 0);
    hold_ns = 0;
    assert_true(turn() > 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {
        CASE(a_turn_has_its_time),
        CASE(what_comes_late_is_waited_for),
        CASE(what_comes_later_still_is_nobodys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
