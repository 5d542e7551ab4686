/* Writes that arrive over another rail group than their landing's (rules 5 and 7): they are handed
 * over. A message that no more will come goes through the same ring, behind them. */
#include "decode-agent/land.h"

void land_hand_over(struct land *land, uint32_t rail, uint32_t epoch, uint64_t immediate)
{
    union land_message message = LAND_MESSAGE(LAND_HANDED, .arrival = {rail, epoch, immediate});

    message.head.group = land->slots[land_slot_of(immediate)].place;
    kvr_group_pass(land->group, &message.any);
}

void land_epoch_mark(struct land *land, uint32_t rail, uint32_t epoch)
{
    union land_message marker = LAND_MESSAGE(LAND_EPOCH_CLOSED, .epoch = {rail, epoch});

    for (; marker.head.group < kvr_group_count(land->group); marker.head.group++)
        if (marker.head.group != kvr_group_number(land->group))
            kvr_group_pass(land->group, &marker.any);
}

static void forward_set(struct land *land, const struct landing *landing, uint16_t where,
                        uint32_t group)
{
    for (uint32_t i = 0; i < landing->slot_count; i++) {
        land->slots[landing->slots[i]] = (struct land_slot){where, (uint16_t)group, landing->tag};
    }
}

bool land_forward_command(struct land *land, const union land_message *message)
{
    union land_message answer = {.landing = message->landing, .transfer = message->transfer};

    switch (message->head.kind) {
    case LAND_FORWARD:
        forward_set(land, message->forward.landing, LAND_ELSEWHERE, message->forward.home);
        return true;
    case LAND_FORWARD_END:
        forward_set(land, message->forward.landing, 0, 0);
        answer.head.kind = LAND_FORWARD_DRAINED;
        answer.head.group = message->forward.home;
        kvr_group_pass(land->group, &answer.any);
        return true;
    case LAND_FORWARD_DRAINED:
        answer.head.kind = LAND_FORWARD_ENDED;
        kvr_group_tell(land->group, &answer.any);
        return true;
    default:
        return false;
    }
}
