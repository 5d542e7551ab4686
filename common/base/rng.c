#include "base/rng.h"

#include <assert.h>

#define GOLDEN_GAMMA UINT64_C(0x9e3779b97f4a7c15)

uint64_t kvr_mix64(uint64_t value)
{
    value += GOLDEN_GAMMA;
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

void kvr_rng_init(struct kvr_rng *rng, uint64_t seed)
{
    for (unsigned i = 0; i < 4; i++)
        rng->state[i] = kvr_mix64(seed + i * GOLDEN_GAMMA);
}

static uint64_t rotate_left(uint64_t value, unsigned bits)
{
    return (value << bits) | (value >> (64 - bits));
}

uint64_t kvr_rng_next(struct kvr_rng *rng)
{
    uint64_t *s = rng->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

/* Numbers below 2^64 mod bound would make small results likelier: they are drawn again. */
uint64_t kvr_rng_below(struct kvr_rng *rng, uint64_t bound)
{
    uint64_t unfair, value;

    assert(bound > 0);
    unfair = -bound % bound;
    do
        value = kvr_rng_next(rng);
    while (value < unfair);
    return value % bound;
}

uint64_t kvr_rng_between(struct kvr_rng *rng, uint64_t first, uint64_t last)
{
    assert(first <= last);
    if (last - first == UINT64_MAX)
        return kvr_rng_next(rng);
    return first + kvr_rng_below(rng, last - first + 1);
}

double kvr_rng_unit(struct kvr_rng *rng)
{
    return (double)(kvr_rng_next(rng) >> 11) * 0x1p-53;
}

bool kvr_rng_percent(struct kvr_rng *rng, uint32_t percent)
{
    return kvr_rng_below(rng, 100) < percent;
}
