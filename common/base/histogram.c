#include "base/histogram.h"

#include <string.h>

#define SUB_BITS KVR_HISTOGRAM_SUB_BITS
#define SUB      (1u << SUB_BITS)

/* Below SUB a bucket is a value. Above, the row is the position of the highest bit, and the
 * SUB_BITS bits behind it are the column. */
static uint32_t bucket_of(uint64_t value)
{
    uint32_t shift;

    if (value < SUB)
        return (uint32_t)value;
    shift = 63u - (uint32_t)__builtin_clzll(value) - SUB_BITS;
    return (shift << SUB_BITS) + (uint32_t)(value >> shift);
}

/* The largest value of a bucket. */
static uint64_t bucket_last(uint32_t bucket)
{
    uint32_t shift;

    if (bucket < 2 * SUB)
        return bucket;
    shift = (bucket >> SUB_BITS) - 1;
    return ((((uint64_t)bucket & (SUB - 1)) | SUB) << shift) + ((UINT64_C(1) << shift) - 1);
}

void kvr_histogram_init(struct kvr_histogram *histogram)
{
    memset(histogram, 0, sizeof(*histogram));
}

void kvr_histogram_record(struct kvr_histogram *histogram, uint64_t value)
{
    if (histogram->count == 0 || value < histogram->min)
        histogram->min = value;
    if (value > histogram->max)
        histogram->max = value;
    histogram->count++;
    histogram->sum += value;
    histogram->buckets[bucket_of(value)]++;
}

void kvr_histogram_merge(struct kvr_histogram *histogram, const struct kvr_histogram *other)
{
    if (other->count == 0)
        return;
    if (histogram->count == 0 || other->min < histogram->min)
        histogram->min = other->min;
    if (other->max > histogram->max)
        histogram->max = other->max;
    histogram->count += other->count;
    histogram->sum += other->sum;
    for (uint32_t i = 0; i < KVR_HISTOGRAM_BUCKETS; i++)
        histogram->buckets[i] += other->buckets[i];
}

uint64_t kvr_histogram_percentile(const struct kvr_histogram *histogram, double percent)
{
    /* A little less, so that 7 % of 100 values are not 7.000000000000001 of them. */
    double wanted = percent * (double)histogram->count / 100.0 * (1 - 1e-12);
    uint64_t seen = 0;

    if (histogram->count == 0 || percent <= 0)
        return histogram->min;
    for (uint32_t i = 0; i < KVR_HISTOGRAM_BUCKETS; i++) {
        seen += histogram->buckets[i];
        if (seen > 0 && (double)seen >= wanted) {
            uint64_t last = bucket_last(i);

            return last < histogram->max ? last : histogram->max;
        }
    }
    return histogram->max;
}

double kvr_histogram_mean(const struct kvr_histogram *histogram)
{
    if (histogram->count == 0)
        return 0;
    return (double)histogram->sum / (double)histogram->count;
}
