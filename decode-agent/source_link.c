/* The sessions with source agents: up, lost, writable, and probed after an absence (rule 8).
 *
 * state     | UP | LOST
 * ----------|----|----------
 * AWAITED   | UP | UNREACHED
 * UP        | =  | LOST
 * LOST      | -  | -
 * UNREACHED | -  | -
 *
 * Without its session a transfer is settled or fenced: it never meets another session. */
#include "decode-agent/source_link.h"

#include "decode-agent/fetch.h"
#include "decode-agent/layers.h"
#include "decode-agent/senders.h"
#include "decode-agent/sending.h"

KVR_STATE_TABLE(source_link, LINK) = {
    /* UP, LOST */
    [LINK_AWAITED] = {LINK_UP, LINK_UNREACHED},
    [LINK_UP] = {LINK_UP, LINK_LOST},
    [LINK_LOST] = {NEVER, NEVER},
    [LINK_UNREACHED] = {NEVER, NEVER},
};

void inbound_peer_up(struct inbound *inbound, kvr_ns now, uint32_t peer,
                     const struct kvr_msg_hello *hello)
{
    struct inbound_peer *state = &inbound->peers[peer];

    inbound->now = now;
    state->up = true;
    state->session = hello->session;
    state->unconfirmed = 0;
    state->limits = hello->limits;
    state->digest = hello->digest;
    memcpy(state->agent, hello->agent, sizeof(state->agent));
    state->same_host = false;
    for (uint32_t i = 0; i < hello->rail_count; i++)
        state->same_host |= hello->rails[i].same_host;
    rail_epochs_send(inbound, peer);
    KVR_POOL_EACH (struct transfer, transfer, &inbound->transfers) {
        if (transfer->link.peer != peer || source_link_gone(&transfer->link) ||
            transfer->state != T_WAITING)
            continue;
        source_link_on(&transfer->link.state, LINK_ON_UP);
        fetch_advance(inbound, fetch_of(inbound, transfer));
    }
}

void inbound_peer_lost(struct inbound *inbound, kvr_ns now, uint32_t peer, kvr_status status,
                       const char *detail)
{
    inbound->now = now;
    inbound->peers[peer].up = false;
    KVR_POOL_EACH (struct transfer, transfer, &inbound->transfers) {
        if (transfer->link.peer != peer || source_link_gone(&transfer->link))
            continue;
        source_link_on(&transfer->link.state, LINK_ON_LOST);
        if (transfer->state == T_DRAINING)
            transfer_fence(inbound, transfer);
        else
            transfer_fail(inbound, transfer, status, detail);
    }
    kvr_engines_peer_lost(&inbound->engines, peer);
    senders_lost(inbound, peer);
}

void inbound_peer_writable(struct inbound *inbound, kvr_ns now, uint32_t peer)
{
    inbound->now = now;
    kvr_engines_writable(&inbound->engines, peer);
    KVR_POOL_EACH (struct transfer, transfer, &inbound->transfers) {
        if (transfer->link.peer != peer || source_link_gone(&transfer->link))
            continue;
        if (transfer->state == T_WAITING || transfer->state == T_HELD) {
            fetch_advance(inbound, fetch_of(inbound, transfer));
        } else if (transfer->state == T_WANTED || transfer->state == T_LIVE) {
            pages_send(inbound, transfer);
            regrant_announce(inbound, transfer);
        }
    }
}

/* ---- after an absence ------------------------------------------------------------------------ */

void absence_probe(struct inbound *inbound)
{
    struct kvr_message message = {.kind = KVR_MSG_PROBE, .probe = {.token = ++inbound->probes}};

    for (uint32_t peer = 0; peer < KVR_PEERS_MAX; peer++) {
        if (!inbound->peers[peer].up)
            continue;
        inbound->peers[peer].unconfirmed = inbound->probes;
        inbound_send(inbound, peer, &message);
    }
}

void absence_answered(struct inbound *inbound, uint32_t peer, uint64_t token)
{
    if (inbound->peers[peer].unconfirmed == 0 || inbound->peers[peer].unconfirmed != token)
        return; /* the answer to an absence before this one */
    inbound->peers[peer].unconfirmed = 0;
    KVR_POOL_EACH (struct transfer, transfer, &inbound->transfers) {
        if (transfer->link.peer != peer || source_link_gone(&transfer->link))
            continue;
        if (transfer->state == T_LIVE)
            layers_release(inbound, transfer);
        transfer_check_done(inbound, transfer);
    }
}
