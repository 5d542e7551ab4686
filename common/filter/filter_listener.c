#include "filter/filter_listener.h"

#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#define ANSWER_S 2

/* A listening socket is found as the one end of a connection without another end. */
static void ask(char *buffer, const struct kvr_filter_address *address, uint16_t port)
{
    struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
    struct inet_diag_req_v2 *request;

    message->nlmsg_type = SOCK_DIAG_BY_FAMILY;
    message->nlmsg_flags = NLM_F_REQUEST;
    request = mnl_nlmsg_put_extra_header(message, sizeof(*request));
    request->sdiag_family = address->family == 4 ? AF_INET : AF_INET6;
    request->sdiag_protocol = IPPROTO_TCP;
    request->idiag_states = UINT32_MAX;
    request->id.idiag_sport = htons(port);
    memcpy(request->id.idiag_src, address->bytes, sizeof(request->id.idiag_src));
    request->id.idiag_cookie[0] = request->id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
}

kvr_status filter_listener_user(const struct kvr_filter_address *address, uint16_t port,
                                uint32_t *ret_uid)
{
    struct timeval patience = {.tv_sec = ANSWER_S};
    struct mnl_socket *socket = mnl_socket_open2(NETLINK_SOCK_DIAG, SOCK_CLOEXEC);
    kvr_status status = KVR_NOT_FOUND;
    char buffer[8192];
    ssize_t bytes = -1;

    if (socket == NULL)
        return KVR_NOT_FOUND;
    ask(buffer, address, port);
    (void)setsockopt(mnl_socket_get_fd(socket), SOL_SOCKET, SO_RCVTIMEO, &patience,
                     sizeof(patience));
    if (mnl_socket_bind(socket, 0, MNL_SOCKET_AUTOPID) == 0 &&
        mnl_socket_sendto(socket, buffer, ((struct nlmsghdr *)buffer)->nlmsg_len) >= 0)
        bytes = mnl_socket_recvfrom(socket, buffer, sizeof(buffer));
    if (bytes > 0 && mnl_nlmsg_ok((struct nlmsghdr *)buffer, (int)bytes) &&
        ((struct nlmsghdr *)buffer)->nlmsg_type == SOCK_DIAG_BY_FAMILY) {
        const struct inet_diag_msg *found = mnl_nlmsg_get_payload((struct nlmsghdr *)buffer);

        if (found->idiag_state == 10 /* TCP_LISTEN */) {
            *ret_uid = found->idiag_uid;
            status = KVR_OK;
        }
    }
    mnl_socket_close(socket);
    return status;
}
