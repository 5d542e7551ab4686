/* What the log says of pairs of rails: a rail of ours that is slow to a peer or reaches it no more,
 * and that carries writes to it again. Pure; one thread. Keep it in memory that is 0 at first. */
#ifndef KVR_AGENT_PAIR_NEWS_H
#define KVR_AGENT_PAIR_NEWS_H

#include "trace/report.h"

/* Of a rail of ours with all that it writes to of a peer. The worse ones come later. */
enum pair_trouble {
    PAIR_FINE,
    PAIR_SLOW, /* it delivers far less than the other rails */
    PAIR_LOST, /* it reaches nothing of the peer */
};

struct pair_news {
    uint8_t said[KVR_PEERS_MAX][KVR_RAILS_MAX]; /* enum pair_trouble, by rails of ours */
};

struct pair_news_item {
    enum pair_trouble trouble;
    uint32_t rail;      /* ours */
    const char *detail; /* why it is in trouble */
};

/* The peer has come, or is gone. */
void pair_news_forget(struct pair_news *news, uint32_t peer);
/* Takes the whole rows of a peer, and sets what is new, at most one for each of our rails. Trouble
 * is said once, and once more when it gets worse. Returns how many. The details are borrowed from
 * the rows. */
uint32_t pair_news_take(struct pair_news *news, uint32_t peer, const struct kvr_pair_facts *rows,
                        uint32_t count, struct pair_news_item ret_items[KVR_RAILS_MAX]);

#endif
