/* What the log says of pairs of rails: a rail of ours that reaches a peer no more, and that reaches
 * it again. Pure; one thread. Keep it in memory that is 0 at first. */
#ifndef KVR_AGENT_PAIR_NEWS_H
#define KVR_AGENT_PAIR_NEWS_H

#include "trace/report.h"

struct pair_news {
    uint64_t
        lost[KVR_PEERS_MAX]; /* bits of our rails that reach nothing of the peer: it was said */
};

struct pair_news_item {
    bool lost;
    uint32_t rail;      /* ours */
    const char *detail; /* why it is lost */
};

/* The peer has come, or is gone. */
void pair_news_forget(struct pair_news *news, uint32_t peer);
/* Takes the whole rows of a peer, and sets what is new, at most one for each of our rails. Returns
 * how many. The details are borrowed from the rows. */
uint32_t pair_news_take(struct pair_news *news, uint32_t peer, const struct kvr_pair_facts *rows,
                        uint32_t count, struct pair_news_item ret_items[KVR_RAILS_MAX]);

#endif
