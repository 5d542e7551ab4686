/* A publish: the pages of one request, held until every consumer has settled (rules 1 and 2). */
#ifndef PREFILL_AGENT_PUBLISH_H
#define PREFILL_AGENT_PUBLISH_H

#include "agent/core/page_tables.h"
#include "agent/core/region_set.h"
#include "base/state.h"
#include "prefill-agent/consumer.h"
#include "prefill-agent/content.h"
#include "prefill-agent/lease.h"
#include "wire/engine_message.h"

struct outbound;
struct source_transfer;

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
    enum publish_state state;
    uint32_t engine;
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

#endif
