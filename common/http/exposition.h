/* Metrics as text: Prometheus 0.0.4, or OpenMetrics 1.0.
 *
 * A family is begun, and its samples follow at once. OpenMetrics names a counter's family without
 * _total, ends with a line of its own, and has exemplars; Prometheus' older format has none of
 * that. One thread. */
#ifndef KVR_HTTP_EXPOSITION_H
#define KVR_HTTP_EXPOSITION_H

#include <stdbool.h>
#include <stdio.h>

#include "base/clock.h"
#include "http/ready.h"

#define EXPOSITION_PROMETHEUS  "text/plain; version=0.0.4; charset=utf-8"
#define EXPOSITION_OPENMETRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"

struct exposition {
    FILE *out;
    bool open;          /* OpenMetrics */
    const char *family; /* the one that was begun */
};

struct exposition_label {
    const char *name, *value;
};

/* The transfer that was counted last in a bucket. */
struct exposition_exemplar {
    uint64_t transfer; /* 0: none */
    double seconds;
    int64_t at_ns; /* wall */
};

/* name: whole, of a counter with _total; it and help last until the next family. */
void exposition_counter(struct exposition *exposition, const char *name, const char *help);
void exposition_gauge(struct exposition *exposition, const char *name, const char *help);
void exposition_histogram(struct exposition *exposition, const char *name, const char *help);

/* A sample of the family; the labels end with a NULL name. */
void exposition_count(struct exposition *exposition, const struct exposition_label *labels,
                      uint64_t value);
void exposition_value(struct exposition *exposition, const struct exposition_label *labels,
                      double value);
/* A family of one sample. */
void exposition_one(struct exposition *exposition, bool counter, const char *name, const char *help,
                    double value);
/* One histogram of the family: bounds ascend, and buckets has one more, beyond the last bound.
 * exemplars: one a bucket. */
void exposition_buckets(struct exposition *exposition, const struct exposition_label *label,
                        const double *bounds, const uint64_t *buckets, size_t bound_count,
                        double sum, const struct exposition_exemplar *exemplars);
/* After the last family. */
void exposition_end(struct exposition *exposition);

/* A whole text, as an answer; `write` writes its families. NULL: no memory. */
struct ready *exposition_ready(bool open, void (*write)(void *self, struct exposition *out),
                               void *self);

/* Whether a client that sends this header takes OpenMetrics. accept: NULL where it sends none. */
bool exposition_wants_open(const char *accept);

#endif
