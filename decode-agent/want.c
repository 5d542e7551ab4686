/* WANT, SKIP and PAGES: what the fetch asks of a source, and the page ids of the target. */
#include "decode-agent/sending.h"

#include <stdlib.h>

#include "decode-agent/fetch.h"

/* Where the PAGES of one KV group go. */
struct pages_target {
    const struct inbound *inbound;
    const struct transfer *transfer;
    uint32_t kv_group, capacity;
};

static kvr_status page_runs_send(void *self, uint32_t page_first, uint32_t page_count,
                                 const struct kvr_page_run *runs, uint32_t run_count)
{
    const struct pages_target *to = self;
    struct kvr_message message = {.kind = KVR_MSG_PAGES, .transfer = to->transfer->nonce};

    message.pages = (struct kvr_msg_pages){.group = to->kv_group,
                                           .page_first = page_first,
                                           .runs = runs,
                                           .run_count = run_count,
                                           .more = page_first + page_count < to->capacity};
    return to->inbound->ports->send(to->inbound->ports->self, to->transfer->link.peer, &message);
}

void pages_send(struct inbound *inbound, struct transfer *transfer)
{
    kvr_status status = KVR_OK;

    for (uint32_t group = 0; status == KVR_OK && group < KVR_GROUPS_MAX; group++) {
        const struct kvr_page_table *table = &fetch_of(inbound, transfer)->pages.groups[group];
        struct pages_target to = {inbound, transfer, group, table->capacity};

        status = kvr_page_table_send(table, &transfer->pages_sent[group], table->count,
                                     inbound->memory, page_runs_send, &to);
    }
    if (status != KVR_OK && status != KVR_AGAIN && status != KVR_PEER_LOST)
        inbound->ports->hang_up(inbound->ports->self, transfer->link.peer, status,
                                "a page table cannot be sent");
}

/* The strongest mode that the engine or either agent asks for. */
static kvr_digest_mode digest_wanted(const struct inbound *inbound, const struct fetch *fetch,
                                     uint32_t peer)
{
    kvr_digest_mode agents = inbound->options.digest > inbound->peers[peer].digest
                                 ? inbound->options.digest
                                 : inbound->peers[peer].digest;

    return fetch->digest > agents ? fetch->digest : agents;
}

static int by_number(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

    return (left > right) - (left < right);
}

/* All ranks of that source engine that the fetch asks, in order. */
static uint32_t siblings_of(const struct inbound *inbound, const struct fetch *fetch,
                            const struct kvr_source_address *source,
                            uint32_t ret_ranks[KVR_SOURCES_MAX])
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < fetch->transfer_count; i++) {
        const struct transfer *other = kvr_pool_get(&inbound->transfers, fetch->transfers[i]);

        if (other != NULL && kvr_uuid_equal(&other->source.engine, &source->engine) &&
            other->source.generation == source->generation)
            ret_ranks[count++] = other->source.pp << 16 | (other->source.tp & 0xffff);
    }
    qsort(ret_ranks, count, sizeof(*ret_ranks), by_number);
    return count;
}

/* Up to the last group that the engine has. */
static uint32_t group_count(const struct kvr_page_tables *pages)
{
    uint32_t count = KVR_GROUPS_MAX;

    while (count > 0 && pages->groups[count - 1].page_tokens == 0)
        count--;
    return count;
}

/* From now, and at least 1: 0 means no deadline. */
static uint32_t deadline_ms(const struct fetch *fetch, kvr_ns now)
{
    uint64_t left = fetch->deadline > now ? (fetch->deadline - now) / KVR_MS + 1 : 1;

    return left < UINT32_MAX ? (uint32_t)left : UINT32_MAX;
}

/* The source knows what is skipped: it may plan. */
static void wanted(struct inbound *inbound, struct fetch *fetch, struct transfer *transfer)
{
    transfer_on(&transfer->state, T_ON_WANT_SENT);
    fetch_on(&fetch->state, F_ON_WANT_SENT);
    memcpy(transfer->intake.token_next, fetch->skips, sizeof(transfer->intake.token_next));
    pages_send(inbound, transfer);
}

/* No source may pass off its own pages as a tenant's that it does not serve. */
static kvr_status tenant_check(const struct inbound *inbound, const struct fetch *fetch,
                               uint32_t peer, struct kvr_error *error)
{
    if (kvr_engines_peer_serves(&inbound->engines, peer, fetch->tenant))
        return KVR_OK;
    return kvr_error_set(error, KVR_NOT_AUTHORIZED, "fetch",
                         "the certificate of the source agent %s does not serve the tenant %s: "
                         "issue it one that does",
                         inbound->peers[peer].agent,
                         inbound->engines.tenants.list[fetch->tenant].name);
}

void want_send(struct inbound *inbound, struct transfer *transfer)
{
    struct fetch *fetch = fetch_of(inbound, transfer);
    struct kvr_message message = {.kind = KVR_MSG_WANT, .transfer = transfer->nonce};
    uint32_t siblings[KVR_SOURCES_MAX] = {0};
    struct kvr_msg_want *want = &message.want;
    struct kvr_error error;
    kvr_status status;

    transfer->verification.mode = digest_wanted(inbound, fetch, transfer->link.peer);
    if (tenant_check(inbound, fetch, transfer->link.peer, &error) != KVR_OK ||
        kvr_region_set_hashed(fetch->set, transfer->verification.mode, &error) != KVR_OK) {
        transfer_fail(inbound, transfer, error.status, error.detail);
        return;
    }
    status = kvr_engines_tell(&inbound->engines, fetch->engine, fetch->set, transfer->link.peer);
    if (status == KVR_OK) {
        memcpy(want->request, fetch->request, sizeof(want->request));
        memcpy(want->tenant, inbound->engines.tenants.list[fetch->tenant].name,
               sizeof(want->tenant));
        want->attempt = fetch->attempt;
        want->source_engine = transfer->source.engine;
        want->source_generation = transfer->source.generation;
        want->source_tp = transfer->source.tp;
        want->source_pp = transfer->source.pp;
        want->target = inbound->engines.local[fetch->engine].rank;
        want->tokens = fetch->tokens;
        want->skip_tokens = fetch->skip_tokens;
        want->deadline_ms = deadline_ms(fetch, inbound->now);
        want->priority = fetch->priority;
        want->digest = transfer->verification.mode;
        want->group_skips = fetch->skips;
        want->group_skip_count = group_count(&fetch->pages);
        want->siblings = siblings;
        want->sibling_count = siblings_of(inbound, fetch, &transfer->source, siblings);
        want->staged = landing_path_staged(&transfer->path);
        want->skips_follow = !fetch_skips_known(fetch);
        want->direct_copy = transfer->path.copy_offered =
            landing_path_staged(&transfer->path) && direct_copy_possible(inbound, transfer);
        want->stage_bytes = transfer->path.stage_bytes =
            landing_path_stage_bytes(inbound, transfer);
        if (kvr_proof_key_given(&transfer->proof_key))
            kvr_proof(&transfer->proof_key, inbound->peers[transfer->link.peer].session,
                      transfer->nonce, &want->target, &want->proof);
        status = inbound->ports->send(inbound->ports->self, transfer->link.peer, &message);
    }
    if (status == KVR_AGAIN)
        return; /* the queue is full: sent when there is room */
    if (status != KVR_OK) {
        transfer_fail(inbound, transfer, status, "WANT could not be sent to the source agent");
        return;
    }
    /* Without its session a transfer ends: no other proof will be needed. */
    kvr_secret_wipe(&transfer->proof_key, sizeof(transfer->proof_key));
    if (want->skips_follow)
        transfer_on(&transfer->state, T_ON_HOLD_SENT);
    else
        wanted(inbound, fetch, transfer);
}

void skip_send(struct inbound *inbound, struct transfer *transfer)
{
    struct fetch *fetch = fetch_of(inbound, transfer);
    struct kvr_message message = {.kind = KVR_MSG_SKIP, .transfer = transfer->nonce};
    kvr_status status;

    message.skip =
        (struct kvr_msg_skip){fetch->skip_tokens, fetch->skips, group_count(&fetch->pages)};
    status = inbound->ports->send(inbound->ports->self, transfer->link.peer, &message);
    if (status == KVR_AGAIN)
        return; /* the queue is full: sent when there is room */
    if (status != KVR_OK)
        transfer_fail(inbound, transfer, status, "SKIP could not be sent to the source agent");
    else
        wanted(inbound, fetch, transfer);
}
