#include "filter/filter_rules.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "filter/nft_batch.h"

#define TABLE "kvrail"

/* nft's numbers for the types of keys, so that it can list them. */
#define TYPE_IPV4    7u
#define TYPE_IPV6    8u
#define TYPE_SERVICE 13u
#define TYPE_UID     24u
#define AND_SERVICE  6 /* bits by which a type is shifted when another follows */

#define TCP_FLAGS 13 /* offset in TCP's header */
#define SYN       0x02u
#define ACK       0x10u

struct filter_rules {
    struct nft_batch batch;
    uint32_t chains; /* of agents, made so far: the first ones */
    struct kvr_error error;
    kvr_status status; /* of a batch that was sent because it was full */
};

/* The names of an agent's own parts. */
struct names {
    char chain[16], counter[16], peers4[16], peers6[16];
};

static struct names names_of(uint32_t agent)
{
    struct names names;

    snprintf(names.chain, sizeof(names.chain), "agent%u", agent);
    snprintf(names.counter, sizeof(names.counter), "refused%u", agent);
    snprintf(names.peers4, sizeof(names.peers4), "peers%u_ip", agent);
    snprintf(names.peers6, sizeof(names.peers6), "peers%u_ip6", agent);
    return names;
}

/* ---- conditions of rules ---- */

static void is_byte(const struct nft_rule *rule, uint32_t meta, uint8_t value)
{
    nft_meta(rule, meta, NFT_REG32_00);
    nft_compare(rule, true, NFT_REG32_00, &value, sizeof(value));
}

/* The interface lo has index 1 in every network namespace. */
static void over_loopback(const struct nft_rule *rule, uint32_t meta)
{
    const uint32_t lo = 1;

    nft_meta(rule, meta, NFT_REG32_00);
    nft_compare(rule, true, NFT_REG32_00, &lo, sizeof(lo));
}

static void begins_connection(const struct nft_rule *rule)
{
    const uint8_t wanted = SYN;

    is_byte(rule, NFT_META_L4PROTO, IPPROTO_TCP);
    nft_payload(rule, NFT_PAYLOAD_TRANSPORT_HEADER, TCP_FLAGS, 1, NFT_REG32_00);
    nft_mask(rule, SYN | ACK, NFT_REG32_00);
    nft_compare(rule, true, NFT_REG32_00, &wanted, sizeof(wanted));
}

/* Its destination, address and port, from register 0 on. */
static void load_destination(const struct nft_rule *rule, bool six)
{
    is_byte(rule, NFT_META_NFPROTO, six ? NFPROTO_IPV6 : NFPROTO_IPV4);
    is_byte(rule, NFT_META_L4PROTO, IPPROTO_TCP);
    nft_payload(rule, NFT_PAYLOAD_NETWORK_HEADER, six ? 24 : 16, six ? 16 : 4, NFT_REG32_00);
    nft_payload(rule, NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, six ? NFT_REG32_04 : NFT_REG32_01);
}

static void load_source(const struct nft_rule *rule, bool six)
{
    is_byte(rule, NFT_META_NFPROTO, six ? NFPROTO_IPV6 : NFPROTO_IPV4);
    nft_payload(rule, NFT_PAYLOAD_NETWORK_HEADER, six ? 8 : 12, six ? 16 : 4, NFT_REG32_00);
}

/* ---- the table ---- */

static void table_put(struct nft_batch *batch, uint16_t type, uint32_t flags)
{
    struct nlmsghdr *message = nft_begin(batch, type, type == NFT_MSG_NEWTABLE ? NLM_F_CREATE : 0);

    mnl_attr_put_strz(message, NFTA_TABLE_NAME, TABLE);
    if (type == NFT_MSG_NEWTABLE)
        nft_put_u32(message, NFTA_TABLE_FLAGS, flags);
    nft_end(batch);
}

/* hook -1: a chain that others jump to. */
static void chain_put(struct nft_batch *batch, const char *name, int hook)
{
    struct nlmsghdr *message = nft_begin(batch, NFT_MSG_NEWCHAIN, NLM_F_CREATE);
    struct nlattr *nest;

    mnl_attr_put_strz(message, NFTA_CHAIN_TABLE, TABLE);
    mnl_attr_put_strz(message, NFTA_CHAIN_NAME, name);
    if (hook >= 0) {
        nest = mnl_attr_nest_start(message, NFTA_CHAIN_HOOK);
        nft_put_u32(message, NFTA_HOOK_HOOKNUM, (uint32_t)hook);
        nft_put_u32(message, NFTA_HOOK_PRIORITY, 0);
        mnl_attr_nest_end(message, nest);
        mnl_attr_put_strz(message, NFTA_CHAIN_TYPE, "filter");
        nft_put_u32(message, NFTA_CHAIN_POLICY, NF_ACCEPT);
    }
    nft_end(batch);
}

static void sets_put(struct nft_batch *batch)
{
    const uint32_t four = TYPE_IPV4 << AND_SERVICE | TYPE_SERVICE;
    const uint32_t six = TYPE_IPV6 << AND_SERVICE | TYPE_SERVICE;

    nft_set_add(batch, &(struct nft_set){"users", TYPE_UID, 4, false, true});
    nft_set_add(batch, &(struct nft_set){"ports_ip", four, 8, true, false});
    nft_set_add(batch, &(struct nft_set){"ports_ip6", six, 20, true, false});
    nft_set_add(batch, &(struct nft_set){"guarded_ip", four, 8, false, false});
    nft_set_add(batch, &(struct nft_set){"guarded_ip6", six, 20, false, false});
}

/* From other hosts: every packet, so that a peer that has left loses its connections too. */
static void input_put(struct nft_batch *batch)
{
    struct nft_rule rule = nft_rule_begin(batch, "input");

    over_loopback(&rule, NFT_META_IIF); /* judged as it left */
    nft_verdict(&rule, NF_ACCEPT);
    nft_rule_end(batch, &rule);
    for (int six = 0; six < 2; six++) {
        rule = nft_rule_begin(batch, "input");
        load_destination(&rule, six);
        nft_lookup(&rule, six ? "ports_ip6" : "ports_ip", NFT_REG32_00, true);
        nft_rule_end(batch, &rule);
        rule = nft_rule_begin(batch, "input");
        begins_connection(&rule);
        load_destination(&rule, six);
        nft_lookup(&rule, six ? "guarded_ip6" : "guarded_ip", NFT_REG32_00, false);
        nft_counter(&rule, NULL);
        nft_verdict(&rule, NF_DROP);
        nft_rule_end(batch, &rule);
    }
}

/* Goes on to the next rule unless a user that runs agents connects. */
static void accept_users(struct nft_batch *batch, const char *chain)
{
    struct nft_rule rule = nft_rule_begin(batch, chain);

    over_loopback(&rule, NFT_META_OIF);
    nft_meta(&rule, NFT_META_SKUID, NFT_REG32_00);
    nft_lookup(&rule, "users", NFT_REG32_00, false);
    nft_verdict(&rule, NF_ACCEPT);
    nft_rule_end(batch, &rule);
}

/* Over loopback: the user that begins a connection. Later packets have no user to go by, as the
 * last ones of a closed socket belong to none. */
static void output_put(struct nft_batch *batch)
{
    struct nft_rule rule;

    chain_put(batch, "guarded", -1);
    accept_users(batch, "guarded");
    rule = nft_rule_begin(batch, "guarded");
    nft_counter(&rule, NULL);
    nft_reject_with_reset(&rule);
    nft_rule_end(batch, &rule);
    for (int six = 0; six < 2; six++) {
        rule = nft_rule_begin(batch, "output");

        over_loopback(&rule, NFT_META_OIF);
        begins_connection(&rule);
        load_destination(&rule, six);
        nft_lookup(&rule, six ? "ports_ip6" : "ports_ip", NFT_REG32_00, true);
        nft_rule_end(batch, &rule);
        rule = nft_rule_begin(batch, "output");
        over_loopback(&rule, NFT_META_OIF);
        begins_connection(&rule);
        load_destination(&rule, six);
        nft_lookup(&rule, six ? "guarded_ip6" : "guarded_ip", NFT_REG32_00, false);
        nft_jump(&rule, "guarded");
        nft_rule_end(batch, &rule);
    }
}

/* An agent's own chain, once; it is empty of elements while no agent has its number. */
static void agent_put(struct filter_rules *rules, uint32_t agent)
{
    struct names names = names_of(agent);
    struct nft_batch *batch = &rules->batch;
    struct nlmsghdr *message;
    struct nft_rule rule;

    nft_set_add(batch, &(struct nft_set){names.peers4, TYPE_IPV4, 4, false, false});
    nft_set_add(batch, &(struct nft_set){names.peers6, TYPE_IPV6, 16, false, false});
    message = nft_begin(batch, NFT_MSG_NEWOBJ, NLM_F_CREATE);
    mnl_attr_put_strz(message, NFTA_OBJ_TABLE, TABLE);
    mnl_attr_put_strz(message, NFTA_OBJ_NAME, names.counter);
    nft_put_u32(message, NFTA_OBJ_TYPE, NFT_OBJECT_COUNTER);
    mnl_attr_nest_end(message, mnl_attr_nest_start(message, NFTA_OBJ_DATA));
    nft_end(batch);
    chain_put(batch, names.chain, -1);

    accept_users(batch, names.chain);
    rule = nft_rule_begin(batch, names.chain);
    over_loopback(&rule, NFT_META_OIF);
    nft_counter(&rule, names.counter);
    nft_reject_with_reset(&rule);
    nft_rule_end(batch, &rule);
    for (int six = 0; six < 2; six++) {
        rule = nft_rule_begin(batch, names.chain);
        load_source(&rule, six);
        nft_lookup(&rule, six ? names.peers6 : names.peers4, NFT_REG32_00, false);
        nft_verdict(&rule, NF_ACCEPT);
        nft_rule_end(batch, &rule);
    }
    rule = nft_rule_begin(batch, names.chain);
    nft_counter(&rule, names.counter);
    nft_rule_end(batch, &rule);
    /* A connection of a peer that has left ends; one that a stranger begins finds nothing. */
    rule = nft_rule_begin(batch, names.chain);
    begins_connection(&rule);
    nft_verdict(&rule, NF_DROP);
    nft_rule_end(batch, &rule);
    rule = nft_rule_begin(batch, names.chain);
    nft_reject_with_reset(&rule);
    nft_rule_end(batch, &rule);
}

kvr_status filter_rules_open(struct filter_rules **ret_rules, struct kvr_error *error)
{
    struct filter_rules *rules = calloc(1, sizeof(*rules));
    struct kvr_error refused = {0};
    kvr_status status;

    if (rules == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "filter", "no memory for the rules");
    status = nft_batch_open(&rules->batch, TABLE, error);
    if (status == KVR_OK) {
        /* A table that was left is removed; the first line makes sure that there is one. */
        table_put(&rules->batch, NFT_MSG_NEWTABLE, 0);
        table_put(&rules->batch, NFT_MSG_DELTABLE, 0);
        table_put(&rules->batch, NFT_MSG_NEWTABLE, NFT_TABLE_F_OWNER);
        sets_put(&rules->batch);
        chain_put(&rules->batch, "input", NF_INET_LOCAL_IN);
        input_put(&rules->batch);
        chain_put(&rules->batch, "output", NF_INET_LOCAL_OUT);
        output_put(&rules->batch);
        status = nft_batch_send(&rules->batch, &refused);
        if (status != KVR_OK && refused.os_errno == EPERM)
            status = kvr_error_set(error, KVR_EXISTS, "filter",
                                   "another process has the table inet " TABLE
                                   ": is a second kvrail-filter running here?");
        else if (status != KVR_OK)
            status = kvr_error_set(error, KVR_UNSUPPORTED, "filter",
                                   "the kernel made no table: it needs Linux 5.12 with nf_tables "
                                   "(%.100s)",
                                   refused.detail);
    }
    if (status != KVR_OK) {
        filter_rules_close(rules);
        return status;
    }
    *ret_rules = rules;
    return KVR_OK;
}

void filter_rules_close(struct filter_rules *rules)
{
    if (rules != NULL)
        nft_batch_close(&rules->batch);
    free(rules);
}

/* ---- changes ---- */

static uint32_t key_of(const struct filter_change *change, uint8_t ret_key[20])
{
    uint32_t bytes = change->address.family == 4 ? 4 : 16;
    uint16_t port = htons(change->port);

    memset(ret_key, 0, 20);
    memcpy(ret_key, change->address.bytes, bytes);
    memcpy(ret_key + bytes, &port, sizeof(port));
    return bytes + 4; /* a port is filled up to four bytes */
}

static void change_put(struct filter_rules *rules, const struct filter_change *change)
{
    bool six = change->address.family == 6;
    struct names names = names_of(change->agent);
    uint8_t key[20];
    uint32_t bytes = key_of(change, key);

    switch (change->element) {
    case FILTER_AGENT:
        for (; rules->chains <= change->agent; rules->chains++)
            agent_put(rules, rules->chains);
        break;
    case FILTER_USER:
        nft_element(&rules->batch, "users", change->add, &change->uid, 4, NULL);
        break;
    case FILTER_GUARD:
        nft_element(&rules->batch, six ? "guarded_ip6" : "guarded_ip", change->add, key, bytes,
                    NULL);
        break;
    case FILTER_PORT:
        nft_element(&rules->batch, six ? "ports_ip6" : "ports_ip", change->add, key, bytes,
                    names.chain);
        break;
    case FILTER_PEER:
        nft_element(&rules->batch, six ? names.peers6 : names.peers4, change->add, key, bytes - 4,
                    NULL);
        break;
    }
}

static void on_change(void *self, const struct filter_change *change)
{
    struct filter_rules *rules = self;

    change_put(rules, change);
    if (rules->batch.bytes > NFT_BATCH_FULL && rules->status == KVR_OK)
        rules->status = nft_batch_send(&rules->batch, &rules->error);
}

struct filter_sink filter_rules_sink(struct filter_rules *rules)
{
    return (struct filter_sink){.self = rules, .change = on_change};
}

kvr_status filter_rules_commit(struct filter_rules *rules, struct kvr_error *error)
{
    if (rules->status != KVR_OK) {
        *error = rules->error;
        return rules->status;
    }
    return nft_batch_send(&rules->batch, error);
}

/* ---- counts ---- */

static const struct nlattr *attribute_of(const void *attributes, size_t bytes, uint16_t type)
{
    const struct nlattr *attribute = attributes;
    const uint8_t *end = (const uint8_t *)attributes + bytes;

    while (mnl_attr_ok(attribute, (int)(end - (const uint8_t *)attribute))) {
        if (mnl_attr_get_type(attribute) == type)
            return attribute;
        attribute = mnl_attr_next(attribute);
    }
    return NULL;
}

static uint64_t packets_of(const struct nlattr *data)
{
    const struct nlattr *packets = attribute_of(
        mnl_attr_get_payload(data), mnl_attr_get_payload_len(data), NFTA_COUNTER_PACKETS);

    return packets != NULL && mnl_attr_validate(packets, MNL_TYPE_U64) >= 0
               ? be64toh(mnl_attr_get_u64(packets))
               : 0;
}

static int on_object(const struct nlmsghdr *message, void *self)
{
    const void *attributes = mnl_nlmsg_get_payload_offset(message, sizeof(struct nfgenmsg));
    size_t bytes = mnl_nlmsg_get_payload_len(message) - NLMSG_ALIGN(sizeof(struct nfgenmsg));
    const struct nlattr *name = attribute_of(attributes, bytes, NFTA_OBJ_NAME);
    const struct nlattr *data = attribute_of(attributes, bytes, NFTA_OBJ_DATA);
    uint64_t *counts = self;
    unsigned agent;

    if (name != NULL && data != NULL && mnl_attr_validate(name, MNL_TYPE_NUL_STRING) >= 0 &&
        sscanf(mnl_attr_get_str(name), "refused%u", &agent) == 1 && agent < FILTER_AGENTS_MAX)
        counts[agent] = packets_of(data);
    return MNL_CB_OK;
}

kvr_status filter_rules_counts(struct filter_rules *rules, uint64_t ret_counts[FILTER_AGENTS_MAX],
                               struct kvr_error *error)
{
    struct nft_batch *batch = &rules->batch;
    char buffer[8192];
    struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
    struct nfgenmsg *head;
    int more = MNL_CB_OK;

    memset(ret_counts, 0, FILTER_AGENTS_MAX * sizeof(ret_counts[0]));
    message->nlmsg_type = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETOBJ;
    message->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    message->nlmsg_seq = ++batch->sequence;
    head = mnl_nlmsg_put_extra_header(message, sizeof(*head));
    *head = (struct nfgenmsg){.nfgen_family = NFPROTO_INET, .version = NFNETLINK_V0};
    mnl_attr_put_strz(message, NFTA_OBJ_TABLE, TABLE);
    nft_put_u32(message, NFTA_OBJ_TYPE, NFT_OBJECT_COUNTER);
    if (mnl_socket_sendto(batch->socket, message, message->nlmsg_len) < 0)
        return kvr_error_system(error, "filter", errno, "counters cannot be read");
    while (more > MNL_CB_STOP) {
        ssize_t bytes = mnl_socket_recvfrom(batch->socket, buffer, sizeof(buffer));

        more = bytes < 0 ? -1
                         : mnl_cb_run(buffer, (size_t)bytes, batch->sequence,
                                      mnl_socket_get_portid(batch->socket), on_object, ret_counts);
    }
    return more == MNL_CB_STOP
               ? KVR_OK
               : kvr_error_system(error, "filter", errno, "counters cannot be read");
}
