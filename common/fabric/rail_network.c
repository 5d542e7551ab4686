#include "fabric/rail_network.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IB_FABRIC        "IB-0x"
#define IB_TYPE          "InfiniBand"
#define IB_PREFIX_COMMON UINT64_C(0xfe80000000000000) /* the default */

/* False: ones follow a zero. */
static bool prefix_of(const uint8_t *mask, unsigned bytes, unsigned *ret_bits)
{
    unsigned bits = 0;

    while (bits < 8 * bytes && (mask[bits / 8] >> (7 - bits % 8) & 1) != 0)
        bits++;
    *ret_bits = bits;
    for (; bits < 8 * bytes; bits++)
        if ((mask[bits / 8] >> (7 - bits % 8) & 1) != 0)
            return false;
    return true;
}

static bool on_every_host(int family, const uint8_t *address)
{
    struct in6_addr v6;

    if (family == AF_INET)
        return address[0] == 127 || (address[0] == 169 && address[1] == 254);
    memcpy(&v6, address, sizeof(v6));
    return IN6_IS_ADDR_LOOPBACK(&v6) || IN6_IS_ADDR_LINKLOCAL(&v6);
}

void kvr_rail_network(int family, const uint8_t *address, const uint8_t *mask,
                      char ret_text[KVR_PLANE_BYTES])
{
    unsigned bytes = family == AF_INET ? 4 : 16, bits;
    char text[INET6_ADDRSTRLEN];
    uint8_t network[16];

    ret_text[0] = '\0';
    if (on_every_host(family, address) || !prefix_of(mask, bytes, &bits) || bits == 0 ||
        bits >= 8 * bytes - 1)
        return;
    for (unsigned i = 0; i < bytes; i++)
        network[i] = address[i] & mask[i];
    if (inet_ntop(family, network, text, sizeof(text)) != NULL)
        snprintf(ret_text, KVR_PLANE_BYTES, "%.43s/%u", text, bits);
}

void kvr_rail_network_add(char text[KVR_PLANE_BYTES], const char *network)
{
    size_t bytes = strlen(text), more = strlen(network);

    for (const char *at = text; more > 0; at++) {
        if (strcspn(at, ",") == more && memcmp(at, network, more) == 0)
            return;
        at += strcspn(at, ",");
        if (*at == '\0')
            break;
    }
    if (more > 0 && bytes + 1 + more < KVR_PLANE_BYTES)
        snprintf(text + bytes, KVR_PLANE_BYTES - bytes, ",%s", network);
}

void kvr_rail_subnet(const char *fabric, const char *network_type, char ret_text[KVR_PLANE_BYTES])
{
    struct in6_addr subnet = IN6ADDR_ANY_INIT;
    char text[INET6_ADDRSTRLEN];
    const char *digits;
    uint64_t prefix;

    ret_text[0] = '\0';
    if (fabric == NULL || network_type == NULL || strcmp(network_type, IB_TYPE) != 0 ||
        strncmp(fabric, IB_FABRIC, strlen(IB_FABRIC)) != 0)
        return;
    digits = fabric + strlen(IB_FABRIC);
    if (strspn(digits, "0123456789abcdef") != strlen(digits) || strlen(digits) > 16)
        return;
    prefix = strtoull(digits, NULL, 16);
    if (prefix == 0 || prefix == IB_PREFIX_COMMON)
        return;
    for (unsigned i = 0; i < sizeof(prefix); i++)
        subnet.s6_addr[i] = (uint8_t)(prefix >> (8 * (sizeof(prefix) - 1 - i)));
    if (inet_ntop(AF_INET6, &subnet, text, sizeof(text)) != NULL)
        snprintf(ret_text, KVR_PLANE_BYTES, "ib:%.40s/64", text);
}
