/* Running a libuv loop in a test until something has happened. */
#ifndef KVR_TESTS_LOOP_H
#define KVR_TESTS_LOOP_H

#include <uv.h>

#include "base/clock.h"
#include "tests/support/check.h"

static inline void loop_wake(uv_timer_t *timer)
{
    (void)timer;
}

/* Whatever is due, waiting at most a millisecond for it. */
static inline void loop_run_some(uv_loop_t *loop)
{
    uv_timer_t timer;

    uv_timer_init(loop, &timer);
    uv_timer_start(&timer, loop_wake, 1, 1); /* again and again: polling may come after its time */
    uv_run(loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(loop, UV_RUN_NOWAIT);
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
