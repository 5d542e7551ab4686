/* The table of peers. wire/session.c has the decisions of a session, wire/channel.c the work of a
 * connection. This file joins them: when to dial, which accepted connection belongs to which peer,
 * and one timer for all. */
#include "agent/peer/peer.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/peer/peer_parts.h"
#include "base/entropy.h"
#include "wire/compat.h"

#define BACKOFF_MS_MIN 50
#define BACKOFF_MS_MAX 1000

static void dial(struct kvr_peer *peer, kvr_ns now);
static void detach(struct kvr_peer *peer, bool finish);

/* ---- the timer ---- */

static void on_timer(uv_timer_t *timer);

static void arm(struct kvr_peers *peers, kvr_ns now, kvr_ns at)
{
    uint64_t ms = at > now ? (at - now + KVR_MS - 1) / KVR_MS : 0;

    if (at >= peers->armed_at || peers->closing)
        return;
    peers->armed_at = at;
    uv_update_time(peers->loop);
    uv_timer_start(&peers->timer, on_timer, ms, 0);
}

static kvr_ns wake_of(const struct kvr_peer *peer)
{
    kvr_ns wake = peer->live ? kvr_session_wake(peer->session) : KVR_NEVER;

    if (peer->live && peer->ending)
        return 0;
    if (peer->live && peer->superseded && peer->channel == NULL &&
        kvr_peer_superseded_ends(peer) < wake)
        return kvr_peer_superseded_ends(peer);
    if (peer->live && peer->dialed && peer->channel == NULL && peer->redial_at < wake)
        return peer->redial_at;
    return wake;
}

void kvr_peer_arm(struct kvr_peer *peer, kvr_ns now)
{
    arm(peer->peers, now, wake_of(peer));
}

static void tick(struct kvr_peer *peer, kvr_ns now)
{
    if (!peer->live)
        return;
    if (peer->ending)
        kvr_session_end(peer->session, now, peer->end_status, peer->end_detail);
    else if (peer->superseded && peer->channel == NULL && now >= kvr_peer_superseded_ends(peer))
        kvr_session_end(peer->session, now, KVR_PEER_RESTARTED, "the agent has started again");
    else
        kvr_session_tick(peer->session, now);
    if (peer->live && peer->dialed && peer->channel == NULL && now >= peer->redial_at)
        dial(peer, now);
}

static void on_timer(uv_timer_t *timer)
{
    struct kvr_peers *peers = timer->data;
    kvr_ns now = kvr_clock_now(), next = KVR_NEVER;

    peers->armed_at = KVR_NEVER;
    for (uint32_t i = 0; i < peers->used && !peers->closing; i++)
        if (wake_of(&peers->table[i]) <= now)
            tick(&peers->table[i], now);
    for (uint32_t i = 0; i < peers->used; i++) {
        kvr_ns wake = wake_of(&peers->table[i]);

        next = wake < next ? wake : next;
    }
    if (next != KVR_NEVER)
        arm(peers, now, next);
}

/* ---- what a session does ---- */

static void session_hello(void *self, struct kvr_msg_hello *ret_hello)
{
    struct kvr_peer *peer = self;

    peer->peers->options.owner.hello(peer->peers->options.owner.self, ret_hello);
}

static kvr_status session_write(void *self, const uint8_t *frame, size_t bytes)
{
    struct kvr_peer *peer = self;

    return peer->channel != NULL ? kvr_channel_send(peer->channel, frame, bytes) : KVR_PEER_LOST;
}

static void session_begun(void *self, kvr_ns now, const struct kvr_msg_hello *hello)
{
    struct kvr_peer *peer = self;
    struct kvr_peers_owner *owner = &peer->peers->options.owner;
    struct kvr_error error;

    if (kvr_peers_name_check(peer->peers, peer->channel, hello, &error) != KVR_OK)
        return kvr_peers_end(peer->peers, peer->index, KVR_REFUSED, error.detail);
    kvr_peer_prove(peer);
    peer->boot = hello->boot;
    memcpy(peer->agent, hello->agent, sizeof(peer->agent));
    memcpy(peer->host, hello->host, sizeof(peer->host));
    if (!peer->dialed)
        kvr_peer_keep_hello(peer, hello);
    if (peer->met == NULL)
        owner->up(owner->self, now, peer->index, hello);
}

static void session_message(void *self, kvr_ns now, const struct kvr_message *message)
{
    struct kvr_peer *peer = self;
    struct kvr_peers_owner *owner = &peer->peers->options.owner;

    owner->message(owner->self, now, peer->index, message);
}

static void session_writable(void *self, kvr_ns now)
{
    struct kvr_peer *peer = self;
    struct kvr_peers_owner *owner = &peer->peers->options.owner;

    owner->writable(owner->self, now, peer->index);
}

/* The last thing that happens to a session; in the callback the owner may dial the index again. */
static void session_lost(void *self, kvr_ns now, kvr_status status, const char *detail)
{
    struct kvr_peer *peer = self;
    struct kvr_peers *peers = peer->peers;
    struct kvr_peers_owner *owner = &peers->options.owner;
    bool connected = peer->channel_up, was_up = peer->met == NULL;
    char sentence[KVR_DETAIL_BYTES];

    if (status == KVR_PEER_LOST && !connected && peer->why[0] != '\0')
        snprintf(sentence, sizeof(sentence), "%.60s: %.84s; the last connection: %.68s",
                 peer->address, detail, peer->why);
    else
        snprintf(sentence, sizeof(sentence), "%.80s: %.150s", peer->address, detail);
    detach(peer, true);
    peer->live = peer->ending = false;
    peer->lost_at = now;
    free(peer->memory); /* not kept for the index: a peer that comes often would fill all of them */
    peer->memory = NULL;
    peer->session = NULL;
    free(peer->met);
    peer->met = NULL;
    if (peers->closing)
        return;
    if (was_up)
        owner->lost(owner->self, now, peer->index, status, sentence);
    else if (owner->turned_away != NULL)
        owner->turned_away(owner->self, now, peer->address, status, sentence);
}

/* ---- peers ---- */

/* An index that was never used, else the one that has been free for longest: late mentions of a
 * lost peer should not hit a new one. */
static struct kvr_peer *free_index(struct kvr_peers *peers)
{
    struct kvr_peer *oldest = NULL;

    if (peers->used < KVR_PEERS_MAX)
        return &peers->table[peers->used];
    for (uint32_t i = 0; i < KVR_PEERS_MAX; i++) {
        struct kvr_peer *peer = &peers->table[i];

        if (!peer->live && (oldest == NULL || peer->lost_at < oldest->lost_at))
            oldest = peer;
    }
    return oldest;
}

static uint32_t count_from(const struct kvr_peers *peers, uint64_t from)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < peers->used; i++)
        count += peers->table[i].live && peers->table[i].from == from;
    return count;
}

/* The host with the most sessions, if it has more than its share and would still have as many as
 * the one that comes; 0: there is none. */
static uint64_t crowd_of(const struct kvr_peers *peers, uint64_t from)
{
    uint32_t most = count_from(peers, from) + 1;
    uint64_t crowd = 0;

    if (most < KVR_PEERS_HOST_SHARE)
        most = KVR_PEERS_HOST_SHARE;
    for (uint32_t i = 0; i < peers->used; i++) {
        const struct kvr_peer *peer = &peers->table[i];
        uint32_t count = peer->live && !peer->dialed ? count_from(peers, peer->from) : 0;

        if (count <= most)
            continue;
        most = count;
        crowd = peer->from;
    }
    return crowd;
}

/* A full table is divided between the hosts that dial. The session of a crowd that came last makes
 * room for a host that has fewer: agents that were there before the crowd stay. */
static struct kvr_peer *last_of_the_crowd(struct kvr_peers *peers, uint64_t from)
{
    uint64_t crowd = crowd_of(peers, from);
    struct kvr_peer *last = NULL;

    for (uint32_t i = 0; crowd != 0 && i < peers->used; i++) {
        struct kvr_peer *peer = &peers->table[i];

        if (peer->live && peer->from == crowd && (last == NULL || peer->begun_at >= last->begun_at))
            last = peer;
    }
    return last;
}

/* The peer that has been away for longest, and for longer than one that comes back needs. */
static struct kvr_peer *longest_away(struct kvr_peers *peers, kvr_ns now)
{
    struct kvr_peer *away = NULL;

    for (uint32_t i = 0; i < peers->used; i++) {
        struct kvr_peer *peer = &peers->table[i];

        if (peer->live && !peer->dialed && peer->channel == NULL &&
            now - peer->away_at >= KVR_PEERS_AWAY_MS * KVR_MS &&
            (away == NULL || peer->away_at < away->away_at))
            away = peer;
    }
    return away;
}

struct kvr_peer *kvr_peer_free(struct kvr_peers *peers, kvr_ns now, uint64_t from)
{
    struct kvr_peer *peer = free_index(peers), *leaves = NULL;
    const char *why = "its connection is gone and others come";

    if (peer != NULL)
        return peer;
    leaves = longest_away(peers, now);
    if (leaves == NULL) {
        leaves = last_of_the_crowd(peers, from);
        why = "this agent's places are used up, and its host has the most of them";
    }
    if (leaves == NULL)
        return NULL;
    kvr_session_end(leaves->session, now, KVR_FULL, why);
    return free_index(peers);
}

kvr_ns kvr_peer_superseded_ends(const struct kvr_peer *peer)
{
    uint64_t ms = peer->peers->options.beat_ms / 2;

    if (ms > KVR_PEERS_AWAY_MS)
        ms = KVR_PEERS_AWAY_MS;
    return peer->away_at + (ms > BACKOFF_MS_MIN ? ms : BACKOFF_MS_MIN) * KVR_MS;
}

kvr_status kvr_peer_start(struct kvr_peer *peer, bool dialed, const char *address, kvr_ns now)
{
    struct kvr_peers *peers = peer->peers;
    struct kvr_session_options options = {
        .sink = {peer, session_hello, session_write, session_begun, session_message,
                 session_writable, session_lost},
        .decoder = peers->decoder,
        .beat_ms = peers->options.beat_ms,
        .queue_bytes = peers->options.queue_bytes,
        .queue_count = peers->options.queue_count,
        .dials = dialed,
    };

    if (peer->memory == NULL)
        peer->memory = malloc(kvr_session_bytes(&options));
    if (peer->memory == NULL)
        return KVR_NO_MEMORY;
    if (peer->index == peers->used)
        peers->used++;
    peer->session = kvr_session_init(peer->memory, &options, now);
    peer->live = true;
    peer->dialed = dialed;
    peer->superseded = peer->ending = false;
    peer->channel = NULL;
    peer->channel_up = false;
    peer->backoff_ms = BACKOFF_MS_MIN;
    peer->dialed_at = peer->redial_at = peer->begun_at = now;
    peer->from = 0;
    peer->boot = 0;
    peer->proven = false;
    peer->agent[0] = peer->host[0] = peer->why[0] = '\0';
    if (address != peer->address)
        snprintf(peer->address, sizeof(peer->address), "%s", address);
    return KVR_OK;
}

/* The channel is no longer ours: what still comes from it has no owner and is dropped. */
static void detach(struct kvr_peer *peer, bool finish)
{
    struct kvr_channel *channel = peer->channel;

    peer->channel = NULL;
    peer->channel_up = false;
    if (channel == NULL)
        return;
    if (finish)
        kvr_channel_finish(channel);
    else
        kvr_channel_close(channel);
}

void kvr_peer_attach(struct kvr_peer *peer, struct kvr_channel *channel)
{
    detach(peer, false);
    peer->channel = channel;
    peer->channel_up = true;
    kvr_channel_set_owner(channel, peer);
    kvr_channel_trust(channel);
}

/* ---- what a connection does ---- */

static void channel_up(void *self, struct kvr_channel *channel)
{
    struct kvr_peer *peer = kvr_channel_owner(channel);
    kvr_ns now = kvr_clock_now();

    (void)self;
    if (peer == NULL)
        return; /* accepted: it must say HELLO first */
    peer->channel_up = true;
    if (peer->boot != 0 && !kvr_peer_is(peer, channel)) {
        kvr_peers_refused(peer->peers, KVR_TLS_NAME);
        return kvr_session_end(peer->session, now, KVR_PEER_RESTARTED,
                               "another agent answers there now");
    }
    kvr_session_connected(peer->session, now);
    kvr_peer_arm(peer, now);
}

static void channel_frame(void *self, struct kvr_channel *channel, const uint8_t *frame,
                          size_t bytes)
{
    struct kvr_peers *peers = self;
    struct kvr_peer *peer = kvr_channel_owner(channel);
    kvr_ns now = kvr_clock_now();

    if (peer == NULL)
        return kvr_peers_stranger(peers, channel, now, frame, bytes);
    if (peer->ending)
        return; /* it may be refused: nothing that is queued may go to it */
    kvr_session_frame(peer->session, now, frame, bytes);
    if (peer->channel != channel)
        return; /* the session ended */
    kvr_peer_up_when_confirmed(peer, now);
    if (kvr_session_connected_now(peer->session))
        peer->backoff_ms = BACKOFF_MS_MIN;
    kvr_peer_arm(peer, now);
}

static void channel_writable(void *self, struct kvr_channel *channel)
{
    struct kvr_peer *peer = kvr_channel_owner(channel);

    (void)self;
    if (peer != NULL)
        kvr_session_writable(peer->session, kvr_clock_now());
}

static void redial_later(struct kvr_peer *peer, kvr_ns now)
{
    uint64_t jitter_us = kvr_random_u64() % (peer->backoff_ms * 500u);

    peer->redial_at = now + peer->backoff_ms * KVR_MS / 2 + jitter_us * KVR_US;
    peer->backoff_ms =
        peer->backoff_ms * 2 < BACKOFF_MS_MAX ? peer->backoff_ms * 2 : BACKOFF_MS_MAX;
}

void kvr_peer_cut(struct kvr_peer *peer, const char *why)
{
    kvr_ns now = kvr_clock_now();

    detach(peer, false);
    snprintf(peer->why, sizeof(peer->why), "%s", why);
    kvr_session_disconnected(peer->session, now);
    redial_later(peer, now);
    kvr_peer_arm(peer, now);
}

static void channel_closed(void *self, struct kvr_channel *channel, kvr_status status,
                           const char *detail)
{
    struct kvr_peers *peers = self;
    struct kvr_peers_owner *owner = &peers->options.owner;
    struct kvr_peer *peer = kvr_channel_owner(channel);
    kvr_tls_refusal refusal = kvr_channel_refusal(channel);
    kvr_ns now = kvr_clock_now();

    kvr_peers_refused(peers, refusal);
    if (peer == NULL) {
        if (owner->turned_away != NULL)
            owner->turned_away(owner->self, now, kvr_channel_name(channel), status, detail);
        return;
    }
    peer->channel = NULL;
    peer->channel_up = false;
    snprintf(peer->why, sizeof(peer->why), "%s", detail);
    kvr_session_disconnected(peer->session, now);
    if (status == KVR_MALFORMED || refusal == KVR_TLS_FLOOD) /* no accident of the connection */
        return kvr_session_end(peer->session, now, KVR_MALFORMED, detail);
    peer->away_at = now;
    redial_later(peer, now);
    kvr_peer_arm(peer, now);
}

static struct kvr_channel_options channel_options(struct kvr_peers *peers, uint32_t attempt)
{
    return (struct kvr_channel_options){
        .handler = {peers, channel_up, channel_frame, channel_writable, channel_closed,
                    kvr_peers_admit},
        .user_timeout_ms = peers->options.beat_ms * KVR_BEATS_MAX,
        .attempt = attempt,
        .credentials = peers->options.credentials,
        .roles = peers->options.roles,
    };
}

/* ---- dialing ---- */

static void dial(struct kvr_peer *peer, kvr_ns now)
{
    struct kvr_channel_options options = channel_options(peer->peers, peer->attempt++);
    struct kvr_channel *channel;
    struct kvr_error error;

    if (kvr_channel_dial(peer->peers->loop, peer->address, &options, &channel, &error) == KVR_OK) {
        peer->channel = channel;
        kvr_channel_set_owner(channel, peer);
        return;
    }
    snprintf(peer->why, sizeof(peer->why), "%s", error.detail);
    redial_later(peer, now);
}

static struct kvr_peer *dialed_before(struct kvr_peers *peers, const char *address)
{
    for (uint32_t i = 0; i < peers->used; i++)
        if (peers->table[i].dialed && strcmp(peers->table[i].address, address) == 0)
            return &peers->table[i];
    return NULL;
}

/* An engine may name any number of dead addresses, and each is dialed until it has been silent for
 * long enough: they must leave room for those that answer. */
static void give_back_unreached(struct kvr_peers *peers)
{
    struct kvr_peer *longest = NULL;
    uint32_t count = 0;

    for (uint32_t i = 0; i < peers->used; i++) {
        struct kvr_peer *peer = &peers->table[i];

        if (!peer->live || !peer->dialed || peer->ending || peer->agent[0] != '\0')
            continue;
        count++;
        if (peer->why[0] != '\0' && (longest == NULL || peer->dialed_at < longest->dialed_at))
            longest = peer;
    }
    if (count >= KVR_PEERS_UNREACHED && longest != NULL)
        kvr_peers_end(peers, longest->index, KVR_PEER_LOST,
                      "no agent answers there, and others are dialed");
}

kvr_status kvr_peers_dial(struct kvr_peers *peers, const char *text, uint32_t *ret_peer,
                          struct kvr_error *error)
{
    char address_text[KVR_ADDRESS_TEXT_BYTES];
    struct kvr_address address;
    struct kvr_peer *peer;
    kvr_ns now = kvr_clock_now();

    KVR_TRY(kvr_address_parse(text, -1, error, &address));
    kvr_address_print(&address, address_text);
    peer = dialed_before(peers, address_text);
    if (peer != NULL && peer->live) {
        *ret_peer = peer->index;
        return KVR_OK;
    }
    give_back_unreached(peers);
    if (peer == NULL)
        peer = kvr_peer_free(peers, now, 0);
    if (peer == NULL)
        return kvr_error_set(error, KVR_FULL, "peers",
                             "cannot dial %s: all %d peers of this agent are in use", text,
                             KVR_PEERS_MAX);
    if (kvr_peer_start(peer, true, address_text, now) != KVR_OK)
        return kvr_error_set(error, KVR_NO_MEMORY, "peers", "no memory for the peer %s", text);
    dial(peer, now);
    kvr_peer_arm(peer, now);
    *ret_peer = peer->index;
    return KVR_OK;
}

/* ---- the owner's side ---- */

kvr_status kvr_peers_open(uv_loop_t *loop, const struct kvr_peers_options *options,
                          struct kvr_peers **ret_peers, struct kvr_error *error)
{
    struct kvr_peers *peers = calloc(1, sizeof(*peers));
    struct kvr_message_decoder *decoder = kvr_message_decoder_open();

    if (peers == NULL || decoder == NULL) {
        free(peers);
        kvr_message_decoder_close(decoder);
        return kvr_error_set(error, KVR_NO_MEMORY, "peers", "no memory for the table of peers");
    }
    peers->loop = loop;
    peers->decoder = decoder;
    peers->armed_at = KVR_NEVER;
    peers->options = *options;
    if (peers->options.beat_ms == 0)
        peers->options.beat_ms = KVR_PEERS_BEAT_MS;
    if (peers->options.queue_bytes == 0)
        peers->options.queue_bytes = KVR_PEERS_QUEUE_BYTES;
    if (peers->options.queue_count == 0)
        peers->options.queue_count = KVR_PEERS_QUEUE_COUNT;
    for (uint32_t i = 0; i < KVR_PEERS_MAX; i++) {
        peers->table[i].peers = peers;
        peers->table[i].index = i;
    }
    uv_timer_init(loop, &peers->timer);
    peers->timer.data = peers;
    *ret_peers = peers;
    return KVR_OK;
}

static void on_peers_closed(uv_handle_t *handle)
{
    struct kvr_peers *peers = handle->data;

    for (uint32_t i = 0; i < peers->used; i++)
        free(peers->table[i].memory);
    kvr_message_decoder_close(peers->decoder);
    free(peers);
}

void kvr_peers_close(struct kvr_peers *peers)
{
    kvr_ns now = kvr_clock_now();

    if (peers == NULL || peers->closing)
        return;
    peers->closing = true;
    for (uint32_t i = 0; i < peers->used; i++)
        if (peers->table[i].live)
            kvr_session_end(peers->table[i].session, now, KVR_PEER_LOST, "the agent has stopped");
    kvr_listener_close(peers->listener);
    uv_close((uv_handle_t *)&peers->timer, on_peers_closed);
}

kvr_status kvr_peers_listen(struct kvr_peers *peers, const char *address, struct kvr_error *error)
{
    struct kvr_channel_options options = channel_options(peers, 0);

    assert(peers->listener == NULL);
    return kvr_listener_open(peers->loop, address, &options, &peers->listener, error);
}

kvr_status kvr_peers_send(struct kvr_peers *peers, uint32_t peer, const struct kvr_message *message)
{
    if (peer >= peers->used || !peers->table[peer].live)
        return KVR_PEER_LOST;
    return kvr_session_send(peers->table[peer].session, kvr_clock_now(), message);
}

void kvr_peers_end(struct kvr_peers *peers, uint32_t index, kvr_status status, const char *detail)
{
    struct kvr_peer *peer;

    if (index >= peers->used || !peers->table[index].live || peers->table[index].ending)
        return;
    peer = &peers->table[index];
    peer->ending = true;
    peer->end_status = status;
    snprintf(peer->end_detail, sizeof(peer->end_detail), "%s", detail);
    kvr_peer_arm(peer, kvr_clock_now());
}
