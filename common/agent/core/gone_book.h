/* Engines that have gone, until the scheduler has heard of them. Transfers name also an engine that
 * lived for less than the time between two reports. One thread. */
#ifndef KVR_AGENT_CORE_GONE_BOOK_H
#define KVR_AGENT_CORE_GONE_BOOK_H

#include "trace/report.h"

#define GONE_BOOK_KEPT_NS (30 * KVR_S) /* while reports arrive: another scheduler may take over */

struct gone_book { /* {0} is an empty one */
    struct gone_engine {
        struct kvr_engine_facts facts;
        kvr_ns since;
    } engines[KVR_ENGINES_MAX]; /* the oldest first */
    uint32_t count;
};

/* Without room the oldest is forgotten. */
void gone_book_add(struct gone_book *book, const struct kvr_engine_facts *engine, kvr_ns now);
/* Puts them behind the engines that are attached, as many as fit, the newest first. heard: reports
 * arrive; else their time begins anew. */
void gone_book_tell(struct gone_book *book, kvr_ns now, bool heard, struct kvr_agent_facts *facts);

#endif
