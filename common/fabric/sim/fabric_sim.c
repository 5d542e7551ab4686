/* The contract of fabric.h in virtual time. Moments and what happens in them: fabric_sim_moment.c.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/sim/fabric_sim_state.h"

void *sim_grown(void *array, uint32_t count, uint32_t *capacity, size_t bytes)
{
    if (count < *capacity)
        return array;
    *capacity = *capacity > 0 ? *capacity * 2 : 16;
    array = realloc(array, *capacity * bytes);
    if (array == NULL)
        abort();
    return array;
}

static void *allocated(size_t bytes)
{
    void *memory = calloc(1, bytes);

    if (memory == NULL)
        abort();
    return memory;
}

/* ---- net and hosts ------------------------------------------------------------------------- */

struct kvr_sim_net *kvr_sim_net_open(const struct kvr_sim_options *options)
{
    struct kvr_sim_net *net = allocated(sizeof(*net));

    net->options = *options;
    net->free_write = SIM_NONE;
    return net;
}

void kvr_sim_net_close(struct kvr_sim_net *net)
{
    for (uint32_t i = 0; i < net->endpoint_count; i++) {
        free(net->endpoints[i]->queue);
        free(net->endpoints[i]->senders);
        free(net->endpoints[i]);
    }
    for (uint32_t i = 0; i < net->memory_count; i++)
        free(net->memories[i]);
    for (uint32_t i = 0; i < net->write_capacity; i++)
        free(net->writes[i].bytes);
    for (struct kvr_rail *rail = net->rails; rail != NULL;) {
        struct kvr_rail *next = rail->next;

        free(rail);
        rail = next;
    }
    for (struct kvr_sim_host *host = net->hosts; host != NULL;) {
        struct kvr_sim_host *next = host->next;

        free(host);
        host = next;
    }
    free(net->endpoints);
    free(net->memories);
    free(net->granted);
    free(net->writes);
    free(net->moments);
    free(net);
}

kvr_ns kvr_sim_net_busy_until(const struct kvr_sim_net *net)
{
    kvr_ns until = 0;

    for (const struct kvr_rail *rail = net->rails; rail != NULL; rail = rail->next)
        if (rail->busy_until > until)
            until = rail->busy_until;
    return until;
}

struct kvr_sim_counts kvr_sim_net_counts(const struct kvr_sim_net *net)
{
    return net->counts;
}

struct kvr_sim_host *kvr_sim_host_open(struct kvr_sim_net *net, void *cookie,
                                       const struct kvr_rail_facts *facts)
{
    struct kvr_sim_host *host = allocated(sizeof(*host));

    host->net = net;
    host->cookie = cookie;
    host->facts = *facts;
    host->next = net->hosts;
    net->hosts = host;
    return host;
}

static void memory_release(struct kvr_memory *memory)
{
    struct kvr_sim_net *net = memory->rail->host->net;

    for (uint32_t i = 0; memory->granted && !memory->released && i < net->granted_count; i++)
        if (net->granted[i] == memory)
            net->granted[i--] = net->granted[--net->granted_count];
    memory->released = true;
}

void kvr_sim_host_die(struct kvr_sim_host *host)
{
    struct kvr_sim_net *net = host->net;

    host->dead = true;
    for (uint32_t i = 0; i < net->endpoint_count; i++)
        if (net->endpoints[i]->rail->host == host)
            net->endpoints[i]->stopped = true;
    for (uint32_t i = 0; i < net->memory_count; i++)
        if (net->memories[i]->rail->host == host)
            memory_release(net->memories[i]);
}

struct kvr_memory *sim_granted_find(const struct kvr_sim_net *net, const struct kvr_rail *rail,
                                    uint64_t key)
{
    for (uint32_t i = 0; i < net->granted_count; i++)
        if (net->granted[i]->key.key == key && net->granted[i]->rail == rail)
            return net->granted[i];
    return NULL;
}

uint64_t kvr_sim_host_key(const struct kvr_sim_host *host, uint32_t *at)
{
    const struct kvr_sim_net *net = host->net;

    while (*at < net->granted_count && net->granted[*at]->rail->host != host)
        (*at)++;
    return *at < net->granted_count ? net->granted[(*at)++]->key.key : 0;
}

bool kvr_sim_rail_has_key(const struct kvr_rail *rail, uint64_t key)
{
    return sim_granted_find(rail->host->net, rail, key) != NULL;
}

/* ---- rails and memory ---------------------------------------------------------------------- */

static kvr_status rail_open(void *self, const struct kvr_rail_options *options,
                            struct kvr_rail **ret_rail, struct kvr_error *error)
{
    struct kvr_sim_host *host = self;
    struct kvr_rail *rail = allocated(sizeof(*rail));

    (void)error;
    rail->host = host;
    rail->facts = host->facts;
    memcpy(rail->facts.name, options->name, sizeof(rail->facts.name));
    if (strcmp(options->provider, "local") == 0)
        rail->facts.target_copies = rail->facts.same_host_only = true;
    else
        snprintf(rail->facts.network, sizeof(rail->facts.network), "%.47s", options->name);
    rail->facts.needs_senders = rail->facts.needs_senders && !rail->facts.same_host_only;
    rail->facts.moves_pages = rail->facts.moves_pages && rail->facts.target_copies;
    rail->facts.grant_keys = rail->facts.grant_keys && !rail->facts.target_copies;
    rail->next = host->net->rails;
    host->net->rails = rail;
    *ret_rail = rail;
    return KVR_OK;
}

static void rail_close(struct kvr_rail *rail)
{
    rail->closed = true; /* freed with the net: what is on its way still points here */
}

static const struct kvr_rail_facts *rail_facts(const struct kvr_rail *rail)
{
    return &rail->facts;
}

static kvr_status memory_register(struct kvr_rail *rail, const struct kvr_memory_span *span,
                                  struct kvr_memory **ret_memory, struct kvr_error *error)
{
    struct kvr_sim_net *net = rail->host->net;
    struct kvr_memory *memory = allocated(sizeof(*memory));

    (void)error;
    net->memories = sim_grown(net->memories, net->memory_count, &net->memory_capacity,
                              sizeof(struct kvr_memory *));
    memory->rail = rail;
    memory->base = span->base;
    memory->bytes = span->bytes;
    memory->local = span->local;
    memory->remote = span->remote;
    memory->pages = span->kind == KVR_SPAN_PAGES;
    /* The low half finds it; the random half makes a guessed key a wrong one. */
    memory->key.key = (kvr_rng_next(net->options.rng) << 32) | net->memory_count;
    memory->key.base = kvr_rng_below(net->options.rng, UINT64_C(1) << 40);
    if (!span->remote)
        memory->key = (struct kvr_remote_key){.key = 0};
    memory->granted = span->key != 0;
    if (memory->granted) {
        memory->key = (struct kvr_remote_key){.key = span->key};
        net->granted = sim_grown(net->granted, net->granted_count, &net->granted_capacity,
                                 sizeof(struct kvr_memory *));
        net->granted[net->granted_count++] = memory;
    }
    net->memories[net->memory_count++] = memory;
    *ret_memory = memory;
    return KVR_OK;
}

static struct kvr_remote_key memory_key(const struct kvr_memory *memory)
{
    return memory->key;
}

void kvr_sim_rail_silence(struct kvr_rail *rail, kvr_ns until)
{
    rail->silent_until = until;
}

void kvr_sim_rail_fail(struct kvr_rail *rail, kvr_ns until)
{
    struct kvr_sim_net *net = rail->host->net;

    rail->failed_until = until;
    for (uint32_t i = 0; i < net->endpoint_count; i++)
        if (net->endpoints[i]->rail == rail && !net->endpoints[i]->stopped)
            sim_endpoint_fail(net, net->endpoints[i]);
}

void kvr_sim_rail_slow(struct kvr_rail *rail, uint64_t speed_bps, kvr_ns until)
{
    rail->slow_bps = speed_bps;
    rail->slow_until = until;
}

/* ---- endpoints ----------------------------------------------------------------------------- */

static kvr_status endpoint_open(struct kvr_rail *rail, struct kvr_endpoint **ret_endpoint,
                                struct kvr_error *error)
{
    struct kvr_sim_net *net = rail->host->net;
    struct kvr_endpoint *endpoint;

    if (net->now < rail->failed_until)
        return kvr_error_set(error, KVR_RAIL_FAILED, "fabric_sim", "the card is gone");
    endpoint = allocated(sizeof(*endpoint));
    net->endpoints = sim_grown(net->endpoints, net->endpoint_count, &net->endpoint_capacity,
                               sizeof(struct kvr_endpoint *));
    endpoint->rail = rail;
    endpoint->number = net->endpoint_count;
    net->endpoints[net->endpoint_count++] = endpoint;
    *ret_endpoint = endpoint;
    return KVR_OK;
}

static void endpoint_address(const struct kvr_endpoint *endpoint, uint8_t *ret_address,
                             uint32_t *ret_bytes)
{
    memcpy(ret_address, &endpoint->number, sizeof(endpoint->number));
    *ret_bytes = sizeof(endpoint->number);
}

static void endpoint_stop(struct kvr_endpoint *endpoint)
{
    endpoint->stopped = true;
}

static void endpoint_close(struct kvr_endpoint *endpoint)
{
    endpoint->stopped = endpoint->closed = true;
    free(endpoint->queue);
    endpoint->queue = NULL;
    endpoint->queue_first = endpoint->queue_count = endpoint->queue_capacity = 0;
}

struct sim_sender *sim_sender_of(const struct kvr_endpoint *endpoint, uint32_t number)
{
    for (uint32_t i = 0; i < endpoint->sender_count; i++)
        if (endpoint->senders[i].number == number)
            return &endpoint->senders[i];
    return NULL;
}

static void sender_insert(struct kvr_endpoint *endpoint, uint32_t number)
{
    struct sim_sender *sender = sim_sender_of(endpoint, number);

    if (sender == NULL) {
        endpoint->senders = sim_grown(endpoint->senders, endpoint->sender_count,
                                      &endpoint->sender_capacity, sizeof(*endpoint->senders));
        sender = &endpoint->senders[endpoint->sender_count++];
    }
    *sender = (struct sim_sender){.number = number};
}

static kvr_status peer_insert(struct kvr_endpoint *endpoint, const uint8_t *address, uint32_t bytes,
                              uint64_t *ret_peer, struct kvr_error *error)
{
    uint32_t number;

    if (bytes != sizeof(number))
        return kvr_error_set(error, KVR_RAIL_FAILED, "fabric_sim", "an address of %u bytes", bytes);
    memcpy(&number, address, sizeof(number));
    if (number >= endpoint->rail->host->net->endpoint_count)
        return kvr_error_set(error, KVR_RAIL_FAILED, "fabric_sim", "there is no endpoint %u",
                             number);
    if (endpoint->rail->facts.needs_senders)
        sender_insert(endpoint, number);
    *ret_peer = number;
    return KVR_OK;
}

static void peer_remove(struct kvr_endpoint *endpoint, uint64_t peer)
{
    struct sim_sender *sender = sim_sender_of(endpoint, (uint32_t)peer);

    if (sender != NULL)
        sender->removed = true;
}

static unsigned poll(struct kvr_endpoint *endpoint, struct kvr_completion *ret_completions,
                     unsigned capacity)
{
    unsigned count = 0;

    while (count < capacity && endpoint->queue_first < endpoint->queue_count)
        ret_completions[count++] = endpoint->queue[endpoint->queue_first++];
    if (endpoint->queue_first == endpoint->queue_count)
        endpoint->queue_first = endpoint->queue_count = 0;
    return count;
}

/* Any number will do: no thread sleeps on it, but with one the group expects to be woken. */
static int endpoint_wait_fd(const struct kvr_endpoint *endpoint)
{
    return (int)endpoint->number;
}

static bool endpoint_may_sleep(struct kvr_endpoint *endpoint)
{
    return endpoint->queue_count == 0;
}

/* ---- writes -------------------------------------------------------------------------------- */

static struct sim_write *write_new(struct kvr_sim_net *net, uint32_t *ret_index)
{
    if (net->free_write == SIM_NONE) {
        uint32_t first = net->write_capacity;

        net->writes = sim_grown(net->writes, first, &net->write_capacity, sizeof(struct sim_write));
        memset(&net->writes[first], 0, (net->write_capacity - first) * sizeof(struct sim_write));
        for (uint32_t i = first; i < net->write_capacity; i++)
            net->writes[i].next_free = i + 1 < net->write_capacity ? i + 1 : SIM_NONE;
        net->free_write = first;
    }
    *ret_index = net->free_write;
    net->free_write = net->writes[*ret_index].next_free;
    return &net->writes[*ret_index];
}

static void check_local(struct kvr_endpoint *endpoint, const struct kvr_fabric_piece *piece)
{
    struct kvr_sim_net *net = endpoint->rail->host->net;
    const struct kvr_memory *memory = piece->memory;
    const uint8_t *local = piece->local;

    if (memory->released || !memory->local || memory->rail != endpoint->rail ||
        local < memory->base || piece->bytes > memory->bytes ||
        (uint64_t)(local - memory->base) > memory->bytes - piece->bytes)
        net->options.hooks.misuse(net->options.hooks.self,
                                  "a write of bytes that are not registered on its rail");
}

/* Rule 12. A sender that the target has forgotten since may still write: its session has ended
 * there. */
static void check_sender(struct kvr_endpoint *endpoint, const struct kvr_endpoint *target)
{
    struct kvr_sim_net *net = endpoint->rail->host->net;

    if (target->rail->facts.needs_senders && !target->stopped && !target->failed &&
        sim_sender_of(target, endpoint->number) == NULL)
        net->options.hooks.misuse(net->options.hooks.self,
                                  "a write to an endpoint that does not know the writer");
}

static kvr_status post(struct kvr_endpoint *endpoint, const struct kvr_fabric_write *write)
{
    struct kvr_sim_net *net = endpoint->rail->host->net;
    const struct kvr_write_facts *facts = &endpoint->rail->facts.write;
    struct sim_write *made;
    uint64_t bytes = 0;
    uint32_t index;

    assert(!endpoint->stopped && kvr_fabric_takes(facts, write->pieces, write->piece_count));
    if (endpoint->failed)
        return KVR_RAIL_FAILED;
    if (endpoint->outstanding >= facts->outstanding_max ||
        sim_chance(net, net->options.again_chance))
        return KVR_AGAIN;
    check_sender(endpoint, net->endpoints[write->peer]);
    made = write_new(net, &index);
    made->endpoint = endpoint;
    made->target = net->endpoints[write->peer];
    made->piece_count = write->piece_count;
    made->immediate =
        endpoint->rail->facts.immediate_bits == 64 ? write->immediate : (uint32_t)write->immediate;
    made->context = write->context;
    made->pending = made->tries = 0;
    made->was_read = made->landing = made->completed = made->fails = made->lost = made->unmoved =
        false;
    for (unsigned i = 0; i < write->piece_count; i++) {
        check_local(endpoint, &write->pieces[i]);
        made->pieces[i] = write->pieces[i];
        bytes += write->pieces[i].bytes;
    }
    made->byte_count = bytes;
    if (bytes > made->byte_capacity) {
        free(made->bytes);
        made->bytes = allocated(bytes);
        made->byte_capacity = bytes;
    }
    made->fails = sim_chance(net, net->options.fail_chance);
    made->lost = made->fails ? kvr_rng_percent(net->options.rng, 50)
                             : sim_chance(net, net->options.lost_chance);
    endpoint->outstanding++;
    net->counts.writes++;
    if (sim_apart(endpoint->rail, made->target->rail)) {
        net->counts.across++;
        if (net->options.hooks.across != NULL)
            net->options.hooks.across(net->options.hooks.self, endpoint->rail->host->cookie,
                                      made->target->rail->host->cookie);
    }
    /* A warm-up write does no harm: its page belongs to no request. */
    if (net->options.hooks.posted != NULL && write->immediate != KVR_WARM_UP_IMMEDIATE)
        net->options.hooks.posted(net->options.hooks.self, endpoint->rail->host->cookie,
                                  made->target->rail->host->cookie);
    sim_write_begin(net, index);
    return KVR_OK;
}

static const struct kvr_fabric_ops sim_ops = KVR_FABRIC_OPS;

struct kvr_fabric kvr_sim_host_fabric(struct kvr_sim_host *host)
{
    return (struct kvr_fabric){.ops = &sim_ops, .self = host};
}
