/* The rows of pairs of rails in a report. */
#include <stdlib.h>

#include "base/proto.h"
#include "trace/report_parts.h"

struct report_pairs_space {
    Kvrail__Report__PeerPairs peers[KVR_REPORT_PEERS_MAX], *peer_list[KVR_REPORT_PEERS_MAX];
    Kvrail__Report__Pair pairs[KVR_REPORT_PAIRS_MAX], *pair_list[KVR_REPORT_PAIRS_MAX];
};

#define PAIR_FIELDS(X) X(rail) X(target_rail) X(bytes) X(state_ns) X(breaks) X(renewals)

static void pair_put(const struct kvr_pair_facts *in, Kvrail__Report__Pair *out)
{
    kvrail__report__pair__init(out);
    PAIR_FIELDS(KVR_PROTO_COPY)
    out->state = kvr_proto_text(kvr_pair_state_name(in->state));
    out->detail = kvr_proto_text(in->detail);
}

kvr_status report_pairs_put(const struct kvr_report_pairs *in, Kvrail__Report__Report *out,
                            struct report_pairs_space **ret_space)
{
    struct report_pairs_space *space;

    if (in->peer_count > KVR_REPORT_PEERS_MAX || in->pair_count > KVR_REPORT_PAIRS_MAX)
        return KVR_TOO_LARGE;
    space = malloc(sizeof(*space));
    if (space == NULL)
        return KVR_NO_MEMORY;
    for (uint32_t i = 0; i < in->pair_count; i++) {
        pair_put(&in->pairs[i], &space->pairs[i]);
        space->pair_list[i] = &space->pairs[i];
    }
    for (uint32_t i = 0; i < in->peer_count; i++) {
        const struct kvr_peer_pairs *peer = &in->peers[i];
        Kvrail__Report__PeerPairs *to = &space->peers[i];

        kvrail__report__peer_pairs__init(to);
        to->peer = kvr_proto_text(peer->peer);
        to->n_pairs = peer->pair_count;
        to->pairs = &space->pair_list[peer->pair_first];
        space->peer_list[i] = to;
    }
    out->n_pairs = in->peer_count;
    out->pairs = space->peer_list;
    *ret_space = space;
    return KVR_OK;
}

void report_pairs_free(struct report_pairs_space *space)
{
    free(space);
}

static const char *pair_get(const Kvrail__Report__Pair *in, struct kvr_pair_facts *out)
{
    if (in->rail >= KVR_RAILS_MAX)
        return "pairs.rail";
    if (in->target_rail >= KVR_RAILS_MAX)
        return "pairs.target_rail";
    if (!report_copy_text(in->detail, out->detail, sizeof(out->detail)))
        return "pairs.detail";
    PAIR_FIELDS(KVR_PROTO_COPY)
    out->state = kvr_pair_state_from_name(in->state);
    return NULL;
}

static const char *peer_get(const Kvrail__Report__PeerPairs *in, struct kvr_report_pairs *pairs)
{
    struct kvr_peer_pairs *out = &pairs->peers[pairs->peer_count++];
    const char *wrong = NULL;

    if (in->peer[0] == '\0' || !report_copy_text(in->peer, out->peer, sizeof(out->peer)))
        return "pairs.peer";
    if (in->n_pairs > KVR_REPORT_PAIRS_MAX - pairs->pair_count)
        return "pairs";
    out->pair_first = pairs->pair_count;
    out->pair_count = (uint32_t)in->n_pairs;
    for (uint32_t i = 0; i < out->pair_count && wrong == NULL; i++)
        wrong = pair_get(in->pairs[i], &pairs->pairs[pairs->pair_count++]);
    return wrong;
}

const char *report_pairs_get(const Kvrail__Report__Report *in, struct kvr_report_pairs *pairs)
{
    const char *wrong = NULL;

    if (in->n_pairs > KVR_REPORT_PEERS_MAX)
        return "pairs";
    for (size_t i = 0; i < in->n_pairs && wrong == NULL; i++)
        wrong = peer_get(in->pairs[i], pairs);
    return wrong;
}
