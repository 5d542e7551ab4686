/* Visibility probes: whether the device of a target on this host sees our device's pages. Before
 * the target copies such pages directly, a zero-byte write from them to its pages tests it. */
#include <assert.h>

#include "prefill-agent/push_state.h"

static void answer(struct push *push, struct visibility_probe *probe, kvr_status status)
{
    probe->status = status;
    push_tell(push, NULL, PUSH_MESSAGE(PUSH_PROBED, .probe = probe));
}

void push_probe_add(struct push *push, struct visibility_probe *probe)
{
    probe->next = push->probes;
    push->probes = probe;
}

/* All regions of an engine are shared in the same way: the first one stands for the rest. */
static kvr_status post(struct push *push, const struct visibility_probe *probe, uint32_t place)
{
    struct kvr_group_piece piece = {.local = probe->source->locals[0]->moved,
                                    .remote = &probe->target->remotes[0]};
    struct kvr_group_post post = {
        .peer = probe->peer,
        .immediate = KVR_WARM_UP_IMMEDIATE,
        .pieces = &piece,
        .piece_count = 1,
        .token = (uint64_t)PUSH_PART_PROBE << 32 | place,
        .rails = probe->target_rails,
    };
    struct kvr_pair pair;

    return kvr_group_post(push->group, &post, &pair);
}

static uint32_t free_place(const struct push *push)
{
    uint32_t place = 0;

    while (place < PUSH_PROBES_MAX && push->probing[place] != NULL)
        place++;
    return place;
}

bool push_probe_work(struct push *push)
{
    struct visibility_probe **link = &push->probes;
    bool progress = false;

    while (*link != NULL) {
        struct visibility_probe *probe = *link;
        uint32_t place = free_place(push);
        kvr_status status = place < PUSH_PROBES_MAX ? post(push, probe, place) : KVR_AGAIN;

        if (status == KVR_AGAIN) {
            push->blocked = true;
            break;
        }
        *link = probe->next;
        progress = true;
        if (status == KVR_OK)
            push->probing[place] = probe;
        else
            answer(push, probe, status);
    }
    return progress;
}

void push_probe_ended(struct push *push, uint32_t place, kvr_status status)
{
    struct visibility_probe *probe = push->probing[place];

    assert(probe != NULL);
    push->probing[place] = NULL;
    answer(push, probe, status);
}
