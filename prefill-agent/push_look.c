/* Looking: before the pages of our device are lent to a neighbour who moves them himself, a write
 * of no bytes from them to his says whether his device sees them. */
#include <assert.h>

#include "prefill-agent/push.h"

static void answer(struct push *push, struct push_look *look, kvr_status status)
{
    struct kvr_group_message message = {.kind = PUSH_LOOKED, .index = look->peer, .pointer = look};

    look->status = status;
    kvr_group_tell(push->group, &message);
}

void push_look_add(struct push *push, struct push_look *look)
{
    look->next = push->looks;
    push->looks = look;
}

/* Engines give all their pages alike: the first region stands for the rest. */
static kvr_status post(struct push *push, const struct push_look *look, uint32_t place)
{
    struct kvr_group_piece piece = {.local = look->source->locals[0]->moved,
                                    .remote = &look->target->remotes[0]};
    struct kvr_group_post post = {
        .peer = look->peer,
        .immediate = KVR_WARM_UP_IMMEDIATE,
        .pieces = &piece,
        .piece_count = 1,
        .token = (uint64_t)PUSH_PART_LOOK << 32 | place,
        .rails = look->target_rails,
    };
    struct kvr_pair pair;

    return kvr_group_post(push->group, &post, &pair);
}

static uint32_t free_place(const struct push *push)
{
    uint32_t place = 0;

    while (place < PUSH_LOOKS && push->looking[place] != NULL)
        place++;
    return place;
}

bool push_look_work(struct push *push)
{
    struct push_look **link = &push->looks;
    bool progress = false;

    while (*link != NULL) {
        struct push_look *look = *link;
        uint32_t place = free_place(push);
        kvr_status status = place < PUSH_LOOKS ? post(push, look, place) : KVR_AGAIN;

        if (status == KVR_AGAIN) {
            push->blocked = true;
            break;
        }
        *link = look->next;
        progress = true;
        if (status == KVR_OK)
            push->looking[place] = look;
        else
            answer(push, look, status);
    }
    return progress;
}

void push_looked(struct push *push, uint32_t place, kvr_status status)
{
    struct push_look *look = push->looking[place];

    assert(look != NULL);
    push->looking[place] = NULL;
    answer(push, look, status);
}
