/* A publish: the pages of one request, held until every consumer has settled (rules 1 and 2). */
#ifndef PREFILL_AGENT_PUBLISH_H
#define PREFILL_AGENT_PUBLISH_H

#include "agent/core/page_tables.h"
#include "agent/core/region_set.h"
#include "base/state.h"
#include "wire/engine_message.h"
#include "wire/message.h"

struct outbound;
struct publish;
struct source_transfer;

/* ---- what it consists of (content.c) ----------------------------------------------------------
 */

/* Tokens. Their layers are final as far as an engine's word has grown beyond `base`. */
struct publish_watch {
    uint32_t word;
    uint64_t base, token_first, token_end;
};

struct publish_content {
    struct publish_watch *watches; /* grown in the given memory */
    uint32_t watch_count, watch_capacity;
    uint64_t token_end;  /* announced by watches so far */
    uint64_t page_bytes; /* of the pages given so far, as the tenant's quota counts them */
    uint8_t *tail;
    uint32_t tail_bytes;
    bool has_tail;
    bool complete; /* the engine ended it: nothing more is added */
};

/* What the engine adds: checked against what it has given so far (rule 9). */
KVR_MUST_CHECK kvr_status content_add(struct outbound *outbound, struct publish *publish,
                                      const struct kvr_request *request, struct kvr_error *error);
void content_free(struct outbound *outbound, struct publish *publish);

/* ---- how long it waits for targets that have not come (lease.c, rule 10) ----------------------
 */

enum publish_lease_state {
    LEASE_RUNS,
    LEASE_LOW, /* little is left, and the engine was notified */
    LEASE_OFF, /* every consumer has come, or was given up */
    LEASE_STATES
};
enum publish_lease_event {
    LEASE_ON_RENEW,
    LEASE_ON_LOW,
    LEASE_ON_OFF,
    LEASE_ON_REOPEN, /* more consumers will come than seemed */
    LEASE_EVENTS
};

KVR_STATE_MACHINE(publish_lease);

struct publish_lease {
    enum publish_lease_state state;
    kvr_ns length, end;
};

void lease_set(struct publish *publish, kvr_ns now, kvr_ns length);
void lease_off(struct publish *publish);
void lease_reopen(struct publish *publish, kvr_ns now);
void lease_renew(struct publish *publish, kvr_ns now);
void lease_tick(struct outbound *outbound, struct publish *publish);

/* Orders of the scheduler about every publish of that request and attempt which still waits for
 * targets: no target will come, or the lease is lease_ns from now on. What a target has asked for
 * goes on. Both return how many publishes they met. */
uint32_t outbound_abandon(struct outbound *outbound, kvr_ns now, const char *request,
                          uint32_t attempt);
uint32_t outbound_renew(struct outbound *outbound, kvr_ns now, const char *request,
                        uint32_t attempt, kvr_ns lease_ns);

/* ---- the target ranks that have come (consumer.c) ---------------------------------------------
 */

/* A target rank. Its place stays its own: when its transfer has ended the rank may come again, into
 * the same place. */
struct consumer {
    struct kvr_uuid engine;
    uint32_t tp, pp;
    uint64_t transfer; /* the last one */
    bool ended;        /* that one has */
    kvr_status status;
};

struct publish_consumers {
    uint32_t expected; /* target ranks that must have settled; 0: unknown until the first WANT */
    bool named;        /* the engine named that number, so that no WANT changes it */
    struct consumer list[KVR_CONSUMERS_MAX];
    uint32_t count, ended_count;   /* consumers that came, and those with an ended last transfer */
    const struct consumer *blamed; /* for the failure of the publish; NULL: none of them */
    bool awaited; /* a consumer has come again, and its last transfer has not quite ended */
};

/* Whether the rank may come. KVR_EXISTS: it is served already. */
KVR_MUST_CHECK kvr_status consumer_check(const struct source_transfer *transfer,
                                         const struct publish *publish, struct kvr_error *error);
/* The rank comes again, and what it had before is ending: it is served after that. */
bool consumer_leaves(const struct outbound *outbound, const struct source_transfer *transfer,
                     struct publish *publish);
/* Computes how many consumers there are, where the engine did not name the number. */
KVR_MUST_CHECK kvr_status consumers_know(struct outbound *outbound,
                                         const struct source_transfer *transfer,
                                         struct publish *publish, struct kvr_error *error);
void consumer_comes(struct publish *publish, struct source_transfer *transfer);
void consumer_ends(struct publish *publish, const struct source_transfer *transfer);

/* ---- the publish (publish.c) ------------------------------------------------------------------
 */

enum publish_state {
    PUBLISH_OPEN,     /* no target has come */
    PUBLISH_ACCEPTED, /* one has, and its engine was notified */
    PUBLISH_FAILING,  /* nothing more is published; transfers settle */
    PUBLISH_FREED,    /* SOURCE_FREE was sent; the place in the table is given back */
    PUBLISH_STATES
};
enum publish_event {
    PUBLISH_ON_MATCHED,
    PUBLISH_ON_FAILED,
    PUBLISH_ON_SETTLED, /* every consumer has, or none will come */
    PUBLISH_EVENTS
};

KVR_STATE_MACHINE(publish);

/* Of targets that asked for the publish and could not have it. */
struct publish_refusal {
    uint32_t count;
    kvr_status status; /* of the last one */
    char agent[KVR_NAME_BYTES], detail[KVR_DETAIL_BYTES];
};
#define PUBLISH_REFUSALS_SENT 8 /* to the engine; further ones are only counted */

struct publish {
    uint64_t id, handle, key;
    struct kvr_proof_key proof_key; /* of its secret: what a WANT must know */
    enum publish_state state;
    uint32_t engine, tenant; /* tenant: its number in engines.tenants */
    bool engine_gone;
    char request[KVR_REQUEST_BYTES];
    uint32_t attempt;
    uint64_t tokens; /* upper bound */
    int32_t priority;
    struct kvr_region_set *set;
    struct kvr_page_tables pages;
    struct publish_content content;
    struct publish_lease lease;
    struct publish_consumers consumers;
    struct publish_refusal refusal;
    uint64_t bytes;
    uint32_t writes, retries;
    kvr_status status; /* the first failure */
    char detail[KVR_DETAIL_BYTES];
};

void publish_open(struct outbound *outbound, uint32_t engine, uint64_t handle,
                  const struct kvr_req_source_open *open);
void publish_request(struct outbound *outbound, struct publish *publish,
                     const struct kvr_request *request);
struct publish *publish_find(const struct outbound *outbound, uint32_t engine, uint64_t handle);

/* Sets the handle of the notice. Drops it where the engine is gone. */
void publish_notify(const struct outbound *outbound, const struct publish *publish,
                    struct kvr_notice *notice);
/* Nothing more is published, and every consumer gets the reason. The pages stay held until every
 * transfer has settled. */
void publish_fail(struct outbound *outbound, struct publish *publish, kvr_status status,
                  const char *detail);
/* Records a failure if it is the first. A consumer that comes again does not clear it. */
void publish_blame(struct publish *publish, kvr_status status, const char *detail);
/* A transfer failed before it was matched: the engine is notified too. */
void publish_refuse(struct outbound *outbound, struct publish *publish, uint32_t peer,
                    const struct kvr_error *error);
/* SOURCE_FREE, if every consumer has settled or none will come. The publish is gone then. */
void publish_check_free(struct outbound *outbound, struct publish *publish);

/* ---- which slice each target rank is given (slice.c) ------------------------------------------
 */

/* How many target ranks of that engine could need something of this publish, by their sizes. */
uint32_t slice_consumers(const struct outbound *outbound, const struct publish *publish,
                         const struct source_transfer *transfer);
/* Which KV groups this rank gives (bits): those that both sides have, except a group that a sibling
 * holds alike and was chosen to give to this target rank. */
uint32_t slice_kv_groups(const struct outbound *outbound, const struct source_transfer *transfer,
                         const struct publish *publish);

#endif
