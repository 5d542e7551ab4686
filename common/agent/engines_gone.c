/* Engine ranks that have ended: whoever waits for them is told, and peers need not remember them.
 * Those that cannot be told at once are told as room comes. */
#include "agent/engines.h"

static bool owed(const struct kvr_gone_engine *gone, uint32_t peer)
{
    return gone->owed[peer / 64] >> peer % 64 & 1;
}

static kvr_status gone_say(struct kvr_engines *engines, const struct kvr_gone_engine *gone,
                           uint32_t peer)
{
    struct kvr_message message = {.kind = KVR_MSG_REGIONS};

    message.regions.rank = gone->rank;
    message.regions.compat = gone->compat;
    return engines->ports->send(engines->ports->self, peer, &message);
}

/* Its place is another's now: who was not told would remember it until the session ends. */
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

static struct kvr_gone_engine *gone_find(struct kvr_engines *engines, const struct kvr_rank *rank)
{
    for (uint32_t i = 0; i < KVR_ENGINES_GONE && i < engines->gone_next; i++)
        if (same_life(&engines->gone[i], rank))
            return &engines->gone[i];
    return NULL;
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

    if (gone_find(engines, &engine->rank) == NULL) /* many others ended while its requests did */
        kvr_engines_gone_add(engines, engine);
    gone = gone_find(engines, &engine->rank);
    for (uint32_t peer = 0; peer < KVR_PEERS_MAX; peer++) {
        if (engine->told[peer] == 0)
            continue;
        engine->told[peer] = 0;
        if (gone_say(engines, gone, peer) == KVR_AGAIN)
            gone->owed[peer / 64] |= UINT64_C(1) << peer % 64;
    }
}

void kvr_engines_gone_forget(struct kvr_engines *engines, const struct kvr_rank *rank,
                             uint32_t peer)
{
    for (uint32_t i = 0; i < KVR_ENGINES_GONE && i < engines->gone_next; i++)
        if (rank == NULL || same_life(&engines->gone[i], rank))
            engines->gone[i].owed[peer / 64] &= ~(UINT64_C(1) << peer % 64);
}

void kvr_engines_writable(struct kvr_engines *engines, uint32_t peer)
{
    for (uint32_t i = 0; i < KVR_ENGINES_GONE && i < engines->gone_next; i++) {
        struct kvr_gone_engine *gone = &engines->gone[i];

        if (!owed(gone, peer))
            continue;
        if (gone_say(engines, gone, peer) == KVR_AGAIN)
            return;
        gone->owed[peer / 64] &= ~(UINT64_C(1) << peer % 64);
    }
}

bool kvr_engines_gone(const struct kvr_engines *engines, const struct kvr_uuid *engine,
                      uint64_t generation, uint32_t tp, uint32_t pp)
{
    const struct kvr_rank rank = {.engine = *engine, .generation = generation, .tp = tp, .pp = pp};

    for (uint32_t i = 0; i < KVR_ENGINES_GONE && i < engines->gone_next; i++)
        if (same_life(&engines->gone[i], &rank))
            return true;
    return false;
}
