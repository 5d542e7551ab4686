/* Layers and rails of one transfer as JSON, from what its agents packed at its end. The reading
 * store's thread. */
#ifndef KVR_SCHEDULER_API_SPANS_H
#define KVR_SCHEDULER_API_SPANS_H

#include "scheduler/api_json.h"
#include "trace/spans.h"

/* About 13 KiB. */
struct transfer_spans {
    bool has[2]; /* by role: that agent has sent them */
    struct kvr_spans of[2];
};

/* False: the database failed. */
KVR_MUST_CHECK bool api_spans_read(struct store *store, uint64_t transfer,
                                   struct transfer_spans *ret_spans);
/* A row that came later is visited earlier: for a visitor of records. */
void api_spans_keep(void *spans, const struct kvr_spans *one);
/* "sampled", "not sampled", or "not ended". */
const char *api_spans_word(const struct transfer_spans *spans, const struct transfer *transfer);
/* A list: for each layer when it passed each agent, each by its own clock. */
json_t *api_spans_layers(const struct transfer_spans *spans, const struct transfer *transfer);
/* Adds what the rail carried to its object. */
void api_spans_rail(json_t *object, const struct transfer_spans *spans, kvr_role role,
                    uint32_t rail);

#endif
