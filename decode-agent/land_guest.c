/* What comes over the rails of another group than its landing's (rules 5 and 7): it is handed over,
 * and whatever says that no more will come stands behind it in the same ring. */
#include "decode-agent/land.h"

void land_hand_over(struct land *land, uint32_t rail, uint32_t epoch, uint32_t immediate)
{
    struct kvr_group_message message = {.kind = LAND_HANDED,
                                        .a = rail,
                                        .b = epoch,
                                        .c = immediate,
                                        .group = land->slots[immediate >> 16].place};

    kvr_group_pass(land->group, &message);
}

void land_epoch_mark(struct land *land, uint32_t rail, uint32_t epoch)
{
    struct kvr_group_message marker = {.kind = LAND_EPOCH_CLOSED, .a = rail, .b = epoch};

    for (; marker.group < kvr_group_count(land->group); marker.group++)
        if (marker.group != kvr_group_number(land->group))
            kvr_group_pass(land->group, &marker);
}

static void guest_set(struct land *land, const struct landing *landing, uint16_t where,
                      uint32_t group)
{
    for (uint32_t i = 0; i < landing->slot_count; i++) {
        land->slots[landing->slots[i]].landing = where;
        land->slots[landing->slots[i]].place = (uint16_t)group;
    }
}

bool land_guest_command(struct land *land, const struct kvr_group_message *message)
{
    struct kvr_group_message answer = {.index = message->index, .id = message->id};

    switch (message->kind) {
    case LAND_GUEST:
        guest_set(land, message->pointer, LAND_ELSEWHERE, (uint32_t)message->a);
        return true;
    case LAND_GUEST_LEAVES:
        guest_set(land, message->pointer, 0, 0);
        answer.kind = LAND_GUEST_LEFT;
        answer.group = (uint32_t)message->a;
        kvr_group_pass(land->group, &answer);
        return true;
    case LAND_GUEST_LEFT:
        answer.kind = LAND_GUEST_GONE;
        kvr_group_tell(land->group, &answer);
        return true;
    default:
        return false;
    }
}
