/* Failure of a transfer, and how it drains until nothing can land (rules 4 and 7). */
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

#endif
