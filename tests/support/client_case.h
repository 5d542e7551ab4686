/* What the tests of libkvrail share: one scripted agent a case, and what they ask of an engine's
 * connection to it. */
#ifndef KVR_TESTS_CLIENT_CASE_H
#define KVR_TESTS_CLIENT_CASE_H

#include "tests/support/scripted_agent.h"

extern struct scripted_agent agent;

/* cmocka's fixtures: the agent as a thread, or as a process that can be stopped and killed. */
int start_thread(void **state);
int start_process(void **state);
int stop(void **state);

/* Nothing wakes the engine for a while. */
bool event_fd_is_quiet(struct kvrail *engine);
/* The next event is of that kind and handle. */
void assert_event(struct kvrail *engine, kvrail_event_kind kind, kvrail_handle handle);
/* A region of two layers of K and V, without memory yet. */
struct kvrail_region small_region(const char *name);

#endif
