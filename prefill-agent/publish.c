/* state    | MATCHED  | FAILED  | SETTLED
 * ---------|----------|---------|--------
 * OPEN     | ACCEPTED | FAILING | -
 * ACCEPTED | =        | FAILING | FREED
 * FAILING  | -        | =       | FREED
 * FREED    | -        | -       | - */
#include "prefill-agent/publish.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "prefill-agent/access.h"
#include "prefill-agent/outbound.h"
#include "prefill-agent/source_transfer.h"

KVR_STATE_TABLE(publish, PUBLISH) = {
    /* MATCHED, FAILED, SETTLED */
    [PUBLISH_OPEN] = {PUBLISH_ACCEPTED, PUBLISH_FAILING, NEVER},
    [PUBLISH_ACCEPTED] = {PUBLISH_ACCEPTED, PUBLISH_FAILING, PUBLISH_FREED},
    [PUBLISH_FAILING] = {NEVER, PUBLISH_FAILING, PUBLISH_FREED},
    [PUBLISH_FREED] = {NEVER, NEVER, NEVER},
};

struct publish *publish_find(const struct outbound *outbound, uint32_t engine, uint64_t handle)
{
    struct publish *publish;
    uint32_t index;

    if (!kvr_table_find(&outbound->by_handle, kvr_handle_key(engine, handle), &index))
        return NULL;
    publish = kvr_pool_at(&outbound->publishes, index, NULL);
    return publish != NULL && publish->engine == engine && publish->handle == handle ? publish
                                                                                     : NULL;
}

void publish_notify(const struct outbound *outbound, const struct publish *publish,
                    struct kvr_notice *notice)
{
    notice->handle = publish->handle;
    if (!publish->engine_gone)
        outbound->ports->notify(outbound->ports->self, publish->engine, notice);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void refuse(struct outbound *outbound, uint32_t engine, uint64_t handle, kvr_status status,
                   const char *detail)
{
    struct kvr_notice notice = {.kind = KVR_NOTICE_SOURCE_FREE, .handle = handle, .status = status};

    snprintf(notice.detail, sizeof(notice.detail), "%s", detail);
    kvr_ended_add(&outbound->ended, engine, handle, status, detail);
    outbound->ports->notify(outbound->ports->self, engine, &notice);
}

static kvr_status open_check(const struct outbound *outbound,
                             const struct kvr_req_source_open *open, uint64_t key,
                             struct kvr_error *error)
{
    if (outbound->draining != NULL)
        return kvr_error_set(error, KVR_DRAINING, "publish", "%s", outbound->draining);
    if (kvr_table_find(&outbound->by_key, key, NULL))
        return kvr_error_set(error, KVR_EXISTS, "publish",
                             "request \"%s\" attempt %u is published already", open->request,
                             open->attempt);
    if (access_needs_secret(outbound) && !kvr_secret_given(&open->secret))
        return kvr_error_set(error, KVR_INVALID, "publish",
                             "the publish has no secret: this agent takes none without, unless it "
                             "runs with --insecure");
    if (open->consumers > KVR_CONSUMERS_MAX)
        return kvr_error_set(error, KVR_TOO_LARGE, "publish", "%u consumers: at most %u",
                             open->consumers, KVR_CONSUMERS_MAX);
    return KVR_OK;
}

#define TABLES_FULL                                                                                \
    "the agent's tables are full: lower the number of requests in flight, or start it with a "     \
    "larger --table-memory"

static struct publish *publish_new(struct outbound *outbound, uint32_t engine, uint64_t handle,
                                   uint64_t key, uint64_t tokens, struct kvr_error *error)
{
    uint64_t id;
    struct publish *publish = kvr_pool_acquire(&outbound->publishes, &id);

    kvr_error_set(error, KVR_FULL, "publish", TABLES_FULL);
    if (publish == NULL)
        return NULL;
    if (kvr_page_tables_init(&publish->pages, outbound->engines.local[engine].set, tokens,
                             outbound->memory, error) != KVR_OK)
        goto err_release;
    kvr_error_set(error, KVR_FULL, "publish", TABLES_FULL);
    if (kvr_table_insert(&outbound->by_handle, kvr_handle_key(engine, handle),
                         kvr_pool_index(id)) != KVR_OK)
        goto err_table;
    if (kvr_table_insert(&outbound->by_key, key, kvr_pool_index(id)) != KVR_OK)
        goto err_handle;
    publish->id = id;
    publish->handle = handle;
    publish->key = key;
    publish->engine = engine;
    return publish;

err_handle:
    kvr_table_remove(&outbound->by_handle, kvr_handle_key(engine, handle));
err_table:
    kvr_page_tables_done(&publish->pages, outbound->memory);
err_release:
    kvr_pool_release(&outbound->publishes, id);
    return NULL;
}

/* For targets that come later. */
static void remember(struct outbound *outbound, uint32_t engine, uint32_t tenant,
                     const char *request, uint32_t attempt, const struct kvr_proof_key *proof_key,
                     kvr_status status)
{
    struct past_publish ended = {.attempt = attempt,
                                 .tenant = tenant,
                                 .rank = outbound->engines.local[engine].rank,
                                 .proof_key = *proof_key,
                                 .status = status,
                                 .at = outbound->now};

    snprintf(ended.request, sizeof(ended.request), "%s", request);
    ended.key = match_key(request, attempt, &ended.rank.engine, ended.rank.generation,
                          ended.rank.tp, ended.rank.pp);
    match_ended(outbound, &ended);
    kvr_secret_wipe(&ended, sizeof(ended));
}

static struct kvr_proof_key proof_key_of(const struct outbound *outbound, uint32_t engine,
                                         const struct kvr_req_source_open *open)
{
    struct kvr_proof_key key = {{0}};

    if (kvr_secret_given(&open->secret))
        kvr_proof_key(&open->secret, open->request, open->attempt,
                      &outbound->engines.local[engine].rank, &key);
    return key;
}

static void publish_event(struct outbound *outbound, const struct publish *publish,
                          kvr_event_kind kind)
{
    const struct kvr_event_sink *sink = &outbound->ports->events;
    struct kvr_event event = {
        .kind = kind,
        .role = KVR_ROLE_SOURCE,
        .at = outbound->now,
        .attempt = publish->attempt,
        .source_engine = outbound->engines.local[publish->engine].rank.engine,
        .source_rank = {outbound->engines.local[publish->engine].rank.tp,
                        outbound->engines.local[publish->engine].rank.pp},
        .tokens = publish->tokens,
        .outcome = publish->status,
    };

    if (sink->emit == NULL)
        return;
    memcpy(event.request, publish->request, sizeof(event.request));
    kvr_tenants_name(&outbound->engines.tenants, publish->tenant, event.tenant);
    memcpy(event.detail, publish->detail, sizeof(event.detail));
    sink->emit(sink->self, &event);
}

void publish_open(struct outbound *outbound, uint32_t engine, uint64_t handle,
                  const struct kvr_req_source_open *open)
{
    const struct kvr_rank *rank = &outbound->engines.local[engine].rank;
    uint64_t key = match_key(open->request, open->attempt, &rank->engine, rank->generation,
                             rank->tp, rank->pp);
    struct kvr_proof_key proof_key = proof_key_of(outbound, engine, open);
    struct publish *publish = NULL;
    struct kvr_error error;
    uint32_t tenant;

    if (publish_find(outbound, engine, handle) != NULL) {
        kvr_engines_refuse_open(&outbound->engines, engine, handle);
        return;
    }
    if (kvr_engines_quota_take(&outbound->engines, engine, open->tenant, "publishes", &tenant,
                               &error) == KVR_OK) {
        if (open_check(outbound, open, key, &error) == KVR_OK)
            publish = publish_new(outbound, engine, handle, key, open->tokens, &error);
        if (publish == NULL)
            kvr_engines_tenant_give(&outbound->engines, tenant);
    }
    if (publish == NULL) {
        refuse(outbound, engine, handle, error.status, error.detail);
        if (error.status != KVR_EXISTS) /* else one that has the name goes on */
            remember(outbound, engine, tenant, open->request, open->attempt, &proof_key,
                     error.status);
        return;
    }
    publish->tenant = tenant;
    publish->proof_key = proof_key;
    kvr_secret_wipe(&proof_key, sizeof(proof_key));
    memcpy(publish->request, open->request, sizeof(publish->request));
    publish->attempt = open->attempt;
    publish->tokens = open->tokens;
    publish->priority = open->priority;
    publish->consumers.expected = open->consumers;
    publish->consumers.named = open->consumers > 0;
    publish->lease.length =
        open->lease_ms > 0 ? open->lease_ms * KVR_MS : outbound->options.lease_default_ns;
    publish->lease.end = outbound->now + publish->lease.length;
    publish->set = kvr_engines_set_acquire(&outbound->engines, engine);
    kvr_engines_use(&outbound->engines, engine);
    past_forget(&outbound->past, key);
    publish_event(outbound, publish, KVR_EVENT_OPENED);
    match_parked(outbound, publish);
}

/* ---- growing --------------------------------------------------------------------------------- */

static void advance_transfers(struct outbound *outbound, const struct publish *publish)
{
    uint64_t id = publish->id;

    for (uint32_t i = 0; i < publish->consumers.count; i++) {
        struct source_transfer *transfer =
            kvr_pool_get(&outbound->transfers, publish->consumers.list[i].transfer);

        if (transfer != NULL)
            source_transfer_advance(outbound, transfer);
        if (kvr_pool_get(&outbound->publishes, id) == NULL)
            return; /* the last transfer failed and took it along */
    }
}

void publish_request(struct outbound *outbound, struct publish *publish,
                     const struct kvr_request *request)
{
    struct kvr_error error;
    kvr_status status = KVR_OK;

    if (publish->state == PUBLISH_FAILING)
        return;
    lease_renew(publish, outbound->now);
    if (request->kind != KVR_REQ_RENEW)
        status = content_add(outbound, publish, request, &error);
    else if (request->renew.lease_ms > 0)
        lease_set(publish, outbound->now, request->renew.lease_ms * KVR_MS);
    if (status != KVR_OK)
        publish_fail(outbound, publish, status, error.detail);
    else
        advance_transfers(outbound, publish);
}

void publish_refuse(struct outbound *outbound, struct publish *publish, uint32_t peer,
                    const struct kvr_error *error)
{
    struct publish_refusal *refusal = &publish->refusal;
    struct kvr_notice notice = {.kind = KVR_NOTICE_TARGET_REFUSED, .status = error->status};

    refusal->count++;
    refusal->status = error->status;
    memcpy(refusal->agent, outbound->peers[peer].agent, sizeof(refusal->agent));
    memcpy(refusal->detail, error->detail, sizeof(refusal->detail));
    memcpy(notice.agent, refusal->agent, sizeof(notice.agent));
    memcpy(notice.detail, refusal->detail, sizeof(notice.detail));
    if (refusal->count <= PUBLISH_REFUSALS_SENT)
        publish_notify(outbound, publish, &notice);
}

/* ---- ending ---------------------------------------------------------------------------------- */

void publish_blame(struct publish *publish, kvr_status status, const char *detail)
{
    publish->consumers.blamed = NULL;
    if (publish->status != KVR_OK)
        return;
    publish->status = status;
    snprintf(publish->detail, sizeof(publish->detail), "%s", detail);
}

void publish_fail(struct outbound *outbound, struct publish *publish, kvr_status status,
                  const char *detail)
{
    uint64_t id = publish->id;

    if (publish_next(publish->state, PUBLISH_ON_FAILED) == publish->state)
        return;
    publish_on(&publish->state, PUBLISH_ON_FAILED);
    publish_blame(publish, status, detail);
    for (uint32_t i = 0; i < publish->consumers.count; i++) {
        struct source_transfer *transfer =
            kvr_pool_get(&outbound->transfers, publish->consumers.list[i].transfer);

        if (transfer != NULL)
            source_transfer_fail(outbound, transfer, status, detail);
        if (kvr_pool_get(&outbound->publishes, id) == NULL)
            return;
    }
    publish_check_free(outbound, publish);
}

void publish_check_free(struct outbound *outbound, struct publish *publish)
{
    uint32_t engine = publish->engine;
    struct kvr_notice notice = {
        .kind = KVR_NOTICE_SOURCE_FREE,
        .status = publish->status,
        .bytes = publish->bytes,
        .writes = publish->writes,
        .retries = publish->retries,
    };

    if (publish->consumers.ended_count < publish->consumers.count ||
        (publish->state != PUBLISH_FAILING &&
         (publish->consumers.expected == 0 ||
          publish->consumers.ended_count < publish->consumers.expected)))
        return;
    publish_on(&publish->state, PUBLISH_ON_SETTLED);
    memcpy(notice.detail, publish->detail, sizeof(notice.detail));
    if (!publish->engine_gone)
        kvr_ended_add(&outbound->ended, engine, publish->handle, publish->status, publish->detail);
    publish_notify(outbound, publish, &notice);
    if (publish->consumers.count == 0)
        publish_event(outbound, publish, KVR_EVENT_ENDED);
    kvr_table_remove(&outbound->by_handle, kvr_handle_key(publish->engine, publish->handle));
    kvr_table_remove(&outbound->by_key, publish->key);
    if (!publish->engine_gone) /* it may attach again, and publish it again */
        remember(outbound, engine, publish->tenant, publish->request, publish->attempt,
                 &publish->proof_key, publish->status);
    kvr_engines_tenant_give(&outbound->engines, publish->tenant);
    kvr_page_tables_done(&publish->pages, outbound->memory);
    content_free(outbound, publish);
    kvr_engines_set_release(&outbound->engines, engine, publish->set);
    kvr_secret_wipe(&publish->proof_key, sizeof(publish->proof_key));
    kvr_pool_release(&outbound->publishes, publish->id);
    kvr_engines_unuse(&outbound->engines, engine);
}
