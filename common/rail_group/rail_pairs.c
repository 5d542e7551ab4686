#include "rail_group/rail_pairs.h"

#include <assert.h>
#include <string.h>

#define UNPAIRED UINT32_MAX

enum closeness {
    FAR,   /* both planes are known, and differ */
    MAYBE, /* one is unknown */
    EQUAL,
};

struct side {
    const char *const *planes;
    uint32_t count;
    uint32_t match[KVR_RAILS_MAX]; /* its partner in the matching, on the other side; or UNPAIRED */
    uint32_t pairs[KVR_RAILS_MAX]; /* how many it has */
    bool lonely[KVR_RAILS_MAX];    /* the other side has no near rail for it */
};

/* The first name of `plane` is one of `names`. */
static bool first_is_among(const char *plane, const char *names)
{
    size_t bytes = strcspn(plane, ",");

    while (strcspn(names, ",") != bytes || memcmp(names, plane, bytes) != 0) {
        names += strcspn(names, ",");
        if (*names++ == '\0')
            return false;
    }
    return true;
}

static enum closeness closeness(const char *a, const char *b)
{
    if (first_is_among(a, b) && first_is_among(b, a))
        return EQUAL;
    return a[0] == '\0' || b[0] == '\0' ? MAYBE : FAR;
}

bool kvr_rail_planes_near(const char *a, const char *b)
{
    return closeness(a, b) != FAR;
}

static void side_init(struct side *side, const char *const *planes, uint32_t count,
                      const char *const *other_planes, uint32_t other_count)
{
    assert(count <= KVR_RAILS_MAX);
    side->planes = planes;
    side->count = count;
    for (uint32_t i = 0; i < count; i++) {
        side->match[i] = UNPAIRED;
        side->pairs[i] = 0;
        side->lonely[i] = true;
        for (uint32_t k = 0; k < other_count; k++)
            side->lonely[i] &= closeness(planes[i], other_planes[k]) == FAR;
    }
}

/* ---- the largest matching -------------------------------------------------------------------- */

static void flip(struct side *ours, struct side *theirs, const uint32_t *reached_from, uint32_t end)
{
    while (end != UNPAIRED) {
        uint32_t from = reached_from[end], next = ours->match[from];

        theirs->match[end] = from;
        ours->match[from] = end;
        end = next;
    }
}

/* Kuhn's step: the shortest way from our rail to a rail of theirs without a partner, on which the
 * rails that have one change it. Only pairs at least so close are used. */
static void augment(struct side *ours, struct side *theirs, uint32_t rail, enum closeness least)
{
    uint32_t reached_from[KVR_RAILS_MAX], queue[KVR_RAILS_MAX], count = 0;

    for (uint32_t j = 0; j < theirs->count; j++)
        reached_from[j] = UNPAIRED;
    queue[count++] = rail;
    for (uint32_t next = 0; next < count; next++) {
        for (uint32_t j = 0; j < theirs->count; j++) {
            if (reached_from[j] != UNPAIRED ||
                closeness(ours->planes[queue[next]], theirs->planes[j]) < least)
                continue;
            reached_from[j] = queue[next];
            if (theirs->match[j] == UNPAIRED) {
                flip(ours, theirs, reached_from, j);
                return;
            }
            queue[count++] = theirs->match[j];
        }
    }
}

/* Rails once in the matching stay in it, so equal planes are matched first. */
static void match(struct side *ours, struct side *theirs)
{
    for (int least = EQUAL; least >= MAYBE; least--)
        for (uint32_t i = 0; i < ours->count; i++)
            if (ours->match[i] == UNPAIRED)
                augment(ours, theirs, i, (enum closeness)least);
}

/* ---- the others ------------------------------------------------------------------------------ */

static bool any_lonely(const struct side *side)
{
    for (uint32_t i = 0; i < side->count; i++)
        if (side->lonely[i])
            return true;
    return false;
}

/* For a rail of the plane: the closest of the side, and among those the one with the fewest pairs.
 * A lonely rail takes a lonely one where there is any. */
static uint32_t partner(const struct side *side, const char *plane, bool lonely)
{
    bool only_lonely = lonely && any_lonely(side);
    uint32_t best = UNPAIRED;

    for (uint32_t i = 0; i < side->count; i++) {
        enum closeness close = closeness(plane, side->planes[i]), best_close;

        if (only_lonely && !side->lonely[i])
            continue;
        best_close = best != UNPAIRED ? closeness(plane, side->planes[best]) : FAR;
        if (best == UNPAIRED || close > best_close ||
            (close == best_close && side->pairs[i] < side->pairs[best]))
            best = i;
    }
    return best;
}

static void pair_add(struct side *ours, struct side *theirs, struct kvr_rail_pair *pair)
{
    pair->far = closeness(ours->planes[pair->ours], theirs->planes[pair->theirs]) == FAR;
    ours->pairs[pair->ours]++;
    theirs->pairs[pair->theirs]++;
}

uint32_t kvr_rail_pairs(const char *const *our_planes, uint32_t our_count,
                        const char *const *their_planes, uint32_t their_count,
                        struct kvr_rail_pair ret_pairs[KVR_RAIL_PAIRS_MAX])
{
    struct side ours, theirs;
    uint32_t count = 0;

    if (our_count == 0 || their_count == 0)
        return 0;
    side_init(&ours, our_planes, our_count, their_planes, their_count);
    side_init(&theirs, their_planes, their_count, our_planes, our_count);
    match(&ours, &theirs);
    for (uint32_t j = 0; j < their_count; j++) {
        if (theirs.match[j] == UNPAIRED)
            continue;
        ret_pairs[j] = (struct kvr_rail_pair){.ours = theirs.match[j], .theirs = j};
        pair_add(&ours, &theirs, &ret_pairs[j]);
    }
    for (uint32_t j = 0; j < their_count; j++) {
        if (theirs.match[j] != UNPAIRED)
            continue;
        ret_pairs[j] = (struct kvr_rail_pair){
            .ours = partner(&ours, their_planes[j], theirs.lonely[j]), .theirs = j};
        pair_add(&ours, &theirs, &ret_pairs[j]);
    }
    count = their_count;
    for (uint32_t i = 0; i < our_count; i++) {
        /* A far pair that it has already is enough for a lonely rail, and for no other. */
        if (ours.match[i] != UNPAIRED || (ours.lonely[i] && ours.pairs[i] > 0))
            continue;
        ret_pairs[count] = (struct kvr_rail_pair){
            .ours = i, .theirs = partner(&theirs, our_planes[i], ours.lonely[i])};
        pair_add(&ours, &theirs, &ret_pairs[count++]);
    }
    return count;
}
