/* A source's and a target's table of peers on one loop, with a short beat, and the events of each.
 */
#ifndef KVR_TESTS_PEER_PROBE_H
#define KVR_TESTS_PEER_PROBE_H

#include "agent/peer/peer.h"
#include "tests/support/loop.h"

struct probe {
    struct kvr_peers *peers;
    struct kvr_msg_hello hello;
    uint32_t up, came, lost, writable, turned_away, refused;
    kvr_tls_refusal refusal; /* the last one */
    uint32_t peer;           /* the last one that came up */
    bool in_order;
    bool redial; /* in the lost callback */
    char redial_address[64];
    uint32_t redialed_as;
    kvr_status status;
    kvr_ns lost_at;
    char detail[KVR_DETAIL_BYTES];
};

extern uv_loop_t loop;
/* Short, so that the tests are; longer under a sanitizer, where the loop itself may be late. */
extern uint32_t beat_ms;
bool sanitized(void);
extern struct probe source, target;
/* For the next tables; NULL: no TLS. */
extern struct kvr_credentials *source_credentials, *target_credentials;
extern char address[64]; /* of the last listener */

/* cmocka's fixtures: both tables, and the source listens. With agents' beats, or with the longest
 * ones where a busy machine must not make a peer silent. */
int begin(void **state);
int begin_as_agents(void **state);
int begin_patient(void **state);
int end(void **state);
#define peer_test(function)         cmocka_unit_test_setup_teardown(function, begin, end)
#define patient_peer_test(function) cmocka_unit_test_setup_teardown(function, begin_patient, end)

void open_table(struct probe *probe, uv_loop_t *on, const char *agent, uint64_t boot);
void listen_at(struct probe *probe, const char *at);
uint32_t dial(const char *to); /* the target does */
uint32_t meet(void);           /* dials the source until both are up; which peer that is */
/* PAGES number `counter`, of so many runs. */
kvr_status send_counter(struct probe *from, uint32_t peer, uint32_t counter, uint32_t runs);
void run_for(uint64_t ms);
/* The loss of a peer was reported once, with this status, in these words among others. */
void expect_lost(const struct probe *probe, kvr_status status, const char *words);

#endif
