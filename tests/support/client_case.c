#include "tests/support/client_case.h"

#include <poll.h>
#include <stdio.h>

#include "tests/support/check.h"

struct scripted_agent agent;

int start_thread(void **state)
{
    (void)state;
    scripted_agent_start_thread(&agent);
    return 0;
}

int start_process(void **state)
{
    (void)state;
    scripted_agent_start_process(&agent);
    return 0;
}

int stop(void **state)
{
    (void)state;
    scripted_agent_stop(&agent);
    return 0;
}

bool event_fd_is_quiet(struct kvrail *engine)
{
    struct pollfd readable = {.fd = kvrail_event_fd(engine), .events = POLLIN};

    return poll(&readable, 1, 50) == 0;
}

void assert_event(struct kvrail *engine, kvrail_event_kind kind, kvrail_handle handle)
{
    struct kvrail_event event;

    assert_int_equal(scripted_event(engine, &event), 1);
    assert_string_equal(kvrail_event_name(event.kind), kvrail_event_name(kind));
    assert_int_equal(event.handle, handle);
}

struct kvrail_region small_region(const char *name)
{
    struct kvrail_region region = {.size = sizeof(struct kvrail_region),
                                   .name = name,
                                   .device = -1,
                                   .layer_count = 2,
                                   .part_count = 2,
                                   .parts = {KVRAIL_PART_K, KVRAIL_PART_V},
                                   .head_count = 3,
                                   .page_tokens = 16,
                                   .page_count = 5,
                                   .head_bytes = 128};

    kvrail_region_dense(&region);
    return region;
}
