/* What travels over sockets: who writes to whom, descriptors of memory, and bells.
 *
 * Each endpoint listens on an abstract Unix socket that is named after its random number. A writer
 * connects, says HELLO with the memory of the link, and MEMORY or PAGES before its first write from
 * there; FORGET takes that back, which the target answers for pages by GONE. Either side rings a
 * sleeping other by BELL. That the other is gone, however it went, is the end of the socket. */
#include "fabric/fabric_local_state.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/memfd.h"

#define HEARD_MAX 64 /* packets of one writer in a row */

enum word {
    WORD_HELLO = 1, /* number: the endpoint that is meant */
    WORD_MEMORY,    /* name, number: its offset in the descriptor, bytes */
    WORD_PAGES,     /* the same of a device's, kind, ipc; a descriptor unless kind is IPC */
    WORD_FORGET,    /* name */
    WORD_BELL,
    WORD_GONE, /* of a target: pages that it was told to forget are imported no more */
};

struct packet {
    uint32_t word, name;
    uint64_t number, bytes;
    uint32_t kind, unused; /* kvr_device_kind */
    uint8_t ipc[64];
};

static socklen_t address_of(uint64_t nonce, struct sockaddr_un *ret_address)
{
    int length;

    *ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    length = snprintf(ret_address->sun_path + 1, sizeof(ret_address->sun_path) - 1,
                      "kvrail-local-%016" PRIx64, nonce);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int open_socket(struct kvr_error *error)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        (void)kvr_error_system(error, "fabric", errno, "rail local cannot open a socket");
    return fd;
}

int local_listen(uint64_t nonce, struct kvr_error *error)
{
    struct sockaddr_un address;
    socklen_t bytes = address_of(nonce, &address);
    int fd = open_socket(error);

    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&address, bytes) == 0 && listen(fd, KVR_PEERS_MAX) == 0)
        return fd;
    (void)kvr_error_system(error, "fabric", errno, "rail local cannot listen");
    close(fd);
    return -1;
}

/* An address is a number that nobody else knows, but the name of a socket can be looked up: what
 * counts is who is at the other end. */
static bool is_ours(int fd)
{
    struct ucred peer;
    socklen_t bytes = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid();
}

int local_connect(uint64_t nonce, struct kvr_error *error)
{
    struct sockaddr_un address;
    socklen_t bytes = address_of(nonce, &address);
    int fd = open_socket(error);

    if (fd < 0)
        return -1;
    if (connect(fd, (struct sockaddr *)&address, bytes) == 0 && is_ours(fd))
        return fd;
    (void)kvr_error_set(error, KVR_PEER_LOST, "fabric",
                        "the peer's endpoint cannot be reached: it is gone, or provider local does "
                        "not suit: both agents must be on one host, of one user, in one network "
                        "namespace");
    close(fd);
    return -1;
}

int local_accept(int listener)
{
    for (unsigned i = 0; i < HEARD_MAX; i++) {
        struct sockaddr_un address;
        socklen_t bytes = sizeof(address);
        int fd =
            accept4(listener, (struct sockaddr *)&address, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0 && is_ours(fd))
            return fd;
        if (fd >= 0)
            close(fd);
        else if (errno != ECONNABORTED && errno != EINTR)
            return -1;
    }
    return -1;
}

static kvr_status say(int socket, const struct packet *packet, int fd)
{
    struct kvr_packet_fds fds = {.count = fd >= 0, .fds = {fd}};

    return kvr_packet_send(socket, (const uint8_t *)packet, sizeof(*packet), &fds);
}

kvr_status local_say_hello(int socket, uint64_t nonce, int shared_fd)
{
    struct packet hello = {
        .word = WORD_HELLO, .number = nonce, .bytes = sizeof(struct local_shared)};

    return say(socket, &hello, shared_fd);
}

kvr_status local_say_memory(int socket, const struct kvr_memory *memory)
{
    const struct kvr_device_import *import = &memory->import;
    struct packet packet = {.word = memory->pages ? WORD_PAGES : WORD_MEMORY,
                            .name = memory->name,
                            .number = import->offset,
                            .bytes = memory->bytes,
                            .kind = import->kind};

    memcpy(packet.ipc, import->ipc, sizeof(packet.ipc));
    return say(socket, &packet, import->fd);
}

kvr_status local_say_forget(int socket, uint32_t name)
{
    struct packet packet = {.word = WORD_FORGET, .name = name};

    return say(socket, &packet, -1);
}

kvr_status local_say_gone(int socket, uint32_t name)
{
    struct packet packet = {.word = WORD_GONE, .name = name};

    return say(socket, &packet, -1);
}

/* What finds no room need not: there is enough to wake up for. */
void local_ring_bell(int socket)
{
    struct packet packet = {.word = WORD_BELL};

    (void)say(socket, &packet, -1);
}

/* Doubles: a link with few regions needs few rows. */
static kvr_status make_room(struct local_mappings *mappings, uint32_t index)
{
    uint32_t count = mappings->count > 0 ? mappings->count : 64;
    struct local_mapping *rows;

    if (index < mappings->count)
        return KVR_OK;
    while (count <= index)
        count *= 2;
    rows = realloc(mappings->rows, count * sizeof(rows[0]));
    if (rows == NULL)
        return KVR_NO_MEMORY;
    memset(rows + mappings->count, 0, (count - mappings->count) * sizeof(rows[0]));
    mappings->rows = rows;
    mappings->count = count;
    return KVR_OK;
}

static kvr_status hear_memory(struct local_writer *writer, const struct packet *packet, int fd)
{
    uint32_t index = LOCAL_INDEX(packet->name);
    kvr_status status = packet->name != 0 ? make_room(&writer->mappings, index) : KVR_MALFORMED;
    void *base = NULL;

    if (status == KVR_OK)
        status = kvr_memfd_map(fd, packet->number, packet->bytes, false, &base, NULL);
    if (status != KVR_OK)
        return status;
    local_mapping_close(&writer->mappings.rows[index]);
    writer->mappings.rows[index] =
        (struct local_mapping){.name = packet->name, .base = base, .bytes = packet->bytes};
    return KVR_OK;
}

/* It is looked at where it is imported: by the device that is to move it. */
static kvr_status hear_pages(struct local_writer *writer, const struct packet *packet,
                             const struct kvr_packet_fds *fds)
{
    struct kvr_device_import import = {.kind = (kvr_device_kind)packet->kind,
                                       .fd = fds->count == 1 ? fds->fds[0] : -1,
                                       .offset = packet->number,
                                       .bytes = packet->bytes,
                                       .neighbour = true};
    bool described = packet->kind == KVR_DEVICE_MEMFD || packet->kind == KVR_DEVICE_DMABUF ||
                     packet->kind == KVR_DEVICE_VMM;
    uint32_t index = LOCAL_INDEX(packet->name);
    struct local_pages *pages = NULL;
    kvr_status status;

    if (packet->name == 0 || packet->bytes == 0 || fds->count != described ||
        !(described || packet->kind == KVR_DEVICE_IPC))
        return KVR_MALFORMED;
    memcpy(import.ipc, packet->ipc, sizeof(import.ipc));
    status = make_room(&writer->mappings, index);
    if (status == KVR_OK)
        status = local_pages_open(&import, &pages);
    if (status != KVR_OK)
        return status;
    local_mapping_close(&writer->mappings.rows[index]);
    writer->mappings.rows[index] =
        (struct local_mapping){.name = packet->name, .bytes = packet->bytes, .pages = pages};
    return KVR_OK;
}

static kvr_status hear_hello(struct local_writer *writer, const struct packet *packet, int fd,
                             uint64_t nonce)
{
    void *base = NULL;
    kvr_status status;

    if (writer->shared != NULL || packet->number != nonce ||
        packet->bytes != sizeof(struct local_shared))
        return KVR_MALFORMED;
    status = kvr_memfd_map(fd, 0, sizeof(struct local_shared), true, &base, NULL);
    writer->shared = base;
    return status;
}

static kvr_status forget(struct local_writer *writer, uint32_t name)
{
    uint32_t index = LOCAL_INDEX(name);
    struct local_mapping *row;
    bool pages;

    if (index >= writer->mappings.count || name == 0)
        return KVR_OK;
    row = &writer->mappings.rows[index];
    if (row->name != name)
        return KVR_OK;
    pages = row->pages != NULL;
    local_mapping_close(row);
    return pages ? local_say_gone(writer->socket, name) : KVR_OK;
}

static kvr_status hear_packet(struct local_writer *writer, uint64_t nonce,
                              const struct packet *packet, const struct kvr_packet_fds *fds)
{
    switch (packet->word) {
    case WORD_HELLO:
        return fds->count == 1 ? hear_hello(writer, packet, fds->fds[0], nonce) : KVR_MALFORMED;
    case WORD_MEMORY:
        return fds->count == 1 ? hear_memory(writer, packet, fds->fds[0]) : KVR_MALFORMED;
    case WORD_PAGES:
        return hear_pages(writer, packet, fds);
    case WORD_FORGET:
        return forget(writer, packet->name);
    case WORD_BELL:
        return KVR_OK;
    default:
        return KVR_MALFORMED;
    }
}

/* One packet; *ret_fds are the caller's to close. */
static kvr_status hear_one(int socket, struct packet *ret_packet, struct kvr_packet_fds *ret_fds)
{
    size_t bytes = 0;
    kvr_status status =
        kvr_packet_receive(socket, (uint8_t *)ret_packet, sizeof(*ret_packet), &bytes, ret_fds);

    if (status != KVR_OK || bytes == sizeof(*ret_packet))
        return status;
    kvr_packet_fds_close(ret_fds);
    return KVR_MALFORMED;
}

kvr_status local_hear(struct local_writer *writer, uint64_t nonce)
{
    kvr_status status = KVR_OK;

    for (unsigned i = 0; i < HEARD_MAX && status == KVR_OK; i++) {
        struct kvr_packet_fds fds;
        struct packet packet;

        status = hear_one(writer->socket, &packet, &fds);
        if (status != KVR_OK)
            break;
        status = hear_packet(writer, nonce, &packet, &fds);
        kvr_packet_fds_close(&fds);
    }
    return status;
}

kvr_status local_hear_target(int socket, uint32_t *ret_gone)
{
    uint32_t gone = 0;
    kvr_status status = KVR_OK;

    for (unsigned i = 0; i < HEARD_MAX && status == KVR_OK; i++) {
        struct kvr_packet_fds fds;
        struct packet packet;

        status = hear_one(socket, &packet, &fds);
        if (status != KVR_OK)
            break;
        kvr_packet_fds_close(&fds);
        gone += packet.word == WORD_GONE;
    }
    *ret_gone = gone;
    return status;
}
