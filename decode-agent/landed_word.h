/* The word of a fetch: it counts the layers that are in place, in memory that the agent shares with
 * its engine. */
#ifndef DECODE_AGENT_LANDED_WORD_H
#define DECODE_AGENT_LANDED_WORD_H

#include "decode-agent/inbound.h"

struct fetch;

struct landed_word {
    bool watched;
    uint32_t number; /* of the words of the engine's page */
    uint64_t base;   /* its value before the first layer */
};

/* The engine watches a word of its page. */
void fetch_watch(struct inbound *inbound, struct fetch *fetch, const struct kvr_req_watch *watch);
/* A layer has come, or the fetch has ended. */
void landed_word_update(struct inbound *inbound, const struct fetch *fetch);

#endif
