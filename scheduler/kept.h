/* Answers that are kept for a second, so that many open pages cost as much as one.
 *
 * A second since it was made, not since it was asked for: where making one takes longer than it
 * lasts, the questions that waited meanwhile still get this one. One thread. */
#ifndef KVR_SCHEDULER_KEPT_H
#define KVR_SCHEDULER_KEPT_H

#include "base/clock.h"
#include "http/ready.h"

#define KEPT_MAX       32 /* answers */
#define KEPT_KEY_BYTES 320
#define KEPT_NS        KVR_S

struct kept {
    struct kept_answer {
        char key[KEPT_KEY_BYTES];
        struct ready *ready; /* a reference; NULL: none */
        uint64_t changes;    /* of what it shows, when it was begun */
        kvr_ns made_at;
    } answers[KEPT_MAX];
};

/* A reference to the answer to that question; NULL: none is there, it is old, or what it shows has
 * changed. */
struct ready *kept_find(const struct kept *kept, const char *key, uint64_t changes, kvr_ns now);
/* In place of an earlier answer, or of the oldest one; takes a reference of its own. */
void kept_put(struct kept *kept, const char *key, uint64_t changes, kvr_ns made_at,
              struct ready *ready);
void kept_drop(struct kept *kept); /* all */

#endif
