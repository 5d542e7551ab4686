/* The control channel of two agents: sessions that begin and end, and messages, each encoded and
 * decoded, delivered in order after a delay. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "tools/sim_world.h"

enum { SOURCE, TARGET };

struct frame {
    struct frame *next, *prev; /* of those on their way */
    struct sim_link *link;
    uint64_t session;
    uint32_t from; /* side */
    uint32_t life; /* of the sender, for hellos */
    kvr_status status;
    char detail[KVR_DETAIL_BYTES];
    size_t bytes;
    uint8_t data[];
};

#define FRAME_BYTES 65536

static void note(const struct sim_agent *agent, const char *what, const struct kvr_message *message,
                 uint64_t a, uint64_t b, uint64_t c)
{
    sim_history_add(
        &agent->world->history,
        &(struct sim_line){.at = agent->world->now,
                           .who = agent->source ? "source" : "target",
                           .number = (uint8_t)agent->number,
                           .what = what,
                           .detail = message != NULL ? kvr_message_name(message->kind) : NULL,
                           .nonce = message != NULL ? message->transfer : 0,
                           .a = a,
                           .b = b,
                           .c = c,
                           .request = -1});
}

static struct sim_link *link_of(struct sim_agent *agent, uint32_t peer, uint32_t *ret_side)
{
    struct sim_world *world = agent->world;

    *ret_side = agent->source ? SOURCE : TARGET;
    for (uint32_t s = 0; s < SIM_SOURCES; s++)
        for (uint32_t t = 0; t < SIM_TARGETS; t++)
            if (world->links[s][t].agents[*ret_side] == agent &&
                world->links[s][t].peers[*ret_side] == peer)
                return &world->links[s][t];
    abort();
}

/* ---- the end of a session ------------------------------------------------------------------ */

static void side_lost(struct sim_world *world, struct sim_link *link, uint32_t side,
                      kvr_status status, const char *detail)
{
    struct sim_agent *agent = link->agents[side];

    link->sides[side].up = false;
    link->sides[side].ending = false;
    if (side == TARGET)
        link->dialing = false;
    sim_history_add(&world->history, &(struct sim_line){.at = world->now,
                                                        .who = side == SOURCE ? "source" : "target",
                                                        .number = (uint8_t)agent->number,
                                                        .what = "peer lost",
                                                        .a = link->agents[!side]->number,
                                                        .detail = kvr_status_name(status),
                                                        .request = -1});
    if (!agent->alive)
        return;
    if (side == SOURCE)
        outbound_peer_lost(agent->outbound, world->now, link->peers[side], status, detail);
    else
        inbound_peer_lost(agent->inbound, world->now, link->peers[side], status, detail);
}

/* a: side, b: session. The other side has been silent for too long. */
static void silence_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_link *link = event->object;
    struct sim_side *side = &link->sides[event->a];

    if (side->up && side->session == event->b)
        side_lost(world, link, (uint32_t)event->a, KVR_PEER_LOST, "silent for too long");
}

static void silence_begin(struct sim_world *world, struct sim_link *link, uint32_t side)
{
    kvr_ns wait = SIM_SILENCE_NS * 2 / 3 + kvr_rng_below(&world->rng, SIM_SILENCE_NS / 3);

    if (link->sides[side].up)
        sim_at(world, world->now + wait, silence_run, link, side, link->sides[side].session);
}

void sim_link_agent_died(struct sim_agent *agent)
{
    struct sim_world *world = agent->world;

    for (uint32_t s = 0; s < SIM_SOURCES; s++) {
        for (uint32_t t = 0; t < SIM_TARGETS; t++) {
            struct sim_link *link = &world->links[s][t];
            uint32_t side = agent->source ? SOURCE : TARGET;

            if (link->agents[side] != agent)
                continue;
            link->sides[side].up = link->sides[side].ending = false;
            if (side == TARGET)
                link->dialing = false;
            silence_begin(world, link, !side);
        }
    }
}

/* ---- frames -------------------------------------------------------------------------------- */

static struct frame *frame_new(struct sim_link *link, uint32_t from, uint64_t session)
{
    struct sim_world *world = link->agents[from]->world;
    struct frame *frame = malloc(sizeof(*frame) + FRAME_BYTES);

    if (frame == NULL)
        abort();
    frame->prev = NULL;
    frame->next = world->frames;
    if (frame->next != NULL)
        frame->next->prev = frame;
    world->frames = frame;
    frame->link = link;
    frame->from = from;
    frame->session = session;
    frame->life = link->agents[from]->life;
    frame->status = KVR_OK;
    frame->bytes = 0;
    return frame;
}

static void frame_free(struct sim_world *world, struct frame *frame)
{
    if (frame->next != NULL)
        frame->next->prev = frame->prev;
    if (frame->prev != NULL)
        frame->prev->next = frame->next;
    else
        world->frames = frame->next;
    free(frame);
}

void sim_link_forget_all(struct sim_world *world)
{
    while (world->frames != NULL)
        frame_free(world, world->frames);
}

static void frame_encode(struct sim_world *world, struct frame *frame,
                         const struct kvr_message *message)
{
    kvr_status status = kvr_message_encode(message, frame->data, FRAME_BYTES, &frame->bytes);

    if (status != KVR_OK)
        sim_fail(world, -1, "%s cannot be encoded: %s", kvr_message_name(message->kind),
                 kvr_status_name(status));
}

static void frame_send(struct sim_world *world, struct frame *frame,
                       void (*run)(struct sim_world *, const struct sim_event *))
{
    struct sim_side *side = &frame->link->sides[frame->from];
    kvr_ns at = world->now + 1 + sim_some(world, world->message_ns);

    if (at <= side->last)
        at = side->last + 1; /* in order */
    side->last = at;
    sim_at(world, at, run, frame, 0, 0);
}

static void deliver(struct sim_world *world, const struct frame *frame)
{
    uint32_t to = !frame->from;
    struct sim_agent *agent = frame->link->agents[to];
    const struct sim_side *side = &frame->link->sides[to];
    struct kvr_message message;
    struct kvr_error error;

    if (!agent->alive || !side->up || side->ending || side->session != frame->session)
        return;
    if (frame->status != KVR_OK) {
        side_lost(world, frame->link, to, frame->status, frame->detail);
        return;
    }
    if (kvr_message_decode(world->memory->decoder, frame->data, frame->bytes, &message, &error) !=
        KVR_OK) {
        sim_fail(world, -1, "a message cannot be decoded: %s", error.detail);
        return;
    }
    note(agent, "gets", &message, 0, 0, 0);
    if (to == SOURCE)
        outbound_message(agent->outbound, world->now, frame->link->peers[to], &message);
    else
        inbound_message(agent->inbound, world->now, frame->link->peers[to], &message);
}

static void deliver_run(struct sim_world *world, const struct sim_event *event)
{
    struct frame *frame = event->object;

    deliver(world, frame);
    frame_free(world, frame);
}

static void writable_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_link *link = event->object;
    struct sim_side *side = &link->sides[TARGET];

    if (!side->up || side->session != event->b || !link->agents[TARGET]->alive)
        return;
    side->was_full = false;
    inbound_peer_writable(link->agents[TARGET]->inbound, world->now, link->peers[TARGET]);
}

/* Now and then the queue is full for what can wait. Other messages have room in reserve. */
static bool full(struct sim_world *world, struct sim_link *link, uint32_t from,
                 const struct kvr_message *message)
{
    struct sim_side *side = &link->sides[from];

    if (from != TARGET || (message->kind != KVR_MSG_WANT && message->kind != KVR_MSG_REGIONS))
        return false;
    if (!side->was_full && world->faults >> SIM_QUEUE_FULL & 1 &&
        kvr_rng_percent(&world->rng, 30)) {
        side->was_full = true;
        sim_injected(world, SIM_QUEUE_FULL);
        sim_at(world, world->now + sim_some(world, 10 * world->message_ns), writable_run, link, 0,
               side->session);
    }
    return side->was_full;
}

kvr_status sim_link_send(struct sim_agent *agent, uint32_t peer, const struct kvr_message *message)
{
    struct sim_world *world = agent->world;
    uint32_t from;
    struct sim_link *link = link_of(agent, peer, &from);
    struct frame *frame;

    if (!link->sides[from].up || link->sides[from].ending)
        return KVR_PEER_LOST;
    if (full(world, link, from, message))
        return KVR_AGAIN;
    note(agent, "says", message, 0, 0, 0);
    frame = frame_new(link, from, link->sides[from].session);
    frame_encode(world, frame, message);
    frame_send(world, frame, deliver_run);
    return KVR_OK;
}

/* ---- hanging up ---------------------------------------------------------------------------- */

static void hang_up_run(struct sim_world *world, const struct sim_event *event)
{
    struct frame *frame = event->object;
    struct sim_side *side = &frame->link->sides[frame->from];

    if (side->up && side->session == frame->session) {
        struct frame *goodbye = frame_new(frame->link, frame->from, frame->session);

        goodbye->status = KVR_REFUSED;
        memcpy(goodbye->detail, frame->detail, sizeof(goodbye->detail));
        side_lost(world, frame->link, frame->from, frame->status, frame->detail);
        frame_send(world, goodbye, deliver_run);
    }
    frame_free(world, frame);
}

void sim_link_hang_up(struct sim_agent *agent, uint32_t peer, kvr_status status, const char *detail)
{
    struct sim_world *world = agent->world;
    uint32_t from;
    struct sim_link *link = link_of(agent, peer, &from);
    struct frame *frame;

    note(agent, "hangs up", NULL, 0, 0, 0);
    if (status != KVR_CANCELLED && world->injected[SIM_NO_MEMORY] == 0)
        sim_fail(world, -1, "agent %u hangs up: %s", agent->number, detail);
    if (!link->sides[from].up || link->sides[from].ending)
        return;
    link->sides[from].ending = true;
    frame = frame_new(link, from, link->sides[from].session);
    frame->status = status;
    snprintf(frame->detail, sizeof(frame->detail), "%s", detail);
    sim_at(world, world->now + 1, hang_up_run, frame, 0, 0);
}

void sim_link_close_all(struct sim_world *world)
{
    for (uint32_t s = 0; s < SIM_SOURCES; s++)
        for (uint32_t t = 0; t < SIM_TARGETS; t++)
            for (uint32_t side = 0; side < 2; side++)
                if (world->links[s][t].sides[side].up)
                    side_lost(world, &world->links[s][t], side, KVR_PEER_LOST, "the end");
}

/* ---- the beginning of a session ------------------------------------------------------------ */

static void hello_fill(const struct sim_agent *agent, struct kvr_rail_address *rails,
                       struct kvr_message *ret_message, kvr_message_kind kind, uint64_t session)
{
    *ret_message = (struct kvr_message){.kind = kind};
    ret_message->hello = (struct kvr_msg_hello){
        .version_min = KVR_PROTOCOL_MIN,
        .version_max = KVR_PROTOCOL_MAX,
        .boot = agent->boot,
        .session = session,
        .provider = "sim",
        .beat_ms = (uint32_t)(SIM_SILENCE_NS / 3 / KVR_MS),
        .limits = agent->limits,
        .rails = rails,
        .rail_count = agent->ports.rails(agent->ports.self, rails),
    };
    memcpy(ret_message->hello.agent, agent->address, sizeof(agent->address));
}

static void welcome_run(struct sim_world *world, const struct sim_event *event)
{
    struct frame *frame = event->object;
    struct sim_link *link = frame->link;
    struct sim_agent *agent = link->agents[TARGET];
    struct kvr_message message;
    struct kvr_error error;

    /* Sent to a life of the target that is over: the source finds silence. */
    if (agent->alive && agent->life == (uint32_t)frame->status && link->dialing) {
        link->dialing = false;
        link->sides[TARGET].up = true;
        link->sides[TARGET].session = frame->session;
        link->sides[TARGET].was_full = false;
        note(agent, "up", NULL, link->agents[SOURCE]->number, 0, 0);
        if (kvr_message_decode(world->memory->decoder, frame->data, frame->bytes, &message,
                               &error) == KVR_OK)
            inbound_peer_up(agent->inbound, world->now, link->peers[TARGET], &message.hello);
        if (!link->sides[SOURCE].up || link->sides[SOURCE].session != frame->session)
            silence_begin(world, link, TARGET); /* the source has ended it meanwhile */
    }
    frame_free(world, frame);
}

static void dial_run(struct sim_world *world, const struct sim_event *event);

static void hello_run(struct sim_world *world, const struct sim_event *event)
{
    struct frame *frame = event->object, *welcome;
    struct sim_link *link = frame->link;
    struct sim_agent *agent = link->agents[SOURCE];
    struct kvr_rail_address rails[KVR_RAILS_MAX];
    struct kvr_message message;
    struct kvr_error error;

    if (!agent->alive) {
        sim_at(world, world->now + 200 * KVR_MS, dial_run, link, frame->life, 0);
        frame_free(world, frame);
        return;
    }
    if (link->sides[SOURCE].up)
        side_lost(world, link, SOURCE, KVR_PEER_RESTARTED, "the target agent says hello anew");
    link->sides[SOURCE].up = true;
    link->sides[SOURCE].session = world->next_session++;
    note(agent, "up", NULL, link->agents[TARGET]->number, 0, 0);
    if (kvr_message_decode(world->memory->decoder, frame->data, frame->bytes, &message, &error) ==
        KVR_OK)
        outbound_peer_up(agent->outbound, world->now, link->peers[SOURCE], &message.hello);
    welcome = frame_new(link, SOURCE, link->sides[SOURCE].session);
    welcome->status = (kvr_status)frame->life;
    hello_fill(agent, rails, &message, KVR_MSG_WELCOME, welcome->session);
    frame_encode(world, welcome, &message);
    frame_send(world, welcome, welcome_run);
    if (!link->agents[TARGET]->alive || link->agents[TARGET]->life != frame->life)
        silence_begin(world, link, SOURCE); /* it died after it had said hello */
    frame_free(world, frame);
}

/* a: life of the target. */
static void dial_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_link *link = event->object;
    struct sim_agent *agent = link->agents[TARGET];
    struct kvr_rail_address rails[KVR_RAILS_MAX];
    struct kvr_message message;
    struct frame *frame;

    if (!agent->alive || agent->life != event->a || !link->dialing)
        return;
    if (world->now > link->dialed_at + SIM_SILENCE_NS) {
        side_lost(world, link, TARGET, KVR_PEER_LOST, "nobody answers");
        return;
    }
    frame = frame_new(link, TARGET, 0);
    hello_fill(agent, rails, &message, KVR_MSG_HELLO, 0);
    frame_encode(world, frame, &message);
    frame_send(world, frame, hello_run);
}

kvr_status sim_link_dial(struct sim_agent *target, const char *address, uint32_t *ret_peer)
{
    struct sim_world *world = target->world;

    for (uint32_t s = 0; s < SIM_SOURCES; s++) {
        struct sim_link *link = &world->links[s][target->number - SIM_SOURCES];

        if (strcmp(link->agents[SOURCE]->address, address) != 0)
            continue;
        *ret_peer = link->peers[TARGET];
        if (link->sides[TARGET].up || link->dialing)
            return KVR_OK;
        link->dialing = true;
        link->dialed_at = world->now;
        sim_at(world, world->now + 1, dial_run, link, target->life, 0);
        return KVR_OK;
    }
    return KVR_INVALID;
}
