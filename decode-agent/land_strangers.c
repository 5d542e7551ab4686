/* Arrivals that no landing expects (rule 5). A provider's port takes writes from any program that
 * reaches it, and does not name the writer; so each arrival is compared before it counts.
 *
 * What follows from many of them is in strangers.c. Until the epoch has ended, a rail that takes
 * tags goes on: a guessed tag is right once in 2^32. On a rail without tags nothing more counts:
 * there the slot alone is guessed, and the end of the epoch asks the source which of its writes
 * were lost. */
#include "base/mutant.h"
#include "decode-agent/land.h"

void land_unexpected(struct land *land, uint32_t rail, uint32_t epoch, enum land_unexpected why)
{
    struct land_strangers *strangers = &land->strangers[rail];
    bool tagged = (land->tagged >> rail & 1) != 0;
    union land_message message = LAND_MESSAGE(LAND_STRANGERS, .epoch = {rail, epoch});

    atomic_fetch_add_explicit(&land->unexpected[rail][why], 1, memory_order_relaxed);
    if (epoch > strangers->epoch)
        *strangers = (struct land_strangers){.epoch = epoch};
    if (epoch < strangers->epoch ||
        strangers->count >= (tagged ? KVR_STRANGERS_TAGGED_MAX : KVR_STRANGERS_MAX))
        return;
    strangers->count++;
    if (strangers->count < (tagged ? KVR_STRANGERS_TAGGED_MAX : KVR_STRANGERS_MAX))
        return;
    if (!tagged && !KVR_MUTANT(strangers_never_too_many))
        land->deaf |= UINT64_C(1) << rail;
    kvr_group_tell(land->group, &message.any);
}

void land_unexpected_count(struct land *land, uint32_t rail, uint32_t epoch, uint64_t immediate)
{
    uint32_t slot = land_slot_of(immediate);

    if (slot == 0 || (land->deaf >> rail & 1) != 0)
        return; /* any number of warm-up writes changes nothing */
    land_unexpected(land, rail, epoch,
                    land->slots[slot].landing == 0 ? UNEXPECTED_IDLE_SLOT : UNEXPECTED_TAG);
}
