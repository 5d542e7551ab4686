/* One transaction of the kernel's packet filter (nf_tables), over netlink.
 *
 * What is put into a batch happens as a whole when it is sent, or not at all. The functions below
 * write the messages and expressions that filter_rules needs; linux/netfilter/nf_tables.h has their
 * meaning. libmnl writes the bytes; libnftables would write whole rules, but its licence (GPL 2)
 * does not allow programs of ours to link it. One thread. */
#ifndef KVR_FILTER_NFT_BATCH_H
#define KVR_FILTER_NFT_BATCH_H

#include <netinet/in.h> /* before the kernel's own */

#include <libmnl/libmnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#define NFT_BATCH_BYTES (1u << 20)
#define NFT_BATCH_FULL  (NFT_BATCH_BYTES - (64u << 10)) /* send it now */

struct nft_batch {
    struct mnl_socket *socket;
    const char *table;
    uint32_t sequence;
    uint32_t sets; /* made, each with a number */
    uint32_t messages;
    size_t bytes;
    struct nlmsghdr *message, *last; /* being written; the one that is acknowledged */
    uint8_t *memory;                 /* NFT_BATCH_BYTES */
};

KVR_MUST_CHECK kvr_status nft_batch_open(struct nft_batch *batch, const char *table,
                                         struct kvr_error *error);
void nft_batch_close(struct nft_batch *batch);
/* Waits for the kernel's answer, 5 s at most. An empty batch is fine. */
KVR_MUST_CHECK kvr_status nft_batch_send(struct nft_batch *batch, struct kvr_error *error);

/* Begins a message of that type (NFT_MSG_…) about the table; _end before the next one. */
struct nlmsghdr *nft_begin(struct nft_batch *batch, uint16_t type, uint16_t flags);
void nft_end(struct nft_batch *batch);

void nft_put_u32(struct nlmsghdr *message, uint16_t attribute, uint32_t value);

/* A set of keys, or a map from keys to verdicts. The type is nft's own number, so that `nft list`
 * can show the keys. */
struct nft_set {
    const char *name;
    uint32_t key_type, key_bytes;
    bool verdicts;
    bool host_order; /* keys are numbers of the host's byte order, not of the network's */
};
void nft_set_add(struct nft_batch *batch, const struct nft_set *set);
/* chain: a map's verdict is a jump there; NULL: the set has none. */
void nft_element(struct nft_batch *batch, const char *set, bool add, const void *key,
                 uint32_t key_bytes, const char *chain);

/* Expressions of a rule, in their order, between nft_rule_begin and nft_rule_end. */
struct nft_rule {
    struct nlmsghdr *message;
    struct nlattr *expressions;
};
struct nft_rule nft_rule_begin(struct nft_batch *batch, const char *chain);
void nft_rule_end(struct nft_batch *batch, const struct nft_rule *rule);
void nft_meta(const struct nft_rule *rule, uint32_t key, uint32_t to);
void nft_payload(const struct nft_rule *rule, uint32_t base, uint32_t offset, uint32_t bytes,
                 uint32_t to);
void nft_mask(const struct nft_rule *rule, uint8_t mask, uint32_t reg); /* of one byte */
void nft_compare(const struct nft_rule *rule, bool equal, uint32_t from, const void *value,
                 uint32_t bytes);
/* Goes on when the key in `from` is in the set; verdicts: and follows the map's verdict. */
void nft_lookup(const struct nft_rule *rule, const char *set, uint32_t from, bool verdicts);
void nft_counter(const struct nft_rule *rule, const char *name); /* NULL: one of the rule alone */
void nft_verdict(const struct nft_rule *rule, int32_t verdict);
void nft_jump(const struct nft_rule *rule, const char *chain);
void nft_reject_with_reset(const struct nft_rule *rule);

#endif
