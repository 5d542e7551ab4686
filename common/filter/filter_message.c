#include "filter/filter_message.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

/* What a kind has. */
struct shape {
    bool from_agent, address, ports, value;
};

static const struct shape shapes[KVR_FILTER_KIND_END] = {
    [KVR_FILTER_HELLO] = {.from_agent = true, .value = true},
    [KVR_FILTER_GUARD] = {.from_agent = true, .address = true, .ports = true},
    [KVR_FILTER_PORT] = {.from_agent = true, .address = true, .ports = true},
    [KVR_FILTER_PORT_GONE] = {.from_agent = true, .address = true, .ports = true},
    [KVR_FILTER_PEER] = {.from_agent = true, .address = true},
    [KVR_FILTER_PEER_GONE] = {.from_agent = true, .address = true},
    [KVR_FILTER_COMMIT] = {.from_agent = true, .value = true},
    [KVR_FILTER_DONE] = {.value = true},
    [KVR_FILTER_REFUSED] = {.value = true},
    [KVR_FILTER_COUNT] = {.value = true},
};

const char *kvr_filter_refusal_text(uint64_t refusal)
{
    static const char *const texts[KVR_FILTER_REFUSAL_END] = {
        [KVR_FILTER_REFUSAL_NONE] = "no reason was given",
        [KVR_FILTER_REFUSAL_VERSION] = "it speaks another version: give both the same release",
        [KVR_FILTER_REFUSAL_MALFORMED] = "it cannot decode what this agent says",
        [KVR_FILTER_REFUSAL_USER] = "this agent's user is not among its --user",
        [KVR_FILTER_REFUSAL_FULL] = "it has all the agents that it takes",
        [KVR_FILTER_REFUSAL_LISTENER] = ("it finds no socket of this agent's user at the port: do "
                                         "both run in one network namespace?"),
        [KVR_FILTER_REFUSAL_RANGE] = "the agent's --rail-ports are not within the filter's",
        [KVR_FILTER_REFUSAL_LIMIT] = "more ports or peers than one agent may have there",
        [KVR_FILTER_REFUSAL_TAKEN] = "another agent has named that port",
    };

    return refusal < KVR_FILTER_REFUSAL_END ? texts[refusal] : "for a reason unknown here";
}

int kvr_filter_address_compare(const struct kvr_filter_address *a,
                               const struct kvr_filter_address *b)
{
    if (a->family != b->family)
        return a->family < b->family ? -1 : 1;
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes));
}

static bool from_ipv4(struct in_addr address, struct kvr_filter_address *ret_address)
{
    if (address.s_addr == INADDR_ANY)
        return false;
    *ret_address = (struct kvr_filter_address){.family = 4};
    memcpy(ret_address->bytes, &address, sizeof(address));
    return true;
}

bool kvr_filter_address_from(const uint8_t *socket, size_t bytes,
                             struct kvr_filter_address *ret_address, uint16_t *ret_port)
{
    struct sockaddr_in6 six;
    struct sockaddr_in four;
    sa_family_t family;

    if (bytes < sizeof(family))
        return false;
    memcpy(&family, socket, sizeof(family));
    if (family == AF_INET && bytes == sizeof(four)) {
        memcpy(&four, socket, sizeof(four));
        *ret_port = ntohs(four.sin_port);
        return from_ipv4(four.sin_addr, ret_address);
    }
    if (family != AF_INET6 || bytes != sizeof(six))
        return false;
    memcpy(&six, socket, sizeof(six));
    *ret_port = ntohs(six.sin6_port);
    if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
        memcpy(&four.sin_addr, &six.sin6_addr.s6_addr[12], sizeof(four.sin_addr));
        return from_ipv4(four.sin_addr, ret_address);
    }
    if (IN6_IS_ADDR_UNSPECIFIED(&six.sin6_addr))
        return false;
    ret_address->family = 6;
    memcpy(ret_address->bytes, &six.sin6_addr, sizeof(ret_address->bytes));
    return true;
}

void kvr_filter_address_print(const struct kvr_filter_address *address, char ret_text[48])
{
    if (inet_ntop(address->family == 4 ? AF_INET : AF_INET6, address->bytes, ret_text, 48) == NULL)
        ret_text[0] = '\0';
}

void kvr_filter_encode(const struct kvr_filter_message *message,
                       uint8_t ret_bytes[KVR_FILTER_MESSAGE_BYTES])
{
    memset(ret_bytes, 0, KVR_FILTER_MESSAGE_BYTES);
    ret_bytes[0] = (uint8_t)message->kind;
    ret_bytes[1] = message->address.family;
    ret_bytes[2] = (uint8_t)(message->first >> 8);
    ret_bytes[3] = (uint8_t)message->first;
    ret_bytes[4] = (uint8_t)(message->last >> 8);
    ret_bytes[5] = (uint8_t)message->last;
    memcpy(&ret_bytes[8], message->address.bytes, sizeof(message->address.bytes));
    for (unsigned i = 0; i < 8; i++)
        ret_bytes[24 + i] = (uint8_t)(message->value >> (56 - 8 * i));
}

static bool is_zero(const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != 0)
            return false;
    }
    return true;
}

static bool address_good(const struct shape *shape, const uint8_t *bytes)
{
    if (!shape->address)
        return bytes[1] == 0 && is_zero(&bytes[8], 16);
    return (bytes[1] == 4 && is_zero(&bytes[12], 12) && !is_zero(&bytes[8], 4)) ||
           (bytes[1] == 6 && !is_zero(&bytes[8], 16));
}

static bool ports_good(const struct shape *shape, const struct kvr_filter_message *message)
{
    if (!shape->ports)
        return message->first == 0 && message->last == 0;
    return message->first != 0 && message->first <= message->last &&
           (message->kind == KVR_FILTER_GUARD || message->first == message->last);
}

kvr_status kvr_filter_decode(const uint8_t bytes[KVR_FILTER_MESSAGE_BYTES], bool from_agent,
                             struct kvr_filter_message *ret_message)
{
    struct kvr_filter_message message = {.kind = (kvr_filter_kind)bytes[0]};
    const struct shape *shape;

    if (bytes[0] == 0 || bytes[0] >= KVR_FILTER_KIND_END)
        return KVR_MALFORMED;
    shape = &shapes[bytes[0]];
    message.address.family = bytes[1];
    message.first = (uint16_t)(bytes[2] << 8 | bytes[3]);
    message.last = (uint16_t)(bytes[4] << 8 | bytes[5]);
    memcpy(message.address.bytes, &bytes[8], sizeof(message.address.bytes));
    for (unsigned i = 0; i < 8; i++)
        message.value = message.value << 8 | bytes[24 + i];
    if (shape->from_agent != from_agent || !address_good(shape, bytes) ||
        !ports_good(shape, &message) || !is_zero(&bytes[6], 2) ||
        (!shape->value && message.value != 0))
        return KVR_MALFORMED;
    *ret_message = message;
    return KVR_OK;
}
