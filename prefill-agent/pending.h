/* FAIL and QUIET that wait for room in the target's queue. */
#ifndef PREFILL_AGENT_PENDING_H
#define PREFILL_AGENT_PENDING_H

#include <stdbool.h>

#include "base/state.h"

struct outbound;
struct source_transfer;

enum source_pending_state {
    PENDING_NONE,
    PENDING_FAIL,
    PENDING_QUIET,
    PENDING_FAIL_QUIET, /* FAIL first */
    PENDING_STATES
};
enum source_pending_event {
    PENDING_ON_FAIL_DUE,
    PENDING_ON_QUIET_DUE,
    PENDING_ON_FAIL_SENT,
    PENDING_ON_QUIET_SENT,
    PENDING_ON_ROUND,  /* a new round began: the QUIET of the round before is void */
    PENDING_ON_LANDED, /* the target has everything and needs neither */
    PENDING_EVENTS
};

KVR_STATE_MACHINE(source_pending);

/* FAIL, or QUIET, is due: sent at once where there is room. */
void pending_fail(struct outbound *outbound, struct source_transfer *transfer);
void pending_quiet(struct outbound *outbound, struct source_transfer *transfer);
/* Sends the messages that wait, as far as there is room. */
void pending_send(struct outbound *outbound, struct source_transfer *transfer);
/* The messages that wait are void: both of them, or QUIET alone. */
void pending_landed(struct source_transfer *transfer);
void pending_round(struct source_transfer *transfer);
bool pending_waits(const struct source_transfer *transfer);

#endif
