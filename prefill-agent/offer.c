/* Offers: one target rank's WANT, planned segment by segment as the engine publishes. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/mutant.h"
#include "kv/layout.h"
#include "prefill-agent/outbound.h"
#include "wire/compat.h"

/* ---- WANT ------------------------------------------------------------------------------------ */

/* FAIL would wait for room, and there is no offer that could. */
static void want_refuse(struct outbound *outbound, uint32_t peer, uint64_t nonce, kvr_status status,
                        const char *detail)
{
    struct kvr_message message = {.kind = KVR_MSG_CANCEL, .transfer = nonce};

    message.reason.status = status;
    snprintf(message.reason.detail, sizeof(message.reason.detail), "%s", detail);
    outbound_tell_peer(outbound, peer, &message);
}

static bool siblings_take(struct outbound *outbound, struct offer *offer,
                          const struct kvr_msg_want *want)
{
    size_t bytes = want->sibling_count * sizeof(*offer->siblings);

    if (want->sibling_count < 2)
        return true;
    offer->siblings = kvr_buddy_alloc(outbound->memory, bytes);
    if (offer->siblings == NULL)
        return false;
    memcpy(offer->siblings, want->siblings, bytes);
    offer->sibling_count = want->sibling_count;
    return true;
}

static struct offer *offer_new(struct outbound *outbound, kvr_ns now, uint32_t peer, uint64_t nonce,
                               const struct kvr_msg_want *want)
{
    uint64_t id;
    struct offer *offer = kvr_pool_acquire(&outbound->offers, &id);

    if (offer == NULL)
        return NULL;
    if (!siblings_take(outbound, offer, want) ||
        kvr_table_insert(&outbound->by_nonce, nonce, kvr_pool_index(id)) != KVR_OK) {
        kvr_buddy_free(outbound->memory, offer->siblings);
        kvr_pool_release(&outbound->offers, id);
        return NULL;
    }
    offer->id = id;
    offer->nonce = nonce;
    offer->peer = peer;
    memcpy(offer->request, want->request, sizeof(offer->request));
    offer->attempt = want->attempt;
    offer->source_engine = want->source_engine;
    offer->source_generation = want->source_generation;
    offer->source_tp = want->source_tp;
    offer->source_pp = want->source_pp;
    offer->target = want->target;
    offer->tokens = want->tokens;
    offer->skip_tokens = want->skip_tokens;
    offer->digest = want->digest;
    offer->scatters = want->staged;
    offer->may_move = want->staged && want->moves;
    offer->stage_bytes = want->staged ? 0 : want->stage_bytes;
    offer->key = match_key(want->request, want->attempt, &want->source_engine,
                           want->source_generation, want->source_tp, want->source_pp);
    offer->deadline = now + (want->deadline_ms > 0 ? want->deadline_ms * KVR_MS
                                                   : outbound->options.want_default_ns);
    offer->dated = want->deadline_ms > 0;
    offer->priority = want->priority;
    offer->fence_at = offer->ask_at = offer->no_rail_at = KVR_NEVER;
    offer->state = O_PARKED;
    outbound->parked++;
    outbound->peers[peer].parked++;
    return offer;
}

/* What is certain never to be published need not wait for its deadline. */
static kvr_status generation_check(const struct outbound *outbound, const struct offer *offer,
                                   struct kvr_error *error)
{
    int index = kvr_engines_find(&outbound->engines, &offer->source_engine, offer->source_tp,
                                 offer->source_pp);

    if (KVR_MUTANT(old_generation_accepted))
        return KVR_OK;
    if (index >= 0 && outbound->engines.local[index].rank.generation > offer->source_generation)
        return kvr_error_set(
            error, KVR_STALE, "want",
            "generation %" PRIu64 " of the source engine is gone; it is %" PRIu64 " now",
            offer->source_generation, outbound->engines.local[index].rank.generation);
    if (kvr_engines_gone(&outbound->engines, &offer->source_engine, offer->source_generation,
                         offer->source_tp, offer->source_pp))
        return kvr_error_set(error, KVR_ENGINE_LOST, "want", "the source engine ended");
    return KVR_OK; /* it may still come */
}

/* What the target needs nothing of, in each group. */
static kvr_status skips_take(struct offer *offer, const struct kvr_msg_want *want,
                             struct kvr_error *error)
{
    for (uint32_t group = 0; group < KVR_GROUPS_MAX; group++) {
        uint32_t page_tokens = offer->pages.groups[group].page_tokens;
        uint64_t skip;

        if (page_tokens == 0)
            continue;
        skip = group < want->group_skip_count
                   ? want->group_skips[group]
                   : kvr_skip_whole_pages(want->skip_tokens, want->tokens, page_tokens);
        if (skip > want->tokens || (skip < want->tokens && skip % page_tokens != 0))
            return kvr_error_set(error, KVR_INVALID, "want",
                                 "%" PRIu64 " of %" PRIu64
                                 " tokens of KV group %u are skipped: not whole pages of %u",
                                 skip, want->tokens, group, page_tokens);
        offer->token_next[group] = skip;
    }
    return KVR_OK;
}

/* The target's regions and what they say of its page tables. */
static kvr_status target_check(struct outbound *outbound, struct offer *offer,
                               const struct kvr_msg_want *want, struct kvr_error *error)
{
    const struct kvr_remote_engine *remote =
        kvr_engines_remote(&outbound->engines, offer->peer, &offer->target);
    uint64_t table_bytes;
    kvr_status status;

    if (remote == NULL || remote->rank.generation != offer->target.generation)
        return kvr_error_set(error, KVR_MALFORMED, "want", "a WANT before the target's regions");
    if (offer->skip_tokens > offer->tokens)
        return kvr_error_set(error, KVR_INVALID, "want",
                             "%" PRIu64 " of %" PRIu64 " tokens skipped", offer->skip_tokens,
                             offer->tokens);
    table_bytes = kvr_page_tables_bytes(remote->set, offer->tokens);
    if (table_bytes + outbound->peers[offer->peer].parked_bytes >
        (uint64_t)outbound->memory->units * KVR_BUDDY_BLOCK_BYTES / OUTBOUND_PARKED_SHARE)
        return kvr_error_set(error, KVR_FULL, "want",
                             "the page tables of what this target wants and nobody has published "
                             "take too much memory");
    status =
        kvr_page_tables_init(&offer->pages, remote->set, offer->tokens, outbound->memory, error);
    if (status != KVR_OK)
        return status;
    offer->remote = kvr_region_set_acquire(remote->set);
    outbound->peers[offer->peer].parked_bytes += table_bytes;
    return skips_take(offer, want, error);
}

void want_received(struct outbound *outbound, kvr_ns now, uint32_t peer, uint64_t nonce,
                   const struct kvr_msg_want *want)
{
    struct kvr_error error;
    struct publish *publish;
    struct offer *offer;

    if (outbound->peers[peer].parked >= OUTBOUND_PARKED_MAX) {
        want_refuse(outbound, peer, nonce, KVR_FULL,
                    "this target wants too much that nobody has published");
        return;
    }
    if (nonce == 0 || (offer = offer_new(outbound, now, peer, nonce, want)) == NULL) {
        want_refuse(outbound, peer, nonce, KVR_FULL,
                    "the source agent's table of transfers is full, or the transfer is known");
        return;
    }
    if (target_check(outbound, offer, want, &error) != KVR_OK ||
        generation_check(outbound, offer, &error) != KVR_OK) {
        publish = publish_match(outbound, offer);
        if (publish != NULL)
            publish_refuse(outbound, publish, peer, &error);
        offer_fail(outbound, now, offer, error.status, error.detail);
        return;
    }
    publish = publish_match(outbound, offer);
    if (publish != NULL)
        offer_match(outbound, now, offer, publish);
    else if (outbound->draining)
        offer_fail(outbound, now, offer, KVR_DRAINING, OFFER_DRAINING);
}

void pages_received(struct outbound *outbound, kvr_ns now, struct offer *offer,
                    const struct kvr_msg_pages *pages)
{
    struct kvr_page_table *table;
    struct kvr_error error;

    if (offer->state != O_PARKED && offer->state != O_OFFERED && offer->state != O_LIVE)
        return;
    table = kvr_page_tables_of(&offer->pages, pages->group, "target", &error);
    if (table == NULL || kvr_page_table_append_runs(table, pages->page_first, pages->runs,
                                                    pages->run_count, &error) != KVR_OK) {
        offer_fail(outbound, now, offer, error.status, error.detail);
        return;
    }
    offer_advance(outbound, now, offer);
}

/* ---- matching -------------------------------------------------------------------------------- */

static kvr_status match_check(struct outbound *outbound, const struct offer *offer,
                              const struct publish *publish, struct kvr_error *error)
{
    const struct kvr_engine *engine = &outbound->engines.local[publish->engine];
    const struct kvr_remote_engine *remote =
        kvr_engines_remote(&outbound->engines, offer->peer, &offer->target);
    kvr_status status = consumer_check(offer, publish, error);

    if (status == KVR_OK && remote == NULL)
        return kvr_error_set(error, KVR_MALFORMED, "want", "the target's regions are gone");
    if (status == KVR_OK)
        status = kvr_compat_check(&engine->compat, &remote->compat, error);
    if (status == KVR_OK)
        status = kvr_region_set_hashed(publish->set, offer->digest, error);
    for (uint32_t group = 0; status == KVR_OK && group < KVR_GROUPS_MAX; group++)
        if (publish->pages.groups[group].page_tokens > 0 &&
            offer->pages.groups[group].page_tokens > 0)
            status = kvr_layout_match(publish->set->layouts, publish->set->count,
                                      offer->remote->layouts, offer->remote->count, group, error);
    return status;
}

/* Either side may know that it is urgent, or not. */
static int32_t priority_sum(int32_t fetch, int32_t publish)
{
    int64_t sum = (int64_t)fetch + publish;

    if (sum > INT32_MAX)
        return INT32_MAX;
    return sum < INT32_MIN ? INT32_MIN : (int32_t)sum;
}

void offer_match(struct outbound *outbound, kvr_ns now, struct offer *offer,
                 struct publish *publish)
{
    struct kvr_notice notice = {.kind = KVR_NOTICE_ACCEPTED, .handle = publish->handle};
    struct kvr_error error;

    if (match_check(outbound, offer, publish, &error) != KVR_OK ||
        consumers_know(outbound, now, offer, publish, &error) != KVR_OK ||
        offer_way(outbound, offer, publish, &error) != KVR_OK) {
        publish_refuse(outbound, publish, offer->peer, &error);
        offer_fail(outbound, now, offer, error.status, error.detail);
        return;
    }
    offer_unpark(outbound, offer);
    offer->state = O_OFFERED;
    offer->publish = publish->id;
    if (!offer->dated)
        offer->deadline = now + outbound->options.want_default_ns;
    offer->priority = priority_sum(offer->priority, publish->priority);
    consumer_comes(publish, offer);
    if (!publish->accepted_told && !publish->engine_gone)
        outbound->ports->notify(outbound->ports->self, publish->engine, &notice);
    publish->accepted_told = true;
    offer_event(outbound, now, offer, KVR_EVENT_MATCHED);
    offer_advance(outbound, now, offer);
}

/* ---- GRANT ----------------------------------------------------------------------------------- */

static kvr_status grant_check(const struct offer *offer, const struct kvr_msg_grant *grant,
                              struct kvr_error *error)
{
    if (grant->slot_count == 0 || grant->slot_count > KVR_TRANSFER_SLOTS_MAX ||
        (uint64_t)grant->slot_count * KVR_SLOT_CHUNKS < offer->chunk_count)
        return kvr_error_set(error, KVR_MALFORMED, "grant", "%u slots for %u writes",
                             grant->slot_count, offer->chunk_count);
    for (uint32_t i = 0; i < grant->slot_count; i++)
        if (grant->slots[i] == 0)
            return kvr_error_set(error, KVR_MALFORMED, "grant", "slot 0 was granted");
    for (uint32_t i = 0; i < grant->rail_count; i++)
        if (grant->rails[i].rail >= KVR_RAILS_MAX)
            return kvr_error_set(error, KVR_MALFORMED, "grant", "rail %u was granted",
                                 grant->rails[i].rail);
    if (offer->scatters && offer->bytes > 0 && grant->share_bytes == 0)
        return kvr_error_set(error, KVR_MALFORMED, "grant",
                             "no staging memory, where WANT said that there would be");
    if (grant->share_bytes > 0 &&
        (offer->remote->count == 0 || grant->share_offset > UINT64_MAX - grant->share_bytes))
        return kvr_error_set(error, KVR_MALFORMED, "grant",
                             "%" PRIu64 " bytes of staging memory at %" PRIu64, grant->share_bytes,
                             grant->share_offset);
    if (grant->share_bytes > 0 && grant->share_key_count == 0)
        return kvr_error_set(error, KVR_MALFORMED, "grant", "staging memory without its keys");
    return KVR_OK;
}

/* What was planned before it was known where it goes. */
static kvr_status positions_set(struct outbound *outbound, struct offer *offer,
                                const struct kvr_msg_grant *grant, struct kvr_error *error)
{
    kvr_status status = KVR_OK;

    for (struct push_segment *at = offer->segments;
         grant->share_bytes > 0 && at != NULL && status == KVR_OK; at = at->next)
        status = segment_position(outbound, offer, at, grant->share_bytes, error);
    return status;
}

/* The target's staging memory as a region. */
static void share_set(struct push_job *job, const struct offer *offer,
                      const struct kvr_msg_grant *grant)
{
    if (grant->share_bytes == 0)
        return;
    job->share = offer->remote->remotes[0];
    job->share.layout.bytes = grant->share_offset + grant->share_bytes;
    job->share.rail_count = grant->share_key_count;
    memcpy(job->share.keys, grant->share_keys, grant->share_key_count * sizeof(job->share.keys[0]));
    job->share_offset = grant->share_offset;
    job->share_bytes = job->room = grant->share_bytes;
}

bool offer_lends(const struct outbound *outbound, const struct offer *offer,
                 const struct publish *publish)
{
    const struct kvr_rail_groups *groups = &outbound->options.groups;

    if (outbound->ports->loans == NULL || groups->same_host == 0)
        return outbound->ports->loans != NULL;
    return outbound->peers[offer->peer].same_host != 0 && publish->set->count > 0 &&
           kvr_region_set_lies_on(publish->set,
                                  kvr_rail_groups_same_host(groups, publish->set->locals[0]->home));
}

uint64_t granted_rails(const struct outbound *outbound, const struct offer *offer,
                       const struct kvr_msg_grant *grant)
{
    const struct publish *publish = kvr_pool_get(&outbound->publishes, offer->publish);
    uint64_t rails = 0, here;
    bool lends;

    for (uint32_t i = 0; i < grant->rail_count; i++)
        rails |= grant->rails[i].rail < KVR_RAILS_MAX ? UINT64_C(1) << grant->rails[i].rail : 0;
    if (outbound->options.groups.same_host == 0)
        return rails;
    here = outbound->peers[offer->peer].same_host;
    if (offer->moves) /* cards cannot read what the target moves itself */
        return rails & here;
    lends = publish != NULL && offer_lends(outbound, offer, publish) && (rails & ~here) == 0;
    return lends ? rails : rails & ~here;
}

void offer_granted(const struct outbound *outbound, struct offer *offer, uint64_t rails)
{
    offer->granted = rails;
    offer->local = outbound->options.groups.same_host != 0 && rails != 0 &&
                   (rails & ~outbound->peers[offer->peer].same_host) == 0;
}

/* What was planned while the group thread had no job, or could not be told. */
void offer_segments_hand(struct outbound *outbound, struct offer *offer)
{
    while (offer->segments != NULL) {
        struct push_segment *segment = offer->segments;

        offer->segments = segment->next;
        segment->next = NULL;
        outbound_group_command(outbound, offer, PUSH_SEGMENT, segment);
    }
    offer->segments_last = NULL;
    if (offer->final_told)
        outbound_group_command(outbound, offer, PUSH_FINAL, NULL);
}

void grant_received(struct outbound *outbound, kvr_ns now, struct offer *offer,
                    const struct kvr_msg_grant *grant)
{
    const struct publish *publish = kvr_pool_get(&outbound->publishes, offer->publish);
    struct kvr_error error;
    struct push_job *job;

    if (offer->state == O_LIVE)
        grant_again(outbound, now, offer, grant);
    if (offer->state != O_OFFERED)
        return;
    job = kvr_buddy_alloc(outbound->memory, sizeof(*job));
    if (job == NULL || grant_check(offer, grant, &error) != KVR_OK ||
        positions_set(outbound, offer, grant, &error) != KVR_OK) {
        kvr_buddy_free(outbound->memory, job);
        offer_fail(outbound, now, offer, job == NULL ? KVR_NO_MEMORY : error.status,
                   job == NULL ? "no memory for posting" : error.detail);
        return;
    }
    offer->group = publish->set->locals[0]->home;
    memset(job, 0, sizeof(*job));
    share_set(job, offer, grant);
    job->index = kvr_pool_index(offer->id);
    job->peer = offer->peer;
    job->transfer = offer->nonce;
    job->source = publish->set;
    job->target = offer->remote;
    job->via = offer->gathers ? kvr_region_set_stage(publish->set) : NULL;
    job->moves = offer->moves;
    job->slot_count = grant->slot_count;
    job->digest = offer->digest;
    job->deadline = offer->deadline;
    job->priority = offer->priority;
    offer_granted(outbound, offer, granted_rails(outbound, offer, grant));
    job->target_rails = offer->granted;
    offer->groups_used = UINT32_C(1) << offer->group;
    memcpy(job->slots, grant->slots, grant->slot_count * sizeof(job->slots[0]));
    offer->job = job;
    offer->state = O_LIVE;
    if (outbound->ports->loans != NULL &&
        (offer->local || outbound->options.groups.same_host == 0)) {
        job->loan = &outbound->ports->loans[job->index];
        kvr_loan_begin(job->loan, offer->nonce);
    }
    outbound_group_command(outbound, offer, PUSH_OPEN, job);
    offer_segments_hand(outbound, offer);
    offer_event(outbound, now, offer, KVR_EVENT_GRANTED);
}
