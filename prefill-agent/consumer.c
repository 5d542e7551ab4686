/* Who has come for a publish. Each target rank has a place there, by its name: a rank whose
 * transfer has ended may come again, into its own place, and the others still find theirs. What its
 * last transfer came to is what counts. */
#include "base/mutant.h"
#include "prefill-agent/outbound.h"

static uint32_t place_of(const struct publish *publish, const struct kvr_rank *rank)
{
    uint32_t place = KVR_MUTANT(places_counted) ? publish->come_count : 0;

    for (; place < publish->come_count; place++) {
        const struct consumer *consumer = &publish->come[place];

        if (kvr_uuid_equal(&consumer->engine, &rank->engine) && consumer->tp == rank->tp &&
            consumer->pp == rank->pp)
            break;
    }
    return place;
}

kvr_status consumer_check(const struct offer *offer, const struct publish *publish,
                          struct kvr_error *error)
{
    uint32_t place = place_of(publish, &offer->target);

    if (publish->failing)
        return kvr_error_set(error, publish->status, "want", "%s", publish->detail);
    if (place < publish->come_count)
        return publish->come[place].ended
                   ? KVR_OK
                   : kvr_error_set(error, KVR_EXISTS, "want",
                                   "this target rank is fetching request \"%s\" already",
                                   publish->request);
    if (publish->consumers > 0 && publish->come_count >= publish->consumers &&
        publish->status != KVR_OK)
        return kvr_error_set(error, publish->status, "want", "%s", publish->detail);
    return KVR_OK;
}

/* The first may know of too few: a target stage that needs all source stages does not show that the
 * others will ask all, too. */
kvr_status consumers_know(struct outbound *outbound, kvr_ns now, const struct offer *offer,
                          struct publish *publish, struct kvr_error *error)
{
    bool said = publish->consumers_said || publish->status != KVR_OK;
    uint32_t consumers = 0;

    if (place_of(publish, &offer->target) < publish->come_count)
        return KVR_OK;
    if (!said)
        consumers = publish_consumers(outbound, publish, offer);
    if (consumers < publish->consumers)
        consumers = publish->consumers;
    if (consumers > KVR_CONSUMERS_MAX)
        return kvr_error_set(
            error, KVR_TOO_LARGE, "want",
            "the target engine has %u tensor ranks and %u stages, of which more than "
            "%u would come for this source rank",
            offer->target.tp_size, offer->target.pp_size, KVR_CONSUMERS_MAX);
    if (publish->come_count >= consumers)
        return kvr_error_set(error, KVR_EXISTS, "want",
                             "all %u consumers of request \"%s\" have come already", consumers,
                             publish->request);
    publish->consumers = consumers;
    if (publish->lease_end == KVR_NEVER) /* all seemed to have come */
        publish->lease_end = now + publish->lease_ns;
    return KVR_OK;
}

/* Its failure is mended, or told again when it ends; that of another may be left. */
static void forgive(struct publish *publish, const struct consumer *consumer)
{
    if (publish->blamed != consumer)
        return;
    publish->status = KVR_OK;
    publish->detail[0] = '\0';
    publish->blamed = NULL;
    for (uint32_t i = 0; i < publish->come_count; i++) {
        const struct consumer *other = &publish->come[i];

        if (other == consumer || !other->ended || other->status == KVR_OK)
            continue;
        publish_blame(publish, other->status, kvr_status_text(other->status));
        publish->blamed = other;
        return;
    }
}

void consumer_comes(struct publish *publish, struct offer *offer)
{
    uint32_t place = place_of(publish, &offer->target);
    struct consumer *consumer = &publish->come[place];

    if (place < publish->come_count) {
        forgive(publish, consumer);
        publish->ended_count--;
    } else {
        publish->come_count++;
    }
    *consumer = (struct consumer){
        .engine = offer->target.engine,
        .tp = offer->target.tp,
        .pp = offer->target.pp,
        .offer = offer->id,
    };
    offer->place = place;
    if (publish->come_count == publish->consumers)
        publish->lease_end = KVR_NEVER; /* from here the session and the deadline rule */
}

void consumer_ends(struct publish *publish, const struct offer *offer)
{
    struct consumer *consumer = &publish->come[offer->place];

    consumer->ended = true;
    consumer->status = offer->status;
    publish->ended_count++;
    if (publish->status != KVR_OK || offer->status == KVR_OK)
        return;
    publish_blame(publish, offer->status, offer->detail);
    publish->blamed = consumer;
}
