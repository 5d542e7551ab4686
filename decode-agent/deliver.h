/* What the engine is sent: the tail, and the one terminal notice. */
#ifndef DECODE_AGENT_DELIVER_H
#define DECODE_AGENT_DELIVER_H

#include "decode-agent/inbound.h"

struct fetch;
struct transfer;

/* What DONE waits for, beside FINAL, trust and the digest. */
struct delivery {
    bool all_in;  /* every chunk is in the pages */
    bool tail_in; /* TAIL has come, and the engine has it */
};

/* Sets the handle of the notice. Drops it where the engine is gone. */
void fetch_notify(const struct inbound *inbound, const struct fetch *fetch,
                  struct kvr_notice *notice);
void tail_received(struct inbound *inbound, struct transfer *transfer,
                   const struct kvr_msg_tail *tail);
void transfer_check_done(struct inbound *inbound, struct transfer *transfer);
/* Every transfer of the fetch has settled: the one terminal notice (rule 1). */
void fetch_end(struct inbound *inbound, struct fetch *fetch);
/* Ends the fetch with a reason; its transfers end with the same. Idempotent. */
void fetch_fail(struct inbound *inbound, struct fetch *fetch, kvr_status status,
                const char *detail);

/* Of a settled transfer: all tokens from the skipped ones up to here are in place. */
uint64_t transfer_salvage(const struct inbound *inbound, const struct transfer *transfer);

#endif
