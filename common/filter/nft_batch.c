#include "filter/nft_batch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define ANSWER_S 5

kvr_status nft_batch_open(struct nft_batch *batch, const char *table, struct kvr_error *error)
{
    struct timeval patience = {.tv_sec = ANSWER_S};
    int room = 2 * NFT_BATCH_BYTES, fd;

    *batch = (struct nft_batch){.table = table, .sequence = (uint32_t)time(NULL)};
    batch->memory = malloc(NFT_BATCH_BYTES);
    if (batch->memory == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "filter", "no memory for its transactions");
    batch->socket = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC);
    if (batch->socket == NULL || mnl_socket_bind(batch->socket, 0, MNL_SOCKET_AUTOPID) != 0)
        return kvr_error_system(error, "filter", errno, "no socket to the kernel's packet filter");
    fd = mnl_socket_get_fd(batch->socket);
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)) != 0)
        return kvr_error_system(error, "filter", errno,
                                "it may not change this host's packet filter: it needs the "
                                "capability CAP_NET_ADMIN, as kvrail-filter.service gives it");
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    return KVR_OK;
}

void nft_batch_close(struct nft_batch *batch)
{
    if (batch->socket != NULL)
        mnl_socket_close(batch->socket);
    free(batch->memory);
    *batch = (struct nft_batch){0};
}

static struct nlmsghdr *begin(struct nft_batch *batch, uint16_t type, uint16_t flags,
                              uint8_t family, uint16_t resource)
{
    struct nlmsghdr *message = mnl_nlmsg_put_header(batch->memory + batch->bytes);
    struct nfgenmsg *head;

    message->nlmsg_type = type;
    message->nlmsg_flags = NLM_F_REQUEST | flags;
    message->nlmsg_seq = ++batch->sequence;
    head = mnl_nlmsg_put_extra_header(message, sizeof(*head));
    *head = (struct nfgenmsg){
        .nfgen_family = family, .version = NFNETLINK_V0, .res_id = htons(resource)};
    batch->message = message;
    return message;
}

struct nlmsghdr *nft_begin(struct nft_batch *batch, uint16_t type, uint16_t flags)
{
    if (batch->bytes == 0) {
        begin(batch, NFNL_MSG_BATCH_BEGIN, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
        batch->bytes = NLMSG_ALIGN(batch->message->nlmsg_len);
    }
    return begin(batch, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type), flags, NFPROTO_INET, 0);
}

void nft_end(struct nft_batch *batch)
{
    batch->bytes += NLMSG_ALIGN(batch->message->nlmsg_len);
    batch->last = batch->message;
    batch->messages++;
}

/* Reads answers until the last message's; the first failure counts, and the kernel has done
 * nothing then. */
static int answer_await(const struct nft_batch *batch, uint32_t last)
{
    char buffer[16384];
    int failure = 0;

    for (;;) {
        ssize_t bytes = mnl_socket_recvfrom(batch->socket, buffer, sizeof(buffer));
        const struct nlmsghdr *answer = (const struct nlmsghdr *)buffer;
        int left = (int)bytes;

        if (bytes < 0)
            return errno;
        for (; mnl_nlmsg_ok(answer, left); answer = mnl_nlmsg_next(answer, &left)) {
            const struct nlmsgerr *result = mnl_nlmsg_get_payload(answer);

            if (answer->nlmsg_type != NLMSG_ERROR ||
                answer->nlmsg_len < mnl_nlmsg_size(sizeof(*result)))
                continue;
            if (result->error != 0 && failure == 0)
                failure = -result->error;
            if (answer->nlmsg_seq == last || result->error != 0)
                return failure;
        }
    }
}

kvr_status nft_batch_send(struct nft_batch *batch, struct kvr_error *error)
{
    uint32_t last;
    int failure;

    if (batch->messages == 0)
        return KVR_OK;
    batch->last->nlmsg_flags |= NLM_F_ACK;
    last = batch->last->nlmsg_seq;
    begin(batch, NFNL_MSG_BATCH_END, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
    batch->bytes += NLMSG_ALIGN(batch->message->nlmsg_len);
    failure = mnl_socket_sendto(batch->socket, batch->memory, batch->bytes) < 0
                  ? errno
                  : answer_await(batch, last);
    batch->bytes = 0;
    batch->messages = 0;
    if (failure == 0)
        return KVR_OK;
    return kvr_error_system(error, "filter", failure, "the kernel refused a change of its filter");
}

/* ---- attributes ---- */

void nft_put_u32(struct nlmsghdr *message, uint16_t attribute, uint32_t value)
{
    mnl_attr_put_u32(message, attribute, htonl(value));
}

void nft_set_add(struct nft_batch *batch, const struct nft_set *set)
{
    /* A note for `nft list`: the byte order (type 0, four bytes) of keys is the host's (1). */
    static const struct {
        uint8_t type, bytes;
        uint32_t value;
    } __attribute__((packed)) host_order = {0, 4, 1};
    struct nlmsghdr *message = nft_begin(batch, NFT_MSG_NEWSET, NLM_F_CREATE | NLM_F_EXCL);

    mnl_attr_put_strz(message, NFTA_SET_TABLE, batch->table);
    mnl_attr_put_strz(message, NFTA_SET_NAME, set->name);
    nft_put_u32(message, NFTA_SET_FLAGS, set->verdicts ? NFT_SET_MAP : 0);
    nft_put_u32(message, NFTA_SET_KEY_TYPE, set->key_type);
    nft_put_u32(message, NFTA_SET_KEY_LEN, set->key_bytes);
    nft_put_u32(message, NFTA_SET_ID, ++batch->sets);
    if (set->verdicts)
        nft_put_u32(message, NFTA_SET_DATA_TYPE, NFT_DATA_VERDICT);
    if (set->host_order)
        mnl_attr_put(message, NFTA_SET_USERDATA, sizeof(host_order), &host_order);
    nft_end(batch);
}

static void value_put(struct nlmsghdr *message, uint16_t attribute, const void *value,
                      uint32_t bytes)
{
    struct nlattr *nest = mnl_attr_nest_start(message, attribute);

    mnl_attr_put(message, NFTA_DATA_VALUE, bytes, value);
    mnl_attr_nest_end(message, nest);
}

static void verdict_put(struct nlmsghdr *message, uint16_t attribute, int32_t code,
                        const char *chain)
{
    struct nlattr *nest = mnl_attr_nest_start(message, attribute);
    struct nlattr *verdict = mnl_attr_nest_start(message, NFTA_DATA_VERDICT);

    nft_put_u32(message, NFTA_VERDICT_CODE, (uint32_t)code);
    if (chain != NULL)
        mnl_attr_put_strz(message, NFTA_VERDICT_CHAIN, chain);
    mnl_attr_nest_end(message, verdict);
    mnl_attr_nest_end(message, nest);
}

void nft_element(struct nft_batch *batch, const char *set, bool add, const void *key,
                 uint32_t key_bytes, const char *chain)
{
    struct nlmsghdr *message =
        nft_begin(batch, add ? NFT_MSG_NEWSETELEM : NFT_MSG_DELSETELEM, add ? NLM_F_CREATE : 0);
    struct nlattr *list, *element;

    mnl_attr_put_strz(message, NFTA_SET_ELEM_LIST_TABLE, batch->table);
    mnl_attr_put_strz(message, NFTA_SET_ELEM_LIST_SET, set);
    list = mnl_attr_nest_start(message, NFTA_SET_ELEM_LIST_ELEMENTS);
    element = mnl_attr_nest_start(message, NFTA_LIST_ELEM);
    value_put(message, NFTA_SET_ELEM_KEY, key, key_bytes);
    if (chain != NULL)
        verdict_put(message, NFTA_SET_ELEM_DATA, NFT_JUMP, chain);
    mnl_attr_nest_end(message, element);
    mnl_attr_nest_end(message, list);
    nft_end(batch);
}

/* ---- rules ---- */

struct nft_rule nft_rule_begin(struct nft_batch *batch, const char *chain)
{
    struct nft_rule rule = {.message =
                                nft_begin(batch, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND)};

    mnl_attr_put_strz(rule.message, NFTA_RULE_TABLE, batch->table);
    mnl_attr_put_strz(rule.message, NFTA_RULE_CHAIN, chain);
    rule.expressions = mnl_attr_nest_start(rule.message, NFTA_RULE_EXPRESSIONS);
    return rule;
}

void nft_rule_end(struct nft_batch *batch, const struct nft_rule *rule)
{
    mnl_attr_nest_end(rule->message, rule->expressions);
    nft_end(batch);
}

struct expression {
    struct nlattr *element, *data;
};

static struct expression expression_begin(const struct nft_rule *rule, const char *name)
{
    struct expression expression = {.element = mnl_attr_nest_start(rule->message, NFTA_LIST_ELEM)};

    mnl_attr_put_strz(rule->message, NFTA_EXPR_NAME, name);
    expression.data = mnl_attr_nest_start(rule->message, NFTA_EXPR_DATA);
    return expression;
}

static void expression_end(const struct nft_rule *rule, const struct expression *expression)
{
    mnl_attr_nest_end(rule->message, expression->data);
    mnl_attr_nest_end(rule->message, expression->element);
}

void nft_meta(const struct nft_rule *rule, uint32_t key, uint32_t to)
{
    struct expression expression = expression_begin(rule, "meta");

    nft_put_u32(rule->message, NFTA_META_KEY, key);
    nft_put_u32(rule->message, NFTA_META_DREG, to);
    expression_end(rule, &expression);
}

void nft_payload(const struct nft_rule *rule, uint32_t base, uint32_t offset, uint32_t bytes,
                 uint32_t to)
{
    struct expression expression = expression_begin(rule, "payload");

    nft_put_u32(rule->message, NFTA_PAYLOAD_DREG, to);
    nft_put_u32(rule->message, NFTA_PAYLOAD_BASE, base);
    nft_put_u32(rule->message, NFTA_PAYLOAD_OFFSET, offset);
    nft_put_u32(rule->message, NFTA_PAYLOAD_LEN, bytes);
    expression_end(rule, &expression);
}

void nft_mask(const struct nft_rule *rule, uint8_t mask, uint32_t reg)
{
    static const uint8_t zero;
    struct expression expression = expression_begin(rule, "bitwise");

    nft_put_u32(rule->message, NFTA_BITWISE_SREG, reg);
    nft_put_u32(rule->message, NFTA_BITWISE_DREG, reg);
    nft_put_u32(rule->message, NFTA_BITWISE_LEN, 1);
    value_put(rule->message, NFTA_BITWISE_MASK, &mask, 1);
    value_put(rule->message, NFTA_BITWISE_XOR, &zero, 1);
    expression_end(rule, &expression);
}

void nft_compare(const struct nft_rule *rule, bool equal, uint32_t from, const void *value,
                 uint32_t bytes)
{
    struct expression expression = expression_begin(rule, "cmp");

    nft_put_u32(rule->message, NFTA_CMP_SREG, from);
    nft_put_u32(rule->message, NFTA_CMP_OP, equal ? NFT_CMP_EQ : NFT_CMP_NEQ);
    value_put(rule->message, NFTA_CMP_DATA, value, bytes);
    expression_end(rule, &expression);
}

void nft_lookup(const struct nft_rule *rule, const char *set, uint32_t from, bool verdicts)
{
    struct expression expression = expression_begin(rule, "lookup");

    mnl_attr_put_strz(rule->message, NFTA_LOOKUP_SET, set);
    nft_put_u32(rule->message, NFTA_LOOKUP_SREG, from);
    if (verdicts)
        nft_put_u32(rule->message, NFTA_LOOKUP_DREG, NFT_REG_VERDICT);
    expression_end(rule, &expression);
}

void nft_counter(const struct nft_rule *rule, const char *name)
{
    struct expression expression = expression_begin(rule, name != NULL ? "objref" : "counter");

    if (name != NULL) {
        nft_put_u32(rule->message, NFTA_OBJREF_IMM_TYPE, NFT_OBJECT_COUNTER);
        mnl_attr_put_strz(rule->message, NFTA_OBJREF_IMM_NAME, name);
    }
    expression_end(rule, &expression);
}

void nft_verdict(const struct nft_rule *rule, int32_t verdict)
{
    struct expression expression = expression_begin(rule, "immediate");

    nft_put_u32(rule->message, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
    verdict_put(rule->message, NFTA_IMMEDIATE_DATA, verdict, NULL);
    expression_end(rule, &expression);
}

void nft_jump(const struct nft_rule *rule, const char *chain)
{
    struct expression expression = expression_begin(rule, "immediate");

    nft_put_u32(rule->message, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
    verdict_put(rule->message, NFTA_IMMEDIATE_DATA, NFT_JUMP, chain);
    expression_end(rule, &expression);
}

void nft_reject_with_reset(const struct nft_rule *rule)
{
    struct expression expression = expression_begin(rule, "reject");

    nft_put_u32(rule->message, NFTA_REJECT_TYPE, NFT_REJECT_TCP_RST);
    expression_end(rule, &expression);
}
