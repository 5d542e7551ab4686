#include "http/hosts.h"

#include <netinet/in.h>
#include <string.h>
#include <strings.h>

/* Both are literals of the same address; IPv4 inside IPv6 is IPv4. */
static bool same_literal(const char *a, const char *b)
{
    struct kvr_address addresses[2] = {{.port = 1}, {.port = 1}};
    struct in6_addr keys[2];

    for (int i = 0; i < 2; i++) {
        const char *text = i == 0 ? a : b;
        struct sockaddr_storage at;
        socklen_t bytes;

        if (strlen(text) >= sizeof(addresses[i].host))
            return false;
        strcpy(addresses[i].host, text);
        if (kvr_address_to_socket(&addresses[i], &at, &bytes) != KVR_OK)
            return false;
        memset(&keys[i], 0, sizeof(keys[i]));
        if (at.ss_family == AF_INET) {
            keys[i].s6_addr[10] = keys[i].s6_addr[11] = 0xff;
            memcpy(&keys[i].s6_addr[12], &((const struct sockaddr_in *)&at)->sin_addr, 4);
        } else {
            keys[i] = ((const struct sockaddr_in6 *)&at)->sin6_addr;
        }
    }
    return memcmp(&keys[0], &keys[1], sizeof(keys[0])) == 0;
}

static bool same_host(const char *a, const char *b)
{
    return a[0] != '\0' && (strcasecmp(a, b) == 0 || same_literal(a, b));
}

bool hosts_allow(const struct hosts *hosts, const char *header, const struct kvr_address *local)
{
    struct kvr_address asked;

    if (kvr_address_parse(header, 1, NULL, &asked) != KVR_OK)
        return false;
    if (kvr_address_is_loopback(&asked))
        return true;
    if ((local != NULL && same_host(local->host, asked.host)) || same_host(hosts->own, asked.host))
        return true;
    for (uint32_t i = 0; i < hosts->extra.count; i++)
        if (same_host(hosts->extra.items[i], asked.host))
            return true;
    return false;
}

bool hosts_same_origin(const char *origin, const char *host, bool tls)
{
    static const char plain[] = "http://", encrypted[] = "https://";

    if (strncasecmp(origin, encrypted, sizeof(encrypted) - 1) == 0)
        return strcasecmp(origin + sizeof(encrypted) - 1, host) == 0;
    return !tls && strncasecmp(origin, plain, sizeof(plain) - 1) == 0 &&
           strcasecmp(origin + sizeof(plain) - 1, host) == 0;
}
