/* Accepted connections, until their HELLO has made them a peer's. They resume a session, begin one,
 * or are turned away with a sentence. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/peer/peer_parts.h"
#include "base/entropy.h"
#include "wire/compat.h"

uint16_t kvr_peers_port(const struct kvr_peers *peers)
{
    return peers->listener != NULL ? kvr_listener_port(peers->listener) : 0;
}

struct kvr_listener_counts kvr_peers_accepted(const struct kvr_peers *peers)
{
    return peers->listener != NULL ? kvr_listener_counts(peers->listener)
                                   : (struct kvr_listener_counts){0};
}

static void turn_away(struct kvr_peers *peers, struct kvr_channel *channel, kvr_ns now,
                      kvr_status status, const char *detail)
{
    struct kvr_message message = {.kind = KVR_MSG_REFUSED, .reason = {.status = status}};
    struct kvr_peers_owner *owner = &peers->options.owner;
    uint8_t frame[1024];
    size_t bytes;

    snprintf(message.reason.detail, sizeof(message.reason.detail), "%s", detail);
    if (kvr_message_encode(&message, frame, sizeof(frame), &bytes) == KVR_OK)
        (void)!kvr_channel_send(channel, frame, bytes);
    if (owner->turned_away != NULL)
        owner->turned_away(owner->self, now, kvr_channel_name(channel), status, detail);
    kvr_channel_finish(channel);
}

static bool is_known(const struct kvr_peers *peers, uint64_t host)
{
    for (uint32_t i = 0; i < peers->used; i++)
        if (peers->table[i].live && peers->table[i].from == host)
            return true;
    return false;
}

/* An agent that is put off dials again after a pause, and its session is only delayed. */
bool kvr_peers_admit(void *self, const char *name, uint64_t host)
{
    struct kvr_peers *peers = self;
    struct kvr_peers_owner *owner = &peers->options.owner;
    kvr_ns now = kvr_clock_now();

    if (hello_limit_take(&peers->hellos, now, host, is_known(peers, host)))
        return true;
    if (owner->turned_away != NULL)
        owner->turned_away(owner->self, now, name, KVR_AGAIN,
                           "more connections begin than this agent takes in a second");
    return false;
}

static void own_hello(struct kvr_peers *peers, struct kvr_msg_hello *ret_hello)
{
    memset(ret_hello, 0, sizeof(*ret_hello));
    peers->options.owner.hello(peers->options.owner.self, ret_hello);
    if (ret_hello->version_max == 0) {
        ret_hello->version_min = KVR_PROTOCOL_MIN;
        ret_hello->version_max = KVR_PROTOCOL_MAX;
    }
    ret_hello->beat_ms = peers->options.beat_ms;
}

/* WELCOME to session 0: this one is not known here. The boot id lets the other side see why. */
static void deny_session(struct kvr_peers *peers, struct kvr_channel *channel)
{
    struct kvr_message message = {.kind = KVR_MSG_WELCOME};
    uint8_t frame[16384];
    size_t bytes;

    own_hello(peers, &message.hello);
    if (kvr_message_encode(&message, frame, sizeof(frame), &bytes) == KVR_OK)
        (void)!kvr_channel_send(channel, frame, bytes);
    kvr_channel_finish(channel);
}

/* The session that a HELLO names; or, when it names none, a session of the same boot that lost its
 * WELCOME with the connection. Of the same identity alone. */
static struct kvr_peer *resumed_by(struct kvr_peers *peers, const struct kvr_channel *channel,
                                   const struct kvr_msg_hello *hello)
{
    for (uint32_t i = 0; i < peers->used; i++) {
        struct kvr_peer *peer = &peers->table[i];

        if (!peer->live || peer->dialed || peer->boot != hello->boot || !kvr_peer_is(peer, channel))
            continue;
        if (hello->session != 0 && kvr_session_number(peer->session) == hello->session)
            return peer;
        if (hello->session == 0 && peer->channel == NULL && !kvr_session_confirmed(peer->session))
            return peer;
    }
    return NULL;
}

/* A new boot ends the sessions of the old one soon. But a name proves nothing: while the older
 * one's connection is up, it is only marked, and after that it has the time to dial again and
 * resume. */
static void supersede(struct kvr_peers *peers, const struct kvr_channel *channel, kvr_ns now,
                      const struct kvr_msg_hello *hello)
{
    for (uint32_t i = 0; i < peers->used; i++) {
        struct kvr_peer *peer = &peers->table[i];

        if (!peer->live || peer->dialed || peer->boot == hello->boot ||
            !kvr_peer_is(peer, channel) || strcmp(peer->agent, hello->agent) != 0 ||
            strcmp(peer->host, hello->host) != 0)
            continue;
        peer->superseded = true;
        if (peer->channel != NULL)
            continue;
        if (now >= kvr_peer_superseded_ends(peer))
            kvr_session_end(peer->session, now, KVR_PEER_RESTARTED, "the agent has started again");
        else
            kvr_peer_arm(peer, now);
    }
}

static void welcome(struct kvr_peers *peers, struct kvr_channel *channel, kvr_ns now,
                    const struct kvr_msg_hello *hello)
{
    uint64_t from = kvr_address_network(kvr_channel_name(channel));
    struct kvr_msg_hello own;
    struct kvr_error error;
    uint32_t version = 0;
    uint64_t number;
    struct kvr_peer *peer;
    kvr_status status;

    own_hello(peers, &own);
    status = kvr_hello_check(&own, hello, &version, &error);
    if (status != KVR_OK)
        return turn_away(peers, channel, now, status, error.detail);
    supersede(peers, channel, now, hello);
    if (peers->closing)
        return;
    peer = kvr_peer_free(peers, now, from);
    if (peer == NULL)
        return turn_away(peers, channel, now, KVR_FULL, "this agent has all the peers it can have");
    status = kvr_peer_start(peer, false, kvr_channel_name(channel), now);
    if (status != KVR_OK)
        return turn_away(peers, channel, now, status, "this agent has no memory for another peer");
    peer->from = from;
    kvr_peer_attach(peer, channel);
    do {
        number = kvr_random_u64();
    } while (number == 0);
    kvr_session_accepted(peer->session, now, hello, version, number);
    kvr_peer_arm(peer, now);
}

static void take_hello(struct kvr_peers *peers, struct kvr_channel *channel, kvr_ns now,
                       const struct kvr_msg_hello *hello)
{
    struct kvr_peer *peer = resumed_by(peers, channel, hello);
    struct kvr_error error;

    if (kvr_peers_name_check(peers, channel, hello, &error) != KVR_OK)
        return turn_away(peers, channel, now, KVR_REFUSED, error.detail);
    if (peer == NULL && hello->session != 0)
        return deny_session(peers, channel);
    if (peer == NULL)
        return welcome(peers, channel, now, hello);
    peer->superseded = false; /* it lives; another process used its name */
    kvr_session_disconnected(peer->session, now);
    kvr_peer_attach(peer, channel);
    kvr_session_accepted(peer->session, now, hello, 0, kvr_session_number(peer->session));
    kvr_peer_arm(peer, now);
}

/* With all that it points to. NULL: there is no memory. */
static struct kvr_msg_hello *hello_keep(const struct kvr_msg_hello *hello)
{
    size_t rails = hello->rail_count * sizeof(hello->rails[0]);
    size_t compats = hello->compat_count * sizeof(hello->compats[0]);
    size_t at = (sizeof(*hello) + rails + 15) & ~(size_t)15;
    struct kvr_msg_hello *kept = malloc(at + compats);

    if (kept == NULL)
        return NULL;
    *kept = *hello;
    if (rails > 0)
        kept->rails = memcpy(kept + 1, hello->rails, rails);
    if (compats > 0)
        kept->compats = memcpy((char *)kept + at, hello->compats, compats);
    return kept;
}

void kvr_peer_keep_hello(struct kvr_peer *peer, const struct kvr_msg_hello *hello)
{
    peer->met = hello_keep(hello);
}

void kvr_peer_up_when_confirmed(struct kvr_peer *peer, kvr_ns now)
{
    struct kvr_peers_owner *owner = &peer->peers->options.owner;
    struct kvr_msg_hello *met = peer->met;

    if (met == NULL || !kvr_session_confirmed(peer->session))
        return;
    peer->met = NULL;
    owner->up(owner->self, now, peer->index, met);
    free(met);
}

void kvr_peers_stranger(struct kvr_peers *peers, struct kvr_channel *channel, kvr_ns now,
                        const uint8_t *frame, size_t bytes)
{
    struct kvr_message message;
    struct kvr_error error;
    kvr_status status;

    status = kvr_message_decode(peers->decoder, frame, bytes, &message, &error);
    if (status != KVR_OK)
        return turn_away(peers, channel, now, status, error.detail);
    if (message.kind != KVR_MSG_HELLO)
        return turn_away(peers, channel, now, KVR_MALFORMED, "the first message was no HELLO");
    take_hello(peers, channel, now, &message.hello);
}
