/* Shares of the rails: tenants take turns by deficit round robin. In each round a tenant with
 * something to post gets credit for as many bytes as its weight says, and what it posts is taken
 * off. It may post while it has credit; the last batch of a turn may take it below 0, and the next
 * rounds pay for that. Credit is not saved: a tenant with nothing to post loses it, and a round
 * begins when none has any. So over many rounds tenants that all have something to post get bytes
 * by their weights, and one that is alone has everything.
 *
 * While one with credit has no room, others may post on loan what it cannot use: it goes first
 * again when there is room. A loan is paid back up to one round. Pure. */
#ifndef PREFILL_AGENT_PUSH_SHARES_H
#define PREFILL_AGENT_PUSH_SHARES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"

#define PUSH_SHARE_BYTES (256u << 10) /* of weight 1, in a round */

struct push_shares {
    struct push_share {
        int64_t credit;
        uint32_t weight;
    } tenants[KVR_TENANTS_MAX];
    uint32_t turn;        /* the tenant that is looked at first */
    uint32_t round_bytes; /* of weight 1; 0: PUSH_SHARE_BYTES */
};

/* The next of these (a bit each) that has credit; KVR_TENANTS_MAX: none has. */
uint32_t push_shares_next(const struct push_shares *shares, uint32_t among);
/* The next of these, with credit or without; KVR_TENANTS_MAX: there are none. */
uint32_t push_shares_borrower(const struct push_shares *shares, uint32_t among);
/* Begins as many rounds as it takes until one of those that are active has credit. */
void push_shares_rounds(struct push_shares *shares, uint32_t active);
/* It has posted these bytes: on loan if it had no credit. */
void push_shares_spend(struct push_shares *shares, uint32_t tenant, uint64_t bytes);
/* It has nothing to post. */
void push_shares_idle(struct push_shares *shares, uint32_t tenant);
static inline bool push_shares_has(const struct push_shares *shares, uint32_t tenant)
{
    return shares->tenants[tenant].credit > 0;
}

#endif
