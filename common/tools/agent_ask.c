#include "tools/agent_ask.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "wire/packet_socket.h"

static kvr_status reach(const char *path, int *ret_fd, struct kvr_error *error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd;

    if (path[0] == '\0' || strlen(path) >= sizeof(address.sun_path))
        return kvr_error_set(error, KVR_INVALID, "agent",
                             "the socket's path must have 1 to %zu bytes",
                             sizeof(address.sun_path) - 1);
    memcpy(address.sun_path, path, strlen(path));
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return kvr_error_system(error, "agent", errno, "cannot make a socket");
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        kvr_status status = kvr_error_system(error, "agent", errno, "no agent can be reached");

        close(fd);
        return status;
    }
    *ret_fd = fd;
    return KVR_OK;
}

kvr_status agent_ask(const char *path, kvr_request_kind kind, int *ret_fd, struct kvr_error *error)
{
    struct kvr_request request = {.kind = kind};
    uint8_t packet[64];
    size_t bytes;
    int fd = -1;

    KVR_TRY(kvr_request_encode(&request, packet, sizeof(packet), &bytes));
    KVR_TRY(reach(path, &fd, error));
    if (kvr_packet_send(fd, packet, bytes, NULL) != KVR_OK) {
        close(fd);
        return kvr_error_set(error, KVR_PEER_LOST, "agent", "the agent closed the connection");
    }
    *ret_fd = fd;
    return KVR_OK;
}

kvr_status agent_hear(int fd, kvr_ns timeout, uint8_t *packet, size_t *ret_bytes,
                      struct kvr_error *error)
{
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    struct kvr_packet_fds fds;
    kvr_status status;

    if (poll(&readable, 1, (int)(timeout / KVR_MS)) == 0)
        return kvr_error_set(error, KVR_TIMED_OUT, "agent",
                             "the agent took the connection and did not answer: it hangs, or is "
                             "stopped");
    status = kvr_packet_receive(fd, packet, KVR_PACKET_BYTES_MAX, ret_bytes, &fds);
    if (status != KVR_OK)
        return kvr_error_set(error, KVR_PEER_LOST, "agent",
                             "the agent closed the connection without an answer");
    kvr_packet_fds_close(&fds);
    return KVR_OK;
}

/* ---- pairs ----------------------------------------------------------------------------------- */

struct answer {
    json_t *pairs;
    json_int_t left_out;
    bool whole;
};

static kvr_status part_take(const struct kvr_notice *notice, struct answer *answer,
                            struct kvr_error *error)
{
    json_t *part = json_loadb((const char *)notice->payload, notice->payload_bytes, 0, NULL);
    json_t *pairs = json_object_get(part, "pairs");
    bool good = json_is_array(pairs);

    if (good) {
        json_array_extend(answer->pairs, pairs);
        answer->left_out += json_integer_value(json_object_get(part, "left_out"));
    }
    json_decref(part);
    return good ? KVR_OK
                : kvr_error_set(error, KVR_MALFORMED, "agent", "its answer cannot be understood");
}

/* An older agent takes the question for a packet that it does not know. */
static kvr_status refused(const struct kvr_notice *notice, struct kvr_error *error)
{
    if (notice->kind == KVR_NOTICE_REFUSED && notice->status == KVR_MALFORMED)
        return kvr_error_set(error, KVR_UNSUPPORTED, "agent",
                             "the agent is of an earlier version, which does not answer this: ask "
                             "the scheduler");
    return kvr_error_set(error, notice->status, "agent", "%s",
                         notice->detail[0] != '\0' ? notice->detail
                                                   : kvr_status_text(notice->status));
}

static kvr_status notice_take(const struct kvr_notice *notice, struct answer *answer,
                              struct kvr_error *error)
{
    if (notice->kind == KVR_NOTICE_PAIRS)
        return part_take(notice, answer, error);
    if (notice->kind != KVR_NOTICE_DETACHED || notice->status != KVR_OK)
        return refused(notice, error);
    answer->whole = true;
    return KVR_OK;
}

static kvr_status answer_hear(int fd, kvr_ns timeout, struct kvr_engine_decoder *decoder,
                              struct answer *answer, struct kvr_error *error)
{
    static uint8_t packet[KVR_PACKET_BYTES_MAX];
    struct kvr_notice notice;
    size_t bytes;

    while (!answer->whole) {
        KVR_TRY(agent_hear(fd, timeout, packet, &bytes, error));
        KVR_TRY(kvr_notice_decode(decoder, packet, bytes, &notice, error));
        KVR_TRY(notice_take(&notice, answer, error));
    }
    return KVR_OK;
}

json_t *agent_ask_pairs(const char *path, kvr_ns timeout, json_int_t *ret_left_out,
                        struct kvr_error *error)
{
    struct kvr_engine_decoder *decoder = kvr_engine_decoder_open();
    struct answer answer = {.pairs = json_array()};
    int fd = -1;
    kvr_status status = decoder != NULL ? agent_ask(path, KVR_REQ_PAIRS, &fd, error)
                                        : kvr_error_set(error, KVR_NO_MEMORY, "agent", "no memory");

    if (status == KVR_OK)
        status = answer_hear(fd, timeout, decoder, &answer, error);
    if (fd >= 0)
        close(fd);
    kvr_engine_decoder_close(decoder);
    if (status != KVR_OK) {
        json_decref(answer.pairs);
        return NULL;
    }
    *ret_left_out = answer.left_out;
    return answer.pairs;
}
