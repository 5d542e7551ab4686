/* A log-linear histogram: every power of two is cut into 64 equal buckets, so any value of 64 bits
 * is kept within 1.6 %, in 30 KiB that never grow. Values below 64 are exact. Plain memory, zero is
 * empty; one thread a histogram; merge those of several threads. */
#ifndef KVR_BASE_HISTOGRAM_H
#define KVR_BASE_HISTOGRAM_H

#include <stdint.h>

#define KVR_HISTOGRAM_SUB_BITS 6
#define KVR_HISTOGRAM_BUCKETS  ((64 - KVR_HISTOGRAM_SUB_BITS + 1) << KVR_HISTOGRAM_SUB_BITS)

struct kvr_histogram {
    uint64_t count;
    uint64_t sum; /* exact, as long as it fits 64 bits */
    uint64_t min; /* exact; 0 while empty */
    uint64_t max; /* exact */
    uint64_t buckets[KVR_HISTOGRAM_BUCKETS];
};

void kvr_histogram_init(struct kvr_histogram *histogram);
void kvr_histogram_record(struct kvr_histogram *histogram, uint64_t value);
/* Adds what `other` recorded. */
void kvr_histogram_merge(struct kvr_histogram *histogram, const struct kvr_histogram *other);

/* The value that `percent` (0 to 100) of the recorded values do not exceed, at most 1.6 % too high;
 * 0 gives min, 100 gives max. An empty histogram answers 0. */
uint64_t kvr_histogram_percentile(const struct kvr_histogram *histogram, double percent);
double kvr_histogram_mean(const struct kvr_histogram *histogram);

#endif
