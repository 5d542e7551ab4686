#include "http/http_limits.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *label, *option;
} facts[HTTP_LIMIT_END] = {
#define X(symbol, label, option) {label, option},
    HTTP_LIMIT_LIST(X)
#undef X
};

const char *http_limit_label(http_limit limit)
{
    return facts[limit].label;
}

const char *http_limit_option(http_limit limit)
{
    return facts[limit].option;
}

kvr_status http_limits_init(struct http_limits *limits, uint64_t max, uint64_t per_host,
                            uint32_t hosts)
{
    *limits =
        (struct http_limits){.most = {[HTTP_LIMIT_MAX] = max, [HTTP_LIMIT_PER_HOST] = per_host}};
    limits->memory = malloc(kvr_table_bytes(hosts));
    if (limits->memory == NULL)
        return KVR_NO_MEMORY;
    kvr_table_init(&limits->hosts, limits->memory, hosts);
    return KVR_OK;
}

void http_limits_done(struct http_limits *limits)
{
    free(limits->memory);
    limits->memory = NULL;
}

uint64_t http_limits_host(const struct sockaddr *from)
{
    uint32_t four = 0;
    uint64_t six = 0;

    if (from->sa_family == AF_INET6) {
        const struct in6_addr *address =
            &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr;

        if (!IN6_IS_ADDR_V4MAPPED(address)) {
            memcpy(&six, address, sizeof(six));
            return be64toh(six);
        }
        memcpy(&four, (const unsigned char *)address + 12, sizeof(four));
    } else if (from->sa_family == AF_INET) {
        four = ((const struct sockaddr_in *)(const void *)from)->sin_addr.s_addr;
    }
    return UINT64_C(0xffff00000000) | ntohl(four); /* no IPv6 network begins with 0:ffff */
}

uint32_t http_limits_count(const struct http_limits *limits, uint64_t host)
{
    uint32_t count;

    return kvr_table_find(&limits->hosts, host, &count) ? count : 0;
}

static void set_count(struct http_limits *limits, uint64_t host, uint32_t count)
{
    (void)kvr_table_remove(&limits->hosts, host);
    if (count > 0)
        (void)!kvr_table_insert(&limits->hosts, host,
                                count); /* there are fewer hosts than places */
}

http_limit http_limits_reached(const struct http_limits *limits, uint64_t count, uint64_t host)
{
    uint64_t per_host = limits->most[HTTP_LIMIT_PER_HOST];

    if (per_host != 0 && http_limits_count(limits, host) >= per_host)
        return HTTP_LIMIT_PER_HOST;
    return count >= limits->most[HTTP_LIMIT_MAX] ? HTTP_LIMIT_MAX : HTTP_LIMIT_END;
}

void http_limits_joined(struct http_limits *limits, uint64_t host)
{
    set_count(limits, host, http_limits_count(limits, host) + 1);
}

void http_limits_left(struct http_limits *limits, uint64_t host)
{
    uint32_t count = http_limits_count(limits, host);

    if (count > 0)
        set_count(limits, host, count - 1);
}

uint64_t http_limits_say(struct http_limits *limits, bool refused, kvr_ns now)
{
    uint64_t count;

    limits->unsaid += refused;
    if (limits->said_at != 0 && now < limits->said_at + KVR_S)
        return 0;
    count = limits->unsaid;
    limits->unsaid = 0;
    if (count > 0)
        limits->said_at = now;
    return count;
}
