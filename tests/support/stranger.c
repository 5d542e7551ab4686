/* stranger ADDRESS PORT [FROM]: what any host that reaches a rail of libfabric's tcp can do.
 *
 * Connects, does the provider's handshake and sends 16 bytes: the acknowledgement of a delivery
 * that was never asked for. The provider takes it from an empty queue, and its process ends. FROM:
 * the address to connect from. Prints "refused", "no answer" or "connected", and exits with 1
 * unless it was connected. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE_MS 1500

/* The request that opens a connection: a head of 32 bytes, and the sender's own endpoint. */
struct request {
    uint8_t version, type; /* 3, 0 */
    uint16_t data_bytes;   /* big-endian */
    uint32_t segment;
    uint64_t connection, message;
    uint64_t order; /* 1 in the sender's byte order */
    uint8_t rdm_version, features;
    uint16_t port; /* big-endian, of the sender's own endpoint */
    uint32_t process;
};

/* The head of every later message. */
struct head {
    uint8_t version, operation; /* 3, a message */
    uint16_t flags;
    uint8_t operation_data; /* 2: an acknowledgement */
    uint8_t remote_pieces, head_bytes, unused;
    uint64_t bytes; /* of the message */
};

static int reach(const struct sockaddr_in *from, const struct sockaddr_in *address)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct pollfd polled = {.fd = fd, .events = POLLOUT};
    int failure = 0;
    socklen_t bytes = sizeof(failure);

    if (bind(fd, (const struct sockaddr *)from, sizeof(*from)) != 0) {
        perror("stranger: bind");
        exit(2);
    }
    if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0 &&
        errno != EINPROGRESS) {
        printf("refused\n");
        exit(1);
    }
    if (poll(&polled, 1, PATIENCE_MS) != 1) {
        printf("no answer\n");
        exit(1);
    }
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &bytes) != 0 || failure != 0) {
        printf("refused\n");
        exit(1);
    }
    return fd;
}

int main(int argc, char **argv)
{
    struct request request = {
        .version = 3, .data_bytes = htons(8), .order = 1, .port = htons(1), .process = htonl(1)};
    struct head head = {
        .version = 3, .operation_data = 2, .head_bytes = sizeof(head), .bytes = sizeof(head)};
    struct sockaddr_in address = {.sin_family = AF_INET}, from = {.sin_family = AF_INET};
    uint8_t answer[512];
    struct pollfd polled = {.events = POLLIN};

    if (argc < 3 || inet_pton(AF_INET, argv[1], &address.sin_addr) != 1 ||
        (argc > 3 && inet_pton(AF_INET, argv[3], &from.sin_addr) != 1)) {
        fprintf(stderr, "usage: stranger ADDRESS PORT [FROM]\n");
        return 2;
    }
    address.sin_port = htons((uint16_t)atoi(argv[2]));
    polled.fd = reach(&from, &address);
    printf("connected\n");
    fflush(stdout);
    if (send(polled.fd, &request, sizeof(request), MSG_NOSIGNAL) != (ssize_t)sizeof(request) ||
        poll(&polled, 1, PATIENCE_MS) != 1 ||
        recv(polled.fd, answer, sizeof(answer), MSG_DONTWAIT) <= 0) {
        fprintf(stderr, "no handshake\n");
        return 3;
    }
    (void)!send(polled.fd, &head, sizeof(head), MSG_NOSIGNAL);
    poll(&polled, 1, PATIENCE_MS); /* until it hangs up */
    close(polled.fd);
    return 0;
}
