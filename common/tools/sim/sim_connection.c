#include "tools/sim/sim_connection.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "tools/sim/sim_peer.h"
#include "tools/sim/sim_world.h"

static uint8_t *buffer_take(struct sim_memory *memory)
{
    uint8_t *buffer = memory->buffer_count > 0 ? memory->buffers[--memory->buffer_count]
                                               : malloc(KVR_FRAME_BUFFER_BYTES);

    if (buffer == NULL)
        abort();
    return buffer;
}

static void buffer_return(struct sim_memory *memory, uint8_t *buffer)
{
    if (memory->buffer_count < SIM_BUFFERS)
        memory->buffers[memory->buffer_count++] = buffer;
    else
        free(buffer);
}

struct sim_connection *sim_connection_open(struct sim_world *world, struct sim_peer *dialer,
                                           struct sim_agent *accepter)
{
    struct sim_connection *connection = calloc(1, sizeof(*connection));

    if (connection == NULL)
        abort();
    connection->world = world;
    connection->next = world->connections;
    world->connections = connection;
    connection->ends[0].agent = dialer->agent;
    connection->ends[0].peer = dialer;
    connection->ends[1].agent = accepter;
    for (uint32_t i = 0; i < 2; i++) {
        struct sim_end *end = &connection->ends[i];

        end->life = end->agent->life;
        end->open = true;
        end->limit = UINT64_MAX;
        end->room = sim_has(world, SIM_QUEUE_FULL) && kvr_rng_percent(&world->rng, 50)
                        ? (size_t)64 << kvr_rng_below(&world->rng, 6)
                        : SIZE_MAX;
        kvr_frame_parser_init(&end->parser, buffer_take(world->memory));
    }
    return connection;
}

void sim_connections_free(struct sim_world *world)
{
    while (world->connections != NULL) {
        struct sim_connection *connection = world->connections;

        world->connections = connection->next;
        for (uint32_t i = 0; i < 2; i++) {
            buffer_return(world->memory, connection->ends[i].parser.buffer);
            while (connection->ends[i].first != NULL) {
                struct sim_packet *next = connection->ends[i].first->next;

                free(connection->ends[i].first);
                connection->ends[i].first = next;
            }
        }
        free(connection);
    }
}

/* ---- the end of it ------------------------------------------------------------------------- */

/* a: the end that notices. */
static void closed_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_connection *connection = event->object;
    struct sim_end *end = &connection->ends[event->a];
    struct sim_peer *peer = end->peer;

    if (!end->open || end->life != end->agent->life ||
        sim_agent_deferred(end->agent, event, world->now))
        return;
    end->open = false;
    end->peer = NULL;
    if (peer != NULL)
        sim_peer_disconnected(peer);
}

static void notice(struct sim_connection *connection, uint32_t end, kvr_ns mean)
{
    struct sim_world *world = connection->world;

    sim_at(world, world->now + 1 + sim_some(world, mean), closed_run, connection, end, 0);
}

static void broken(struct sim_connection *connection)
{
    struct sim_world *world = connection->world;

    if (connection->broken)
        return;
    connection->broken = true;
    for (uint32_t end = 0; end < 2; end++)
        if (kvr_rng_percent(&world->rng, 85)) /* else it hears nothing for long */
            notice(connection, end, kvr_rng_percent(&world->rng, 80) ? world->message_ns : KVR_S);
}

void sim_connection_break(struct sim_connection *connection, uint64_t more)
{
    struct kvr_rng *rng = &connection->world->rng;

    if (more == 0) {
        for (uint32_t i = 0; i < 2; i++) {
            struct sim_end *end = &connection->ends[i];

            end->limit = kvr_rng_between(rng, end->arrived, end->sent);
        }
        broken(connection);
        return;
    }
    for (uint32_t i = 0; i < 2; i++)
        connection->ends[i].limit = connection->ends[i].sent + kvr_rng_below(rng, more);
}

/* ---- bytes on their way -------------------------------------------------------------------- */

static void frames_give(struct sim_connection *connection, uint32_t to)
{
    struct sim_end *end = &connection->ends[to];
    const uint8_t *frame;
    size_t bytes;

    while (end->open && kvr_frame_parser_next(&end->parser, &frame, &bytes) == KVR_OK)
        sim_peer_frame(connection, to, frame, bytes);
}

static void bytes_give(struct sim_connection *connection, uint32_t to, const uint8_t *data,
                       size_t count)
{
    struct sim_end *end = &connection->ends[to];

    while (count > 0 && end->open) {
        size_t room, now = kvr_rng_percent(&connection->world->rng, 10)
                               ? kvr_rng_between(&connection->world->rng, 1, count)
                               : count;
        uint8_t *at = kvr_frame_parser_room(&end->parser, &room);

        memcpy(at, data, now);
        kvr_frame_parser_filled(&end->parser, now);
        frames_give(connection, to);
        data += now;
        count -= now;
    }
}

/* a: the end that gets what is first on its way to it. */
static void deliver_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_connection *connection = event->object;
    struct sim_end *to = &connection->ends[event->a], *from = &connection->ends[!event->a];
    struct sim_packet *packet;
    size_t count;

    if (to->life == to->agent->life && sim_agent_deferred(to->agent, event, world->now))
        return;
    packet = from->first;
    from->first = packet->next;
    count = packet->bytes;
    if (from->limit - from->arrived < count)
        count = (size_t)(from->limit - from->arrived);
    from->arrived += count;
    if (to->life == to->agent->life) {
        /* What an older connection still carries may come after what a newer one brought. */
        if (count > 0 && packet->sent_at > to->agent->heard_at[from->agent->number])
            to->agent->heard_at[from->agent->number] = packet->sent_at;
        bytes_give(connection, (uint32_t)event->a, packet->data, count);
        if (packet->bytes == 0)
            closed_run(world, event);
    }
    if (count < packet->bytes) {
        sim_time_struck(world, world->now); /* only now, long after the fault chose this byte */
        broken(connection);
    }
    if (from->starved && from->sent - from->arrived <= from->room / 2 && from->peer != NULL &&
        !connection->broken) {
        from->starved = false;
        sim_peer_writable(from->peer);
    }
    free(packet);
}

static void packet_send(struct sim_connection *connection, uint32_t from, struct sim_packet *packet)
{
    struct sim_world *world = connection->world;
    struct sim_end *end = &connection->ends[from];
    kvr_ns at = world->now + 1 + sim_some(world, world->message_ns);

    if (sim_has(world, SIM_MESSAGE_LATE) &&
        kvr_rng_below(&world->rng, 1000) < world->late_promille) {
        at += kvr_rng_below(&world->rng, kvr_rng_percent(&world->rng, 80) ? 5 * KVR_MS : 2 * KVR_S);
        sim_injected_until(world, SIM_MESSAGE_LATE, at);
    }
    if (at <= end->last)
        at = end->last + 1;
    end->last = at;
    packet->sent_at = world->now;
    KVR_LIST_APPEND(end->first, end->tail, packet, next);
    sim_at(world, at, deliver_run, connection, !from, 0);
}

static struct sim_packet *packet_new(size_t bytes)
{
    struct sim_packet *packet = malloc(sizeof(*packet) + bytes);

    if (packet == NULL)
        abort();
    packet->bytes = bytes;
    return packet;
}

kvr_status sim_connection_write(struct sim_connection *connection, uint32_t from,
                                const uint8_t *frame, size_t bytes)
{
    struct sim_end *end = &connection->ends[from];
    struct sim_packet *packet;

    if (end->sent - end->arrived > end->room && !connection->broken) {
        if (!end->starved)
            sim_injected(connection->world, SIM_QUEUE_FULL);
        end->starved = true;
        return KVR_AGAIN;
    }
    if (connection->broken)
        return KVR_OK; /* into a buffer that is never read */
    packet = packet_new(KVR_FRAME_HEADER_BYTES + bytes);
    kvr_frame_header((uint32_t)bytes, packet->data);
    memcpy(packet->data + KVR_FRAME_HEADER_BYTES, frame, bytes);
    end->sent += packet->bytes;
    packet_send(connection, from, packet);
    return KVR_OK;
}

void sim_connection_close(struct sim_connection *connection, uint32_t from)
{
    struct sim_end *end = &connection->ends[from];

    end->peer = NULL;
    if (!end->open)
        return;
    end->open = false;
    if (!connection->broken)
        packet_send(connection, from, packet_new(0));
}

void sim_connection_abandon(struct sim_connection *connection, uint32_t end, bool silent)
{
    if (silent) {
        connection->ends[end].open = false;
        connection->ends[end].peer = NULL;
        connection->broken = true;
        return;
    }
    sim_connection_close(connection, end);
}
