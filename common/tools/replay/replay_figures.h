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
        const char *name; /* a literal, or the recording's */
        uint32_t count;
    } items[REPLAY_REASONS_MAX];
    uint32_t count;
};

/* How a request ended. */
typedef enum replay_end {
    REPLAY_END_COMPLETED, /* well, on both sides */
    REPLAY_END_CANCELLED, /* as recorded */
    REPLAY_END_STRUCK,    /* by a fault of the recording that was played */
    REPLAY_END_FAILED,    /* otherwise, or with wrong bytes */
    REPLAY_ENDS
} replay_end;

/* Of one agent. A transfer counts for both of its agents. */
struct replay_agent_figures {
    uint32_t transfers; /* begun */
    uint32_t ends[REPLAY_ENDS];
    uint64_t bytes;
    struct kvr_histogram transfer_ns;
};

struct replay_figures {
    uint32_t requests;  /* of the trace */
    uint32_t transfers; /* begun */
    uint32_t delivered; /* of them, DONE at the target */
    uint32_t verified;  /* of them, complete and right */
    uint32_t ends[REPLAY_ENDS];
    uint32_t not_started; /* requests that were not begun */
    struct replay_reasons failures, source_outcomes, target_outcomes;
    struct replay_reasons faults_played, faults_not_played; /* by kind */
    /* Of completed requests. Pages move whole, so the last one counts in full: tokens_moved is a
     * multiple of the page size, and with one KV group bytes = tokens_moved × kv_bytes_per_token
     * exactly. Of several, tokens are those of full attention. */
    uint64_t tokens, tokens_moved, tokens_skipped;
    uint64_t bytes, bytes_reported; /* ours; the agents' own count */
    uint64_t bytes_verified, bytes_wrong, bytes_rechecked;
    uint64_t writes, retries;
    uint64_t late_pages, unannounced;
    struct kvr_histogram transfer_ns;   /* first layer ready, or fetch opened if later, to DONE */
    struct kvr_histogram exposed_ns;    /* last layer ready, or fetch opened if later, to DONE */
    struct kvr_histogram layer_ns;      /* layer ready, or fetch opened if later, to its LAYER_IN */
    struct kvr_histogram late_start_ns; /* of an open loop: behind the time of the trace */
    uint64_t tables_recorded,
        tables_otherwise; /* page tables that lie as recorded; that could not */
    struct replay_agent_figures of_agents[REPLAY_ROLES * REPLAY_AGENTS_MAX]; /* as setup->agents */
    kvr_ns started_at, ended_at;
    kvr_ns lost_at;   /* an agent or engine ended; 0: none did */
    kvr_ns settle_ns; /* from then until everything that was on its way had its terminal event */
    bool agents_known;
    double engine_cpu_s, agent_cpu_s;
    json_t *agents; /* what a scheduler says of them; NULL: none was asked, or none answered */
};

void replay_reasons_add(struct replay_reasons *reasons, const char *name);

/* Requests that have ended. */
static inline uint32_t replay_figures_settled(const struct replay_figures *figures)
{
    uint32_t settled = 0;

    for (int i = 0; i < REPLAY_ENDS; i++)
        settled += figures->ends[i];
    return settled;
}

/* All is well: the exit status is 0. */
bool replay_figures_good(const struct replay_setup *setup, const struct replay_figures *figures);

void replay_figures_print(const struct replay_setup *setup, const struct replay_figures *figures,
                          FILE *stream);
/* The caller's. */
json_t *replay_figures_json(const struct replay_setup *setup, const struct replay_figures *figures);

#endif
