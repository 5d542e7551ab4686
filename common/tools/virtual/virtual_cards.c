/* Packets on their way. A card sends one packet after the other, and receives one after the other,
 * in the order in which their first bytes came: both ends limit. While a packet is still being sent
 * its beginning is received. */
#include "tools/virtual/virtual_state.h"

#include <stdlib.h>

static uint32_t packet_new(struct world *world, const struct packet *packet)
{
    uint32_t number = world->packet_free;

    if (number == NO_NUMBER) {
        uint32_t room = world->packet_room > 0 ? 2 * world->packet_room : 1024;
        struct packet *larger = realloc(world->packets, room * sizeof(larger[0]));

        if (larger == NULL) {
            world_fail(world, KVR_NO_MEMORY, "no memory for writes on their way");
            return NO_NUMBER;
        }
        for (uint32_t i = world->packet_room; i < room; i++)
            larger[i].next = i + 1 < room ? i + 1 : NO_NUMBER;
        number = world->packet_room;
        world->packets = larger;
        world->packet_room = room;
    }
    world->packet_free = world->packets[number].next;
    world->packets[number] = *packet;
    return number;
}

static struct lane *lane_of(const struct world *world, const struct packet *packet)
{
    return &world->live[packet->request]->lanes[packet->lane];
}

void cards_send(struct world *world, const struct packet *packet, kvr_ns from)
{
    struct lane *lane = lane_of(world, packet);
    uint32_t number = packet_new(world, packet);

    if (number == NO_NUMBER)
        return;
    world->figures->packets++;
    lane->in_flight_packets++;
    link_of(world, lane)->in_flight[packet->card] += packet->bytes;
    world->sources[lane->source].cards[packet->card].in_flight += packet->bytes;
    world_at(world, from + world->config->costs.latency_ns, EVENT_ARRIVE, number);
}

void cards_arrive(struct world *world, uint32_t number)
{
    const struct packet *packet = &world->packets[number];
    const struct lane *lane = lane_of(world, packet);
    struct card *card = &world->targets[lane->target].cards[packet->card];
    kvr_ns sent = packet->sent + world->config->costs.latency_ns;

    card->free_at = (card->free_at > world->now ? card->free_at : world->now) + packet->wire_ns;
    card->busy_ns += packet->wire_ns;
    card->writes += packet->writes;
    card->bytes += packet->bytes;
    world_at(world, card->free_at > sent ? card->free_at : sent, EVENT_LAND, number);
}

static void note_landed(struct world *world, struct lane *lane, const struct packet *packet)
{
    struct request *request = world->live[packet->request];
    struct unit *unit = &lane->units[packet->unit];
    uint32_t layers = world->config->geometry.layers;
    const struct chunk *chunk = &request->chunks[packet->unit / layers];

    if (request->first_land == 0)
        request->first_land = world->now;
    if (packet->writes > unit->left || packet->writes > request->writes_left) {
        world_fail(world, KVR_INTERNAL, "more writes of request %u landed than it has",
                   request->index);
        return;
    }
    unit->left -= packet->writes;
    request->writes_left -= packet->writes;
    if (unit->left > 0)
        return;
    unit->landed = world->now;
    unit->ready = chunk->start + (packet->unit % layers + 1) * chunk->layer_ns;
    if (chunk->layer_ns > 0 && unit->ready >= request->granted_at)
        kvr_histogram_record(&world->figures->layers, unit->landed - unit->ready);
}

void cards_land(struct world *world, uint32_t number)
{
    struct packet packet = world->packets[number];
    struct lane *lane = lane_of(world, &packet);
    struct request *request = world->live[packet.request];
    struct group *source = &world->sources[lane->source];

    world->packets[number].next = world->packet_free;
    world->packet_free = number;
    lane->in_flight_packets--;
    link_of(world, lane)->in_flight[packet.card] -= packet.bytes;
    source->cards[packet.card].in_flight -= packet.bytes;
    if (world->config->exact)
        check_content(world, request, &packet);
    note_landed(world, lane, &packet);
    post_settle(world, lane);
    post_wake(world, source);
    if (request->writes_left == 0 && world->status == KVR_OK)
        decode_landed(world, request);
}
