/* A source agent's machine with an engine and two peers, of which each has an engine: a test goes
 * through requests with it, as the engine, the peers and the rail threads. */
#ifndef KVR_TESTS_OUTBOUND_CASE_H
#define KVR_TESTS_OUTBOUND_CASE_H

#include "prefill-agent/outbound.h"
#include "prefill-agent/publish.h"
#include "prefill-agent/push.h"
#include "tests/support/machine_log.h"

#define SILENCE        (3 * KVR_S)
#define LEASE          (10 * KVR_S)
#define HANDLE         77
#define NONCE          1000
#define GRANT_TAG      0x5eedface
#define SESSION        5000 /* of peer 0; that of peer 1 is the next */
#define FETCH_DEADLINE (20 * KVR_S)

extern struct outbound outbound;
extern kvr_ns now;
/* The latest command of that kind, as the group reads it. */
union push_message push_commanded(enum push_kind kind);

int open_outbound(void **state); /* a cmocka setup */
/* Two rails in these groups; the peers' are then in two groups too. */
void outbound_begin(const struct kvr_rail_groups *groups, bool failover);
/* One rail group, and engines of so many pages; nothing looks at their memory. */
void outbound_begin_wide(uint32_t page_count);
/* Engines with states, one page a request. */
void outbound_begin_states(void);
void outbound_peer_comes(uint32_t peer); /* beside 0 and 1, with an engine of its own */
void ask(struct kvr_request *request);   /* as the engine, about its publish */
void publish_for(uint32_t consumers);
void publish_all(void);
/* It announces no page table. */
void want_tokens(uint32_t peer, uint64_t nonce, uint64_t tokens);
/* Of a request that no engine publishes. */
void want_of_deadline(uint32_t peer, uint64_t nonce, uint32_t deadline_ms);
void want_skipping(uint32_t peer, uint64_t nonce, uint64_t tokens, uint64_t skip_tokens);
void want_as(uint32_t peer, uint64_t nonce, uint64_t generation);
void want(uint32_t peer, uint64_t nonce);
/* Its pages are a device's, behind staging memory; it could copy a neighbour's pages there itself.
 */
void want_moving(uint32_t peer, uint64_t nonce);
void want_hashed(uint32_t peer, uint64_t nonce);
/* From here on peers want for this tensor rank of theirs; peer 0 sends its regions. */
void targets_are(uint32_t tp);
void message(uint32_t peer, uint64_t nonce, kvr_message_kind kind, kvr_status status);
/* A rail thread's word about the job that was opened last. a: with POSTED, STAGING_FULL and STOPPED
 * the round; with NO_RAIL, since when nothing has come through (0: now). */
void group_says(uint32_t kind, uint64_t a, void *pointer);
/* The rail thread keeps the segments of a job in it. */
void group_closes(void);
const struct kvr_notice *freed(void);
void tick(kvr_ns later);
void grant(uint32_t peer, uint64_t nonce);
void grant_rails(uint32_t peer, uint64_t nonce, uint32_t rail);

#endif
