/* Fetches and their page tables.
 *
 * state    | WANT_SENT | MATCHED  | FAILED  | SETTLED
 * ---------|-----------|----------|---------|--------
 * OPENED   | WANTED    | -        | FAILING | -
 * WANTED   | =         | ACCEPTED | FAILING | -
 * ACCEPTED | =         | =        | FAILING | ENDED
 * FAILING  | -         | -        | -       | ENDED
 * ENDED    | -         | =        | -       | =
 *
 *   OPENED    no source was sent what is skipped: no WANT, or one that is to be held
 *   WANTED    a source knows what is skipped: that is fixed
 *   ACCEPTED  the engine has been sent ACCEPTED
 *   FAILING   the engine has been sent FAILING; transfers drain
 *   ENDED     the engine has been sent the one terminal notice (rule 1); landings come back */
#include "decode-agent/fetch.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "decode-agent/layers.h"
#include "decode-agent/sending.h"

KVR_STATE_TABLE(fetch, F) = {
    /* WANT_SENT, MATCHED, FAILED, SETTLED */
    [F_OPENED] = {F_WANTED, NEVER, F_FAILING, NEVER},
    [F_WANTED] = {F_WANTED, F_ACCEPTED, F_FAILING, NEVER},
    [F_ACCEPTED] = {F_ACCEPTED, F_ACCEPTED, F_FAILING, F_ENDED},
    [F_FAILING] = {NEVER, NEVER, NEVER, F_ENDED},
    [F_ENDED] = {NEVER, F_ENDED, NEVER, F_ENDED},
};

/* ---- finding --------------------------------------------------------------------------------- */

struct fetch *fetch_find(const struct inbound *inbound, uint32_t engine, uint64_t handle)
{
    struct fetch *fetch;
    uint32_t index;

    if (!kvr_table_find(&inbound->by_handle, kvr_handle_key(engine, handle), &index))
        return NULL;
    fetch = kvr_pool_at(&inbound->fetches, index, NULL);
    return fetch != NULL && fetch->engine == engine && fetch->handle == handle ? fetch : NULL;
}

struct fetch *fetch_of(const struct inbound *inbound, const struct transfer *transfer)
{
    struct fetch *fetch = kvr_pool_get(&inbound->fetches, transfer->fetch);

    assert(fetch != NULL); /* a fetch outlives its transfers */
    return fetch;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* A request that was never admitted ends here: this agent never had its pages. */
static void refuse(struct inbound *inbound, uint32_t engine, uint64_t handle,
                   const struct kvr_req_target_open *open, kvr_status status, const char *detail)
{
    struct kvr_notice notice = {.kind = KVR_NOTICE_FAILED,
                                .handle = handle,
                                .status = status,
                                .token_first = open->skip_tokens,
                                .token_end = open->tokens};

    snprintf(notice.detail, sizeof(notice.detail), "%s", detail);
    kvr_ended_add(&inbound->ended, engine, handle, status, detail);
    inbound->ports->notify(inbound->ports->self, engine, &notice);
}

static kvr_status open_check(const struct inbound *inbound, uint32_t engine, uint64_t handle,
                             const struct kvr_req_target_open *open, struct kvr_error *error)
{
    if (inbound->draining != NULL)
        return kvr_error_set(error, KVR_DRAINING, "fetch", "%s", inbound->draining);
    if (fetch_find(inbound, engine, handle) != NULL)
        return kvr_error_set(error, KVR_EXISTS, "fetch",
                             "handle %" PRIu64 " has ended, and its landing is being closed: take "
                             "another handle",
                             handle);
    if (!inbound->options.without_secret && !kvr_secret_given(&open->secret))
        return kvr_error_set(error, KVR_INVALID, "fetch",
                             "the fetch has no secret: this agent takes none without, unless it "
                             "runs with --insecure");
    if (open->source_count == 0 || open->source_count > KVR_SOURCES_MAX)
        return kvr_error_set(error, KVR_INVALID, "fetch",
                             "%u sources: a fetch names 1 to %u source ranks", open->source_count,
                             KVR_SOURCES_MAX);
    return KVR_OK;
}

/* The target's own tokens end at a page boundary of one KV group at least. Of other groups the page
 * in which they end is fetched whole. */
static kvr_status skips_set(struct fetch *fetch, struct kvr_error *error)
{
    uint32_t page_tokens = KVR_PAGE_ENDLESS;
    bool whole = fetch->skip_tokens == fetch->tokens;

    for (uint32_t group = 0; group < KVR_GROUPS_MAX; group++) {
        const struct kvr_page_table *pages = &fetch->pages.groups[group];

        if (pages->page_tokens == 0)
            continue;
        page_tokens = kvr_min_u32(page_tokens, pages->page_tokens);
        fetch->skips[group] =
            kvr_skip_whole_pages(fetch->skip_tokens, fetch->tokens, pages->page_tokens);
        whole = whole || fetch->skips[group] == fetch->skip_tokens;
    }
    if (whole && fetch->skip_tokens <= fetch->tokens)
        return KVR_OK;
    if (page_tokens == KVR_PAGE_ENDLESS)
        return kvr_error_set(error, KVR_INVALID, "fetch",
                             "skip_tokens %" PRIu64 " of %" PRIu64
                             ": must be none, or all, because the engine has states alone",
                             fetch->skip_tokens, fetch->tokens);
    return kvr_error_set(error, KVR_INVALID, "fetch",
                         "skip_tokens %" PRIu64 " of %" PRIu64
                         ": must be whole pages of %u tokens, or all",
                         fetch->skip_tokens, fetch->tokens, page_tokens);
}

static kvr_status tables_full(struct kvr_error *error)
{
    return kvr_error_set(
        error, KVR_FULL, "fetch",
        "the agent's tables are full: lower the number of requests in flight, or start it with "
        "a larger --table-memory");
}

static kvr_status fetch_pages_init(struct inbound *inbound, struct fetch *fetch, uint32_t engine,
                                   uint64_t handle, struct kvr_error *error)
{
    kvr_status status = kvr_page_tables_init(&fetch->pages, inbound->engines.local[engine].set,
                                             fetch->tokens, inbound->memory, error);

    if (status == KVR_NO_MEMORY)
        return tables_full(error);
    if (status == KVR_OK)
        status = skips_set(fetch, error);
    if (status == KVR_OK && kvr_table_insert(&inbound->by_handle, kvr_handle_key(engine, handle),
                                             kvr_pool_index(fetch->id)) != KVR_OK)
        status = tables_full(error);
    if (status != KVR_OK)
        kvr_page_tables_done(&fetch->pages, inbound->memory);
    return status;
}

static struct fetch *fetch_new(struct inbound *inbound, uint32_t engine, uint64_t handle,
                               const struct kvr_req_target_open *open, struct kvr_error *error)
{
    uint64_t id;
    struct fetch *fetch = kvr_pool_acquire(&inbound->fetches, &id);

    if (fetch == NULL) {
        tables_full(error);
        return NULL;
    }
    fetch->id = id;
    fetch->tokens = fetch->result.token_end = fetch->result.salvage_end = open->tokens;
    fetch->skip_tokens = fetch->skip_opened = open->skip_tokens;
    if (fetch_pages_init(inbound, fetch, engine, handle, error) != KVR_OK) {
        kvr_pool_release(&inbound->fetches, id);
        return NULL;
    }
    fetch->serial = ++inbound->serial_next;
    fetch->handle = handle;
    fetch->engine = engine;
    memcpy(fetch->request, open->request, sizeof(fetch->request));
    fetch->attempt = open->attempt;
    fetch->priority = open->priority;
    fetch->digest = open->digest;
    fetch->deadline =
        inbound->now + (open->deadline_ms > 0 ? kvr_deadline_ms(open->deadline_ms) * KVR_MS
                                              : inbound->options.deadline_default_ns);
    fetch->set = kvr_engines_set_acquire(&inbound->engines, engine);
    kvr_engines_use(&inbound->engines, engine);
    return fetch;
}

/* The transfer keeps what its source must be shown, and not the secret. */
static void secret_take(struct transfer *transfer, const struct kvr_req_target_open *open)
{
    const struct kvr_rank source = {
        .engine = transfer->source.engine, .tp = transfer->source.tp, .pp = transfer->source.pp};

    if (kvr_secret_given(&open->secret))
        kvr_proof_key(&open->secret, open->request, open->attempt, &source, &transfer->proof_key);
}

void fetch_open(struct inbound *inbound, uint32_t engine, uint64_t handle,
                const struct kvr_req_target_open *open)
{
    struct fetch *fetch = fetch_find(inbound, engine, handle);
    struct kvr_error error;
    uint32_t tenant;

    if (fetch != NULL && fetch->state != F_ENDED) {
        kvr_engines_refuse_open(&inbound->engines, engine, handle);
        return;
    }
    fetch = NULL;
    if (kvr_engines_quota_take(&inbound->engines, engine, open->tenant, "fetches", &tenant,
                               &error) == KVR_OK) {
        if (open_check(inbound, engine, handle, open, &error) == KVR_OK)
            fetch = fetch_new(inbound, engine, handle, open, &error);
        if (fetch == NULL)
            kvr_engines_tenant_give(&inbound->engines, tenant);
    }
    if (fetch == NULL) {
        refuse(inbound, engine, handle, open, error.status, error.detail);
        return;
    }
    fetch->tenant = tenant;
    for (uint32_t i = 0; i < open->source_count; i++) {
        if (transfer_open(inbound, fetch, &open->sources[i], &error) != KVR_OK) {
            fetch_fail(inbound, fetch, error.status, error.detail);
            return;
        }
        secret_take(kvr_pool_get(&inbound->transfers, fetch->transfers[i]), open);
        transfer_report(inbound, kvr_pool_get(&inbound->transfers, fetch->transfers[i]),
                        KVR_EVENT_OPENED);
    }
    fetch_advance(inbound, fetch);
}

/* What every KV group skips, the fetch skips. */
static void skips_sum(struct fetch *fetch)
{
    uint64_t least = fetch->tokens;

    for (uint32_t group = 0; group < KVR_GROUPS_MAX; group++)
        if (fetch->pages.groups[group].page_tokens > 0)
            least = kvr_min_u64(least, fetch->skips[group]);
    fetch->skip_tokens = least > fetch->skip_opened ? least : fetch->skip_opened;
}

/* Before a source was sent what is skipped. */
static kvr_status skip_set(struct fetch *fetch, const struct kvr_req_skip *skip,
                           struct kvr_error *error)
{
    uint32_t page_tokens = fetch->pages.groups[skip->group].page_tokens;
    uint64_t tokens = skip->skip_tokens;

    if (fetch->state != F_OPENED || fetch_skips_known(fetch))
        return kvr_error_set(error, KVR_INVALID, "fetch",
                             "what is skipped of KV group %u was said after its pages, or of a "
                             "fetch that skips all",
                             skip->group);
    if (page_tokens == KVR_PAGE_ENDLESS && !kvr_skip_is_whole(tokens, fetch->tokens, page_tokens))
        return kvr_error_set(error, KVR_INVALID, "fetch",
                             "%" PRIu64 " of %" PRIu64 " tokens of KV group %u are to be skipped, "
                             "which is a state: must be none, or all",
                             tokens, fetch->tokens, skip->group);
    if (!kvr_skip_is_whole(tokens, fetch->tokens, page_tokens))
        return kvr_error_set(error, KVR_INVALID, "fetch",
                             "%" PRIu64 " of %" PRIu64 " tokens of KV group %u are to be skipped: "
                             "must be whole pages of %u tokens, or all",
                             tokens, fetch->tokens, skip->group, page_tokens);
    if (fetch->held && tokens < fetch->skips[skip->group])
        return kvr_error_set(error, KVR_INVALID, "fetch",
                             "%" PRIu64 " tokens of KV group %u are to be skipped, and %" PRIu64
                             " were when the fetch was held: that may only grow",
                             tokens, skip->group, fetch->skips[skip->group]);
    fetch->skips[skip->group] = tokens;
    skips_sum(fetch);
    return KVR_OK;
}

/* After the engine changed what is fetched, or failed to. */
static void fetch_changed(struct inbound *inbound, struct fetch *fetch, kvr_status status,
                          const struct kvr_error *error)
{
    if (status != KVR_OK) {
        fetch_fail(inbound, fetch, status, error->detail);
        return;
    }
    for (uint32_t i = 0; i < fetch->transfer_count; i++) {
        struct transfer *transfer = kvr_pool_get(&inbound->transfers, fetch->transfers[i]);

        if (transfer != NULL && (transfer->state == T_WANTED || transfer->state == T_LIVE))
            pages_send(inbound, transfer);
    }
    fetch_advance(inbound, fetch);
}

void fetch_pages(struct inbound *inbound, struct fetch *fetch, const struct kvr_req_pages *pages)
{
    struct kvr_error error;
    struct kvr_page_table *table =
        kvr_page_tables_of(&fetch->pages, pages->group, "target", &error);
    kvr_status status = table != NULL ? KVR_OK : error.status;

    if (status == KVR_OK)
        status =
            kvr_page_table_append(table, pages->page_first, pages->ids, pages->id_count, &error);
    fetch_changed(inbound, fetch, status, &error);
}

void fetch_skip(struct inbound *inbound, struct fetch *fetch, const struct kvr_req_skip *skip)
{
    struct kvr_error error;
    const struct kvr_page_table *table =
        kvr_page_tables_of(&fetch->pages, skip->group, "target", &error);
    kvr_status status = table != NULL ? skip_set(fetch, skip, &error) : error.status;

    fetch_changed(inbound, fetch, status, &error);
}

/* ---- going on -------------------------------------------------------------------------------- */

void fetch_hold(struct inbound *inbound, struct fetch *fetch)
{
    fetch->held = true;
    fetch_advance(inbound, fetch);
}

bool fetch_skips_known(const struct fetch *fetch)
{
    return fetch->skip_tokens == fetch->tokens || kvr_page_tables_count(&fetch->pages) > 0;
}

static bool sources_answered(const struct inbound *inbound, const struct fetch *fetch)
{
    for (uint32_t i = 0; i < fetch->transfer_count; i++) {
        struct transfer *transfer = kvr_pool_get(&inbound->transfers, fetch->transfers[i]);
        const struct inbound_peer *peer = &inbound->peers[transfer->link.peer];

        if (!source_link_answered(&transfer->link))
            return false;
        transfer->link.limits = kvr_write_limits_agreed(&peer->limits, &inbound->options.limits);
    }
    return true;
}

static void transfer_advance(struct inbound *inbound, struct transfer *transfer, bool skips_known)
{
    if (!source_link_answered(&transfer->link))
        return;
    if (transfer->state == T_HELD && skips_known)
        skip_send(inbound, transfer);
    else if (transfer->state == T_WAITING)
        want_send(inbound, transfer);
}

void fetch_advance(struct inbound *inbound, struct fetch *fetch)
{
    uint64_t id = fetch->id;
    bool skips_known = fetch_skips_known(fetch);

    if (fetch->state >= F_FAILING || !(skips_known || fetch->held))
        return;
    if (skips_known && fetch->slots.state == SLOTS_UNKNOWN &&
        (!sources_answered(inbound, fetch) || !slots_count(inbound, fetch)))
        return;
    for (uint32_t i = 0; i < fetch->transfer_count && fetch->state != F_FAILING; i++) {
        struct transfer *transfer = kvr_pool_get(&inbound->transfers, fetch->transfers[i]);

        if (transfer != NULL)
            transfer_advance(inbound, transfer, skips_known);
        if (kvr_pool_get(&inbound->fetches, id) == NULL)
            return; /* the fetch failed and is freed: nothing was granted */
    }
}

/* ---- the deadline ---------------------------------------------------------------------------- */

static bool pages_complete(const struct fetch *fetch)
{
    for (uint32_t group = 0; group < KVR_GROUPS_MAX; group++) {
        const struct kvr_page_table *pages = &fetch->pages.groups[group];

        if (pages->count < pages->capacity && fetch->skips[group] < fetch->tokens)
            return false;
    }
    return true;
}

/* What the fetch still waits for, in words. */
static const char *awaited(const struct fetch *fetch, const struct transfer *transfer)
{
    if (!source_link_answered(&transfer->link))
        return "its source answered";
    if (!pages_complete(fetch) && transfer->intake.state != INTAKE_FINAL)
        return "its engine named all pages";
    if (transfer->state == T_WANTED && transfer->intake.segments != NULL)
        return "there was room for it (--slots, --staging-memory)";
    if (transfer->intake.segments == NULL && transfer->intake.state != INTAKE_FINAL)
        return "its source published any of it";
    if (transfer->intake.state != INTAKE_FINAL)
        return "its source published all of it";
    if (!transfer->delivery.all_in)
        return "all of its writes came";
    return transfer->intake.final.has_tail && !transfer->delivery.tail_in
               ? "its tail came"
               : "its bytes were known to be right";
}

void fetch_expire(struct inbound *inbound, struct fetch *fetch)
{
    const struct transfer *transfer;
    char detail[KVR_DETAIL_BYTES];
    uint32_t i = 0;

    if (fetch->state == F_FAILING)
        return;
    do /* one transfer has not settled, or the fetch would have ended */
        transfer = kvr_pool_get(&inbound->transfers, fetch->transfers[i++]);
    while (transfer == NULL || transfer_settled(transfer));
    snprintf(detail, sizeof(detail), "its deadline passed before %s (source agent %s)",
             awaited(fetch, transfer), transfer->source.agent);
    fetch_fail(inbound, fetch, KVR_EXPIRED, detail);
}

void fetch_check_freed(struct inbound *inbound, struct fetch *fetch)
{
    uint32_t engine = fetch->engine;

    if (fetch->state != F_ENDED || fetch->closed_count < fetch->transfer_count)
        return;
    kvr_table_remove(&inbound->by_handle, kvr_handle_key(engine, fetch->handle));
    kvr_page_tables_done(&fetch->pages, inbound->memory);
    layers_close(inbound, fetch);
    kvr_engines_set_release(&inbound->engines, engine, fetch->set);
    kvr_engines_tenant_give(&inbound->engines, fetch->tenant);
    kvr_pool_release(&inbound->fetches, fetch->id);
    kvr_engines_unuse(&inbound->engines, engine);
}
