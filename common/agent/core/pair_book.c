#include "agent/core/pair_book.h"

#include <stdio.h>
#include <string.h>

void pair_book_up(struct pair_book *book, uint32_t peer, const char *name)
{
    struct pair_book_peer *to = &book->peers[peer];

    memset(to, 0, sizeof(*to));
    to->up = to->urgent = true;
    snprintf(to->name, sizeof(to->name), "%s", name);
}

void pair_book_lost(struct pair_book *book, uint32_t peer)
{
    book->peers[peer].up = false;
    if ((book->step == PAIR_BOOK_ASKS || book->step == PAIR_BOOK_WAITS) && book->ask.peer == peer)
        book->answer = PAIR_BOOK_GONE;
}

static void plane_take(struct pair_book *book, uint32_t peer, const struct kvr_rail_address *rail)
{
    if (peer < KVR_PEERS_MAX && rail != NULL && rail->rail < KVR_RAILS_MAX)
        memcpy(book->peers[peer].planes[rail->rail], rail->plane, sizeof(rail->plane));
}

void pair_book_command(struct pair_book *book, const struct kvr_group_message *message)
{
    const struct kvr_peer_rails *rails = message->peer_rails.rails;

    if (message->head.kind == KVR_GROUP_PEER_RAIL)
        plane_take(book, message->peer_rail.peer, message->peer_rail.address);
    if (message->head.kind != KVR_GROUP_PEER_ADD || rails == NULL)
        return;
    for (uint32_t i = 0; i < rails->rail_count && i < KVR_RAILS_MAX; i++)
        plane_take(book, message->peer_rails.peer, &rails->rails[i]);
}

/* ---- the next question
 * ----------------------------------------------------------------------------- */

void pair_book_round(struct pair_book *book, kvr_ns now)
{
    if (book->step != PAIR_BOOK_RESTS)
        return; /* a group is slow to answer */
    book->rows.peer_count = book->rows.pair_count = 0;
    book->round_at = now;
    book->step = PAIR_BOOK_CHOOSES;
}

static bool due(const struct pair_book *book, const struct pair_book_peer *peer, bool urgent)
{
    return peer->up &&
           (urgent ? peer->urgent : book->round_at >= peer->asked_at + PAIR_BOOK_AGAIN_NS);
}

/* KVR_PEERS_MAX: none. */
static uint32_t choose(const struct pair_book *book)
{
    for (int urgent = 1; urgent >= 0; urgent--) {
        for (uint32_t i = 1; i <= KVR_PEERS_MAX; i++) {
            uint32_t peer = (book->turn + i) % KVR_PEERS_MAX;

            if (due(book, &book->peers[peer], urgent != 0))
                return peer;
        }
    }
    return KVR_PEERS_MAX;
}

static void peer_begin(struct pair_book *book)
{
    uint32_t peer = KVR_PEERS_MAX;
    struct kvr_peer_pairs *rows = &book->rows.peers[book->rows.peer_count];

    if (book->rows.pair_count < PAIR_BOOK_ROUND_PAIRS &&
        book->rows.peer_count < KVR_REPORT_PEERS_MAX)
        peer = choose(book);
    if (peer == KVR_PEERS_MAX) {
        book->step = PAIR_BOOK_ENDED;
        return;
    }
    book->turn = peer;
    book->peers[peer].urgent = false;
    book->peers[peer].asked_at = book->round_at;
    book->answer = PAIR_BOOK_GOOD;
    book->ask = (struct kvr_group_pairs_ask){.peer = peer};
    book->group = 0;
    book->step = PAIR_BOOK_ASKS;
    memcpy(rows->peer, book->peers[peer].name, sizeof(rows->peer));
    rows->pair_first = book->rows.pair_count;
    rows->pair_count = 0;
    book->rows.peer_count++;
}

/* Its rows are whole, or they do not count. */
static void peer_end(struct pair_book *book)
{
    if (book->answer != PAIR_BOOK_GOOD)
        book->rows.pair_count = book->rows.peers[--book->rows.peer_count].pair_first;
    book->step = book->answer == PAIR_BOOK_TOO_MANY ? PAIR_BOOK_ENDED : PAIR_BOOK_CHOOSES;
}

bool pair_book_next(struct pair_book *book, struct kvr_group_message *ret_ask)
{
    if (book->step == PAIR_BOOK_ASKS && book->answer != PAIR_BOOK_GOOD)
        peer_end(book);
    if (book->step == PAIR_BOOK_CHOOSES)
        peer_begin(book);
    if (book->step != PAIR_BOOK_ASKS)
        return false;
    *ret_ask = (struct kvr_group_message){.head = {KVR_GROUP_PAIRS_ASK, book->group, 0},
                                          .pairs_ask = book->ask};
    book->step = PAIR_BOOK_WAITS;
    return true;
}

/* ---- what groups answer ---------------------------------------------------------------------- */

static void reason_say(const struct pair_book *book, const struct kvr_group_pair *pair,
                       char *ret_text, size_t room)
{
    ret_text[0] = '\0';
    if (pair->why == KVR_TIMED_OUT && pair->bytes == 0) /* it was given up sooner, or not */
        snprintf(ret_text, room, "its writes were silent");
    else if (pair->why == KVR_TIMED_OUT)
        snprintf(ret_text, room, "its writes were silent for %.1f s",
                 (double)book->silence_ns / KVR_S);
    else if (pair->why == KVR_TOO_SLOW)
        snprintf(ret_text, room, "it delivers less than a 20th of what the other rails do");
    else if (pair->why == KVR_NO_RAIL)
        snprintf(ret_text, room, "the peer has no endpoint on its rail just now");
    else if (pair->why != KVR_OK)
        snprintf(ret_text, room, "its writes fail: %s", kvr_status_text(pair->why));
}

/* Why the pair is in its state; of a pair that joins two planes also which. */
static void detail_say(const struct pair_book *book, const struct kvr_group_pair *pair,
                       char ret_detail[KVR_PAIR_DETAIL_BYTES])
{
    char ours[KVR_PLANE_BYTES], theirs[KVR_PLANE_BYTES]; /* the detail may lie in the book, too */
    size_t length;

    memcpy(ours, book->planes[pair->rail], sizeof(ours));
    memcpy(theirs, book->peers[pair->peer].planes[pair->target_rail], sizeof(theirs));
    reason_say(book, pair, ret_detail, KVR_PAIR_DETAIL_BYTES);
    if (ours[0] == '\0' || theirs[0] == '\0' || strcmp(ours, theirs) == 0)
        return;
    length = strlen(ret_detail);
    snprintf(ret_detail + length, KVR_PAIR_DETAIL_BYTES - length,
             "%sits plane is %.47s, the peer's %.47s", length > 0 ? "; " : "", ours, theirs);
}

static void row_take(struct pair_book *book, const struct kvr_group_pair *pair)
{
    struct kvr_report_pairs *rows = &book->rows;
    struct kvr_pair_facts *row = &rows->pairs[rows->pair_count];

    if (rows->pair_count == KVR_REPORT_PAIRS_MAX) {
        /* Of a peer that is alone the rest is left out; another comes again in the next round. */
        if (rows->peer_count == 1)
            return;
        book->answer = PAIR_BOOK_TOO_MANY;
        book->peers[pair->peer].urgent = true;
        return;
    }
    *row = (struct kvr_pair_facts){.rail = pair->rail,
                                   .target_rail = pair->target_rail,
                                   .state = pair->state,
                                   .bytes = pair->bytes};
    detail_say(book, pair, row->detail);
    rows->peers[rows->peer_count - 1].pair_count++;
    rows->pair_count++;
}

static void part_ended(struct pair_book *book, uint32_t next)
{
    book->step = PAIR_BOOK_ASKS;
    book->ask.first = next;
    if (next != 0)
        return;
    book->group++;
    if (book->group == book->group_count)
        peer_end(book);
}

static void changed(struct pair_book *book, uint32_t peer)
{
    if (peer < KVR_PEERS_MAX)
        book->peers[peer].urgent = true;
}

bool pair_book_heard(struct pair_book *book, const struct kvr_group_message *message)
{
    switch (message->head.kind) {
    case KVR_GROUP_PAIR:
        if (book->answer == PAIR_BOOK_GOOD && message->pair.peer == book->ask.peer &&
            message->pair.rail < KVR_RAILS_MAX && message->pair.target_rail < KVR_RAILS_MAX)
            row_take(book, &message->pair);
        return true;
    case KVR_GROUP_PAIRS_END:
        part_ended(book, message->pairs_end.next);
        return true;
    case KVR_GROUP_PAIR_BROKEN:
        changed(book, message->pair_broken.peer);
        return false;
    case KVR_GROUP_PEER_WARM:
        changed(book, message->peer_warm.peer);
        return false;
    default:
        return false;
    }
}

const struct kvr_report_pairs *pair_book_take(struct pair_book *book)
{
    if (book->step != PAIR_BOOK_ENDED)
        return NULL;
    book->step = PAIR_BOOK_RESTS;
    return book->rows.peer_count > 0 ? &book->rows : NULL;
}
