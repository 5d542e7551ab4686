/* The target ranks that have come for a publish. */
#include "prefill-agent/publish.h"

#include "base/mutant.h"
#include "prefill-agent/outbound.h"
#include "prefill-agent/source_transfer.h"

static uint32_t place_of(const struct publish *publish, const struct kvr_rank *rank)
{
    uint32_t place = KVR_MUTANT(places_counted) ? publish->consumers.count : 0;

    for (; place < publish->consumers.count; place++) {
        const struct consumer *consumer = &publish->consumers.list[place];

        if (kvr_uuid_equal(&consumer->engine, &rank->engine) && consumer->tp == rank->tp &&
            consumer->pp == rank->pp)
            break;
    }
    return place;
}

kvr_status consumer_check(const struct source_transfer *transfer, const struct publish *publish,
                          struct kvr_error *error)
{
    uint32_t place = place_of(publish, &transfer->match.target);

    if (publish->state == PUBLISH_FAILING)
        return kvr_error_set(error, publish->status, "want", "%s", publish->detail);
    if (place < publish->consumers.count)
        return publish->consumers.list[place].ended
                   ? KVR_OK
                   : kvr_error_set(error, KVR_EXISTS, "want",
                                   "this target rank is fetching request \"%s\" already",
                                   publish->request);
    if (publish->consumers.expected > 0 &&
        publish->consumers.count >= publish->consumers.expected && publish->status != KVR_OK)
        return kvr_error_set(error, publish->status, "want", "%s", publish->detail);
    return KVR_OK;
}

/* It is ending here; or the rank comes in another session, so that the target has fenced the one
 * before, and its silence ends that here too. */
static bool is_over(const struct source_transfer *last, uint32_t peer)
{
    return last->state == ST_STOPPING || last->state == ST_CLOSING || last->peer != peer;
}

bool consumer_leaves(const struct outbound *outbound, const struct source_transfer *transfer,
                     struct publish *publish)
{
    uint32_t place = place_of(publish, &transfer->match.target);
    const struct source_transfer *last;

    if (publish->state == PUBLISH_FAILING || place == publish->consumers.count ||
        publish->consumers.list[place].ended || KVR_MUTANT(leaving_refused))
        return false;
    last = kvr_pool_get(&outbound->transfers, publish->consumers.list[place].transfer);
    if (last == NULL || !is_over(last, transfer->peer))
        return false;
    publish->consumers.awaited = true;
    return true;
}

/* The first WANT may show too few: a target stage that needs all source stages does not show that
 * the other target stages will ask all of them too. */
kvr_status consumers_know(struct outbound *outbound, const struct source_transfer *transfer,
                          struct publish *publish, struct kvr_error *error)
{
    bool known = publish->consumers.named || publish->status != KVR_OK;
    uint32_t consumers = 0;

    if (place_of(publish, &transfer->match.target) < publish->consumers.count)
        return KVR_OK;
    if (!known)
        consumers = slice_consumers(outbound, publish, transfer);
    if (consumers < publish->consumers.expected)
        consumers = publish->consumers.expected;
    if (consumers > KVR_CONSUMERS_MAX)
        return kvr_error_set(
            error, KVR_TOO_LARGE, "want",
            "the target engine has %u tensor ranks and %u stages, of which more than "
            "%u would come for this source rank",
            transfer->match.target.tp_size, transfer->match.target.pp_size, KVR_CONSUMERS_MAX);
    if (publish->consumers.count >= consumers)
        return kvr_error_set(error, KVR_EXISTS, "want",
                             "all %u consumers of request \"%s\" have come already", consumers,
                             publish->request);
    publish->consumers.expected = consumers;
    lease_reopen(publish, outbound->now);
    return KVR_OK;
}

/* Clears the failure attributed to this consumer; another consumer's may be left. */
static void forgive(struct publish *publish, const struct consumer *consumer)
{
    if (publish->consumers.blamed != consumer)
        return;
    publish->status = KVR_OK;
    publish->detail[0] = '\0';
    publish->consumers.blamed = NULL;
    for (uint32_t i = 0; i < publish->consumers.count; i++) {
        const struct consumer *other = &publish->consumers.list[i];

        if (other == consumer || !other->ended || other->status == KVR_OK)
            continue;
        publish_blame(publish, other->status, kvr_status_text(other->status));
        publish->consumers.blamed = other;
        return;
    }
}

void consumer_comes(struct publish *publish, struct source_transfer *transfer)
{
    uint32_t place = place_of(publish, &transfer->match.target);
    struct consumer *consumer = &publish->consumers.list[place];

    if (place < publish->consumers.count) {
        forgive(publish, consumer);
        publish->consumers.ended_count--;
    } else {
        publish->consumers.count++;
    }
    *consumer = (struct consumer){
        .engine = transfer->match.target.engine,
        .tp = transfer->match.target.tp,
        .pp = transfer->match.target.pp,
        .transfer = transfer->id,
    };
    transfer->match.place = place;
    if (publish->consumers.count == publish->consumers.expected &&
        !(transfer->announce.state == ANNOUNCE_HELD && KVR_MUTANT(lease_while_held)))
        lease_off(publish); /* from here on the session and the deadline rule */
}

void consumer_ends(struct publish *publish, const struct source_transfer *transfer)
{
    struct consumer *consumer = &publish->consumers.list[transfer->match.place];

    consumer->ended = true;
    consumer->status = transfer->status;
    publish->consumers.ended_count++;
    if (publish->status != KVR_OK || transfer->status == KVR_OK)
        return;
    publish_blame(publish, transfer->status, transfer->detail);
    publish->consumers.blamed = consumer;
}
