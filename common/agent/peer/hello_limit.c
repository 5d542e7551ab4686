#include "agent/peer/hello_limit.h"

/* Takes one from the bucket: its time of being full moves by one share of a second. */
static bool take(struct hello_bucket *bucket, kvr_ns now, uint32_t burst, uint32_t rate)
{
    kvr_ns share = KVR_S / rate, full_at = bucket->full_at > now ? bucket->full_at : now;

    if (full_at + share > now + burst * share)
        return false;
    bucket->full_at = full_at + share;
    return true;
}

/* The host's bucket; else a free one, one that is full by now, or that which is full the soonest.
 */
static struct hello_bucket *bucket_of(struct hello_limit *limit, kvr_ns now, uint64_t host)
{
    struct hello_bucket *best = &limit->hosts[0];

    for (uint32_t i = 0; i < HELLO_HOSTS_MAX; i++) {
        struct hello_bucket *bucket = &limit->hosts[i];

        if (bucket->host == host)
            return bucket;
        if (bucket->full_at < best->full_at)
            best = bucket;
    }
    *best = (struct hello_bucket){.host = host, .full_at = now};
    return best;
}

bool hello_limit_take(struct hello_limit *limit, kvr_ns now, uint64_t host, bool known)
{
    struct hello_bucket *bucket = bucket_of(limit, now, host), before = *bucket;

    if (!take(bucket, now, HELLO_HOST_BURST, HELLO_HOST_RATE))
        return false;
    if (known || take(&limit->all, now, HELLO_ALL_BURST, HELLO_ALL_RATE))
        return true;
    *bucket = before; /* others used the total up */
    return false;
}
