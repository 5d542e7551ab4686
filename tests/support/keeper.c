/* A peer that means harm: a source agent that keeps the keys that it was granted, and writes with
 * them later.
 *
 *   keeper PORT SOURCE-PORT PAGE
 *
 * It stands before an honest source agent: it relays the one connection that comes to
 * 127.0.0.1:PORT and reads what the target says, as plain text. A line on its standard input makes
 * it write 64 bytes into PAGE of the last layer of the target's last region. It does so with the
 * key of REGIONS, then with that of the last GRANT. Such a write is acknowledged once the bytes are
 * in place. Prints a line: how many GRANTs had keys, and which writes were acknowledged. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "tests/support/raw_tcp.h"
#include "wire/frame.h"
#include "wire/message.h"

static struct kvr_frame_parser parser;
static struct kvr_message_decoder *decoder;
static struct kvr_region_layout layout;
static struct kvr_remote_key regions_key, grant_key; /* of the last region */
static struct kvr_rail_address rail;
static uint32_t grants;
static uint64_t page;

static void keep(const struct kvr_message *message)
{
    if (message->kind == KVR_MSG_REGIONS && message->regions.layout_count > 0) {
        uint32_t last = message->regions.layout_count - 1;

        layout = message->regions.layouts[last];
        regions_key = message->regions.keys[last * message->regions.rail_count];
    }
    if (message->kind == KVR_MSG_GRANT && message->grant.key_count > 0) {
        grants++;
        grant_key = message->grant.keys[message->grant.key_count - 1];
        rail = message->grant.rails[0];
    }
}

/* False: a connection has ended. target: what it says is read. */
static bool relay(int from, int to, bool target)
{
    static uint8_t bytes[65536];
    ssize_t count = read(from, bytes, sizeof(bytes)), sent = 0;

    while (sent < count) {
        ssize_t more = write(to, bytes + sent, (size_t)(count - sent));

        if (more <= 0)
            return false;
        sent += more;
    }
    for (ssize_t at = 0; target && at < count;) {
        const uint8_t *frame;
        size_t room, frame_bytes;
        uint8_t *into = kvr_frame_parser_room(&parser, &room);
        struct kvr_message message;

        room = room < (size_t)(count - at) ? room : (size_t)(count - at);
        memcpy(into, bytes + at, room);
        kvr_frame_parser_filled(&parser, room);
        at += (ssize_t)room;
        while (kvr_frame_parser_next(&parser, &frame, &frame_bytes) == KVR_OK)
            if (kvr_message_decode(decoder, frame, frame_bytes, &message, NULL) == KVR_OK)
                keep(&message);
    }
    return count > 0;
}

static bool harm(const struct kvr_remote_key *key)
{
    static uint8_t bytes[64];
    struct iovec local = {.iov_base = bytes, .iov_len = sizeof(bytes)};
    uint64_t offset =
        layout.base + (layout.layer_count - 1) * layout.layer_stride + page * layout.page_stride;
    struct fi_rma_iov remote = {.addr = key->base + offset, .len = sizeof(bytes), .key = key->key};
    struct fi_msg_rma message = {
        .msg_iov = &local, .iov_count = 1, .rma_iov = &remote, .rma_iov_count = 1};
    time_t until = raw_seconds() + RAW_PATIENCE_S;
    uint64_t ended = 0;
    ssize_t code;

    memset(bytes, 0xee, sizeof(bytes));
    if (raw_open(rail.address) != 0)
        exit(1);
    message.addr = raw_target;
    while ((code = fi_writemsg(raw_ep, &message, FI_COMPLETION | FI_DELIVERY_COMPLETE)) ==
               -FI_EAGAIN &&
           raw_take(&ended) && raw_seconds() < until)
        ;
    while (code == 0 && ended == 0 && raw_take(&ended) && raw_seconds() < until)
        ;
    raw_close();
    return ended == 1;
}

static void harm_all(void)
{
    unsigned done = (unsigned)harm(&regions_key);

    printf("GRANTs with keys %u, acknowledged with a key of REGIONS %u, of GRANT %u\n", grants,
           done, grants > 0 && harm(&grant_key) ? 1u : 0u);
    fflush(stdout);
}

static int local_socket(struct sockaddr_in *address, const char *port)
{
    *address = (struct sockaddr_in){.sin_family = AF_INET,
                                    .sin_port = htons((uint16_t)strtoul(port, NULL, 10)),
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return socket(AF_INET, SOCK_STREAM, 0);
}

int main(int argc, char **argv)
{
    static uint8_t buffer[KVR_FRAME_BUFFER_BYTES];
    struct sockaddr_in address;
    struct pollfd polled[3] = {{.events = POLLIN}, {.events = POLLIN}, {.events = POLLIN}};
    int listener, on = 1;
    char line[16];

    if (argc != 4)
        return 2;
    page = strtoul(argv[3], NULL, 10);
    decoder = kvr_message_decoder_open();
    kvr_frame_parser_init(&parser, buffer);
    listener = local_socket(&address, argv[1]);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(listener, 1) != 0)
        return 1;
    printf("listening\n");
    fflush(stdout);
    polled[0].fd = accept(listener, NULL, NULL);
    polled[1].fd = local_socket(&address, argv[2]);
    if (connect(polled[1].fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        return 1;
    while (poll(polled, 3, -1) > 0) {
        if (polled[0].revents != 0 && !relay(polled[0].fd, polled[1].fd, true))
            break;
        if (polled[1].revents != 0 && !relay(polled[1].fd, polled[0].fd, false))
            break;
        if (polled[2].revents == 0)
            continue;
        if (read(STDIN_FILENO, line, sizeof(line)) <= 0)
            break;
        harm_all();
    }
    kvr_message_decoder_close(decoder);
    return 0;
}
