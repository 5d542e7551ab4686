/* Running a libuv loop in a test until something has happened. */
#ifndef KVR_TESTS_LOOP_H
#define KVR_TESTS_LOOP_H

#include <uv.h>

#include "base/clock.h"
#include "tests/support/check.h"

/* How long the loop has run: what a test waits for may take so long of it, however long others had
 * the machine meanwhile. */
static kvr_ns loop_ran_ns;

#define LOOP_TURN_MAX (20 * KVR_MS) /* the rest of a longer turn is not ours */

static inline void loop_count(kvr_ns since)
{
    kvr_ns took = kvr_clock_now() - since;

    loop_ran_ns += took < LOOP_TURN_MAX ? took : LOOP_TURN_MAX;
}

static inline void loop_wake(uv_timer_t *timer)
{
    (void)timer;
}

/* Whatever is due, waiting at most a millisecond for it. */
static inline void loop_run_some(uv_loop_t *loop)
{
    kvr_ns since = kvr_clock_now();
    uv_timer_t timer;

    uv_timer_init(loop, &timer);
    uv_timer_start(&timer, loop_wake, 1, 1); /* again and again: polling may come after its time */
    uv_run(loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(loop, UV_RUN_NOWAIT);
    loop_count(since);
}

/* Fails the test when the condition does not hold within 20 s (a sanitizer is slow). */
#define LOOP_UNTIL(loop, condition)                                                                \
    do {                                                                                           \
        kvr_ns loop_until = kvr_clock_now() + 20 * KVR_S;                                          \
        while (!(condition) && kvr_clock_now() < loop_until)                                       \
            loop_run_some(loop);                                                                   \
        assert_true(condition);                                                                    \
    } while (0)

#endif
