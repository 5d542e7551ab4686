/* What a replay has measured, and how it is printed: a table for people, one JSON object, one last
 * line. */
#ifndef KVR_TOOLS_REPLAY_FIGURES_H
#define KVR_TOOLS_REPLAY_FIGURES_H

#include <jansson.h>
#include <stdio.h>

#include "base/histogram.h"
#include "tools/replay/replay_setup.h"

#define REPLAY_REASONS_MAX 64

/* How often each reason was given. */
struct replay_reasons {
    struct {
        const char *name; /* a literal */
        uint32_t count;
    } items[REPLAY_REASONS_MAX];
    uint32_t count;
};

struct replay_figures {
    uint32_t requests;    /* of the trace */
    uint32_t transfers;   /* begun */
    uint32_t delivered;   /* of them, DONE at the target */
    uint32_t verified;    /* of them, complete and right */
    uint32_t completed;   /* requests settled well on both sides */
    uint32_t failed;      /* requests that were not, or were wrong */
    uint32_t not_started; /* requests that were not begun */
    struct replay_reasons failures, source_outcomes, target_outcomes;
    /* Of completed requests. Pages move whole, so the last one counts in full: tokens_moved is a
     * multiple of the page size, and with one KV group bytes = tokens_moved × kv_bytes_per_token
     * exactly. Of several, tokens are those of full attention. */
    uint64_t tokens, tokens_moved, tokens_skipped;
    uint64_t bytes, bytes_reported; /* ours; the agents' own count */
    uint64_t bytes_verified, bytes_wrong, bytes_rechecked;
    uint64_t writes, retries;
    uint64_t late_pages, unannounced;
    struct kvr_histogram transfer_ns; /* first layer ready, or fetch opened if later, to DONE */
    struct kvr_histogram exposed_ns;  /* last layer ready, or fetch opened if later, to DONE */
    struct kvr_histogram layer_ns;    /* layer ready, or fetch opened if later, to its LAYER_IN */
    kvr_ns started_at, ended_at;
    kvr_ns lost_at;   /* an agent or engine ended; 0: none did */
    kvr_ns settle_ns; /* from then until everything that was on its way had its terminal event */
    bool agents_known;
    double engine_cpu_s, agent_cpu_s;
    json_t *agents; /* what a scheduler says of them; NULL: none was asked, or none answered */
};

void replay_reasons_add(struct replay_reasons *reasons, const char *name);

/* All is well: the exit status is 0. */
bool replay_figures_good(const struct replay_setup *setup, const struct replay_figures *figures);

void replay_figures_print(const struct replay_setup *setup, const struct replay_figures *figures,
                          FILE *stream);
/* The caller's. */
json_t *replay_figures_json(const struct replay_setup *setup, const struct replay_figures *figures);

#endif
