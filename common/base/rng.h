/* Random numbers from a seed, for tests, the simulator and synthesised traces: the same seed gives
 * the same sequence on every machine. The generator is xoshiro256**, seeded by splitmix64. One
 * thread uses a generator. base/entropy.h has the kernel's random numbers. */
#ifndef KVR_BASE_RNG_H
#define KVR_BASE_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct kvr_rng {
    uint64_t state[4];
};

void kvr_rng_init(struct kvr_rng *rng, uint64_t seed);
uint64_t kvr_rng_next(struct kvr_rng *rng);

/* Uniform in [0, bound), without bias. bound > 0. */
uint64_t kvr_rng_below(struct kvr_rng *rng, uint64_t bound);
/* Uniform in [first, last], both included. */
uint64_t kvr_rng_between(struct kvr_rng *rng, uint64_t first, uint64_t last);
/* Uniform in [0, 1). */
double kvr_rng_unit(struct kvr_rng *rng);
/* True in `percent` of 100 calls; 0 is never, 100 always. */
bool kvr_rng_percent(struct kvr_rng *rng, uint32_t percent);

/* One step of splitmix64 as a hash: equal inputs, equal outputs; every bit depends on every bit. */
uint64_t kvr_mix64(uint64_t value);

#endif
