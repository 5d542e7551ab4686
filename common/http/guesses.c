#include "http/guesses.h"

#include <netinet/in.h>
#include <string.h>

#define MINUTE (60 * KVR_S)

/* IPv4 as IPv6 shows it; of IPv6 the network. All 0: not known. */
static void key_of(const struct kvr_address *from, uint8_t key[16])
{
    struct sockaddr_storage at;
    socklen_t bytes;

    memset(key, 0, 16);
    if (from == NULL || kvr_address_to_socket(from, &at, &bytes) != KVR_OK)
        return;
    if (at.ss_family == AF_INET) {
        memset(key + 10, 0xff, 2);
        memcpy(key + 12, &((const struct sockaddr_in *)&at)->sin_addr, 4);
    } else {
        const struct in6_addr *address = &((const struct sockaddr_in6 *)&at)->sin6_addr;

        memcpy(key, address, IN6_IS_ADDR_V4MAPPED(address) ? 16 : 8);
    }
}

bool guesses_wrong(struct guesses *guesses, const struct kvr_address *from, kvr_ns now)
{
    struct guesses_source *source = &guesses->sources[0];
    uint8_t key[16];

    key_of(from, key);
    for (int i = 0; i < GUESSES_SOURCES_MAX; i++) {
        struct guesses_source *other = &guesses->sources[i];

        if (other->since != 0 && memcmp(other->address, key, sizeof(key)) == 0) {
            source = other;
            break;
        }
        if (other->since < source->since)
            source = other;
    }
    if (source->since == 0 || memcmp(source->address, key, sizeof(key)) != 0 ||
        now - source->since >= MINUTE) {
        memcpy(source->address, key, sizeof(key));
        source->since = now;
        source->wrong = 0;
    }
    if (source->wrong <= GUESSES_PER_MINUTE)
        source->wrong++;
    return source->wrong <= GUESSES_PER_MINUTE;
}
