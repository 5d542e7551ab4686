#include "filter/filter_book.h"

#include <string.h>

static void emit(const struct filter_book *book, struct filter_change change)
{
    book->sink.change(book->sink.self, &change);
}

/* ---- agents and users ---- */

static bool user_elsewhere(const struct filter_book *book, uint32_t uid, uint32_t agent)
{
    for (uint32_t i = 0; i < FILTER_AGENTS_MAX; i++) {
        if (i != agent && book->agents[i].used && book->agents[i].uid == uid)
            return true;
    }
    return false;
}

kvr_filter_refusal filter_book_attach(struct filter_book *book, uint32_t uid, uint32_t *ret_agent)
{
    for (uint32_t i = 0; i < FILTER_AGENTS_MAX; i++) {
        struct filter_agent *agent = &book->agents[i];

        if (agent->used)
            continue;
        agent->used = true;
        agent->uid = uid;
        agent->port_count = agent->guard_count = agent->guarded = agent->peer_count = 0;
        emit(book, (struct filter_change){.element = FILTER_AGENT, .add = true, .agent = i});
        if (!user_elsewhere(book, uid, i))
            emit(book, (struct filter_change){.element = FILTER_USER, .add = true, .uid = uid});
        *ret_agent = i;
        return KVR_FILTER_REFUSAL_NONE;
    }
    return KVR_FILTER_REFUSAL_FULL;
}

/* ---- guards ---- */

static bool covers(const struct filter_place *place, const struct kvr_filter_address *address,
                   uint16_t port)
{
    return port >= place->first && port <= place->last &&
           kvr_filter_address_compare(&place->address, address) == 0;
}

/* By a guard other than `but`. */
static bool guarded_elsewhere(const struct filter_book *book, const struct filter_place *but,
                              const struct kvr_filter_address *address, uint16_t port)
{
    for (uint32_t i = 0; i < FILTER_AGENTS_MAX; i++) {
        const struct filter_agent *agent = &book->agents[i];

        for (uint32_t k = 0; agent->used && k < agent->guard_count; k++) {
            if (&agent->guards[k] != but && covers(&agent->guards[k], address, port))
                return true;
        }
    }
    return false;
}

static void guard_emit(const struct filter_book *book, const struct filter_place *guard, bool add)
{
    for (uint32_t port = guard->first; port <= guard->last; port++) {
        if (!guarded_elsewhere(book, guard, &guard->address, (uint16_t)port))
            emit(book, (struct filter_change){.element = FILTER_GUARD,
                                              .add = add,
                                              .port = (uint16_t)port,
                                              .address = guard->address});
    }
}

static kvr_filter_refusal guard_add(struct filter_book *book, struct filter_agent *agent,
                                    const struct kvr_filter_message *message)
{
    uint32_t count = (uint32_t)message->last - message->first + 1;
    struct filter_place *guard = &agent->guards[agent->guard_count];

    if (book->first == 0 || message->first < book->first || message->last > book->last)
        return KVR_FILTER_REFUSAL_RANGE;
    if (agent->guard_count == FILTER_GUARDS_MAX || agent->guarded + count > FILTER_GUARDED_MAX)
        return KVR_FILTER_REFUSAL_LIMIT;
    *guard = (struct filter_place){message->address, message->first, message->last};
    agent->guard_count++;
    agent->guarded += count;
    guard_emit(book, guard, true);
    return KVR_FILTER_REFUSAL_NONE;
}

/* ---- ports ---- */

static struct filter_place *port_find(struct filter_agent *agent,
                                      const struct kvr_filter_message *message)
{
    for (uint32_t i = 0; i < agent->port_count; i++) {
        if (covers(&agent->ports[i], &message->address, message->first))
            return &agent->ports[i];
    }
    return NULL;
}

static void port_emit(const struct filter_book *book, const struct filter_agent *agent,
                      const struct filter_place *port, bool add)
{
    emit(book, (struct filter_change){.element = FILTER_PORT,
                                      .add = add,
                                      .agent = (uint32_t)(agent - book->agents),
                                      .port = port->first,
                                      .address = port->address});
}

static kvr_filter_refusal port_add(struct filter_book *book, struct filter_agent *agent,
                                   const struct kvr_filter_message *message)
{
    struct filter_place *port = &agent->ports[agent->port_count];

    if (port_find(agent, message) != NULL)
        return KVR_FILTER_REFUSAL_NONE;
    if (agent->port_count == FILTER_PORTS_MAX)
        return KVR_FILTER_REFUSAL_LIMIT;
    for (uint32_t i = 0; i < FILTER_AGENTS_MAX; i++) {
        if (book->agents[i].used && port_find(&book->agents[i], message) != NULL)
            return KVR_FILTER_REFUSAL_TAKEN;
    }
    *port = (struct filter_place){message->address, message->first, message->first};
    agent->port_count++;
    port_emit(book, agent, port, true);
    return KVR_FILTER_REFUSAL_NONE;
}

static void port_remove(struct filter_book *book, struct filter_agent *agent,
                        struct filter_place *port)
{
    port_emit(book, agent, port, false);
    *port = agent->ports[--agent->port_count];
}

/* ---- peers ---- */

/* Where the address is, or would be. */
static uint32_t peer_place(const struct filter_agent *agent,
                           const struct kvr_filter_address *address, bool *ret_there)
{
    uint32_t low = 0, high = agent->peer_count;

    *ret_there = false;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = kvr_filter_address_compare(&agent->peers[middle], address);

        if (order == 0) {
            *ret_there = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static kvr_filter_refusal peer_set(struct filter_book *book, struct filter_agent *agent,
                                   const struct kvr_filter_address *address, bool add)
{
    bool there;
    uint32_t place = peer_place(agent, address, &there);
    struct kvr_filter_address *peer = &agent->peers[place];

    if (there == add)
        return KVR_FILTER_REFUSAL_NONE;
    if (add && agent->peer_count == FILTER_PEERS_MAX)
        return KVR_FILTER_REFUSAL_LIMIT;
    emit(book, (struct filter_change){.element = FILTER_PEER,
                                      .add = add,
                                      .agent = (uint32_t)(agent - book->agents),
                                      .address = *address});
    if (add) {
        memmove(peer + 1, peer, (agent->peer_count - place) * sizeof(*peer));
        *peer = *address;
        agent->peer_count++;
    } else {
        agent->peer_count--;
        memmove(peer, peer + 1, (agent->peer_count - place) * sizeof(*peer));
    }
    return KVR_FILTER_REFUSAL_NONE;
}

void filter_book_detach(struct filter_book *book, uint32_t index)
{
    struct filter_agent *agent = &book->agents[index];

    while (agent->port_count > 0)
        port_remove(book, agent, &agent->ports[agent->port_count - 1]);
    while (agent->peer_count > 0) {
        struct kvr_filter_address last = agent->peers[agent->peer_count - 1];

        (void)peer_set(book, agent, &last, false);
    }
    for (; agent->guard_count > 0; agent->guard_count--)
        guard_emit(book, &agent->guards[agent->guard_count - 1], false);
    agent->used = false;
    if (!user_elsewhere(book, agent->uid, index))
        emit(book, (struct filter_change){.element = FILTER_USER, .uid = agent->uid});
}

kvr_filter_refusal filter_book_take(struct filter_book *book, uint32_t index,
                                    const struct kvr_filter_message *message)
{
    struct filter_agent *agent = &book->agents[index];
    struct filter_place *port;

    switch (message->kind) {
    case KVR_FILTER_GUARD:
        return guard_add(book, agent, message);
    case KVR_FILTER_PORT:
        return port_add(book, agent, message);
    case KVR_FILTER_PORT_GONE:
        port = port_find(agent, message);
        if (port != NULL)
            port_remove(book, agent, port);
        return KVR_FILTER_REFUSAL_NONE;
    case KVR_FILTER_PEER:
    case KVR_FILTER_PEER_GONE:
        return peer_set(book, agent, &message->address, message->kind == KVR_FILTER_PEER);
    default:
        return KVR_FILTER_REFUSAL_MALFORMED;
    }
}
