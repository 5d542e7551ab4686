#include "wire/revocation_offer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "wire/abstract_socket.h"
#include "wire/packet_socket.h"

#define BACKLOG 256 /* offers that wait until the next session begins: KVR_PEERS_MAX */

static void name_of(uint64_t boot, char ret_name[48])
{
    snprintf(ret_name, 48, "kvrail-words-%016" PRIx64, boot);
}

kvr_status kvr_revocation_listen(uint64_t boot, int *ret_socket, struct kvr_error *error)
{
    char name[48];
    int fd;

    name_of(boot, name);
    fd = kvr_abstract_listen(name, BACKLOG);
    if (fd < 0)
        return kvr_error_system(error, "revocation words", errno,
                                "cannot listen for prefill-agents of this host");
    *ret_socket = fd;
    return KVR_OK;
}

bool kvr_revocation_offer(uint64_t boot, int words_fd)
{
    static const uint8_t packet = 0; /* the descriptor says it all */
    struct kvr_packet_fds fds = {.count = 1, .fds = {words_fd}};
    char name[48];
    kvr_status status;
    int fd;

    name_of(boot, name);
    fd = kvr_abstract_connect(name);
    if (fd < 0)
        return false;
    status = kvr_packet_send(fd, &packet, sizeof(packet), &fds);
    close(fd);
    return status == KVR_OK;
}

/* What was sent before it connected to our end is there, also when it has closed its own. */
static const struct kvr_revocation_words *heard_of(int connection)
{
    const struct kvr_revocation_words *words = NULL;
    struct kvr_packet_fds fds;
    uint8_t packet;
    size_t bytes;

    if (kvr_packet_receive(connection, &packet, sizeof(packet), &bytes, &fds) != KVR_OK)
        return NULL;
    if (fds.count == 1 && kvr_revocation_words_view(fds.fds[0], &words, NULL) != KVR_OK)
        words = NULL;
    kvr_packet_fds_close(&fds);
    return words;
}

kvr_status kvr_revocation_hear(int socket, const struct kvr_revocation_words **ret_words)
{
    for (int i = 0; i < BACKLOG; i++) {
        const struct kvr_revocation_words *words;
        int connection = kvr_abstract_accept(socket);

        if (connection < 0 && errno != EBUSY)
            break;
        if (connection < 0)
            continue;
        words = heard_of(connection);
        close(connection);
        if (words != NULL) {
            *ret_words = words;
            return KVR_OK;
        }
    }
    return KVR_AGAIN;
}
