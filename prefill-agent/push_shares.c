#include "prefill-agent/push_shares.h"

#include <assert.h>

#include "base/mutant.h"

static bool is_in(uint32_t bits, uint32_t tenant)
{
    return (bits >> tenant & 1) != 0;
}

static int64_t of_round(const struct push_shares *shares, const struct push_share *share)
{
    uint32_t bytes = shares->round_bytes > 0 ? shares->round_bytes : PUSH_SHARE_BYTES;

    return KVR_MUTANT(weight_forgotten) ? bytes : (int64_t)share->weight * bytes;
}

uint32_t push_shares_next(const struct push_shares *shares, uint32_t among)
{
    for (uint32_t i = 0; i < KVR_TENANTS_MAX; i++) {
        uint32_t tenant = (shares->turn + i) % KVR_TENANTS_MAX;

        if (is_in(among, tenant) && push_shares_has(shares, tenant))
            return tenant;
    }
    return KVR_TENANTS_MAX;
}

uint32_t push_shares_borrower(const struct push_shares *shares, uint32_t among)
{
    for (uint32_t i = 0; i < KVR_TENANTS_MAX; i++)
        if (is_in(among, (shares->turn + i) % KVR_TENANTS_MAX))
            return (shares->turn + i) % KVR_TENANTS_MAX;
    return KVR_TENANTS_MAX;
}

/* Until it has credit. */
static int64_t rounds_of(const struct push_shares *shares, uint32_t tenant)
{
    const struct push_share *share = &shares->tenants[tenant];

    return share->credit > 0 ? 0 : -share->credit / of_round(shares, share) + 1;
}

void push_shares_rounds(struct push_shares *shares, uint32_t active)
{
    int64_t rounds = INT64_MAX;

    assert(active != 0);
    for (uint32_t i = 0; i < KVR_TENANTS_MAX; i++)
        if (is_in(active, i) && rounds_of(shares, i) < rounds)
            rounds = rounds_of(shares, i);
    for (uint32_t i = 0; i < KVR_TENANTS_MAX; i++)
        if (is_in(active, i))
            shares->tenants[i].credit += rounds * of_round(shares, &shares->tenants[i]);
}

void push_shares_spend(struct push_shares *shares, uint32_t tenant, uint64_t bytes)
{
    struct push_share *share = &shares->tenants[tenant];
    int64_t most = -of_round(shares, share), left = share->credit - (int64_t)bytes;

    if (share->credit <= 0) { /* on loan */
        most = share->credit < most ? share->credit : most;
        share->credit = left > most ? left : most;
        return;
    }
    share->credit = left;
    if (left <= 0)
        shares->turn = (tenant + 1) % KVR_TENANTS_MAX;
}

void push_shares_idle(struct push_shares *shares, uint32_t tenant)
{
    struct push_share *share = &shares->tenants[tenant];

    if (share->credit > 0)
        share->credit = 0;
}
