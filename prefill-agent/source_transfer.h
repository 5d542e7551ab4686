/* The source's half of a transfer: the KV cache of one request, for one target rank. It is made of
 * parts; this header includes those of all parts. */
#ifndef PREFILL_AGENT_SOURCE_TRANSFER_H
#define PREFILL_AGENT_SOURCE_TRANSFER_H

#include "base/state.h"
#include "prefill-agent/announce.h"
#include "prefill-agent/grant.h"
#include "prefill-agent/match.h"
#include "prefill-agent/path.h"
#include "prefill-agent/retransmit.h"
#include "prefill-agent/settle.h"
#include "trace/event.h"
#include "wire/message.h"

struct outbound;
struct publish;

enum source_transfer_state {
    ST_PARKED,   /* WANT came, no publish yet */
    ST_OFFERED,  /* matched: segments are planned and announced as the engine publishes them */
    ST_LIVE,     /* GRANT came: a push job posts */
    ST_STOPPING, /* failed or cancelled: the rail thread stops posting, then QUIET */
    ST_CLOSING,  /* nothing is posted any more; every accepted write awaits its completion */
    ST_ENDED,    /* a tombstone, known for two heartbeat bounds, for late messages */
    ST_STATES
};
enum source_transfer_event {
    ST_ON_MATCHED,
    ST_ON_GRANTED,
    ST_ON_STOP,    /* our side gives up, or the target has everything, gave up or is gone */
    ST_ON_STOPPED, /* the rail thread posts no more */
    ST_ON_CLOSED,  /* every accepted post has its completion */
    ST_EVENTS
};

struct source_transfer {
    uint64_t id, nonce, publish;
    enum source_transfer_state state;
    uint32_t peer;
    bool peer_gone;
    struct source_match match;
    struct source_path path;
    struct source_announce announce;
    struct source_grant grant;
    struct source_digest digest;
    struct source_retransmit retransmit;
    struct source_failover failover;
    struct source_settle settle;
    kvr_status status; /* KVR_OK until it failed */
    char detail[KVR_DETAIL_BYTES];
};

KVR_STATE_MACHINE(source_transfer);

/* Plans and announces what both sides have named by now. */
void source_transfer_advance(struct outbound *outbound, struct source_transfer *transfer);
/* A rail thread's message about the transfer. */
void source_transfer_group(struct outbound *outbound, struct source_transfer *transfer,
                           const union push_message *message);
/* A target's message about the transfer. */
void source_transfer_message(struct outbound *outbound, struct source_transfer *transfer,
                             const struct kvr_message *message);
void source_transfer_tick(struct outbound *outbound, struct source_transfer *transfer);
/* Reports an event of now to the scheduler. */
void source_transfer_event(struct outbound *outbound, const struct source_transfer *transfer,
                           kvr_event_kind kind);
/* The same of ENDED, with its spans where they are wanted. Its job is the loop's again. */
void source_transfer_ended(struct outbound *outbound, const struct source_transfer *transfer);
/* The target may copy from our engine's memory itself: PLAN names the revocation word. */
bool source_transfer_lends(const struct outbound *outbound, const struct source_transfer *transfer,
                           const struct publish *publish);

#endif
