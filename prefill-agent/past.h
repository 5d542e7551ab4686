/* Publishes that have ended: a target that comes later hears at once how, and does not wait for its
 * deadline. Bounded in number and time. Pure. */
#ifndef PREFILL_AGENT_PAST_H
#define PREFILL_AGENT_PAST_H

#include "base/buddy.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/table.h"
#include "base/types.h"
#include "wire/proof.h"

#define PAST_MAX  4096
#define PAST_TIME (600 * KVR_S)

struct past_publish {
    uint64_t key; /* match_key() of the next fields; 0: none */
    char request[KVR_REQUEST_BYTES];
    uint32_t attempt, tenant;
    struct kvr_rank rank;
    struct kvr_proof_key proof_key; /* wiped when the end is forgotten */
    kvr_status status;
    kvr_ns at;
};

struct past {
    struct past_publish *publishes; /* a ring: the oldest goes first */
    uint32_t next;
    struct kvr_table by_key;
};

KVR_MUST_CHECK kvr_status past_init(struct past *past, struct kvr_buddy *memory);
/* The last end of a key counts. */
void past_add(struct past *past, const struct past_publish *ended);
/* The publish is open again. */
void past_forget(struct past *past, uint64_t key);
/* NULL: none, or too long ago. Equal keys prove nothing: compare the fields. */
const struct past_publish *past_find(const struct past *past, uint64_t key, kvr_ns now);

#endif
