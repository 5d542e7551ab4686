/* Engine ranks that have ended: their end is sent to the peers that know them, so that waiting
 * fetches end and peers forget the ranks. A peer with a full queue gets it when there is room. */
#include "agent/core/engines.h"

static bool owed(const struct kvr_gone_engine *gone, uint32_t peer)
{
    return gone->owed[peer / 64] >> peer % 64 & 1;
}

static void owe(struct kvr_gone_engine *gone, uint32_t peer, bool owes)
{
    uint64_t bit = UINT64_C(1) << peer % 64;

    gone->owed[peer / 64] = owes ? gone->owed[peer / 64] | bit : gone->owed[peer / 64] & ~bit;
}

static kvr_status gone_say(struct kvr_engines *engines, const struct kvr_gone_engine *gone,
                           uint32_t peer)
{
    struct kvr_message message = {.kind = KVR_MSG_REGIONS};

    message.regions.rank = gone->rank;
    message.regions.compat = gone->compat;
    return engines->ports->send(engines->ports->self, peer, &message);
}

/* Another rank takes the place: a peer that was not sent the end would remember the rank until the
 * session ends. */
static void owed_give_up(struct kvr_engines *engines, const struct kvr_gone_engine *gone)
{
    for (uint32_t peer = 0; peer < KVR_PEERS_MAX; peer++)
        if (owed(gone, peer))
            engines->ports->hang_up(engines->ports->self, peer, KVR_FULL,
                                    "the queue to it was full while many engines ended");
}

static bool same_life(const struct kvr_gone_engine *gone, const struct kvr_rank *rank)
{
    return kvr_uuid_equal(&gone->rank.engine, &rank->engine) &&
           gone->rank.generation == rank->generation && gone->rank.tp == rank->tp &&
           gone->rank.pp == rank->pp;
}

static uint32_t gone_count(const struct kvr_engines *engines)
{
    return engines->gone_next < KVR_ENGINES_GONE ? engines->gone_next : KVR_ENGINES_GONE;
}

/* Its index, or gone_count. */
static uint32_t gone_find(const struct kvr_engines *engines, const struct kvr_rank *rank)
{
    uint32_t i = 0;

    while (i < gone_count(engines) && !same_life(&engines->gone[i], rank))
        i++;
    return i;
}

void kvr_engines_gone_add(struct kvr_engines *engines, const struct kvr_engine *engine)
{
    struct kvr_gone_engine *gone = &engines->gone[engines->gone_next++ % KVR_ENGINES_GONE];

    owed_give_up(engines, gone);
    *gone = (struct kvr_gone_engine){.rank = engine->rank, .compat = engine->compat};
}

void kvr_engines_gone_tell(struct kvr_engines *engines, struct kvr_engine *engine)
{
    struct kvr_gone_engine *gone;

    if (gone_find(engines, &engine->rank) == gone_count(engines)) /* many others ended meanwhile */
        kvr_engines_gone_add(engines, engine);
    gone = &engines->gone[gone_find(engines, &engine->rank)];
    for (uint32_t peer = 0; peer < KVR_PEERS_MAX; peer++) {
        if (engine->told[peer] == 0)
            continue;
        engine->told[peer] = 0;
        if (gone_say(engines, gone, peer) == KVR_AGAIN)
            owe(gone, peer, true);
    }
}

void kvr_engines_gone_forget(struct kvr_engines *engines, const struct kvr_rank *rank,
                             uint32_t peer)
{
    for (uint32_t i = 0; i < gone_count(engines); i++)
        if (rank == NULL || same_life(&engines->gone[i], rank))
            owe(&engines->gone[i], peer, false);
}

void kvr_engines_writable(struct kvr_engines *engines, uint32_t peer)
{
    for (uint32_t i = 0; i < gone_count(engines); i++) {
        struct kvr_gone_engine *gone = &engines->gone[i];

        if (!owed(gone, peer))
            continue;
        if (gone_say(engines, gone, peer) == KVR_AGAIN)
            return;
        owe(gone, peer, false);
    }
}

bool kvr_engines_gone(const struct kvr_engines *engines, const struct kvr_uuid *engine,
                      uint64_t generation, uint32_t tp, uint32_t pp)
{
    const struct kvr_rank rank = {.engine = *engine, .generation = generation, .tp = tp, .pp = pp};

    return gone_find(engines, &rank) < gone_count(engines);
}

uint64_t kvr_engines_last_generation(const struct kvr_engines *engines, const struct kvr_rank *rank)
{
    uint64_t last = 0;

    for (uint32_t i = 0; i < gone_count(engines); i++) {
        const struct kvr_rank *gone = &engines->gone[i].rank;

        if (kvr_uuid_equal(&gone->engine, &rank->engine) && gone->tp == rank->tp &&
            gone->pp == rank->pp && gone->generation > last)
            last = gone->generation;
    }
    return last;
}
