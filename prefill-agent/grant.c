#include "prefill-agent/grant.h"

#include <inttypes.h>

#include "prefill-agent/outbound.h"
#include "prefill-agent/publish.h"
#include "prefill-agent/sending.h"
#include "prefill-agent/source_transfer.h"
#include "wire/revocation_words.h"

static kvr_status grant_check(const struct source_transfer *transfer,
                              const struct kvr_msg_grant *grant, struct kvr_error *error)
{
    if (transfer->path.state != SOURCE_PATH_READY)
        return kvr_error_set(error, KVR_MALFORMED, "grant", "a GRANT before the first PLAN");
    if (grant->slot_count == 0 || grant->slot_count > KVR_TRANSFER_SLOTS_MAX ||
        (uint64_t)grant->slot_count * KVR_SLOT_CHUNKS < transfer->announce.chunk_count)
        return kvr_error_set(error, KVR_MALFORMED, "grant", "%u slots for %u writes",
                             grant->slot_count, transfer->announce.chunk_count);
    for (uint32_t i = 0; i < grant->slot_count; i++)
        if (grant->slots[i] == 0)
            return kvr_error_set(error, KVR_MALFORMED, "grant", "slot 0 was granted");
    if (grant->tag == 0)
        return kvr_error_set(error, KVR_MALFORMED, "grant", "a GRANT without a tag");
    for (uint32_t i = 0; i < grant->rail_count; i++)
        if (grant->rails[i].rail >= KVR_RAILS_MAX)
            return kvr_error_set(error, KVR_MALFORMED, "grant", "rail %u was granted",
                                 grant->rails[i].rail);
    if (transfer->path.scatters && transfer->announce.bytes > 0 && grant->quota_bytes == 0)
        return kvr_error_set(error, KVR_MALFORMED, "grant",
                             "no staging memory, where WANT said that there would be");
    if (grant->quota_bytes > 0 && (transfer->match.remote->count == 0 ||
                                   grant->quota_offset > UINT64_MAX - grant->quota_bytes))
        return kvr_error_set(error, KVR_MALFORMED, "grant",
                             "%" PRIu64 " bytes of staging memory at %" PRIu64, grant->quota_bytes,
                             grant->quota_offset);
    if (grant->quota_bytes > 0 && grant->quota_key_count == 0)
        return kvr_error_set(error, KVR_MALFORMED, "grant", "staging memory without its keys");
    return KVR_OK;
}

kvr_status grant_keys_take(const struct outbound *outbound, struct source_transfer *transfer,
                           const struct kvr_msg_grant *grant, struct kvr_error *error)
{
    uint32_t count = grant->quota_bytes > 0 ? 1 : transfer->match.remote->count;
    size_t bytes = grant->key_count * sizeof(*grant->keys);

    if (grant->key_count == 0 || transfer->grant.keys != NULL) /* one set for all GRANTs */
        return KVR_OK;
    if (grant->key_count != count)
        return kvr_error_set(error, KVR_MALFORMED, "grant",
                             "%u keys, where there are %u to write to", grant->key_count, count);
    transfer->grant.keys = kvr_buddy_alloc(outbound->memory, bytes);
    if (transfer->grant.keys == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "grant", "no memory for %u keys",
                             grant->key_count);
    memcpy(transfer->grant.keys, grant->keys, bytes);
    return KVR_OK;
}

/* Places for the segments that were planned before GRANT. */
static kvr_status positions_set(struct outbound *outbound, struct source_transfer *transfer,
                                const struct kvr_msg_grant *grant, struct kvr_error *error)
{
    kvr_status status = KVR_OK;

    for (struct push_segment *at = transfer->announce.waiting;
         grant->quota_bytes > 0 && at != NULL && status == KVR_OK; at = at->next)
        status = segment_position(outbound, transfer, at, grant->quota_bytes, error);
    return status;
}

/* The target's staging memory as a region. */
static void staging_quota_set(struct push_job *job, const struct source_transfer *transfer,
                              const struct kvr_msg_grant *grant)
{
    if (grant->quota_bytes == 0)
        return;
    job->quota.memory = transfer->match.remote->remotes[0];
    job->quota.memory.layout.bytes = grant->quota_offset + grant->quota_bytes;
    job->quota.memory.rail_count = grant->quota_key_count;
    memcpy(job->quota.memory.keys, grant->quota_keys,
           grant->quota_key_count * sizeof(job->quota.memory.keys[0]));
    job->quota.offset = grant->quota_offset;
    job->quota.bytes = job->quota.room = grant->quota_bytes;
}

uint64_t grant_rails_of(const struct outbound *outbound, const struct source_transfer *transfer,
                        const struct kvr_msg_grant *grant)
{
    const struct publish *publish = kvr_pool_get(&outbound->publishes, transfer->publish);
    uint64_t rails = 0, here;
    bool lends;

    for (uint32_t i = 0; i < grant->rail_count; i++)
        rails |= grant->rails[i].rail < KVR_RAILS_MAX ? UINT64_C(1) << grant->rails[i].rail : 0;
    if (outbound->options.groups.same_host == 0)
        return rails;
    here = outbound->peers[transfer->peer].same_host;
    if (transfer->path.direct_copy == DIRECT_COPY_CHOSEN) /* the target's own copy, and no card */
        return rails & here;
    lends = publish != NULL && source_transfer_lends(outbound, transfer, publish) &&
            (rails & ~here) == 0;
    return lends ? rails : rails & ~here;
}

void grant_take(const struct outbound *outbound, struct source_transfer *transfer, uint64_t rails)
{
    transfer->grant.rails = rails;
    transfer->grant.local = outbound->options.groups.same_host != 0 && rails != 0 &&
                            (rails & ~outbound->peers[transfer->peer].same_host) == 0;
}

/* Without memory the transfer goes on, and is not reported. */
static struct kvr_span_book *spans_open(const struct outbound *outbound,
                                        const struct kvr_region_set *set)
{
    struct kvr_span_book *book;
    uint32_t layer_first, layer_count;

    if (outbound->options.spans.every == 0)
        return NULL;
    kvr_region_set_layers(set, &layer_first, &layer_count);
    book = kvr_buddy_alloc(outbound->memory, kvr_span_book_bytes(layer_count));
    if (book != NULL)
        kvr_span_book_open(book, outbound->now, layer_first, layer_count);
    return book;
}

void grant_received(struct outbound *outbound, struct source_transfer *transfer,
                    const struct kvr_msg_grant *grant)
{
    const struct publish *publish = kvr_pool_get(&outbound->publishes, transfer->publish);
    struct kvr_error error;
    struct push_job *job;

    if (transfer->state == ST_LIVE)
        failover_granted(outbound, transfer, grant);
    if (transfer->state != ST_OFFERED)
        return;
    job = kvr_buddy_alloc(outbound->memory, sizeof(*job));
    if (job == NULL || grant_check(transfer, grant, &error) != KVR_OK ||
        grant_keys_take(outbound, transfer, grant, &error) != KVR_OK ||
        positions_set(outbound, transfer, grant, &error) != KVR_OK) {
        kvr_buddy_free(outbound->memory, job);
        source_transfer_fail(outbound, transfer, job == NULL ? KVR_NO_MEMORY : error.status,
                             job == NULL ? "no memory for posting" : error.detail);
        return;
    }
    transfer->grant.rail_group = publish->set->locals[0]->home;
    memset(job, 0, sizeof(*job));
    staging_quota_set(job, transfer, grant);
    job->index = kvr_pool_index(transfer->id);
    job->peer = transfer->peer;
    job->transfer = transfer->nonce;
    job->source = publish->set;
    job->target = transfer->match.remote;
    job->keys = transfer->grant.keys;
    job->via = transfer->path.gathers ? kvr_region_set_stage(publish->set) : NULL;
    job->direct_copy = transfer->path.direct_copy == DIRECT_COPY_CHOSEN;
    job->slot_count = transfer->grant.slot_count = grant->slot_count;
    job->tag = grant->tag;
    transfer->grant.staging_quota = grant->quota_bytes;
    job->digest = transfer->digest.mode;
    job->posts.spans = transfer->grant.spans = spans_open(outbound, publish->set);
    job->turn.deadline = transfer->match.deadline;
    job->turn.priority = transfer->match.priority;
    job->turn.tenant = publish->tenant;
    job->turn.weight = outbound->engines.tenants.list[publish->tenant].weight;
    grant_take(outbound, transfer, grant_rails_of(outbound, transfer, grant));
    job->target_rails = transfer->grant.rails;
    transfer->failover.groups_used = UINT32_C(1) << transfer->grant.rail_group;
    memcpy(job->slots, grant->slots, grant->slot_count * sizeof(job->slots[0]));
    transfer->grant.job = job;
    source_transfer_on(&transfer->state, ST_ON_GRANTED);
    if (outbound->ports->revocation_words != NULL &&
        (transfer->grant.local || outbound->options.groups.same_host == 0)) {
        transfer->grant.revocation_word = job->revocation_word = &outbound->ports->revocation_words(
            outbound->ports->self, kvr_engines_lender(publish->engine))[job->index];
        kvr_revocation_word_lend(job->revocation_word, transfer->nonce);
    }
    outbound_command(outbound, transfer, PUSH_MESSAGE(PUSH_OPEN, .opened = job));
    announce_hand_over(outbound, transfer);
    source_transfer_event(outbound, transfer, KVR_EVENT_GRANTED);
}
