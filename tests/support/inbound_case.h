/* inbound alone, its ports written down (machine_log.h): a test is the engine, four source agents
 * and the rail thread. One at a time. */
#ifndef KVR_TESTS_INBOUND_CASE_H
#define KVR_TESTS_INBOUND_CASE_H

#include "decode-agent/fetch.h"
#include "decode-agent/inbound.h"
#include "decode-agent/land.h"
#include "decode-agent/transfer.h"
#include "tests/support/machine_log.h"

#define SILENCE (3 * KVR_S)
#define QUIET   KVR_S
#define SLOTS   3
#define SESSION 5000 /* of peer 0; those of the others follow */

extern struct inbound inbound;
extern kvr_ns now;

int open_inbound(void **state); /* a cmocka setup */
void inbound_begin(uint32_t slot_count);
void inbound_begin_within(uint32_t slot_count, uint32_t slot_last);
extern struct small_side target; /* the engine's memory */
/* Fetches from the source ranks of peers first … first + count - 1; the nonce of the first. */
uint64_t fetch(uint64_t handle, uint32_t first, uint32_t count);
void tick(kvr_ns later);

/* What a source says. */
void plan_as(uint32_t peer, uint64_t nonce, uint64_t generation);
void plan(uint32_t peer, uint64_t nonce);
void plan_lent(uint32_t peer, uint64_t nonce, uint32_t word);
void plan_to_share(uint32_t peer, uint64_t nonce);   /* it is to land in staging memory */
void plan_of_another(uint32_t peer, uint64_t nonce); /* its hash is not ours */
void final(uint32_t peer, uint64_t nonce);
void quiet(uint32_t peer, uint64_t nonce, uint32_t round);
void quiet_on(uint32_t peer, uint64_t nonce, uint32_t round, uint32_t epoch); /* of rail 0 */
void reason(uint32_t peer, uint64_t nonce, kvr_message_kind kind, kvr_status status);
/* The latest command of that kind, as the group reads it. */
union land_message land_commanded(enum land_kind kind);

/* The rail thread's word about the landing of a transfer. */
void group_says(uint64_t nonce, uint32_t kind, uint64_t a, void *pointer);
void group_closes(uint64_t nonce); /* it gives back what it was given for that landing */
void recycled(uint32_t rail, uint32_t epoch);

bool granted(uint64_t nonce);

#endif
