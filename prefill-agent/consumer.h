/* The target ranks that have come for a publish. */
#ifndef PREFILL_AGENT_CONSUMER_H
#define PREFILL_AGENT_CONSUMER_H

#include "base/clock.h"
#include "base/status.h"
#include "wire/message.h"

struct outbound;
struct publish;
struct source_transfer;

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
};

/* Whether the rank may come. KVR_EXISTS: it is served already. */
KVR_MUST_CHECK kvr_status consumer_check(const struct source_transfer *transfer,
                                         const struct publish *publish, struct kvr_error *error);
/* Computes how many consumers there are, where the engine did not name the number. */
KVR_MUST_CHECK kvr_status consumers_know(struct outbound *outbound,
                                         const struct source_transfer *transfer,
                                         struct publish *publish, struct kvr_error *error);
void consumer_comes(struct publish *publish, struct source_transfer *transfer);
void consumer_ends(struct publish *publish, const struct source_transfer *transfer);

#endif
