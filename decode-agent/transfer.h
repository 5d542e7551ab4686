/* A transfer: what one source rank gives of a fetch. It is made of parts: each has a header, a file
 * of the same name, and where it has states a table of them in the head of that file. This header
 * includes those of all parts. */
#ifndef DECODE_AGENT_TRANSFER_H
#define DECODE_AGENT_TRANSFER_H

#include "base/state.h"
#include "decode-agent/deliver.h"
#include "decode-agent/fence.h"
#include "decode-agent/grant.h"
#include "decode-agent/grant_keys.h"
#include "decode-agent/land.h"
#include "decode-agent/landing_path.h"
#include "decode-agent/plan_intake.h"
#include "decode-agent/slots.h"
#include "decode-agent/source_link.h"
#include "decode-agent/staging_quota.h"
#include "decode-agent/trust.h"
#include "decode-agent/verify.h"

enum transfer_state {
    T_WAITING,
    T_HELD,
    T_WANTED,
    T_LIVE,
    T_DRAINING,
    T_SEALING,
    T_CLOSING,
    T_ENDED,
    T_STATES
};

enum transfer_event {
    T_ON_HOLD_SENT, /* a WANT that leaves the skips open */
    T_ON_WANT_SENT, /* or that SKIP */
    T_ON_GRANTED,
    T_ON_DRAIN, /* it failed, and writes may still arrive */
    T_ON_SEAL,  /* nothing can land any more, and keys are open */
    T_ON_SETTLED,
    T_ON_CLOSED,
    T_EVENTS
};

struct transfer {
    uint64_t id, nonce, fetch;
    enum transfer_state state;
    struct kvr_source_address source;
    uint32_t place;                 /* among the fetch's sources */
    struct kvr_proof_key proof_key; /* of the request's secret at this source, until WANT is sent */
    struct source_link link;
    struct landing_path path;
    struct staging_quota quota;
    struct slot_claim slots;
    struct plan_intake intake;
    struct grant grant;
    struct grant_keys keys;
    struct regrant regrant;
    struct delivery delivery;
    uint32_t pages_sent[KVR_GROUPS_MAX]; /* of each page table, by PAGES */
    struct trust trust;
    struct verification verification;
    struct transfer_failure failure;
    uint32_t retries; /* chunks that were asked for again */
    uint64_t rails;   /* bit r: rail r carried a part; known once it is closed */
};

KVR_STATE_MACHINE(transfer);

/* Nothing of it can land any more, and that is counted in its fetch. */
static inline bool transfer_settled(const struct transfer *transfer)
{
    return transfer->state == T_CLOSING || transfer->state == T_ENDED;
}

/* Nothing of it can land any more, and its source needs no answer. */
static inline bool transfer_ends(const struct transfer *transfer)
{
    return transfer->state == T_SEALING || transfer->state == T_CLOSING;
}

struct fetch;

KVR_MUST_CHECK kvr_status transfer_open(struct inbound *inbound, struct fetch *fetch,
                                        const struct kvr_source_address *source,
                                        struct kvr_error *error);
/* Nothing of it can land any more. */
void transfer_settle(struct inbound *inbound, struct transfer *transfer);
void transfer_sealed(struct inbound *inbound, struct transfer *transfer); /* its keys are closed */
void transfer_closed(struct inbound *inbound, struct transfer *transfer);

#endif
