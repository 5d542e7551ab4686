/* What a source reports of its pairs of rails: which peer is asked about next, and the rows that
 * come of it.
 *
 * Each group of ours knows its own pairs with a peer, and answers for a part of them at a time
 * (rail_group_message.h). The book asks one group after the other. When all have answered for a
 * peer, the rows of that peer are whole. A round begins once a second and ends after about
 * PAIR_BOOK_ROUND_PAIRS pairs; then its rows can be taken. Peers take turns; one with a pair that
 * has just broken, or has become warm, comes first.
 *
 * Pure; one thread. About 1 MiB: keep it in memory that is 0 at first. */
#ifndef KVR_AGENT_PAIR_BOOK_H
#define KVR_AGENT_PAIR_BOOK_H

#include "rail_group/rail_group_message.h"
#include "trace/report.h"

#define PAIR_BOOK_ROUND_PAIRS 128u
#define PAIR_BOOK_AGAIN_NS    (5 * KVR_S) /* a peer without news is asked about again */

struct pair_book {
    const char (*planes)[KVR_PLANE_BYTES]; /* of our rails; borrowed */
    uint32_t group_count;                  /* of ours */
    kvr_ns silence_ns;                     /* for which writes of a broken pair were silent */
    uint32_t turn;                         /* the peer that was asked about last */
    enum {
        PAIR_BOOK_RESTS,   /* until the next round */
        PAIR_BOOK_CHOOSES, /* a peer */
        PAIR_BOOK_ASKS,    /* a group */
        PAIR_BOOK_WAITS,   /* for the group's answer */
        PAIR_BOOK_ENDED,   /* the round; its rows were not taken yet */
    } step;
    enum {
        PAIR_BOOK_GOOD,
        PAIR_BOOK_GONE,     /* the peer that was asked about */
        PAIR_BOOK_TOO_MANY, /* pairs, behind those of other peers */
    } answer;
    struct kvr_group_pairs_ask ask;
    uint32_t group; /* that is asked */
    kvr_ns round_at;
    struct kvr_report_pairs rows; /* this round's; the last peer's are not whole in ASKS and WAITS
                                   */
    struct pair_book_peer {
        bool up;
        bool urgent; /* its pairs have changed */
        kvr_ns asked_at;
        char name[KVR_NAME_BYTES];
        char planes[KVR_RAILS_MAX][KVR_PLANE_BYTES]; /* of its rails */
    } peers[KVR_PEERS_MAX];
};

void pair_book_up(struct pair_book *book, uint32_t peer, const char *name);
void pair_book_lost(struct pair_book *book, uint32_t peer);
/* Takes the planes of the peer's rails, where a command to a group names them. */
void pair_book_command(struct pair_book *book, const struct kvr_group_message *message);

/* Begins a round, where the one before has ended. */
void pair_book_round(struct pair_book *book, kvr_ns now);
/* Sets a command that the caller sends at once. False: nothing to ask just now. */
bool pair_book_next(struct pair_book *book, struct kvr_group_message *ret_ask);
/* Takes a group's message of any kind. True: it was about pairs alone, and is for nothing else. */
bool pair_book_heard(struct pair_book *book, const struct kvr_group_message *message);
/* Which counter a group's message of any kind adds to. KVR_COUNTER_END: none. */
kvr_counter pair_book_counter(const struct kvr_group_message *message);
/* The rows of the round that has just ended, once; they stay until the next round. NULL: none. */
const struct kvr_report_pairs *pair_book_take(struct pair_book *book);

#endif
