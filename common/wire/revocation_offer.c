#include "wire/revocation_offer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "wire/abstract_socket.h"
#include "wire/packet_socket.h"

#define BACKLOG 1024 /* offers that wait until they are asked for; the kernel may hold fewer */

static void address_of(uint64_t boot, char ret_address[48])
{
    snprintf(ret_address, 48, "kvrail-words-%016" PRIx64, boot);
}

kvr_status kvr_revocation_listen(uint64_t boot, int *ret_socket, struct kvr_error *error)
{
    char address[48];
    int fd;

    address_of(boot, address);
    fd = kvr_abstract_listen(address, BACKLOG);
    if (fd < 0)
        return kvr_error_system(error, "revocation words", errno,
                                "cannot listen for prefill-agents of this host");
    *ret_socket = fd;
    return KVR_OK;
}

bool kvr_revocation_offer(uint64_t boot, const struct kvr_revocation_name *name, int words_fd)
{
    struct kvr_packet_fds fds = {.count = 1, .fds = {words_fd}};
    char address[48];
    kvr_status status;
    int fd;

    address_of(boot, address);
    fd = kvr_abstract_connect(address);
    if (fd < 0)
        return false;
    status = kvr_packet_send(fd, (const uint8_t *)name, sizeof(*name), &fds);
    close(fd);
    return status == KVR_OK;
}

/* What was sent before it connected to our end is there, also when it has closed its own. */
static const struct kvr_revocation_words *heard_of(int connection,
                                                   struct kvr_revocation_name *ret_name)
{
    const struct kvr_revocation_words *words = NULL;
    struct kvr_packet_fds fds;
    size_t bytes;

    if (kvr_packet_receive(connection, (uint8_t *)ret_name, sizeof(*ret_name), &bytes, &fds) !=
        KVR_OK)
        return NULL;
    if (fds.count == 1 && bytes == sizeof(*ret_name) && ret_name->number != 0 &&
        kvr_revocation_words_view(fds.fds[0], &words, NULL) != KVR_OK)
        words = NULL;
    kvr_packet_fds_close(&fds);
    return words;
}

kvr_status kvr_revocation_hear(int socket, struct kvr_revocation_name *ret_name,
                               const struct kvr_revocation_words **ret_words)
{
    for (int i = 0; i < BACKLOG; i++) {
        const struct kvr_revocation_words *words;
        struct kvr_revocation_name name;
        int connection = kvr_abstract_accept(socket);

        if (connection < 0 && errno != EBUSY)
            break;
        if (connection < 0)
            continue;
        words = heard_of(connection, &name);
        close(connection);
        if (words != NULL) {
            *ret_name = name;
            *ret_words = words;
            return KVR_OK;
        }
    }
    return KVR_AGAIN;
}
