#include "wire/young.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

static uint32_t count_of(const struct kvr_young *young, uint64_t host)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < young->count; i++)
        count += young->places[i].host == host;
    return count;
}

static void *oldest_of(const struct kvr_young *young, uint64_t host)
{
    for (uint32_t i = 0; i < young->count; i++)
        if (young->places[i].host == host)
            return young->places[i].who;
    return NULL;
}

/* Of hosts with as many, the one with the oldest connection. */
static uint64_t host_with_most(const struct kvr_young *young)
{
    uint32_t most = 0;
    uint64_t host = 0;

    for (uint32_t i = 0; i < young->count; i++) {
        uint32_t count = count_of(young, young->places[i].host);

        if (count <= most)
            continue;
        most = count;
        host = young->places[i].host;
    }
    return host;
}

void *kvr_young_leaver(const struct kvr_young *young, uint64_t host, kvr_young_why *ret_why)
{
    *ret_why = KVR_YOUNG_ROOM;
    if (count_of(young, host) >= KVR_YOUNG_SHARE) {
        *ret_why = KVR_YOUNG_CROWD;
        return oldest_of(young, host);
    }
    if (young->count < KVR_YOUNG_MAX)
        return NULL;
    *ret_why = KVR_YOUNG_FULL;
    return oldest_of(young, host_with_most(young));
}

void kvr_young_come(struct kvr_young *young, uint64_t host, void *who)
{
    assert(young->count < KVR_YOUNG_MAX);
    young->places[young->count++] = (struct kvr_young_place){.who = who, .host = host};
}

static struct kvr_young_place *place_of(struct kvr_young *young, const void *who)
{
    for (uint32_t i = 0; i < young->count; i++)
        if (young->places[i].who == who)
            return &young->places[i];
    return NULL;
}

void kvr_young_go(struct kvr_young *young, const void *who)
{
    struct kvr_young_place *place = place_of(young, who);
    struct kvr_young_place *end = young->places + young->count;

    if (place == NULL)
        return;
    young->queued -= place->waits != 0;
    memmove(place, place + 1, (size_t)(end - (place + 1)) * sizeof(*place));
    young->count--;
}

/* ---- steps ---- */

void kvr_young_turn(struct kvr_young *young)
{
    young->steps = 0;
    for (uint32_t i = 0; i < young->count; i++)
        young->steps += young->places[i].its_turn; /* promised, and not taken yet */
}

void *kvr_young_next(struct kvr_young *young)
{
    struct kvr_young_place *next = NULL;

    if (young->steps >= KVR_YOUNG_STEPS)
        return NULL;
    for (uint32_t i = 0; i < young->count; i++) {
        struct kvr_young_place *place = &young->places[i];

        if (place->waits != 0 && (next == NULL || place->waits < next->waits))
            next = place;
    }
    if (next == NULL)
        return NULL;
    next->waits = 0;
    next->its_turn = true;
    young->queued--;
    young->steps++;
    return next->who;
}

bool kvr_young_step(struct kvr_young *young, const void *who)
{
    struct kvr_young_place *place = place_of(young, who);

    if (place == NULL)
        return true;
    if (place->its_turn) {
        place->its_turn = false;
        return true;
    }
    if (young->queued == 0 && young->steps < KVR_YOUNG_STEPS) {
        young->steps++;
        return true;
    }
    if (place->waits == 0) {
        place->waits = ++young->drawn;
        young->queued++;
    }
    return false;
}

bool kvr_young_rests(const struct kvr_young *young)
{
    return young->queued == 0 && young->steps == 0;
}
