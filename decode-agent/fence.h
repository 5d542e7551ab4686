/* Failure of a transfer, how it drains until nothing can land, and how the epochs of this agent's
 * rails end (rules 4 and 7). */
#ifndef DECODE_AGENT_FENCE_H
#define DECODE_AGENT_FENCE_H

#include "decode-agent/inbound.h"

struct transfer;

struct transfer_failure {
    kvr_status status; /* why the transfer fails. KVR_OK: it has not failed */
    char detail[KVR_DETAIL_BYTES];
    bool by_source;  /* the source said so: it needs no CANCEL */
    kvr_ns drain_at; /* DRAINING: when to end epochs instead of waiting for QUIET. KVR_NEVER: not */
};

/* Fails the transfer and its fetch. Settles it at once where nothing was granted. Idempotent. */
void transfer_fail(struct inbound *inbound, struct transfer *transfer, kvr_status status,
                   const char *detail);
/* Ends every epoch that the source could write on: the source does not say what it posted. */
void transfer_fence(struct inbound *inbound, struct transfer *transfer);

/* Ends this epoch of the rail, unless it has ended. */
void inbound_rail_recycle(struct inbound *inbound, uint32_t rail, uint32_t epoch);
/* The rail thread has closed the endpoint, and perhaps opened a fresh one. */
void inbound_rail_recycled(struct inbound *inbound, const struct kvr_group_message *message);
/* A session is up: sends the peer all rails with a later epoch than the first. */
void rail_epochs_send(struct inbound *inbound, uint32_t peer);

#endif
