#include "tools/sim/sim_peer.h"

#include <stdlib.h>
#include <string.h>

#include "tools/sim/sim_keys.h"
#include "tools/sim/sim_world.h"

#define BACKOFF_MS_MIN 50
#define BACKOFF_MS_MAX 1000
#define INDEX_STEP     7 /* so that an index is no place in another agent's table by chance */

static void note_message(struct sim_agent *agent, const char *what,
                         const struct kvr_message *message, uint64_t a)
{
    sim_agent_note(agent, what, message->transfer, a, 0, 0, kvr_message_name(message->kind));
}

static struct sim_peer *peer_at(struct sim_agent *agent, uint32_t index)
{
    return &agent->peers[(index - 1 - agent->number) / INDEX_STEP];
}

void sim_peers_init(struct sim_agent *agent)
{
    for (uint32_t i = 0; i < SIM_PEERS; i++) {
        struct sim_peer *peer = &agent->peers[i];

        *peer = (struct sim_peer){.agent = agent,
                                  .index = 1 + agent->number + i * INDEX_STEP,
                                  .life = peer->life + 1,
                                  .armed_at = KVR_NEVER};
    }
}

/* ---- time ---------------------------------------------------------------------------------- */

static void tick_run(struct sim_world *world, const struct sim_event *event);

static kvr_ns wake_of(const struct sim_peer *peer)
{
    kvr_ns wake = kvr_session_wake(peer->session);

    if (peer->ending)
        return 0;
    return peer->dialed && !peer->dialing && peer->connection == NULL && peer->redial_at < wake
               ? peer->redial_at
               : wake;
}

void sim_peer_arm(struct sim_peer *peer)
{
    struct sim_world *world = peer->agent->world;
    kvr_ns wake;

    if (!peer->live)
        return;
    wake = wake_of(peer);
    if (wake <= world->now)
        wake = world->now + 1;
    if (wake >= peer->armed_at)
        return;
    peer->armed_at = wake;
    sim_at(world, wake, tick_run, peer, peer->life, wake);
}

static void dial(struct sim_peer *peer);

/* a: life, b: for when it was armed. */
static void tick_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_peer *peer = event->object;
    uint32_t life = peer->life;

    if (life != event->a || !peer->live || peer->armed_at != event->b ||
        sim_agent_deferred(peer->agent, event, world->now))
        return;
    peer->armed_at = KVR_NEVER;
    if (peer->ending)
        kvr_session_end(peer->session, world->now, peer->status, peer->detail);
    else
        kvr_session_tick(peer->session, world->now);
    if (peer->life != life || !peer->live)
        return;
    if (peer->dialed && !peer->dialing && peer->connection == NULL && world->now >= peer->redial_at)
        dial(peer);
    sim_peer_arm(peer);
}

/* ---- what a session does ------------------------------------------------------------------- */

void sim_peer_hello(void *self, struct kvr_msg_hello *ret_hello)
{
    const struct sim_peer *peer = self;
    struct sim_agent *agent = peer->agent;
    static struct kvr_rail_address rails[KVR_RAILS_MAX];

    *ret_hello = (struct kvr_msg_hello){.version_min = KVR_PROTOCOL_MIN,
                                        .version_max = KVR_PROTOCOL_MAX,
                                        .boot = agent->boot,
                                        .provider = "sim",
                                        .beat_ms = (uint32_t)(SIM_SILENCE_NS / 3 / KVR_MS),
                                        .limits = agent->limits,
                                        .rails = rails};
    ret_hello->rail_count = agent->ports.rails(agent->ports.self, rails);
    memcpy(ret_hello->agent, agent->address, sizeof(agent->address));
}

static kvr_status session_write(void *self, const uint8_t *frame, size_t bytes)
{
    struct sim_peer *peer = self;

    if (peer->connection == NULL)
        return KVR_PEER_LOST;
    return sim_connection_write(peer->connection, peer->end, frame, bytes);
}

/* Now and then one side finds that the other is on another host, or as good as that. */
static uint32_t rails_reached(const struct sim_peer *peer, const struct kvr_msg_hello *hello,
                              struct kvr_rail_address ret_rails[KVR_RAILS_MAX])
{
    struct sim_world *world = peer->agent->world;
    bool all = !world->mixed || kvr_rng_percent(&world->rng, 80);
    uint32_t count = 0;

    for (uint32_t i = 0; i < hello->rail_count; i++)
        if (all || !hello->rails[i].same_host)
            ret_rails[count++] = hello->rails[i];
    return count;
}

static void session_begun(void *self, kvr_ns now, const struct kvr_msg_hello *said)
{
    static struct kvr_rail_address rails[KVR_RAILS_MAX];
    struct sim_peer *peer = self;
    const struct kvr_machine *machine = &peer->agent->machine;
    struct kvr_msg_hello reached = *said;

    reached.rails = rails;
    reached.rail_count = rails_reached(peer, said, rails);
    peer->boot = said->boot;
    sim_agent_note(peer->agent, "up", 0, peer->index, 0, 0, NULL);
    machine->peer_up(machine->self, now, peer->index, &reached);
}

static void session_message(void *self, kvr_ns now, const struct kvr_message *message)
{
    struct sim_peer *peer = self;
    const struct kvr_machine *machine = &peer->agent->machine;

    note_message(peer->agent, "gets", message, message->sequence);
    machine->message(machine->self, now, peer->index, message);
}

static void session_writable(void *self, kvr_ns now)
{
    struct sim_peer *peer = self;
    const struct kvr_machine *machine = &peer->agent->machine;

    if (!peer->was_full)
        machine->peer_writable(machine->self, now, peer->index);
}

void sim_peer_detach(struct sim_peer *peer)
{
    struct sim_connection *connection = peer->connection;

    peer->connection = NULL;
    if (connection != NULL)
        sim_connection_close(connection, peer->end);
}

/* The owner may dial the same place again from here. */
static void session_lost(void *self, kvr_ns now, kvr_status status, const char *detail)
{
    struct sim_peer *peer = self;
    struct sim_agent *agent = peer->agent;

    sim_agent_note(agent, "peer lost", 0, peer->index, 0, 0, kvr_status_name(status));
    sim_check_blame(agent, status, detail);
    sim_peer_detach(peer);
    peer->live = peer->ending = peer->dialing = false;
    peer->life++;
    peer->lost_at = now;
    peer->armed_at = KVR_NEVER;
    agent->world->sessions_lost += !agent->world->ending; /* else by sim_peers_end */
    agent->machine.peer_lost(agent->machine.self, now, peer->index, status, detail);
}

void sim_peer_start(struct sim_peer *peer, bool dialed)
{
    struct sim_world *world = peer->agent->world;
    uint32_t place = (uint32_t)(peer - peer->agent->peers);
    bool small = sim_has(world, SIM_QUEUE_FULL) && kvr_rng_percent(&world->rng, 30);
    struct kvr_session_options options = {
        .sink = {peer, sim_peer_hello, session_write, session_begun, session_message,
                 session_writable, session_lost},
        .decoder = world->memory->decoder,
        .beat_ms = (uint32_t)(SIM_SILENCE_NS / 3 / KVR_MS),
        .queue_bytes = KVR_SESSION_QUEUE_BYTES_MIN,
        .queue_count = small ? KVR_SESSION_QUEUE_COUNT_MIN : SIM_SESSION_MESSAGES,
        .dials = dialed,
    };

    *peer = (struct sim_peer){.agent = peer->agent,
                              .other = peer->other,
                              .index = peer->index,
                              .life = peer->life + 1,
                              .live = true,
                              .dialed = dialed,
                              .backoff_ms = BACKOFF_MS_MIN,
                              .redial_at = world->now,
                              .armed_at = KVR_NEVER};
    peer->session =
        kvr_session_init(world->memory->sessions[peer->agent->number][place], &options, world->now);
}

struct sim_peer *sim_peer_place(struct sim_agent *agent)
{
    struct sim_peer *oldest = NULL;

    for (uint32_t i = 0; i < SIM_PEERS; i++) {
        struct sim_peer *peer = &agent->peers[i];

        if (!peer->live && (oldest == NULL || peer->lost_at < oldest->lost_at))
            oldest = peer;
    }
    return oldest;
}

/* ---- dialing ------------------------------------------------------------------------------- */

static void redial_later(struct sim_peer *peer)
{
    struct sim_world *world = peer->agent->world;

    peer->redial_at = world->now + peer->backoff_ms * KVR_MS / 2 +
                      kvr_rng_below(&world->rng, peer->backoff_ms * KVR_MS / 2);
    peer->backoff_ms =
        peer->backoff_ms * 2 < BACKOFF_MS_MAX ? peer->backoff_ms * 2 : BACKOFF_MS_MAX;
    sim_peer_arm(peer);
}

/* a: life. */
static void dialed_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_peer *peer = event->object;

    if (peer->life != event->a || !peer->live || sim_agent_deferred(peer->agent, event, world->now))
        return;
    peer->dialing = false;
    if (!peer->other->alive || world->now < world->apart_until) {
        redial_later(peer);
        return;
    }
    peer->connection = sim_connection_open(world, peer, peer->other);
    peer->end = 0;
    kvr_session_connected(peer->session, world->now);
    sim_peer_arm(peer);
}

static void dial(struct sim_peer *peer)
{
    struct sim_world *world = peer->agent->world;

    peer->dialing = true;
    sim_at(world, world->now + 1 + sim_some(world, world->message_ns), dialed_run, peer, peer->life,
           0);
}

kvr_status sim_peer_dial(void *self, const char *address, uint32_t *ret_index,
                         struct kvr_error *error)
{
    struct sim_agent *agent = self;
    struct sim_world *world = agent->world;
    struct sim_peer *peer = NULL;

    for (uint32_t i = 0; i < SIM_PEERS && peer == NULL; i++)
        if (agent->peers[i].other != NULL && strcmp(agent->peers[i].other->address, address) == 0)
            peer = &agent->peers[i];
    if (peer == NULL && (peer = sim_peer_place(agent)) != NULL)
        for (uint32_t i = 0; i < SIM_AGENTS; i++)
            if (strcmp(world->agents[i].address, address) == 0)
                peer->other = &world->agents[i];
    if (peer == NULL || peer->other == NULL)
        return kvr_error_set(error, KVR_INVALID, "sim", "%s", address);
    *ret_index = peer->index;
    if (peer->live)
        return KVR_OK;
    sim_peer_start(peer, true);
    dial(peer);
    sim_peer_arm(peer);
    return KVR_OK;
}

/* ---- from the connection ------------------------------------------------------------------- */

void sim_peer_frame(struct sim_connection *connection, uint32_t end, const uint8_t *frame,
                    size_t bytes)
{
    struct sim_peer *peer = connection->ends[end].peer;
    uint32_t life;

    if (peer == NULL) {
        sim_peer_stranger(connection, end, frame, bytes);
        return;
    }
    life = peer->life;
    kvr_session_frame(peer->session, connection->world->now, frame, bytes);
    if (peer->life != life)
        return; /* it ended */
    if (kvr_session_connected_now(peer->session))
        peer->backoff_ms = BACKOFF_MS_MIN;
    sim_peer_arm(peer);
}

void sim_peer_writable(struct sim_peer *peer)
{
    uint32_t life = peer->life;

    if (!peer->live)
        return;
    kvr_session_writable(peer->session, peer->agent->world->now);
    if (peer->life == life)
        sim_peer_arm(peer);
}

void sim_peer_disconnected(struct sim_peer *peer)
{
    struct sim_world *world = peer->agent->world;

    peer->connection = NULL;
    sim_agent_note(peer->agent, "disconnected", 0, peer->index, 0, 0, NULL);
    kvr_session_disconnected(peer->session, world->now);
    if (peer->superseded) {
        kvr_session_end(peer->session, world->now, KVR_PEER_RESTARTED,
                        "the agent has started again");
        return;
    }
    redial_later(peer);
}

/* ---- the agent's side ---------------------------------------------------------------------- */

/* a: life. */
static void roomy_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_peer *peer = event->object;
    const struct kvr_machine *machine = &peer->agent->machine;

    if (peer->life != event->a || !peer->live || sim_agent_deferred(peer->agent, event, world->now))
        return;
    peer->was_full = false;
    if (kvr_session_number(peer->session) != 0)
        machine->peer_writable(machine->self, world->now, peer->index);
}

/* Now and then the queue is full for messages that can wait. Others have room in reserve. */
static bool full(struct sim_peer *peer, const struct kvr_message *message)
{
    struct sim_world *world = peer->agent->world;

    if (!kvr_message_patient(message->kind))
        return false;
    if (!peer->was_full && sim_has(world, SIM_QUEUE_FULL) && kvr_rng_percent(&world->rng, 30)) {
        peer->was_full = true;
        sim_injected(world, SIM_QUEUE_FULL);
        sim_at(world, world->now + sim_some(world, 10 * world->message_ns), roomy_run, peer,
               peer->life, 0);
    }
    return peer->was_full;
}

kvr_status sim_peer_send(void *self, uint32_t index, const struct kvr_message *message)
{
    struct sim_agent *agent = self;
    struct sim_peer *peer = peer_at(agent, index);
    struct kvr_message sent = *message;
    struct sim_fetch *spoiled;
    kvr_status status;

    if (!peer->live)
        return KVR_PEER_LOST;
    if (full(peer, message))
        return KVR_AGAIN;
    note_message(agent, "says", message, 0);
    sim_proof_check_answer(agent, message);
    sim_keys_check_grant(agent, message);
    spoiled = sim_proof_spoil(agent, index, &sent);
    status = kvr_session_send(peer->session, agent->world->now, &sent);
    if (status == KVR_OK && spoiled != NULL) /* else it comes again, as it should be */
        sim_proof_spoiled(spoiled, message->transfer);
    if (status != KVR_OK && status != KVR_AGAIN && status != KVR_PEER_LOST)
        sim_fail(agent->world, -1, "%s cannot be sent: %s", kvr_message_name(message->kind),
                 kvr_status_name(status));
    sim_peer_arm(peer);
    return status;
}

void sim_peer_hang_up(void *self, uint32_t index, kvr_status status, const char *detail)
{
    struct sim_agent *agent = self;
    struct sim_world *world = agent->world;
    struct sim_peer *peer = peer_at(agent, index);
    bool excused = status == KVR_CANCELLED || world->injected[SIM_NO_MEMORY] > 0 ||
                   (status == KVR_FULL && sim_has(world, SIM_QUEUE_FULL));

    sim_agent_note(agent, "hangs up", 0, index, 0, 0, kvr_status_name(status));
    if (!excused)
        sim_fail(world, -1, "agent %u hangs up: %s", agent->number, detail);
    if (!peer->live || peer->ending)
        return;
    peer->ending = true;
    peer->status = status;
    snprintf(peer->detail, sizeof(peer->detail), "%s", detail);
    sim_peer_arm(peer);
}

void sim_peers_die(struct sim_agent *agent)
{
    struct sim_world *world = agent->world;
    bool silent = kvr_rng_percent(&world->rng, 30);

    for (struct sim_connection *at = world->connections; at != NULL; at = at->next)
        for (uint32_t end = 0; end < 2; end++)
            if (at->ends[end].agent == agent && at->ends[end].life == agent->life &&
                at->ends[end].open)
                sim_connection_abandon(at, end, silent);
    sim_peers_init(agent);
}

void sim_peers_end(struct sim_agent *agent)
{
    for (uint32_t i = 0; i < SIM_PEERS; i++)
        if (agent->peers[i].live)
            kvr_session_end(agent->peers[i].session, agent->world->now, KVR_PEER_LOST, "the end");
}
