/* How a transfer ends: counts, QUIET, LANDED, completions (rules 1, 2 and 4). */
#ifndef PREFILL_AGENT_SETTLE_H
#define PREFILL_AGENT_SETTLE_H

#include "base/state.h"
#include "prefill-agent/push.h"
#include "wire/message.h"

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

/* FAIL or QUIET is due (FAIL_DUE, QUIET_DUE): sent at once where there is room. */
void pending_due(struct outbound *outbound, struct source_transfer *transfer,
                 enum source_pending_event due);
/* Sends the messages that wait, as far as there is room. */
void pending_send(struct outbound *outbound, struct source_transfer *transfer);
bool pending_waits(const struct source_transfer *transfer);

/* What is known of the job's accepted posts. */
enum source_settle_state {
    SETTLE_COUNTED,  /* the counts are whole, as last reported */
    SETTLE_COUNTING, /* in the middle of a report */
    SETTLE_CLOSED,   /* the job has no write in flight; jobs of earlier rail groups may have */
    SETTLE_STATES
};
enum source_settle_event { SETTLE_ON_COUNT, SETTLE_ON_SUM, SETTLE_ON_CLOSED, SETTLE_EVENTS };

KVR_STATE_MACHINE(source_settle);

struct source_settle {
    enum source_settle_state state;
    enum source_pending_state pending;
    struct kvr_epoch_count counts[KVR_EPOCHS_PER_TRANSFER]; /* accepted posts */
    uint32_t count_count;
    uint32_t round; /* the latest that the target has begun */
    uint64_t rails; /* bit r: our rail r carried a part */
    uint32_t writes, retries;
    bool landed;          /* the target has everything */
    kvr_ns fence_at;      /* endpoints that still read are closed then; KVR_NEVER */
    kvr_ns tombstone_end; /* of an ended transfer */
};

/* Our side gives up. */
void source_transfer_fail(struct outbound *outbound, struct source_transfer *transfer,
                          kvr_status status, const char *detail);
/* The target has everything (KVR_OK), gave up, or is gone. */
void source_transfer_end(struct outbound *outbound, struct source_transfer *transfer,
                         kvr_status status, const char *detail);
/* The place in the table is given back, tombstone or not. */
void source_transfer_free(struct outbound *outbound, struct source_transfer *transfer);
/* The round of MISSING or ROOM. A QUIET of an earlier round that waits is void (rule 4). */
void settle_round(struct outbound *outbound, struct source_transfer *transfer, uint32_t round);
/* The sums that follow the counts of a rail thread. */
void settle_sum(struct source_transfer *transfer, const struct push_sum *sum);
/* The rail thread has reported a count, its last sum, and a job without a write in flight: the
 * transfer's, or one that it left in an earlier rail group. */
void settle_count(struct source_transfer *transfer, const struct kvr_epoch_count *count);
void settle_stopped(struct outbound *outbound, struct source_transfer *transfer,
                    const struct push_sum *sum);
void settle_closed(struct outbound *outbound, struct source_transfer *transfer,
                   struct push_job *job);
/* Tombstones go, and endpoints that still read are closed, when the time for it has come. */
void settle_tick(struct outbound *outbound, struct source_transfer *transfer);

#endif
