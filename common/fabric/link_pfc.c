/* Asks the kernel which priorities of an interface have priority flow control: DCB, the standard
 * way of Linux, which every driver of a card with it serves. */
#include <linux/dcbnl.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/types.h"
#include "fabric/rail_link.h"

/* The attribute of that kind among those in `bytes`; NULL: there is none. */
static const struct rtattr *find(const struct rtattr *at, size_t bytes, unsigned short kind)
{
    while (bytes >= sizeof(*at) && at->rta_len >= sizeof(*at) && at->rta_len <= bytes) {
        size_t step = RTA_ALIGN(at->rta_len);

        if ((at->rta_type & ~(unsigned)NLA_F_NESTED) == kind)
            return at;
        if (step >= bytes)
            return NULL;
        bytes -= step;
        at = (const struct rtattr *)(const void *)((const char *)at + step);
    }
    return NULL;
}

bool kvr_link_pfc_parse(const void *answer, size_t bytes, uint32_t *ret_priorities)
{
    const struct nlmsghdr *header = answer;
    const struct rtattr *attribute;
    struct ieee_pfc pfc;

    if (bytes < NLMSG_LENGTH(sizeof(struct dcbmsg)) || header->nlmsg_len > bytes ||
        header->nlmsg_len < NLMSG_LENGTH(sizeof(struct dcbmsg)) || header->nlmsg_type != RTM_GETDCB)
        return false;
    attribute = (const struct rtattr *)(const void *)((const char *)NLMSG_DATA(header) +
                                                      NLMSG_ALIGN(sizeof(struct dcbmsg)));
    attribute =
        find(attribute, header->nlmsg_len - NLMSG_LENGTH(sizeof(struct dcbmsg)), DCB_ATTR_IEEE);
    if (attribute == NULL)
        return false;
    attribute = find(RTA_DATA(attribute), RTA_PAYLOAD(attribute), DCB_ATTR_IEEE_PFC);
    if (attribute == NULL || RTA_PAYLOAD(attribute) < sizeof(pfc))
        return false;
    memcpy(&pfc, RTA_DATA(attribute), sizeof(pfc));
    *ret_priorities = pfc.pfc_en;
    return true;
}

bool kvr_link_pfc_read(const char *interface, uint32_t *ret_priorities)
{
    struct {
        struct nlmsghdr header;
        struct dcbmsg question;
        struct rtattr attribute;
        char interface[KVR_NAME_BYTES];
    } request = {.header = {.nlmsg_type = RTM_GETDCB, .nlmsg_flags = NLM_F_REQUEST},
                 .question = {.dcb_family = AF_UNSPEC, .cmd = DCB_CMD_IEEE_GET},
                 .attribute = {.rta_type = DCB_ATTR_IFNAME}};
    size_t bytes = strlen(interface) + 1;
    struct nlmsghdr answer[512]; /* 8 KiB, aligned */
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    ssize_t length = -1;

    if (fd < 0)
        return false;
    if (bytes <= sizeof(request.interface)) {
        memcpy(request.interface, interface, bytes);
        request.attribute.rta_len = (unsigned short)RTA_LENGTH(bytes);
        request.header.nlmsg_len =
            (uint32_t)(offsetof(__typeof__(request), interface) + RTA_ALIGN(bytes));
        /* The kernel answers within send(). */
        if (send(fd, &request, request.header.nlmsg_len, 0) > 0)
            length = recv(fd, answer, sizeof(answer), MSG_DONTWAIT);
    }
    close(fd);
    return length > 0 && kvr_link_pfc_parse(answer, (size_t)length, ret_priorities);
}
