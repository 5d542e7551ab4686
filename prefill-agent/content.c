/* What a publish consists of: pages, watches, tail. It grows until the engine ends it. */
#include "prefill-agent/publish.h"

#include <inttypes.h>

#include "prefill-agent/outbound.h"

/* Every group has pages for the tokens. A state needs its page only for the last of them. */
static kvr_status pages_check(const struct publish *publish, uint64_t token_end, bool last,
                              struct kvr_error *error)
{
    for (uint32_t group = 0; group < KVR_GROUPS_MAX; group++) {
        const struct kvr_page_table *pages = &publish->pages.groups[group];
        bool state = pages->page_tokens == KVR_PAGE_ENDLESS;

        if (token_end <= (uint64_t)pages->count * pages->page_tokens || pages->page_tokens == 0 ||
            (state && !last))
            continue;
        if (state)
            return kvr_error_set(error, KVR_INVALID, "watch",
                                 "all %" PRIu64 " tokens are watched, but no page was given of KV "
                                 "group %u, which is a state: give its page first",
                                 token_end, group);
        return kvr_error_set(error, KVR_INVALID, "watch",
                             "tokens up to %" PRIu64 " are watched, but only %u pages of %u tokens "
                             "were given of KV group %u: give pages first",
                             token_end, pages->count, pages->page_tokens, group);
    }
    return KVR_OK;
}

static kvr_status watch_add(struct outbound *outbound, struct publish *publish,
                            const struct kvr_req_watch *watch, struct kvr_error *error)
{
    if (watch->word >= KVR_WORDS_MAX || watch->token_first != publish->content.token_end ||
        watch->token_end <= watch->token_first || watch->token_end > publish->tokens)
        return kvr_error_set(error, KVR_INVALID, "watch",
                             "word %u for tokens %" PRIu64 " to %" PRIu64
                             ": the next segment begins at %" PRIu64 " and ends by %" PRIu64
                             ", and words are below %u",
                             watch->word, watch->token_first, watch->token_end,
                             publish->content.token_end, publish->tokens, KVR_WORDS_MAX);
    KVR_TRY(pages_check(publish, watch->token_end, watch->token_end == publish->tokens, error));
    if (publish->content.watch_count >= KVR_SEGMENTS_MAX)
        return kvr_error_set(error, KVR_TOO_LARGE, "watch", "more than %u segments",
                             KVR_SEGMENTS_MAX);
    if (publish->content.watch_count == publish->content.watch_capacity) {
        uint32_t capacity =
            publish->content.watch_capacity > 0 ? publish->content.watch_capacity * 2 : 4;
        struct publish_watch *larger =
            kvr_buddy_alloc(outbound->memory, capacity * sizeof(*larger));

        if (larger == NULL)
            return kvr_error_set(error, KVR_NO_MEMORY, "watch", "no memory for a segment");
        if (publish->content.watch_count > 0)
            memcpy(larger, publish->content.watches,
                   publish->content.watch_count * sizeof(*larger));
        kvr_buddy_free(outbound->memory, publish->content.watches);
        publish->content.watches = larger;
        publish->content.watch_capacity = capacity;
    }
    publish->content.watches[publish->content.watch_count++] =
        (struct publish_watch){.word = watch->word,
                               .base = watch->base,
                               .token_first = watch->token_first,
                               .token_end = watch->token_end};
    publish->content.token_end = watch->token_end;
    return KVR_OK;
}

static kvr_status tail_add(struct outbound *outbound, struct publish *publish,
                           const struct kvr_req_tail *tail, struct kvr_error *error)
{
    if (publish->content.has_tail || tail->byte_count > KVR_TAIL_BYTES_MAX)
        return kvr_error_set(error, KVR_INVALID, "tail",
                             "a publish has one tail of at most %u bytes", KVR_TAIL_BYTES_MAX);
    publish->content.tail = kvr_buddy_alloc(outbound->memory, tail->byte_count);
    if (publish->content.tail == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "tail", "no memory for a tail");
    if (tail->byte_count > 0)
        memcpy(publish->content.tail, tail->bytes, tail->byte_count);
    publish->content.tail_bytes = tail->byte_count;
    publish->content.has_tail = true;
    return KVR_OK;
}

/* What one page of the group holds, in all layers and parts of this rank. */
static uint64_t page_bytes(const struct kvr_region_set *set, uint32_t group)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < set->count; i++) {
        const struct kvr_region_layout *layout = &set->layouts[i];

        if (layout->group == group)
            bytes += (uint64_t)layout->layer_count * layout->part_count * kvr_page_bytes(layout);
    }
    return bytes;
}

/* A page counts once for each publish that names it, however many targets fetch it. */
static kvr_status pages_add(struct outbound *outbound, struct publish *publish,
                            const struct kvr_req_pages *pages, struct kvr_error *error)
{
    struct kvr_tenant *tenant = &outbound->engines.tenants.list[publish->tenant];
    struct kvr_page_table *table =
        kvr_page_tables_of(&publish->pages, pages->group, "source", error);
    uint64_t bytes;
    kvr_status status;

    if (table == NULL)
        return error->status;
    bytes = page_bytes(publish->set, pages->group) * pages->id_count;
    KVR_TRY(kvr_tenant_take(tenant, &tenant->bytes, bytes, "bytes of published pages",
                            "--tenant-bytes", error));
    status = kvr_page_table_append(table, pages->page_first, pages->ids, pages->id_count, error);
    if (status == KVR_OK)
        publish->content.page_bytes += bytes;
    else
        kvr_tenant_give(&tenant->bytes, bytes);
    return status;
}

kvr_status content_add(struct outbound *outbound, struct publish *publish,
                       const struct kvr_request *request, struct kvr_error *error)
{
    if (publish->content.complete)
        return kvr_error_set(error, KVR_INVALID, "publish", "the publish was ended before");
    switch (request->kind) {
    case KVR_REQ_SOURCE_PAGES:
        return pages_add(outbound, publish, &request->pages, error);
    case KVR_REQ_WATCH:
        return watch_add(outbound, publish, &request->watch, error);
    case KVR_REQ_SOURCE_TAIL:
        return tail_add(outbound, publish, &request->tail, error);
    default: /* KVR_REQ_SOURCE_END */
        if (request->end.status != KVR_OK)
            return kvr_error_set(error, KVR_ABORTED, "publish", "the source engine gave up: %s",
                                 kvr_status_text(request->end.status));
        KVR_TRY(pages_check(publish, publish->content.token_end, true, error));
        publish->content.complete = true;
        return KVR_OK;
    }
}

void content_free(struct outbound *outbound, struct publish *publish)
{
    kvr_tenant_give(&outbound->engines.tenants.list[publish->tenant].bytes,
                    publish->content.page_bytes);
    kvr_buddy_free(outbound->memory, publish->content.watches);
    kvr_buddy_free(outbound->memory, publish->content.tail);
}
