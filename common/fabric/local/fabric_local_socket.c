/* Packets over the sockets of links: hellos, descriptors of memory, and bells.
 *
 * Each endpoint listens on an abstract Unix socket that is named after its random number. A writer
 * connects and sends HELLO with the memory of the link. Before its first write from a registration
 * it sends MEMORY or PAGES. Several EXTENTS with descriptors precede PAGES that span allocations.
 * FORGET takes a registration back; for pages the target answers GONE. Either side wakes the other
 * with BELL. The end of the socket means that the other side is gone. */
#include "fabric/local/fabric_local_state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memfd.h"
#include "base/need.h"
#include "wire/abstract_socket.h"

#define HEARD_MAX 64  /* packets of one writer in a row */
#define TOLD_MAX  512 /* memories that one writer has announced in part */

enum word {
    WORD_HELLO = 1, /* number: the endpoint */
    WORD_MEMORY,    /* name, number: its offset in the descriptor, bytes */
    WORD_PAGES,     /* the same of a device's, kind, ipc; a descriptor unless kind is IPC */
    WORD_FORGET,    /* name */
    WORD_BELL,
    WORD_GONE,    /* of a target: it no longer imports pages that a FORGET named */
    WORD_EXTENTS, /* name, number: how many came before, bytes: how many there are; behind
                     the packet a descriptor for each, and its size */
};

struct packet {
    uint32_t word, name;
    uint64_t number, bytes;
    uint32_t kind, extents; /* kvr_device_kind; PAGES: descriptors said before, 0: it has its own */
    uint8_t ipc[64];
};

struct packet_of_extents {
    struct packet head;
    uint64_t bytes[KVR_PACKET_FDS_MAX];
};

static void name_of(uint64_t nonce, char ret_name[48])
{
    snprintf(ret_name, 48, "kvrail-local-%016" PRIx64, nonce);
}

int local_listen(uint64_t nonce, struct kvr_error *error)
{
    char name[48];
    int fd;

    name_of(nonce, name);
    fd = kvr_abstract_listen(name, KVR_PEERS_MAX);
    if (fd < 0)
        (void)kvr_error_system(error, "fabric", errno, "rail local cannot listen");
    return fd;
}

/* An address is a secret number, but any process can list socket names. */
int local_connect(uint64_t nonce, struct kvr_error *error)
{
    char name[48];
    int fd;

    name_of(nonce, name);
    fd = kvr_abstract_connect(name);
    if (fd < 0)
        (void)kvr_error_set(error, KVR_PEER_LOST, "fabric",
                            "the peer's endpoint cannot be reached: it is gone, or provider local "
                            "does not suit: both agents must be on one host, of one user, in one "
                            "network namespace");
    return fd;
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

kvr_status local_say_extents(int socket, const struct kvr_memory *memory, uint32_t *said)
{
    const struct kvr_extents *extents = memory->import.extents;
    kvr_status status = KVR_OK;

    while (extents != NULL && *said < extents->count && status == KVR_OK) {
        struct packet_of_extents packet = {.head = {.word = WORD_EXTENTS,
                                                    .name = memory->name,
                                                    .number = *said,
                                                    .bytes = extents->count}};
        struct kvr_packet_fds fds = {.count = extents->count - *said};

        if (fds.count > KVR_PACKET_FDS_MAX)
            fds.count = KVR_PACKET_FDS_MAX;
        for (uint32_t i = 0; i < fds.count; i++) {
            fds.fds[i] = extents->at[*said + i].fd;
            packet.bytes[i] = extents->at[*said + i].bytes;
        }
        status = kvr_packet_send(socket, (const uint8_t *)&packet,
                                 sizeof(packet.head) + fds.count * sizeof(packet.bytes[0]), &fds);
        if (status == KVR_OK)
            *said += fds.count;
    }
    return status;
}

kvr_status local_say_memory(int socket, const struct kvr_memory *memory)
{
    const struct kvr_device_import *import = &memory->import;
    struct packet packet = {.word = memory->pages ? WORD_PAGES : WORD_MEMORY,
                            .name = memory->name,
                            .number = import->offset,
                            .bytes = memory->bytes,
                            .kind = import->kind,
                            .extents = import->extents != NULL ? import->extents->count : 0};

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

/* A bell that finds no room is not needed: packets that wake the other side wait already. */
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
    void *base = NULL;

    KVR_TRY(packet->name != 0 ? make_room(&writer->mappings, index) : KVR_MALFORMED);
    KVR_TRY(kvr_memfd_map(fd, packet->number, packet->bytes, false, &base, NULL));
    local_mapping_close(&writer->mappings.rows[index]);
    writer->mappings.rows[index] =
        (struct local_mapping){.name = packet->name, .base = base, .bytes = packet->bytes};
    return KVR_OK;
}

/* Where those of this memory are, or of another that had its index; the end of the list: none. */
static struct local_told **told_of(struct local_writer *writer, uint32_t name)
{
    struct local_told **link = &writer->told;

    while (*link != NULL && LOCAL_INDEX((*link)->name) != LOCAL_INDEX(name))
        link = &(*link)->next;
    return link;
}

static void told_drop(struct local_told **link)
{
    struct local_told *told = *link;

    if (told == NULL)
        return;
    *link = told->next;
    kvr_extents_release(told->extents);
    free(told);
}

void local_told_close(struct local_writer *writer)
{
    while (writer->told != NULL)
        told_drop(&writer->told);
}

/* What this process may not hold is not held: its pages are seen by no device then. */
static kvr_status told_new(struct local_writer *writer, const struct packet *packet)
{
    struct local_told *told;
    uint32_t others = 0;

    told_drop(told_of(writer, packet->name));
    for (told = writer->told; told != NULL; told = told->next)
        others++;
    if (packet->bytes == 0 || packet->bytes > KVR_EXTENTS_MAX || others == TOLD_MAX)
        return KVR_MALFORMED;
    told = calloc(1, sizeof(*told));
    if (told == NULL)
        return KVR_NO_MEMORY;
    *told = (struct local_told){
        .next = writer->told, .name = packet->name, .total = (uint32_t)packet->bytes};
    writer->told = told;
    if (kvr_need_more_files(told->total, &told->refused) != KVR_OK)
        return KVR_OK;
    told->extents = kvr_extents_new(told->total);
    return told->extents != NULL ? KVR_OK : KVR_NO_MEMORY;
}

/* Takes the descriptors. */
static kvr_status hear_extents(struct local_writer *writer, const struct packet_of_extents *packet,
                               struct kvr_packet_fds *fds)
{
    struct local_told *told;
    kvr_status status = KVR_OK;

    if (packet->head.name == 0)
        return KVR_MALFORMED;
    if (packet->head.number == 0)
        status = told_new(writer, &packet->head);
    if (status != KVR_OK)
        return status;
    told = *told_of(writer, packet->head.name);
    if (told == NULL || told->name != packet->head.name || packet->head.bytes != told->total ||
        packet->head.number != told->count || fds->count > told->total - told->count)
        return KVR_MALFORMED;
    told->count += fds->count;
    for (uint32_t i = 0; i < fds->count && told->extents != NULL; i++)
        kvr_extents_add(told->extents, fds->fds[i], packet->bytes[i]);
    if (told->extents != NULL)
        fds->count = 0;
    return KVR_OK;
}

/* All extents that these pages need; NULL: some are missing, or there are none. */
static const struct local_told *whole_of(struct local_writer *writer, const struct packet *packet)
{
    const struct local_told *told = *told_of(writer, packet->name);

    return told != NULL && told->name == packet->name && packet->kind == KVR_DEVICE_VMM &&
                   told->count == told->total && told->count == packet->extents
               ? told
               : NULL;
}

/* The device that moves the pages checks them when it imports them. */
static kvr_status hear_pages(struct local_writer *writer, const struct packet *packet,
                             const struct kvr_packet_fds *fds)
{
    const struct local_told *told = whole_of(writer, packet);
    struct kvr_device_import import = {.kind = (kvr_device_kind)packet->kind,
                                       .fd = fds->count == 1 ? fds->fds[0] : -1,
                                       .extents = told != NULL ? told->extents : NULL,
                                       .offset = packet->number,
                                       .bytes = packet->bytes,
                                       .neighbour = true};
    bool described = packet->kind == KVR_DEVICE_MEMFD || packet->kind == KVR_DEVICE_DMABUF ||
                     packet->kind == KVR_DEVICE_VMM;
    uint32_t index = LOCAL_INDEX(packet->name);
    struct local_pages *pages = NULL;

    if (packet->name == 0 || packet->bytes == 0 ||
        fds->count != (described && packet->extents == 0) ||
        (packet->extents > 0 && told == NULL) || !(described || packet->kind == KVR_DEVICE_IPC))
        return KVR_MALFORMED;
    memcpy(import.ipc, packet->ipc, sizeof(import.ipc));
    KVR_TRY(make_room(&writer->mappings, index));
    KVR_TRY(local_pages_open(&import, told != NULL ? &told->refused : NULL, &pages));
    told_drop(told_of(writer, packet->name));
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
    struct local_told **told = told_of(writer, name);
    bool pages;

    if (*told != NULL && (*told)->name == name)
        told_drop(told);
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
                              const struct packet_of_extents *whole, struct kvr_packet_fds *fds)
{
    const struct packet *packet = &whole->head;

    switch (packet->word) {
    case WORD_HELLO:
        return fds->count == 1 ? hear_hello(writer, packet, fds->fds[0], nonce) : KVR_MALFORMED;
    case WORD_MEMORY:
        return fds->count == 1 ? hear_memory(writer, packet, fds->fds[0]) : KVR_MALFORMED;
    case WORD_PAGES:
        return hear_pages(writer, packet, fds);
    case WORD_EXTENTS:
        return hear_extents(writer, whole, fds);
    case WORD_FORGET:
        return forget(writer, packet->name);
    case WORD_BELL:
        return KVR_OK;
    default:
        return KVR_MALFORMED;
    }
}

/* One packet; *ret_fds are the caller's to close. */
static kvr_status hear_one(int socket, struct packet_of_extents *ret_packet,
                           struct kvr_packet_fds *ret_fds)
{
    size_t bytes = 0, needed = sizeof(ret_packet->head);
    kvr_status status =
        kvr_packet_receive(socket, (uint8_t *)ret_packet, sizeof(*ret_packet), &bytes, ret_fds);

    if (status != KVR_OK)
        return status;
    if (bytes >= needed && ret_packet->head.word == WORD_EXTENTS)
        needed += ret_fds->count * sizeof(ret_packet->bytes[0]);
    if (bytes == needed)
        return KVR_OK;
    kvr_packet_fds_close(ret_fds);
    return KVR_MALFORMED;
}

kvr_status local_hear(struct local_writer *writer, uint64_t nonce)
{
    kvr_status status = KVR_OK;

    for (unsigned i = 0; i < HEARD_MAX && status == KVR_OK; i++) {
        struct kvr_packet_fds fds;
        struct packet_of_extents packet;

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
        struct packet_of_extents packet;

        status = hear_one(socket, &packet, &fds);
        if (status != KVR_OK)
            break;
        kvr_packet_fds_close(&fds);
        gone += packet.head.word == WORD_GONE;
    }
    *ret_gone = gone;
    return status;
}
