/* A stranger that can dial a rail's port and knows nothing else: it forges arrivals.
 *
 *   forger ADDRESS PORT SLOTS CHUNKS
 *
 * An ordinary endpoint of libfabric's tcp, as any user of a host can open one. It sends writes of
 * no segments with immediate data, for every slot from 1 to SLOTS and each of its first CHUNKS
 * chunks. Such a write needs no key, and the target's queue shows its immediate as it shows a
 * peer's. The bits above slot and chunk are 0, then random. Prints how many writes libfabric took.
 * Exit 0: it took all of them. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "base/entropy.h"
#include "tests/support/raw_tcp.h"

static bool forge(uint64_t immediate, uint64_t *ended)
{
    struct fi_msg_rma message = {.addr = raw_target, .data = immediate};
    time_t until = raw_seconds() + RAW_PATIENCE_S;
    ssize_t code;

    while ((code = fi_writemsg(raw_ep, &message, FI_REMOTE_CQ_DATA | FI_COMPLETION)) == -FI_EAGAIN)
        if (!raw_take(ended) || raw_seconds() > until)
            return false;
    if (code != 0)
        (void)raw_failed("fi_writemsg", code);
    return code == 0 && raw_take(ended);
}

static bool forge_all(uint32_t slots, uint32_t chunks, uint64_t *ret_sent)
{
    time_t until;
    uint64_t ended = 0;

    for (uint64_t slot = 1; slot <= slots; slot++)
        for (uint64_t chunk = 0; chunk < chunks; chunk++) {
            if (!forge(slot << 16 | chunk, &ended) ||
                !forge(kvr_random_u64() << 32 | slot << 16 | chunk, &ended))
                return false;
            *ret_sent += 2;
        }
    until = raw_seconds() + RAW_PATIENCE_S;
    while (ended < *ret_sent && raw_seconds() < until)
        if (!raw_take(&ended))
            return false;
    return ended == *ret_sent;
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    uint64_t sent = 0;
    int status;
    bool all;

    if (argc != 5) {
        fprintf(stderr, "usage: forger ADDRESS PORT SLOTS CHUNKS\n");
        return 2;
    }
    address.sin_port = htons((uint16_t)strtoul(argv[2], NULL, 10));
    if (inet_pton(AF_INET, argv[1], &address.sin_addr) != 1)
        return raw_failed("inet_pton", -FI_EINVAL);
    status = raw_open(&address);
    if (status != 0)
        return status;
    all = forge_all((uint32_t)strtoul(argv[3], NULL, 10), (uint32_t)strtoul(argv[4], NULL, 10),
                    &sent);
    printf("%llu writes forged\n", (unsigned long long)sent);
    raw_close();
    return all ? 0 : 1;
}
