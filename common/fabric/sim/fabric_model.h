/* Cards and the thread that drives them, as costs in virtual time: what a model of a host runs the
 * real posting code on. Nothing is moved and nothing goes wrong.
 *
 *   card     sends one write after the other at line_bps, each after the doorbell that was rung
 *            for it, and no sooner than first_ns after the endpoint's first; completes them in
 * order, latency_ns after the last byte thread   its clock goes on by what it does: call_ns for
 * each write that it hands over or that is refused, its completion included, and doorbell_ns for
 * each doorbell
 *
 * A write with `more` waits for the next doorbell of its endpoint. One thread; the same calls give
 * the same times. */
#ifndef KVR_FABRIC_FABRIC_MODEL_H
#define KVR_FABRIC_FABRIC_MODEL_H

#include "fabric/sim/fabric_null.h"

#define KVR_FABRIC_MODEL_RAILS_MAX 8

struct kvr_fabric_model {
    struct kvr_fabric_null null; /* pieces; in_flight is not looked at */
    uint64_t line_bps[KVR_FABRIC_MODEL_RAILS_MAX];
    kvr_ns latency_ns, first_ns;
    kvr_ns call_ns, doorbell_ns;
    uint32_t queue_writes;    /* a card takes so many, and refuses more */
    uint32_t outstanding_max; /* what its facts say of that */
    /* Changes as it runs. */
    kvr_ns now;     /* the thread's clock, set by the caller */
    kvr_ns busy_ns; /* what it was charged */
    uint64_t doorbells, refused, completed, completed_bytes;
    uint32_t rail_count;
    struct kvr_endpoint *endpoints[KVR_FABRIC_MODEL_RAILS_MAX]; /* open ones, for `next` */
};

/* The caller keeps model for as long as the fabric is used, and sets what precedes `now`. */
void kvr_fabric_model(struct kvr_fabric_model *model, struct kvr_fabric *ret_fabric);
/* When the next write completes; KVR_NEVER: none is under way. */
kvr_ns kvr_fabric_model_next(const struct kvr_fabric_model *model);

#endif
