#include "prefill-agent/match.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/mutant.h"
#include "base/rng.h"
#include "kv/layout.h"
#include "prefill-agent/access.h"
#include "prefill-agent/outbound.h"
#include "prefill-agent/parked.h"
#include "prefill-agent/publish.h"
#include "prefill-agent/sending.h"
#include "prefill-agent/source_transfer.h"
#include "wire/compat.h"

/* While draining, publishes of before are still fetched; this is the answer to any other WANT. */
#define TRANSFER_DRAINING                                                                          \
    "the source agent takes no new requests, and no engine has published this one"

uint64_t match_key(const char *request, uint32_t attempt, const struct kvr_uuid *engine,
                   uint64_t generation, uint32_t tp, uint32_t pp)
{
    uint64_t key, word;

    if (KVR_MUTANT(old_generation_accepted))
        generation = 0;
    key = kvr_mix64(generation ^ (uint64_t)attempt << 32);

    for (size_t i = 0; i < sizeof(engine->bytes); i += sizeof(word)) {
        memcpy(&word, engine->bytes + i, sizeof(word));
        key = kvr_mix64(key ^ word);
    }
    key = kvr_mix64(key ^ ((uint64_t)tp << 32 | pp));
    for (const char *c = request; *c != '\0'; c++)
        key = kvr_mix64(key ^ (uint8_t)*c);
    return key;
}

static bool generation_matches(const struct source_transfer *transfer, uint64_t generation)
{
    return transfer->match.source_generation == 0 ||
           transfer->match.source_generation == generation || KVR_MUTANT(old_generation_accepted);
}

static bool wants(const struct source_transfer *transfer, const char *request, uint32_t attempt,
                  const struct kvr_rank *rank)
{
    return attempt == transfer->match.attempt && strcmp(request, transfer->match.request) == 0 &&
           kvr_uuid_equal(&rank->engine, &transfer->match.source_engine) &&
           generation_matches(transfer, rank->generation) &&
           rank->tp == transfer->match.source_tp && rank->pp == transfer->match.source_pp;
}

static bool matches(const struct outbound *outbound, const struct publish *publish,
                    const struct source_transfer *transfer)
{
    return wants(transfer, publish->request, publish->attempt,
                 &outbound->engines.local[publish->engine].rank);
}

/* The key of the publish that the transfer wants: of any generation, the one that is attached. */
static uint64_t key_now(const struct outbound *outbound, const struct source_transfer *transfer)
{
    const struct source_match *match = &transfer->match;
    int engine;

    if (match->source_generation != 0)
        return match->key;
    engine = kvr_engines_find(&outbound->engines, &match->source_engine, match->source_tp,
                              match->source_pp);
    if (engine < 0)
        return match->key;
    return match_key(match->request, match->attempt, &match->source_engine,
                     outbound->engines.local[engine].rank.generation, match->source_tp,
                     match->source_pp);
}

static struct publish *match_find(const struct outbound *outbound,
                                  const struct source_transfer *transfer)
{
    struct publish *publish;
    uint32_t index;

    if (!kvr_table_find(&outbound->by_key, key_now(outbound, transfer), &index))
        return NULL;
    publish = kvr_pool_at(&outbound->publishes, index, NULL);
    return publish != NULL && matches(outbound, publish, transfer) ? publish : NULL;
}

/* One that the target may have. A guesser learns nothing: its WANT waits, as for a request that no
 * engine publishes, and takes as long to be looked at. */
static struct publish *match_allowed(struct outbound *outbound, struct source_transfer *transfer)
{
    static const struct kvr_proof_key no_key;
    struct publish *publish = match_find(outbound, transfer);
    bool allowed =
        access_allowed(outbound, transfer, publish != NULL ? &publish->proof_key : &no_key,
                       publish != NULL ? publish->tenant : KVR_TENANT_NONE);

    if (publish != NULL && !allowed)
        access_refuse(outbound, transfer, publish);
    return allowed ? publish : NULL;
}

/* ---- publishes that have ended ----------------------------------------------------------------
 */

static void past_fail(struct outbound *outbound, struct source_transfer *transfer,
                      const struct past_publish *ended)
{
    char detail[KVR_DETAIL_BYTES];

    if (ended->status == KVR_OK)
        snprintf(detail, sizeof(detail),
                 "every target of this attempt has come, and its publish has ended: fetch the next "
                 "attempt");
    else
        snprintf(detail, sizeof(detail), "its publish ended before this target came: %s",
                 kvr_status_text(ended->status));
    source_transfer_fail(outbound, transfer,
                         ended->status == KVR_OK ? KVR_NO_SOURCE : ended->status, detail);
}

static const struct past_publish *past_of(const struct outbound *outbound,
                                          const struct source_transfer *transfer)
{
    static const struct kvr_proof_key no_key;
    const struct past_publish *ended =
        KVR_MUTANT(ends_forgotten)
            ? NULL
            : past_find(&outbound->past, key_now(outbound, transfer), outbound->now);
    bool allowed = access_allowed(outbound, transfer, ended != NULL ? &ended->proof_key : &no_key,
                                  ended != NULL ? ended->tenant : KVR_TENANT_NONE) ||
                   KVR_MUTANT(ends_open);

    return allowed && ended != NULL && wants(transfer, ended->request, ended->attempt, &ended->rank)
               ? ended
               : NULL;
}

void match_ended(struct outbound *outbound, const struct past_publish *ended)
{
    past_add(&outbound->past, ended);
    if (outbound->parked == 0)
        return;
    KVR_POOL_EACH (struct source_transfer, transfer, &outbound->transfers)
        if (transfer->state == ST_PARKED &&
            wants(transfer, ended->request, ended->attempt, &ended->rank) &&
            access_allowed(outbound, transfer, &ended->proof_key, ended->tenant))
            past_fail(outbound, transfer, ended);
}

/* ---- WANT ------------------------------------------------------------------------------------ */

/* CANCEL instead of FAIL: FAIL may have to wait for room, and there is no transfer that could. */
static void want_refuse(struct outbound *outbound, uint32_t peer, uint64_t nonce, kvr_status status,
                        const char *detail)
{
    struct kvr_message message = {.kind = KVR_MSG_CANCEL, .transfer = nonce};

    message.reason.status = status;
    snprintf(message.reason.detail, sizeof(message.reason.detail), "%s", detail);
    outbound_send(outbound, peer, &message);
}

static bool siblings_take(struct outbound *outbound, struct source_transfer *transfer,
                          const struct kvr_msg_want *want)
{
    size_t bytes = want->sibling_count * sizeof(*transfer->match.siblings);

    if (want->sibling_count < 2)
        return true;
    transfer->match.siblings = kvr_buddy_alloc(outbound->memory, bytes);
    if (transfer->match.siblings == NULL)
        return false;
    memcpy(transfer->match.siblings, want->siblings, bytes);
    transfer->match.sibling_count = want->sibling_count;
    return true;
}

static struct source_transfer *transfer_new(struct outbound *outbound, uint32_t peer,
                                            uint64_t nonce, const struct kvr_msg_want *want)
{
    uint64_t id;
    struct source_transfer *transfer = kvr_pool_acquire(&outbound->transfers, &id);

    if (transfer == NULL)
        return NULL;
    if (!siblings_take(outbound, transfer, want) ||
        kvr_table_insert(&outbound->by_nonce, nonce, kvr_pool_index(id)) != KVR_OK) {
        kvr_buddy_free(outbound->memory, transfer->match.siblings);
        kvr_pool_release(&outbound->transfers, id);
        return NULL;
    }
    transfer->id = id;
    transfer->nonce = nonce;
    transfer->peer = peer;
    memcpy(transfer->match.request, want->request, sizeof(transfer->match.request));
    transfer->match.attempt = want->attempt;
    transfer->match.source_engine = want->source_engine;
    transfer->match.source_generation = want->source_generation;
    transfer->match.source_tp = want->source_tp;
    transfer->match.source_pp = want->source_pp;
    transfer->match.target = want->target;
    transfer->match.tokens = want->tokens;
    transfer->digest.mode = want->digest;
    transfer->path.scatters = want->staged;
    transfer->path.direct_copy =
        want->staged && want->direct_copy ? DIRECT_COPY_POSSIBLE : DIRECT_COPY_NO;
    transfer->path.target_stage_bytes = want->staged ? 0 : want->stage_bytes;
    transfer->match.key = match_key(want->request, want->attempt, &want->source_engine,
                                    want->source_generation, want->source_tp, want->source_pp);
    transfer->match.deadline = outbound->now + kvr_deadline_ms(want->deadline_ms) * KVR_MS;
    transfer->match.priority = want->priority;
    transfer->match.proof = want->proof;
    transfer->match.tenant = access_tenant(outbound, peer, want->tenant);
    transfer->settle.fence_at = transfer->failover.ask_at = transfer->failover.no_rail_at =
        KVR_NEVER;
    transfer->state = ST_PARKED;
    if (want->skips_follow)
        source_announce_on(&transfer->announce.state, ANNOUNCE_ON_HELD);
    outbound->parked++;
    outbound->peers[peer].parked++;
    return transfer;
}

/* A request that certainly will not be published need not wait for its deadline. */
static kvr_status generation_check(const struct outbound *outbound,
                                   const struct source_transfer *transfer, struct kvr_error *error)
{
    int index = kvr_engines_find(&outbound->engines, &transfer->match.source_engine,
                                 transfer->match.source_tp, transfer->match.source_pp);

    if (KVR_MUTANT(old_generation_accepted) || transfer->match.source_generation == 0)
        return KVR_OK;
    if (index >= 0 &&
        outbound->engines.local[index].rank.generation > transfer->match.source_generation)
        return kvr_error_set(
            error, KVR_STALE, "want",
            "generation %" PRIu64 " of the source engine is gone; it is %" PRIu64 " now",
            transfer->match.source_generation, outbound->engines.local[index].rank.generation);
    if (kvr_engines_gone(&outbound->engines, &transfer->match.source_engine,
                         transfer->match.source_generation, transfer->match.source_tp,
                         transfer->match.source_pp))
        return kvr_error_set(error, KVR_ENGINE_LOST, "want", "the source engine ended");
    return KVR_OK; /* it may still come */
}

/* The tokens that the target does not need, in each KV group. */
static kvr_status skips_take(struct source_transfer *transfer, const struct kvr_msg_skip *skips,
                             struct kvr_error *error)
{
    uint64_t tokens = transfer->match.tokens;

    if (skips->skip_tokens > tokens)
        return kvr_error_set(error, KVR_INVALID, "want",
                             "%" PRIu64 " of %" PRIu64 " tokens skipped", skips->skip_tokens,
                             tokens);
    transfer->match.skip_tokens = skips->skip_tokens;
    for (uint32_t group = 0; group < KVR_GROUPS_MAX; group++) {
        uint32_t page_tokens = transfer->match.pages.groups[group].page_tokens;
        uint64_t skip;

        if (page_tokens == 0)
            continue;
        skip = group < skips->group_skip_count
                   ? skips->group_skips[group]
                   : kvr_skip_whole_pages(skips->skip_tokens, tokens, page_tokens);
        if (!kvr_skip_is_whole(skip, tokens, page_tokens))
            return kvr_error_set(error, KVR_INVALID, "want",
                                 "%" PRIu64 " of %" PRIu64
                                 " tokens of KV group %u are skipped: not whole pages of %u",
                                 skip, tokens, group, page_tokens);
        transfer->announce.token_next[group] = skip;
    }
    return KVR_OK;
}

/* The target's regions, and what they say about its page tables. */
static kvr_status target_check(struct outbound *outbound, struct source_transfer *transfer,
                               const struct kvr_msg_want *want, struct kvr_error *error)
{
    const struct kvr_remote_engine *remote =
        kvr_engines_remote(&outbound->engines, transfer->peer, &transfer->match.target);
    const struct kvr_msg_skip skips = {want->skip_tokens, want->group_skips,
                                       want->group_skip_count};
    uint64_t table_bytes;
    kvr_status status;

    if (remote == NULL || remote->rank.generation != transfer->match.target.generation)
        return kvr_error_set(error, KVR_MALFORMED, "want", "a WANT before the target's regions");
    table_bytes = kvr_page_tables_bytes(remote->set, transfer->match.tokens);
    KVR_TRY(parked_memory(outbound, transfer->peer, table_bytes, error));
    status = kvr_page_tables_init(&transfer->match.pages, remote->set, transfer->match.tokens,
                                  outbound->memory, error);
    if (status != KVR_OK) {
        parked_memory_return(outbound, transfer->peer, table_bytes);
        return status;
    }
    transfer->match.remote = kvr_region_set_acquire(remote->set);
    return skips_take(transfer, &skips, error);
}

/* ---- matching -------------------------------------------------------------------------------- */

static kvr_status match_check(struct outbound *outbound, const struct source_transfer *transfer,
                              const struct publish *publish, struct kvr_error *error)
{
    const struct kvr_engine *engine = &outbound->engines.local[publish->engine];
    const struct kvr_remote_engine *remote =
        kvr_engines_remote(&outbound->engines, transfer->peer, &transfer->match.target);
    kvr_status status = consumer_check(transfer, publish, error);

    if (status == KVR_OK && remote == NULL)
        return kvr_error_set(error, KVR_MALFORMED, "want", "the target's regions are gone");
    if (status == KVR_OK)
        status = kvr_compat_check(&engine->compat, &remote->compat, error);
    if (status == KVR_OK)
        status = kvr_region_set_hashed(publish->set, transfer->digest.mode, error);
    for (uint32_t group = 0; status == KVR_OK && group < KVR_GROUPS_MAX; group++)
        if (publish->pages.groups[group].page_tokens > 0 &&
            transfer->match.pages.groups[group].page_tokens > 0)
            status = kvr_layout_match(publish->set->layouts, publish->set->count,
                                      transfer->match.remote->layouts,
                                      transfer->match.remote->count, group, error);
    return status;
}

/* Either side may know that the transfer is urgent. */
static int32_t priority_sum(int32_t fetch, int32_t publish)
{
    int64_t sum = (int64_t)fetch + publish;

    if (sum > INT32_MAX)
        return INT32_MAX;
    return sum < INT32_MIN ? INT32_MIN : (int32_t)sum;
}

static void transfer_match(struct outbound *outbound, struct source_transfer *transfer,
                           struct publish *publish)
{
    struct kvr_notice notice = {.kind = KVR_NOTICE_ACCEPTED};
    struct kvr_error error;

    if (consumer_leaves(outbound, transfer, publish))
        return; /* it stays parked until then */
    if (match_check(outbound, transfer, publish, &error) != KVR_OK ||
        consumers_know(outbound, transfer, publish, &error) != KVR_OK ||
        path_decide(outbound, transfer, publish, &error) != KVR_OK) {
        publish_refuse(outbound, publish, transfer->peer, &error);
        source_transfer_fail(outbound, transfer, error.status, error.detail);
        return;
    }
    match_unpark(outbound, transfer);
    source_transfer_on(&transfer->state, ST_ON_MATCHED);
    transfer->publish = publish->id;
    transfer->match.priority = priority_sum(transfer->match.priority, publish->priority);
    consumer_comes(publish, transfer);
    if (publish->state == PUBLISH_OPEN)
        publish_notify(outbound, publish, &notice);
    publish_on(&publish->state, PUBLISH_ON_MATCHED);
    source_transfer_event(outbound, transfer, KVR_EVENT_MATCHED);
    source_transfer_advance(outbound, transfer);
}

void match_want(struct outbound *outbound, uint32_t peer, uint64_t nonce,
                const struct kvr_msg_want *want)
{
    struct kvr_error error;
    struct publish *publish;
    struct source_transfer *transfer;
    const struct past_publish *ended;

    if (want->deadline_ms == 0) { /* pages may not be held for ever */
        want_refuse(outbound, peer, nonce, KVR_INVALID, "the WANT names no deadline");
        return;
    }
    if (access_needs_secret(outbound) && !kvr_proof_given(&want->proof)) {
        outbound->wants_unproven++;
        want_refuse(outbound, peer, nonce, KVR_NOT_AUTHORIZED,
                    "the WANT proves no secret of its request, and this prefill-agent runs "
                    "without --insecure");
        return;
    }
    if (parked_place(outbound, peer, &error) != KVR_OK) {
        want_refuse(outbound, peer, nonce, error.status, error.detail);
        return;
    }
    if (nonce == 0 || (transfer = transfer_new(outbound, peer, nonce, want)) == NULL) {
        want_refuse(outbound, peer, nonce, KVR_FULL,
                    "the source agent's table of transfers is full, or the transfer is known");
        return;
    }
    if (target_check(outbound, transfer, want, &error) != KVR_OK ||
        generation_check(outbound, transfer, &error) != KVR_OK) {
        publish = match_allowed(outbound, transfer);
        if (publish != NULL)
            publish_refuse(outbound, publish, peer, &error);
        source_transfer_fail(outbound, transfer, error.status, error.detail);
        return;
    }
    publish = match_allowed(outbound, transfer);
    ended = publish == NULL ? past_of(outbound, transfer) : NULL;
    if (publish != NULL)
        transfer_match(outbound, transfer, publish);
    else if (ended != NULL)
        past_fail(outbound, transfer, ended);
    else if (outbound->draining != NULL)
        source_transfer_fail(outbound, transfer, KVR_DRAINING, TRANSFER_DRAINING);
}

void match_skip(struct outbound *outbound, struct source_transfer *transfer,
                const struct kvr_msg_skip *skip)
{
    struct kvr_error error;
    kvr_status status;

    if (transfer->state != ST_PARKED && transfer->state != ST_OFFERED && transfer->state != ST_LIVE)
        return;
    status = transfer->announce.state == ANNOUNCE_HELD
                 ? skips_take(transfer, skip, &error)
                 : kvr_error_set(&error, KVR_MALFORMED, "want",
                                 "a SKIP of a transfer that is planned already");
    if (status != KVR_OK) {
        source_transfer_fail(outbound, transfer, error.status, error.detail);
        return;
    }
    source_announce_on(&transfer->announce.state, ANNOUNCE_ON_SKIP);
    source_transfer_advance(outbound, transfer);
}

void match_pages(struct outbound *outbound, struct source_transfer *transfer,
                 const struct kvr_msg_pages *pages)
{
    struct kvr_page_table *table;
    struct kvr_error error;

    if (transfer->state != ST_PARKED && transfer->state != ST_OFFERED && transfer->state != ST_LIVE)
        return;
    table = kvr_page_tables_of(&transfer->match.pages, pages->group, "target", &error);
    if (table == NULL || kvr_page_table_append_runs(table, pages->page_first, pages->runs,
                                                    pages->run_count, &error) != KVR_OK) {
        source_transfer_fail(outbound, transfer, error.status, error.detail);
        return;
    }
    source_transfer_advance(outbound, transfer);
}

static void match_parked_one(struct outbound *outbound, struct source_transfer *transfer,
                             struct publish *publish)
{
    if (access_allowed(outbound, transfer, &publish->proof_key, publish->tenant))
        transfer_match(outbound, transfer, publish);
    else
        access_refuse(outbound, transfer, publish);
}

void match_parked(struct outbound *outbound, struct publish *publish)
{
    uint64_t id = publish->id;

    if (outbound->parked == 0)
        return;
    KVR_POOL_EACH (struct source_transfer, transfer, &outbound->transfers) {
        if (kvr_pool_get(&outbound->publishes, id) == NULL)
            return; /* the transfer before failed at once, and was the last that it waited for */
        if (transfer->state == ST_PARKED &&
            (transfer->match.key == publish->key || transfer->match.source_generation == 0) &&
            matches(outbound, publish, transfer))
            match_parked_one(outbound, transfer, publish);
    }
}

/* ---- parked WANTs ---------------------------------------------------------------------------- */

void match_unpark(struct outbound *outbound, const struct source_transfer *transfer)
{
    struct outbound_peer *peer = &outbound->peers[transfer->peer];

    outbound->parked--;
    peer->parked--;
    if (transfer->match.remote != NULL) /* else it was refused before it had a page table */
        parked_memory_return(outbound, transfer->peer,
                             kvr_page_tables_bytes(transfer->match.remote, transfer->match.tokens));
}

void match_engine_down(struct outbound *outbound, const struct kvr_rank *rank)
{
    KVR_POOL_EACH (struct source_transfer, transfer, &outbound->transfers)
        if (transfer->state == ST_PARKED &&
            kvr_uuid_equal(&transfer->match.source_engine, &rank->engine) &&
            transfer->match.source_generation == rank->generation &&
            transfer->match.source_tp == rank->tp && transfer->match.source_pp == rank->pp)
            source_transfer_fail(outbound, transfer, KVR_ENGINE_LOST, "the source engine ended");
}

void match_tick(struct outbound *outbound, struct source_transfer *transfer)
{
    if (outbound->draining != NULL)
        source_transfer_fail(outbound, transfer, KVR_DRAINING, TRANSFER_DRAINING);
    else if (outbound->now >= transfer->match.deadline)
        source_transfer_fail(outbound, transfer, KVR_NO_SOURCE,
                             "no engine published this request, attempt and generation, with the "
                             "secret and the tenant of this fetch, in time");
}
