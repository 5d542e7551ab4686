/* An agent for tests of the engine socket: a real engine port behind which a script answers, in a
 * thread of this process or in a process of its own. What a request is called says what is
 * answered:
 *
 *   engine named "stranger"   is refused with KVR_INCOMPATIBLE
 *   region named "slow"       is never answered
 *   region named "last"       the port closes, the process goes on
 *   source                    SOURCE_FREE when its end comes, with the pages' number as bytes
 *   target "whole"            with its pages: ACCEPTED, LAYER_IN, TAIL_IN, DONE
 *   target "hold", others     nothing; CANCEL is answered with CANCELLED
 *   target "race"             CANCEL is answered with DONE and CANCELLED
 *   target "flood"            LAYER_IN without end
 *   target "layers"           LAYER_IN of layers 0, 1, 2, 3, 5, 6 and, with more tokens, 7
 *   target "give up"          the engine is refused
 *   target "news"             another agent and a card go and come, of no handle
 *   target "old news"         so many agents come and go that no queue holds a notice for each
 *   target "nap"              nothing; its thread sleeps for longer than a newcomer may take
 *   target "close"            the port closes, the process goes on */
#ifndef KVR_TESTS_SCRIPTED_AGENT_H
#define KVR_TESTS_SCRIPTED_AGENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "agent/engine/engine_port.h"
#include "client/kvrail.h"
#include "wire/revocation_words.h"

#define SCRIPTED_WAIT_MS 30000 /* busy cores may need long for an answer that must come */

/* What the script has seen; in memory that both processes share. */
struct script_record {
    _Atomic uint32_t ups, downs, regions, extents, requests, sources, targets, cancels;
    _Atomic uint32_t engine_last; /* index of the last up */
    _Atomic int down_why;
    _Atomic uint64_t ids, id_sum; /* of all pages given */
    _Atomic bool out_of_order;    /* page_first was not how many were given before */
    _Atomic uint64_t word0;       /* of the engine, when its last watch came */
    _Atomic int rung;             /* reads of the doorbell that found it rung, when a why came */
    _Atomic bool keep;            /* do not release engines when they go down */
    _Atomic uint32_t pairs;       /* notices that answer PAIRS; 0: it is refused */
    _Atomic bool sleepy;          /* set `asleep` in the page of each new engine */
    char down_detail[KVR_DETAIL_BYTES];
    _Atomic bool dmabuf;          /* one came with the last region */
    struct kvr_req_region region; /* the last; stable once its READY was heard */
};

struct scripted_agent {
    char path[108];
    struct script_record *record;
    pid_t pid; /* 0: a thread */
    pthread_t thread;
    uv_loop_t loop;
    uv_async_t stop, let_go;
    struct kvr_engine_port *port;
    struct kvr_revocation_words *revocation_words; /* every engine gets them */
    int revocation_fd;
};

void scripted_agent_start_thread(struct scripted_agent *agent);
void scripted_agent_start_process(struct scripted_agent *agent);
/* Joins, or kills with SIGKILL, and waits. */
void scripted_agent_stop(struct scripted_agent *agent);

/* In a thread: engines that were kept are released, and no more are kept. */
void scripted_agent_let_go(struct scripted_agent *agent);

/* A connection that must succeed. */
struct kvrail *scripted_engine(const struct scripted_agent *agent, const char *name);
/* An engine that has ended; a child of it holds the socket until *ret_hold is closed. */
void scripted_engine_with_child(const struct scripted_agent *agent, int *ret_hold);
kvrail_status scripted_open(const struct scripted_agent *agent, const char *name,
                            uint32_t timeout_ms, struct kvrail **ret_connection,
                            struct kvrail_error *error);
kvrail_handle scripted_source(struct kvrail *engine, const char *request);
kvrail_handle scripted_target(struct kvrail *engine, const char *request);
/* Waits for one event; returns what kvrail_poll did. */
int scripted_event(struct kvrail *engine, struct kvrail_event *event);
/* Waits for the counter to reach value. */
bool scripted_reached(_Atomic uint32_t *counter, uint32_t value);

#endif
