/* The engine's requests. A call encodes one request, sends or queues it, and only then changes the
 * library's records: a call that failed has changed nothing. */
#include "client/client.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/plain_name.h"

kvrail_status client_fail(struct kvrail *client, kvr_status status, const char *format, ...)
{
    va_list arguments;

    client->error.status = (kvrail_status)status;
    client->error.os_errno = 0;
    va_start(arguments, format);
    vsnprintf(client->error.detail, sizeof(client->error.detail), format, arguments);
    va_end(arguments);
    return (kvrail_status)status;
}

kvrail_status client_fail_as(struct kvrail *client, const struct kvr_error *error)
{
    return client_fail(client, error->status, "%s", error->detail);
}

kvrail_status client_usable(struct kvrail *client)
{
    int ended = atomic_load(&client->ended);

    if (ended == KVRAIL_OK)
        return KVRAIL_OK;
    return client_fail(client, (kvr_status)ended,
                       "the connection to agent '%s' has ended: close it and open another",
                       client->agent);
}

kvrail_status client_send(struct kvrail *client, const struct kvr_request *request)
{
    struct kvr_error error;
    size_t bytes;
    kvr_status status;

    if (!kvr_packet_queue_empty(&client->out))
        client_flush(client);
    status = kvr_request_encode(request, client->packet, sizeof(client->packet), &bytes);
    if (status != KVR_OK)
        return client_fail(client, status,
                           "a %s cannot be encoded: its names must be printable UTF-8",
                           kvr_request_name(request->kind));
    status = kvr_packet_check(client->socket, bytes, &error);
    if (status != KVR_OK)
        return client_fail(client, status, "a %s cannot be sent: %s",
                           kvr_request_name(request->kind), error.detail);
    status = kvr_packet_queue_empty(&client->out)
                 ? kvr_packet_send(client->socket, client->packet, bytes, NULL)
                 : KVR_AGAIN;
    if (status == KVR_PEER_LOST)
        return client_fail(client, KVR_AGENT_LOST, "agent '%s' has closed the connection",
                           client->agent);
    if (status == KVR_OK)
        return KVRAIL_OK;
    if (!kvr_packet_queue_push(&client->out, client->packet, bytes))
        return client_fail(client, KVR_AGAIN, "the agent is behind: poll, then try again");
    client_flush(client); /* watches for room */
    return KVRAIL_OK;
}

/* ---- handles --------------------------------------------------------------------------------- */

struct client_handle *client_find(struct kvrail *client, kvrail_handle handle)
{
    struct client_handle *entry = &client->handles[handle % KVRAIL_HANDLES_MAX];

    return handle != 0 && entry->handle == handle ? entry : NULL;
}

void client_forget(struct kvrail *client, struct client_handle *entry)
{
    uint32_t place = (client->free_head + client->free_count++) % KVRAIL_HANDLES_MAX;

    client->free_ring[place] = (uint16_t)(entry->handle % KVRAIL_HANDLES_MAX);
    entry->handle = 0;
    kvr_secret_wipe(&entry->secret, sizeof(entry->secret));
}

/* Sends the open and remembers its handle. */
static kvrail_status open_handle(struct kvrail *client, struct kvr_request *request,
                                 client_role role, uint64_t tokens, uint64_t skip_tokens,
                                 kvrail_handle *ret_handle)
{
    uint32_t slot = client->free_ring[client->free_head];
    struct client_handle *entry = &client->handles[slot];
    kvrail_status status;

    if (client->free_count == 0)
        return client_fail(client, KVR_AGAIN, "%d publishes and fetches are open",
                           KVRAIL_HANDLES_MAX);
    request->handle = (entry->generation + 1) * KVRAIL_HANDLES_MAX + slot;
    status = client_send(client, request);
    if (status != KVRAIL_OK) {
        client_secret_forget(client, request);
        return status;
    }
    *entry = (struct client_handle){.handle = request->handle,
                                    .generation = entry->generation + 1,
                                    .role = role,
                                    .tokens = tokens,
                                    .skip_tokens = skip_tokens};
    if (role == CLIENT_SOURCE)
        entry->secret = request->source_open.secret;
    client_watch_begin(client, entry, role == CLIENT_TARGET ? request->target_open.deadline_ms : 0);
    client->free_head = (client->free_head + 1) % KVRAIL_HANDLES_MAX;
    client->free_count--;
    *ret_handle = request->handle;
    client_secret_forget(client, request);
    return KVRAIL_OK;
}

struct client_handle *client_entry(struct kvrail *client, kvrail_handle handle, client_role role,
                                   kvrail_status *ret_status)
{
    struct client_handle *entry = client_find(client, handle);

    *ret_status = client_usable(client);
    if (*ret_status != KVRAIL_OK)
        return NULL;
    if (entry != NULL && entry->role == role)
        return entry;
    *ret_status =
        client_fail(client, KVR_NOT_FOUND, "no %s is open under handle %llu",
                    role == CLIENT_SOURCE ? "publish" : "fetch", (unsigned long long)handle);
    return NULL;
}

/* A publish that may still grow. */
static struct client_handle *growing_source(struct kvrail *client, kvrail_handle handle,
                                            kvrail_status *ret_status)
{
    struct client_handle *entry = client_entry(client, handle, CLIENT_SOURCE, ret_status);

    if (entry == NULL || !entry->end_said)
        return entry;
    *ret_status = client_fail(client, KVR_INVALID, "kvrail_source_end was called before");
    return NULL;
}

static bool take_request_id(struct kvrail *client, char *to, const char *request)
{
    size_t length = request != NULL ? strlen(request) : 0;

    if (length == 0 || length >= KVR_REQUEST_BYTES) {
        client_fail(client, KVR_INVALID, "a request id has 1 to %d bytes", KVR_REQUEST_BYTES - 1);
        return false;
    }
    memcpy(to, request, length + 1);
    return true;
}

static bool take_tenant(struct kvrail *client, char *to, const char *tenant, uint32_t reserved)
{
    if (reserved != 0) {
        client_fail(client, KVR_INVALID,
                    "`reserved` of the options is %u: set it to 0, and name the tenant in `tenant`",
                    reserved);
        return false;
    }
    if (tenant == NULL)
        return true;
    if (!kvr_plain_name(tenant, strnlen(tenant, KVR_NAME_BYTES))) {
        client_fail(client, KVR_INVALID,
                    "the tenant is '%.64s', but must have " KVR_PLAIN_NAME_FORM, tenant);
        return false;
    }
    memcpy(to, tenant, strlen(tenant) + 1);
    return true;
}

/* ---- source ---------------------------------------------------------------------------------- */

kvrail_status kvrail_source_open(struct kvrail *connection,
                                 const struct kvrail_source_options *options,
                                 kvrail_handle *ret_handle)
{
    struct kvr_request request = {.kind = KVR_REQ_SOURCE_OPEN};
    struct kvrail_source_options own;
    struct kvr_error error;
    kvrail_status status = client_usable(connection);

    if (status != KVRAIL_OK)
        return status;
    if (CLIENT_COPY(&own, options, source_options, &error) != KVR_OK)
        return client_fail_as(connection, &error);
    if (!take_request_id(connection, request.source_open.request, own.request) ||
        !take_tenant(connection, request.source_open.tenant, own.tenant, own.reserved))
        return KVRAIL_INVALID;
    status = client_secret_take(connection, own.secret, CLIENT_SOURCE, &request.source_open.secret);
    if (status != KVRAIL_OK)
        return status;
    request.source_open.attempt = own.attempt;
    request.source_open.tokens = own.tokens;
    request.source_open.consumers = own.consumers;
    request.source_open.lease_ms = own.lease_ms;
    request.source_open.priority = own.priority;
    return open_handle(connection, &request, CLIENT_SOURCE, own.tokens, 0, ret_handle);
}

/* All packets of one call or none. */
static kvrail_status send_pages(struct kvrail *client, kvr_request_kind kind,
                                struct client_handle *entry, uint32_t group, const uint32_t *ids,
                                size_t id_count)
{
    /* An id takes at most 5 bytes, and a packet at most 64 beside them. */
    const size_t packet_bytes = KVR_PAGES_PER_PACKET * 5 + 64;
    size_t packets = (id_count + KVR_PAGES_PER_PACKET - 1) / KVR_PAGES_PER_PACKET;
    struct kvr_request request = {.kind = kind, .handle = entry->handle};

    if (group >= KVR_GROUPS_MAX)
        return client_fail(client, KVR_INVALID, "group %u is not below %d", group, KVR_GROUPS_MAX);
    if (id_count > KVRAIL_PAGES_PER_CALL_MAX)
        return client_fail(client, KVR_TOO_LARGE, "%zu pages in one call; at most %u", id_count,
                           KVRAIL_PAGES_PER_CALL_MAX);
    client_flush(client);
    if (packets > 1 && !kvr_packet_queue_fits(&client->out, packet_bytes, packets))
        return client_fail(client, KVR_AGAIN, "the agent is behind: poll, then try again");
    for (size_t done = 0; done < id_count; done += request.pages.id_count) {
        size_t left = id_count - done;
        kvrail_status status;

        request.pages.group = group;
        request.pages.page_first = entry->pages[group];
        request.pages.ids = ids + done;
        request.pages.id_count =
            (uint32_t)(left < KVR_PAGES_PER_PACKET ? left : KVR_PAGES_PER_PACKET);
        status = client_send(client, &request);
        if (status != KVRAIL_OK)
            return status;
        entry->pages[group] += request.pages.id_count;
    }
    return KVRAIL_OK;
}

kvrail_status kvrail_source_pages(struct kvrail *connection, kvrail_handle source, uint32_t group,
                                  const uint32_t *ids, size_t id_count)
{
    kvrail_status status;
    struct client_handle *entry = growing_source(connection, source, &status);

    if (entry == NULL)
        return status;
    return send_pages(connection, KVR_REQ_SOURCE_PAGES, entry, group, ids, id_count);
}

kvrail_status kvrail_source_watch(struct kvrail *connection, kvrail_handle source, uint32_t word,
                                  uint64_t base, uint64_t token_first, uint64_t token_end)
{
    struct kvr_request request = {.kind = KVR_REQ_WATCH, .handle = source};
    kvrail_status status;
    struct client_handle *entry = growing_source(connection, source, &status);

    if (entry == NULL)
        return status;
    if (word >= KVR_WORDS_MAX)
        return client_fail(connection, KVR_INVALID, "word %u is not below %d", word, KVR_WORDS_MAX);
    if (token_first != entry->watched_tokens || token_end <= token_first ||
        token_end > entry->tokens)
        return client_fail(
            connection, KVR_INVALID, "the segment [%llu, %llu) must begin at %llu and end by %llu",
            (unsigned long long)token_first, (unsigned long long)token_end,
            (unsigned long long)entry->watched_tokens, (unsigned long long)entry->tokens);
    request.watch = (struct kvr_req_watch){word, base, token_first, token_end};
    status = client_send(connection, &request);
    if (status == KVRAIL_OK)
        entry->watched_tokens = token_end;
    return status;
}

void client_ring(const struct kvrail *client)
{
    uint64_t one = 1;

    if (atomic_load(&client->page->asleep) != 0 &&
        write(client->doorbell, &one, sizeof(one)) != (ssize_t)sizeof(one))
        return; /* the counter is full: the agent has enough reason to wake */
}

/* The agent sets `asleep`, then reads every word; here a word is raised, then `asleep` is read. All
 * four are sequentially consistent, so that one of the two sees the other. */
kvrail_status kvrail_ready(struct kvrail *connection, uint32_t word, uint64_t value)
{
    struct kvr_shared_page *page = connection->page;
    uint64_t was;

    if (atomic_load(&connection->ended) != KVRAIL_OK)
        return (kvrail_status)atomic_load(&connection->ended);
    if (word >= KVR_WORDS_MAX)
        return KVRAIL_INVALID;
    was = atomic_load_explicit(&page->words[word], memory_order_relaxed);
    do {
        if (value < was)
            return KVRAIL_INVALID;
    } while (!atomic_compare_exchange_weak(&page->words[word], &was, value));
    client_ring(connection);
    return KVRAIL_OK;
}

kvrail_status kvrail_source_tail(struct kvrail *connection, kvrail_handle source, const void *bytes,
                                 size_t byte_count)
{
    struct kvr_request request = {.kind = KVR_REQ_SOURCE_TAIL, .handle = source};
    kvrail_status status;
    struct client_handle *entry = growing_source(connection, source, &status);

    if (entry == NULL)
        return status;
    if (entry->tail_said)
        return client_fail(connection, KVR_EXISTS, "a publish has one tail, and it was given");
    if (byte_count > KVRAIL_TAIL_BYTES_MAX)
        return client_fail(connection, KVR_TOO_LARGE, "the tail has %zu bytes; at most %d",
                           byte_count, KVRAIL_TAIL_BYTES_MAX);
    request.tail = (struct kvr_req_tail){bytes, (uint32_t)byte_count};
    status = client_send(connection, &request);
    entry->tail_said = status == KVRAIL_OK;
    return status;
}

kvrail_status kvrail_source_end(struct kvrail *connection, kvrail_handle source,
                                kvrail_status outcome)
{
    struct kvr_request request = {.kind = KVR_REQ_SOURCE_END, .handle = source};
    kvrail_status status;
    struct client_handle *entry = growing_source(connection, source, &status);

    if (entry == NULL)
        return status;
    if (outcome > 0 || !kvr_status_known((int)outcome))
        return client_fail(connection, KVR_INVALID, "outcome %d is neither KVRAIL_OK nor a failure",
                           (int)outcome);
    request.end.status = (kvr_status)outcome;
    status = client_send(connection, &request);
    entry->end_said = status == KVRAIL_OK;
    return status;
}

/* ---- target ---------------------------------------------------------------------------------- */

static kvrail_status take_source(struct kvrail *client, const void *theirs, uint32_t index,
                                 struct kvr_source_address *ret_source)
{
    struct kvrail_source_address from;
    struct kvr_error error;
    size_t length;

    if (CLIENT_COPY(&from, theirs, source_address, &error) != KVR_OK)
        return client_fail_as(client, &error);
    length = from.agent != NULL ? strlen(from.agent) : 0;
    if (length == 0 || length >= sizeof(ret_source->agent))
        return client_fail(client, KVR_INVALID, "source %u: the agent's address has 1 to %zu bytes",
                           index, sizeof(ret_source->agent) - 1);
    memset(ret_source, 0, sizeof(*ret_source));
    memcpy(ret_source->agent, from.agent, length);
    memcpy(ret_source->engine.bytes, from.engine, sizeof(ret_source->engine.bytes));
    ret_source->generation = from.generation;
    ret_source->tp = from.tp;
    ret_source->pp = from.pp;
    return KVRAIL_OK;
}

static kvrail_status take_sources(struct kvrail *client,
                                  const struct kvrail_target_options *options,
                                  struct kvr_source_address *sources)
{
    kvrail_status status = KVRAIL_OK;

    if (options->sources == NULL || options->source_count == 0 ||
        options->source_count > KVR_SOURCES_MAX)
        return client_fail(client, KVR_INVALID, "a fetch has 1 to %d sources, not %u",
                           KVR_SOURCES_MAX, options->source_count);
    for (uint32_t i = 0; i < options->source_count && status == KVRAIL_OK; i++)
        status = take_source(client, CLIENT_ELEMENT(options->sources, i), i, &sources[i]);
    return status;
}

static kvrail_status take_target_options(struct kvrail *client,
                                         const struct kvrail_target_options *theirs,
                                         struct kvrail_target_options *ret_own)
{
    struct kvr_error error;

    if (CLIENT_COPY(ret_own, theirs, target_options, &error) != KVR_OK)
        return client_fail_as(client, &error);
    if (ret_own->skip_tokens > ret_own->tokens)
        return client_fail(client, KVR_INVALID, "skip_tokens %llu is more than tokens %llu",
                           (unsigned long long)ret_own->skip_tokens,
                           (unsigned long long)ret_own->tokens);
    if ((unsigned)ret_own->digest > KVRAIL_DIGEST_FULL)
        return client_fail(client, KVR_INVALID, "digest %d is no kvrail_digest",
                           (int)ret_own->digest);
    return KVRAIL_OK;
}

kvrail_status kvrail_target_open(struct kvrail *connection,
                                 const struct kvrail_target_options *options,
                                 kvrail_handle *ret_handle)
{
    struct kvr_request request = {.kind = KVR_REQ_TARGET_OPEN};
    struct kvr_source_address sources[KVR_SOURCES_MAX];
    struct kvrail_target_options own;
    kvrail_status status = client_usable(connection);

    if (status == KVRAIL_OK)
        status = take_target_options(connection, options, &own);
    if (status == KVRAIL_OK)
        status = take_sources(connection, &own, sources);
    if (status != KVRAIL_OK)
        return status;
    if (!take_request_id(connection, request.target_open.request, own.request) ||
        !take_tenant(connection, request.target_open.tenant, own.tenant, own.reserved))
        return KVRAIL_INVALID;
    status = client_secret_take(connection, own.secret, CLIENT_TARGET, &request.target_open.secret);
    if (status != KVRAIL_OK)
        return status;
    request.target_open.digest = (kvr_digest_mode)own.digest;
    request.target_open.attempt = own.attempt;
    request.target_open.tokens = own.tokens;
    request.target_open.skip_tokens = own.skip_tokens;
    request.target_open.deadline_ms = own.deadline_ms;
    request.target_open.priority = own.priority;
    request.target_open.sources = sources;
    request.target_open.source_count = own.source_count;
    return open_handle(connection, &request, CLIENT_TARGET, own.tokens, own.skip_tokens,
                       ret_handle);
}

/* Bits of the KV groups that have regions. */
static uint32_t region_groups(const struct kvrail *client)
{
    uint32_t groups = 0;

    for (uint32_t i = 0; i < KVR_REGIONS_MAX; i++)
        if (client->regions[i].number != 0 && client->regions[i].group < KVR_GROUPS_MAX)
            groups |= 1u << client->regions[i].group;
    return groups;
}

/* An agent that is older than this library would wait for pages of such a fetch. */
static kvrail_status check_skipped(struct kvrail *client, uint32_t skipped)
{
    if (client->abilities & KVR_ABILITY_SKIP_LATER || skipped == 0 ||
        (region_groups(client) & ~skipped) != 0)
        return KVRAIL_OK;
    return client_fail(
        client, KVR_UNSUPPORTED,
        "agent '%s' is older than this library and knows no fetch that skips all tokens "
        "of every KV group: upgrade it, or cancel the fetch",
        client->agent);
}

kvrail_status kvrail_target_skip(struct kvrail *connection, kvrail_handle target, uint32_t group,
                                 uint64_t skip_tokens)
{
    uint32_t skipped;
    kvrail_status status;
    struct client_handle *entry = client_entry(connection, target, CLIENT_TARGET, &status);
    struct kvr_request request = {.kind = KVR_REQ_TARGET_SKIP, .handle = target};

    if (entry == NULL)
        return status;
    if (group >= KVR_GROUPS_MAX || skip_tokens > entry->tokens)
        return client_fail(connection, KVR_INVALID,
                           "group %u is not below %d, or %llu tokens are more than %llu", group,
                           KVR_GROUPS_MAX, (unsigned long long)skip_tokens,
                           (unsigned long long)entry->tokens);
    for (uint32_t i = 0; i < KVR_GROUPS_MAX; i++)
        if (entry->pages[i] > 0)
            return client_fail(connection, KVR_INVALID,
                               "pages of group %u were given: call kvrail_target_skip before them",
                               i);
    skipped = entry->skipped_groups & ~(1u << group);
    if (skip_tokens == entry->tokens)
        skipped |= 1u << group;
    request.skip = (struct kvr_req_skip){.group = group, .skip_tokens = skip_tokens};
    status = check_skipped(connection, skipped);
    if (status == KVRAIL_OK)
        status = client_send(connection, &request);
    if (status == KVRAIL_OK)
        entry->skipped_groups = skipped;
    return status;
}

kvrail_status kvrail_target_hold(struct kvrail *connection, kvrail_handle target)
{
    kvrail_status status;
    struct client_handle *entry = client_entry(connection, target, CLIENT_TARGET, &status);
    struct kvr_request request = {.kind = KVR_REQ_TARGET_HOLD, .handle = target};

    if (entry == NULL || entry->held || !(connection->abilities & KVR_ABILITY_SKIP_LATER))
        return status; /* an older agent fixes with WANT what is skipped */
    status = client_send(connection, &request);
    entry->held = status == KVRAIL_OK;
    return status;
}

kvrail_status kvrail_target_pages(struct kvrail *connection, kvrail_handle target, uint32_t group,
                                  const uint32_t *ids, size_t id_count)
{
    kvrail_status status;
    struct client_handle *entry = client_entry(connection, target, CLIENT_TARGET, &status);

    if (entry == NULL)
        return status;
    return send_pages(connection, KVR_REQ_TARGET_PAGES, entry, group, ids, id_count);
}

/* ---- both ------------------------------------------------------------------------------------ */

kvrail_status kvrail_cancel(struct kvrail *connection, kvrail_handle handle, kvrail_status reason)
{
    struct kvr_request request = {.kind = KVR_REQ_CANCEL, .handle = handle};
    struct client_handle *entry = client_find(connection, handle);
    kvrail_status status = client_usable(connection);

    if (status != KVRAIL_OK)
        return status;
    if (reason >= 0 || !kvr_status_known((int)reason))
        return client_fail(connection, KVR_INVALID, "reason %d is not a failure", (int)reason);
    if (entry == NULL || entry->cancelled)
        return KVRAIL_OK;
    request.cancel.reason = (kvr_status)reason;
    status = client_send(connection, &request);
    entry->cancelled = status == KVRAIL_OK;
    return status;
}

kvrail_status kvrail_renew(struct kvrail *connection, kvrail_handle source, uint32_t lease_ms)
{
    struct kvr_request request = {.kind = KVR_REQ_RENEW, .handle = source};
    kvrail_status status;

    if (client_entry(connection, source, CLIENT_SOURCE, &status) == NULL)
        return status;
    request.renew.lease_ms = lease_ms;
    return client_send(connection, &request);
}

kvrail_status kvrail_why(struct kvrail *connection, kvrail_handle handle)
{
    struct kvr_request request = {.kind = KVR_REQ_WHY, .handle = handle};
    kvrail_status status = client_usable(connection);

    return status == KVRAIL_OK ? client_send(connection, &request) : status;
}
