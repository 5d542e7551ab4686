/* Which agent a peer is, as it says and as its certificate does, and whether that still holds. */
#include "agent/peer/peer_parts.h"

bool kvr_peers_info(const struct kvr_peers *peers, uint32_t index, struct kvr_peer_info *ret_info)
{
    const struct kvr_peer *peer;

    if (index >= peers->used)
        return false;
    peer = &peers->table[index];
    *ret_info = (struct kvr_peer_info){
        .live = peer->live,
        .connected = peer->live && kvr_session_connected_now(peer->session),
        .session = peer->live ? kvr_session_number(peer->session) : 0,
        .boot = peer->boot,
        .agent = peer->agent,
        .address = peer->address,
    };
    return true;
}

const struct kvr_identity *kvr_peers_identity(const struct kvr_peers *peers, uint32_t index)
{
    const struct kvr_peer *peer = &peers->table[index];
    const struct kvr_identity *now = NULL;

    if (index >= peers->used || !peer->live)
        return NULL;
    if (peer->channel_up)
        now = kvr_channel_peer(peer->channel); /* it may be newer than the session */
    return now != NULL || !peer->proven ? now : &peer->identity;
}

void kvr_peer_prove(struct kvr_peer *peer)
{
    const struct kvr_identity *identity = kvr_channel_peer(peer->channel);

    peer->proven = identity != NULL;
    if (identity != NULL)
        peer->identity = *identity;
}

bool kvr_peer_is(const struct kvr_peer *peer, const struct kvr_channel *channel)
{
    const struct kvr_identity *identity = kvr_channel_peer(channel);

    if (identity == NULL || !peer->proven)
        return identity == NULL && !peer->proven;
    return kvr_identity_same(identity, &peer->identity);
}

void kvr_peers_refused(struct kvr_peers *peers, kvr_tls_refusal refusal)
{
    struct kvr_peers_owner *owner = &peers->options.owner;

    if (refusal != KVR_TLS_REFUSAL_END && owner->refused != NULL)
        owner->refused(owner->self, refusal);
}

kvr_status kvr_peers_name_check(struct kvr_peers *peers, const struct kvr_channel *channel,
                                const struct kvr_msg_hello *hello, struct kvr_error *error)
{
    const struct kvr_identity *identity = kvr_channel_peer(channel);

    if (identity == NULL || strcmp(identity->name, hello->agent) == 0)
        return KVR_OK;
    kvr_peers_refused(peers, KVR_TLS_NAME);
    return kvr_error_set(error, KVR_REFUSED, "peer",
                         "it calls itself \"%.63s\", but its certificate names %.63s", hello->agent,
                         identity->name);
}

void kvr_peers_judge(struct kvr_peers *peers)
{
    for (uint32_t i = 0; i < peers->used; i++) {
        struct kvr_peer *peer = &peers->table[i];
        struct kvr_error error = {0};
        kvr_tls_refusal refusal = KVR_TLS_REFUSAL_END;

        if (peer->live && peer->channel_up)
            refusal = kvr_channel_check(peer->channel, &error);
        if (refusal == KVR_TLS_REFUSAL_END)
            continue;
        kvr_peers_refused(peers, refusal);
        if (refusal == KVR_TLS_UNKNOWN_CA && !peer->ending) /* it may have one of another CA */
            kvr_peer_cut(peer, error.detail);
        else
            kvr_peers_end(peers, i, KVR_REFUSED, error.detail);
    }
}

void kvr_peers_expire(struct kvr_peers *peers, int64_t now)
{
    for (uint32_t i = 0; i < peers->used; i++) {
        struct kvr_peer *peer = &peers->table[i];

        if (peer->live && peer->channel_up && !peer->ending &&
            kvr_channel_peer_expiry(peer->channel) <= now) {
            kvr_peers_refused(peers, KVR_TLS_EXPIRED);
            kvr_peer_cut(peer, "its certificate expired");
        }
    }
}
