#include "tests/support/raw_engine.h"

#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/support/check.h"
#include "tests/support/scripted_agent.h"

int raw_connect(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

void raw_send(int fd, const struct kvr_request *request, const struct kvr_packet_fds *fds)
{
    static uint8_t packet[KVR_PACKET_BYTES_MAX];
    size_t bytes;

    assert_int_equal(kvr_request_encode(request, packet, sizeof(packet), &bytes), KVR_OK);
    assert_int_equal(kvr_packet_send(fd, packet, bytes, fds), KVR_OK);
}

void raw_attach(int fd)
{
    struct kvr_request request = {.kind = KVR_REQ_ATTACH};

    request.attach.rank.tp_size = request.attach.rank.pp_size = 1;
    raw_send(fd, &request, NULL);
}

kvr_status raw_notice(int fd, struct kvr_notice *ret_notice)
{
    static uint8_t packet[KVR_PACKET_BYTES_MAX];
    struct kvr_engine_decoder *decoder = kvr_engine_decoder_open();
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    struct kvr_packet_fds fds;
    kvr_status status;
    size_t bytes;

    assert_non_null(decoder);
    (void)poll(&readable, 1, SCRIPTED_WAIT_MS);
    status = kvr_packet_receive(fd, packet, sizeof(packet), &bytes, &fds);
    if (status == KVR_OK) {
        kvr_packet_fds_close(&fds);
        status = kvr_notice_decode(decoder, packet, bytes, ret_notice, NULL);
    }
    kvr_engine_decoder_close(decoder);
    return status;
}
