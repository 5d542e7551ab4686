/* When a rail gets a fresh endpoint because strangers write to it (rule 5): its successor has
 * another address, which they must find again. Or because a peer's write has broken off (rule 4):
 * one with a key can hang up in the middle of a write as often as it likes.
 *
 * The renewal itself could be the attack: each costs the peers of the rail what is on its way. So
 * the first comes at once, and the next ones at growing distances, up to a minute: until then a
 * rail with tags goes on, and a guess is right once in 2^32. A rail without tags counts nothing
 * until it is renewed (land_strangers.c), so it waits for a second and no longer. A rail that was
 * left alone for some such waits begins anew.
 *
 * A write that broke off may wait: its source has seen the end of the connection, too, and sends
 * RAIL_LOST. Where it has not, QUIET finds counts that stay unequal, and ends the epoch. */
#include "decode-agent/strangers.h"

#include "decode-agent/fence.h"

#define FORGOTTEN_WAITS 8u

static bool takes_tags(const struct inbound *inbound, uint32_t rail)
{
    return (inbound->options.groups.tagged >> rail & 1) != 0;
}

static kvr_ns wait_next(const struct inbound *inbound, uint32_t rail)
{
    const struct inbound_strangers *strangers = &inbound->rails[rail].strangers;

    if (strangers->wait == 0 || !takes_tags(inbound, rail) ||
        inbound->now - strangers->renewed_at > FORGOTTEN_WAITS * strangers->wait)
        return STRANGERS_WAIT_NS;
    return kvr_min_u64(2 * strangers->wait, STRANGERS_WAIT_MAX_NS);
}

void strangers_tick(struct inbound *inbound, uint32_t rail)
{
    struct inbound_strangers *strangers = &inbound->rails[rail].strangers;
    uint32_t epoch = strangers->epoch;

    if (epoch == 0 ||
        (strangers->wait > 0 && inbound->now - strangers->renewed_at < strangers->wait))
        return;
    strangers->epoch = 0;
    if (epoch < inbound->rails[rail].epoch)
        return; /* it has ended for another reason */
    strangers->wait = wait_next(inbound, rail);
    strangers->renewed_at = inbound->now;
    inbound_rail_recycle(inbound, rail, epoch);
}

void strangers_reported(struct inbound *inbound, uint32_t rail, uint32_t epoch)
{
    if (rail >= inbound->options.rail_count)
        return;
    inbound->rails[rail].strangers.epoch = epoch;
    strangers_tick(inbound, rail);
}
