/* Rail threads: transfers with something to post take turns. Each turn goes to the card that would
 * be through with it first.
 *
 * A turn is what the agents' threads post with one doorbell: at most 32 writes, 2 MiB or 2 ms of a
 * slow card. The card is chosen by the rule of common/rail_group/rail_group_choose.c: the longer of
 * the card's queue and the pair's, at the pace of the card's line, with the same shares of the same
 * window. That code itself works on open endpoints and measured paces, which a modelled card has
 * not.
 *
 * Where nothing else is posted here, and nothing else comes to the target's cards, the turns of a
 * layer on one card go as one packet. Everywhere else, and with --exact, each write is a packet of
 * its own. The turns, their cards and their bytes are the same. */
#include "tools/virtual/virtual_state.h"

#include <assert.h>
#include <string.h>

#define TURN_WRITES  32u
#define TURN_BYTES   (UINT64_C(2) << 20)
#define TURN_NS      (2 * KVR_MS) /* on the wire of a slow card */
#define LONG_TURNS   4u           /* after so many turns a lane has long ones, of eight */
#define TURN_LENGTH  8u
#define JOINED_NS    (200 * KVR_US)       /* turns of one lane that go together, on the wire */
#define WINDOW_BYTES (UINT64_C(16) << 20) /* of a card, without completion */

static struct request *request_of(const struct world *world, const struct lane *lane)
{
    return world->live[lane->request];
}

/* The chunk of the lane's current unit. */
static struct chunk *chunk_of(const struct world *world, const struct request *request,
                              const struct lane *lane)
{
    return &request->chunks[lane->unit / world->config->geometry.layers];
}

/* Passes units with nothing to move. False: nothing is ready. */
static bool has_ready(const struct world *world, struct lane *lane)
{
    const struct request *request = request_of(world, lane);

    while (lane->unit < request->ready_units && chunk_of(world, request, lane)->layer_writes == 0)
        lane->unit++;
    return lane->unit < request->ready_units;
}

static void enqueue(struct world *world, struct lane *lane)
{
    struct group *group = &world->sources[lane->source];

    if (lane->queued || !has_ready(world, lane))
        return;
    TAILQ_INSERT_TAIL(&group->ring, lane, link);
    group->queued++;
    lane->queued = true;
    if (!lane->active)
        world->targets[lane->target].active++;
    lane->active = true;
    post_wake(world, group);
}

void post_ready(struct world *world, struct request *request)
{
    for (uint32_t i = 0; request->granted && i < world->lanes; i++)
        enqueue(world, &request->lanes[i]);
}

void post_wake(struct world *world, struct group *group)
{
    if (group->waking || group->queued == 0)
        return;
    group->waking = true;
    world_at(world, group->thread_free > world->now ? group->thread_free : world->now, EVENT_POST,
             (uint32_t)(group - world->sources));
}

void post_settle(struct world *world, struct lane *lane)
{
    if (!lane->active || lane->queued || lane->in_flight_packets > 0)
        return;
    lane->active = false;
    world->targets[lane->target].active--;
}

static bool room(const struct card *card, uint64_t of_link)
{
    return card->in_flight < WINDOW_BYTES && of_link < WINDOW_BYTES - card->in_flight;
}

/* NO_NUMBER: no card has room. */
static uint32_t choose(const struct world *world, const struct group *group,
                       const struct lane *lane, kvr_ns now, uint64_t bytes)
{
    const uint64_t *in_flight = link_of(world, lane)->in_flight;
    kvr_ns soonest = KVR_NEVER;
    uint32_t best = NO_NUMBER;

    for (uint32_t i = 0; i < world->group_cards; i++) {
        uint32_t at = (group->turn + i) % world->group_cards;
        const struct card *card = &group->cards[at];
        kvr_ns queue, pair;

        if (!room(card, in_flight[at]))
            continue;
        queue = (card->free_at > now ? card->free_at : now) + wire_ns(world, bytes);
        pair = now + wire_ns(world, in_flight[at] + bytes);
        queue = queue > pair ? queue : pair;
        if (queue < soonest) {
            soonest = queue;
            best = at;
        }
    }
    return best;
}

/* A write of the current unit, on average. */
static uint64_t write_bytes(const struct chunk *chunk)
{
    return chunk->layer_bytes / chunk->layer_writes;
}

/* The turn ends with the write that reaches so many bytes. What a link has left goes by halves, as
 * in rail_group_choose.c. */
static uint64_t turn_bytes(const struct world *world, const struct group *group,
                           const struct lane *lane, uint32_t card)
{
    uint64_t soon = world->line_bps / 8 / (KVR_S / TURN_NS);
    uint64_t left = WINDOW_BYTES - group->cards[card].in_flight;

    left -= link_of(world, lane)->in_flight[card];
    return kvr_min_u64(kvr_min_u64(TURN_BYTES, soon), (left + 1) / 2);
}

static void note_posted(struct world *world, struct lane *lane, uint32_t card, uint32_t writes,
                        uint64_t bytes)
{
    struct request *request = request_of(world, lane);
    struct card *own = &world->sources[lane->source].cards[card];

    own->writes += writes;
    own->bytes += bytes;
    lane->card_writes[card] += writes;
    lane->card_bytes[card] += bytes;
    if (request->first_post == 0)
        request->first_post = world->now;
    request->last_post = world->now;
}

/* Takes the card for one packet. */
static kvr_ns occupy(struct card *card, kvr_ns from, struct packet *packet)
{
    if (card->free_at > from)
        from = card->free_at;
    card->free_at = from + packet->wire_ns;
    card->busy_ns += packet->wire_ns;
    packet->sent = card->free_at;
    return from;
}

/* The bytes of the next write, as the plan has it. */
static uint64_t next_write(struct kvr_plan_cursor *cursor)
{
    struct kvr_plan_piece piece;
    uint64_t bytes = 0;

    if (kvr_plan_next_single(cursor, &piece))
        return piece.bytes;
    for (uint32_t left = kvr_plan_cursor_pieces(cursor); left > 0; left--) {
        kvr_plan_next_piece(cursor, &piece);
        bytes += piece.bytes;
    }
    return bytes;
}

/* Writes from the lane's place to the end of the last layer of the chunk that is ready. */
static uint32_t writes_ready(const struct world *world, const struct lane *lane)
{
    const struct request *request = request_of(world, lane);
    const struct chunk *chunk = chunk_of(world, request, lane);
    uint32_t layers = world->config->geometry.layers;
    uint32_t end = kvr_min_u32(request->ready_units, (lane->unit / layers + 1) * layers);

    return (end - lane->unit) * chunk->layer_writes - lane->unit_writes;
}

/* Writes of one turn of so many bytes. */
static uint32_t turn_writes(const struct lane *lane, uint32_t ready, uint64_t most)
{
    struct kvr_plan_cursor ahead = lane->cursor;
    uint32_t left = kvr_min_u32(ready, TURN_WRITES), count = 0;

    for (uint64_t bytes = 0; count < left && (count == 0 || bytes < most); count++)
        bytes += next_write(&ahead);
    return count;
}

/* The turns of a layer on one card that go together. */
struct joined {
    struct packet packet;
    kvr_ns from;
};

static void join(struct world *world, struct joined *joined, const struct packet *packet,
                 kvr_ns from)
{
    if (joined->packet.writes > 0 && joined->packet.unit != packet->unit) {
        cards_send(world, &joined->packet, joined->from); /* the turn goes on into a layer */
        joined->packet.writes = 0;
    }
    if (joined->packet.writes == 0) {
        *joined = (struct joined){*packet, from};
        return;
    }
    joined->packet.writes++;
    joined->packet.bytes += packet->bytes;
    joined->packet.wire_ns += packet->wire_ns;
    joined->packet.sent = packet->sent;
}

static void pass_unit(struct lane *lane, const struct chunk *chunk)
{
    if (lane->unit_writes < chunk->layer_writes)
        return;
    lane->unit_writes = 0;
    lane->unit++;
}

/* One turn on one card; joined: NULL where its writes go one by one. */
static void take_turn(struct world *world, struct group *group, struct lane *lane, uint32_t card,
                      struct joined *joined)
{
    const struct chunk *chunk = chunk_of(world, request_of(world, lane), lane);
    struct packet packet = {
        .request = lane->request, .lane = lane->number, .card = card, .writes = 1};
    uint64_t bytes = 0;
    uint32_t writes;
    kvr_ns posting;

    packet.chunk =
        lane->unit % world->config->geometry.layers * chunk->layer_writes + lane->unit_writes;
    if (lane->unit_writes == 0)
        kvr_plan_seek(chunk->plan, packet.chunk, &lane->cursor);
    writes = turn_writes(lane, writes_ready(world, lane), turn_bytes(world, group, lane, card));
    posting = writes * world->config->costs.write_ns;
    group->thread_free =
        (group->thread_free > world->now ? group->thread_free : world->now) + posting;
    group->thread_busy_ns += posting;
    group->turn = card + 1;
    lane->turns++;
    world->figures->turns++;
    for (uint32_t i = 0; i < writes; i++, packet.chunk++) {
        kvr_ns from;

        pass_unit(lane, chunk);
        if (lane->unit_writes++ == 0)
            lane->units[lane->unit].posted = world->now;
        packet.unit = lane->unit;
        packet.bytes = next_write(&lane->cursor);
        packet.wire_ns = wire_ns(world, packet.bytes);
        bytes += packet.bytes;
        from = occupy(&group->cards[card], group->thread_free, &packet);
        if (joined != NULL)
            join(world, &joined[card], &packet, from);
        else
            cards_send(world, &packet, from);
    }
    note_posted(world, lane, card, writes, bytes);
}

/* The rest of the unit, as far as it keeps no card for long. */
static void take_unit(struct world *world, struct group *group, struct lane *lane)
{
    const struct chunk *chunk = chunk_of(world, request_of(world, lane), lane);
    struct joined joined[VIRTUAL_RAILS_MAX];
    uint32_t unit = lane->unit;

    memset(joined, 0, world->group_cards * sizeof(joined[0]));
    while (lane->unit == unit && lane->unit_writes < chunk->layer_writes) {
        kvr_ns now = group->thread_free > world->now ? group->thread_free : world->now;
        uint32_t card = choose(world, group, lane, now, write_bytes(chunk));

        assert(card != NO_NUMBER); /* what is joined is not in flight yet */
        if (joined[card].packet.wire_ns > JOINED_NS)
            break;
        take_turn(world, group, lane, card, joined);
    }
    for (uint32_t card = 0; card < world->group_cards; card++)
        if (joined[card].packet.writes > 0)
            cards_send(world, &joined[card].packet, joined[card].from);
}

/* As in prefill-agent/push_turns.c: another lane's long turn over the same cards goes on. */
static bool waits(const struct world *world, const struct lane *lane)
{
    const struct lane *first = link_of(world, lane)->long_turn;

    return first != NULL && first != lane && lane->turns >= LONG_TURNS;
}

static void count_turn(const struct world *world, struct lane *lane)
{
    struct lane **first = &link_of(world, lane)->long_turn;

    if (lane->turns >= LONG_TURNS && lane->queued && *first == NULL)
        *first = lane;
    if (*first == lane && (!lane->queued || lane->turns % TURN_LENGTH == 0))
        *first = NULL;
}

/* The lane goes behind the others, or leaves the ring. */
static void turn_over(struct world *world, struct group *group, struct lane *lane)
{
    const struct chunk *chunk = chunk_of(world, request_of(world, lane), lane);

    TAILQ_REMOVE(&group->ring, lane, link);
    pass_unit(lane, chunk);
    if (has_ready(world, lane)) {
        TAILQ_INSERT_TAIL(&group->ring, lane, link);
    } else {
        group->queued--;
        lane->queued = false;
    }
    count_turn(world, lane);
    post_settle(world, lane);
}

void post_turn(struct world *world, uint32_t number)
{
    struct group *group = &world->sources[number];
    struct lane *lane;

    group->waking = false;
    for (lane = TAILQ_FIRST(&group->ring); lane != NULL; lane = TAILQ_NEXT(lane, link)) {
        const struct chunk *chunk = chunk_of(world, request_of(world, lane), lane);
        uint32_t card = choose(world, group, lane, world->now, write_bytes(chunk));

        if (card == NO_NUMBER || waits(world, lane))
            continue;
        if (!world->config->exact && group->queued == 1 && world->targets[lane->target].active == 1)
            take_unit(world, group, lane);
        else
            take_turn(world, group, lane, card, NULL);
        turn_over(world, group, lane);
        post_wake(world, group);
        return;
    }
}
