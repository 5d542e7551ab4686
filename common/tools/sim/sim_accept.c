/* Accepting, as agent/peer_accept.c: a connection's HELLO resumes a session, begins one, or gets
 * the answer that its session is not known. */
#include "tools/sim/sim_world.h"
#include "wire/compat.h"

static struct sim_peer *resumed_by(struct sim_agent *agent, const struct kvr_msg_hello *hello)
{
    for (uint32_t i = 0; i < SIM_PEERS; i++) {
        struct sim_peer *peer = &agent->peers[i];

        if (!peer->live || peer->boot != hello->boot)
            continue;
        if (hello->session != 0 && kvr_session_number(peer->session) == hello->session)
            return peer;
        if (hello->session == 0 && peer->connection == NULL &&
            !kvr_session_confirmed(peer->session))
            return peer;
    }
    return NULL;
}

static void supersede(struct sim_agent *agent, const struct kvr_msg_hello *hello,
                      const struct sim_agent *other)
{
    for (uint32_t i = 0; i < SIM_PEERS; i++) {
        struct sim_peer *peer = &agent->peers[i];

        if (!peer->live || peer->boot == hello->boot || peer->other != other)
            continue;
        peer->superseded = true;
        if (peer->connection == NULL)
            kvr_session_end(peer->session, agent->world->now, KVR_PEER_RESTARTED,
                            "the agent has started again");
    }
}

static void attach(struct sim_peer *peer, struct sim_connection *connection, uint32_t end)
{
    sim_peer_detach(peer);
    peer->connection = connection;
    peer->end = end;
    connection->ends[end].peer = peer;
}

/* WELCOME to session 0: this one is not known here. */
static void deny(struct sim_connection *connection, uint32_t end)
{
    struct sim_peer nobody = {.agent = connection->ends[end].agent};
    struct kvr_message message = {.kind = KVR_MSG_WELCOME};
    static uint8_t frame[16384];
    size_t bytes;

    sim_peer_hello(&nobody, &message.hello);
    if (kvr_message_encode(&message, frame, sizeof(frame), &bytes) == KVR_OK)
        (void)!sim_connection_write(connection, end, frame, bytes);
    sim_connection_close(connection, end);
}

void sim_peer_stranger(struct sim_connection *connection, uint32_t end, const uint8_t *frame,
                       size_t bytes)
{
    struct sim_agent *agent = connection->ends[end].agent;
    struct sim_world *world = agent->world;
    struct kvr_message message;
    struct kvr_error error;
    struct sim_peer *peer;
    uint64_t number;

    if (kvr_message_decode(world->memory->decoder, frame, bytes, &message, &error) != KVR_OK ||
        message.kind != KVR_MSG_HELLO) {
        sim_fail(world, -1, "the first frame of a connection is no HELLO");
        return;
    }
    peer = resumed_by(agent, &message.hello);
    if (peer == NULL && message.hello.session != 0) {
        deny(connection, end);
        return;
    }
    if (peer != NULL) {
        kvr_session_disconnected(peer->session, world->now);
        number = kvr_session_number(peer->session);
    } else {
        supersede(agent, &message.hello, connection->ends[!end].agent);
        peer = sim_peer_place(agent);
        if (peer == NULL) {
            sim_connection_close(connection, end);
            return;
        }
        sim_peer_start(peer, false);
        peer->other = connection->ends[!end].agent;
        number = kvr_rng_next(&world->rng) | 1;
    }
    attach(peer, connection, end);
    kvr_session_accepted(peer->session, world->now, &message.hello, KVR_PROTOCOL_MAX, number);
    sim_peer_arm(peer);
}
