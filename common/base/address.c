#include "base/address.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

static kvr_status refuse(struct kvr_error *error, const char *text, const char *why)
{
    return kvr_error_set(error, KVR_INVALID, "address", "'%.100s' %s", text, why);
}

static bool is_name(const char *host)
{
    size_t length = strlen(host);

    for (size_t i = 0; i < length; i++) {
        if (!isalnum((unsigned char)host[i]) && strchr("-._", host[i]) == NULL)
            return false;
    }
    return length > 0 && length <= 253 && host[0] != '-' && host[0] != '.';
}

static bool is_ipv4(const char *host)
{
    struct in_addr v4;

    return inet_pton(AF_INET, host, &v4) == 1;
}

static bool is_ipv6(const char *host)
{
    struct in6_addr v6;

    return inet_pton(AF_INET6, host, &v6) == 1;
}

/* Only digits and dots, and yet no IPv4 literal: "127.0.0" would otherwise pass as a name. */
static bool looks_like_ipv4(const char *host)
{
    return strspn(host, "0123456789.") == strlen(host);
}

static kvr_status parse_port(const char *text, const char *port, struct kvr_error *error,
                             uint16_t *ret_port)
{
    size_t digits = strspn(port, "0123456789");
    unsigned long value = strtoul(port, NULL, 10);

    if (digits == 0 || digits > 5 || port[digits] != '\0' || value > 65535)
        return refuse(error, text, "has a port that is no number from 0 to 65535");
    *ret_port = (uint16_t)value;
    return KVR_OK;
}

kvr_status kvr_address_parse(const char *text, int default_port, struct kvr_error *error,
                             struct kvr_address *ret_address)
{
    struct kvr_address address = {.port = (uint16_t)(default_port > 0 ? default_port : 0)};
    const char *host = text, *end, *port = NULL;

    if (text[0] == '[') {
        host = text + 1;
        end = strchr(text, ']');
        if (end == NULL || (end[1] != '\0' && end[1] != ':'))
            return refuse(error, text, "is no [IPv6 address]:port");
        if (end[1] == ':')
            port = end + 2;
    } else {
        end = strchr(text, ':');
        if (end != NULL && strchr(end + 1, ':') == NULL)
            port = end + 1;
        else /* several colons without brackets: an IPv6 literal without a port */
            end = text + strlen(text);
    }
    if ((size_t)(end - host) >= sizeof(address.host))
        return refuse(error, text, "has a host name that is too long");
    memcpy(address.host, host, (size_t)(end - host));

    if (text[0] == '[' ? !is_ipv6(address.host)
                       : !is_ipv4(address.host) && !is_ipv6(address.host) &&
                             (looks_like_ipv4(address.host) || !is_name(address.host)))
        return refuse(error, text, "has no host name and no IPv4 or [IPv6] address");
    if (port == NULL && default_port < 0)
        return refuse(error, text, "lacks a port: write host:port or [IPv6]:port");
    if (port != NULL) {
        KVR_TRY(parse_port(text, port, error, &address.port));
    }
    *ret_address = address;
    return KVR_OK;
}

char *kvr_address_print(const struct kvr_address *address, char text[KVR_ADDRESS_TEXT_BYTES])
{
    bool colons = strchr(address->host, ':') != NULL;

    snprintf(text, KVR_ADDRESS_TEXT_BYTES, colons ? "[%s]:%u" : "%s:%u", address->host,
             (unsigned)address->port);
    return text;
}

bool kvr_address_is_loopback(const struct kvr_address *address)
{
    struct in_addr v4;
    struct in6_addr v6;

    if (inet_pton(AF_INET, address->host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, address->host, &v6) == 1)
        return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
    return strcasecmp(address->host, "localhost") == 0;
}

kvr_status kvr_address_to_socket(const struct kvr_address *address,
                                 struct sockaddr_storage *ret_socket, socklen_t *ret_bytes)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(address->port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(address->port)};

    if (inet_pton(AF_INET, address->host, &v4.sin_addr) == 1) {
        memset(ret_socket, 0, sizeof(*ret_socket));
        memcpy(ret_socket, &v4, sizeof(v4));
        *ret_bytes = sizeof(v4);
        return KVR_OK;
    }
    if (inet_pton(AF_INET6, address->host, &v6.sin6_addr) == 1) {
        memset(ret_socket, 0, sizeof(*ret_socket));
        memcpy(ret_socket, &v6, sizeof(v6));
        *ret_bytes = sizeof(v6);
        return KVR_OK;
    }
    return KVR_UNSUPPORTED;
}

kvr_status kvr_address_from_socket(const struct sockaddr *socket, struct kvr_address *ret_address)
{
    struct kvr_address address = {.port = 0};
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    if (socket->sa_family == AF_INET) {
        memcpy(&v4, socket, sizeof(v4));
        inet_ntop(AF_INET, &v4.sin_addr, address.host, sizeof(address.host));
        address.port = ntohs(v4.sin_port);
    } else if (socket->sa_family == AF_INET6) {
        memcpy(&v6, socket, sizeof(v6));
        inet_ntop(AF_INET6, &v6.sin6_addr, address.host, sizeof(address.host));
        address.port = ntohs(v6.sin6_port);
    } else {
        return KVR_UNSUPPORTED;
    }
    *ret_address = address;
    return KVR_OK;
}

uint64_t kvr_address_network(const char *text)
{
    struct kvr_address parsed;
    struct in6_addr six;
    struct in_addr four;
    uint64_t number = 1;

    if (kvr_address_parse(text, 0, NULL, &parsed) != KVR_OK)
        return number;
    if (inet_pton(AF_INET, parsed.host, &four) == 1) {
        number = four.s_addr;
    } else if (inet_pton(AF_INET6, parsed.host, &six) == 1) {
        memcpy(&number, &six, sizeof(number));
        if (IN6_IS_ADDR_V4MAPPED(&six)) {
            memcpy(&four, six.s6_addr + 12, sizeof(four));
            number = four.s_addr;
        }
    }
    number = kvr_mix64(number);
    return number != 0 ? number : 1;
}
