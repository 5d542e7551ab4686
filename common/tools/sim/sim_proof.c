/* Secrets and tenants of requests, and WANTs that do not prove the one or name another of the
 * other: what no target may gain by such a one. */
#include "tools/sim/sim_world.h"

#include <string.h>

#include "decode-agent/fetch.h"
#include "decode-agent/transfer.h"

void sim_secret(const struct sim_request *request, struct kvr_secret *ret_secret)
{
    uint64_t word = request->world->seed ^ (uint64_t)(request->number + 1) << 32;

    for (size_t i = 0; i < sizeof(ret_secret->bytes); i += sizeof(word)) {
        word = kvr_mix64(word + i);
        memcpy(ret_secret->bytes + i, &word, sizeof(word));
    }
}

static const char *const tenants[SIM_TENANTS] = {"red", "blue"};

const char *sim_tenant(const struct sim_request *request, bool foreign)
{
    return tenants[(request->number + foreign) % SIM_TENANTS];
}

void sim_tenants(struct kvr_rng *rng, struct kvr_tenants *ret_tenants)
{
    struct kvr_error error;

    kvr_tenants_init(ret_tenants);
    ret_tenants->count = 0;
    for (uint32_t i = 0; i < SIM_TENANTS; i++) {
        (void)!kvr_tenants_add(ret_tenants, tenants[i], &error);
        ret_tenants->list[i].weight = (uint32_t)kvr_rng_between(rng, 1, 4);
    }
}

static struct sim_fetch *fetch_of_transfer(struct sim_agent *agent, const struct transfer *transfer)
{
    uint64_t handle = fetch_of(agent->inbound, transfer)->handle;
    struct sim_publish *publish;
    struct sim_fetch *fetch;
    const struct sim_user *user;
    uint32_t owner = 0;

    while ((user = sim_user_next(agent->world, &owner, &publish, &fetch)) != NULL)
        if (fetch != NULL && user->open && user->handle == handle && user->engine->agent == agent)
            return fetch;
    return NULL;
}

/* None, a wrong one, that of another session, that of another transfer. */
static void spoil(struct sim_agent *agent, uint32_t peer, const struct transfer *transfer,
                  struct kvr_msg_want *want)
{
    struct kvr_rng *rng = &agent->world->rng;
    uint64_t session = agent->inbound->peers[peer].session, nonce = transfer->nonce;

    switch (kvr_rng_below(rng, 4)) {
    case 0:
        want->proof = (struct kvr_proof){{0}};
        return;
    case 1:
        want->proof.bytes[kvr_rng_below(rng, KVR_PROOF_BYTES)] ^=
            (uint8_t)(1u << kvr_rng_below(rng, 8));
        return;
    case 2:
        session ^= UINT64_C(1) << kvr_rng_below(rng, 64);
        break;
    default:
        nonce ^= UINT64_C(1) << kvr_rng_below(rng, 64);
        break;
    }
    kvr_proof(&transfer->proof_key, session, nonce, &want->target, &want->proof);
}

struct sim_fetch *sim_proof_spoil(struct sim_agent *agent, uint32_t peer,
                                  struct kvr_message *message)
{
    struct sim_world *world = agent->world;
    const struct transfer *transfer;
    struct sim_fetch *fetch;
    uint32_t index;

    if (message->kind != KVR_MSG_WANT || world->unproven_count == SIM_UNPROVEN ||
        (!sim_has(world, SIM_PROOF) && !sim_has(world, SIM_TENANT)) ||
        !kvr_table_find(&agent->inbound->by_nonce, message->transfer, &index))
        return NULL;
    transfer = kvr_pool_at(&agent->inbound->transfers, index, NULL);
    fetch = fetch_of_transfer(agent, transfer);
    if (fetch == NULL || fetch->foreign)
        return fetch;
    if (!sim_has(world, SIM_PROOF) || !kvr_rng_percent(&world->rng, 20))
        return NULL;
    spoil(agent, peer, transfer, &message->want);
    return fetch;
}

void sim_proof_spoiled(struct sim_fetch *fetch, uint64_t transfer)
{
    struct sim_world *world = fetch->request->world;

    world->unproven[world->unproven_count++] = transfer;
    fetch->unproven = true;
    for (uint32_t i = 0; i < fetch->source_count; i++)
        fetch->publishes[i]->disturbed = true;
    sim_injected(world, fetch->foreign ? SIM_TENANT : SIM_PROOF);
}

/* The reasons that an honest WANT gets too, of a request that no engine has published. */
static bool says_nothing(const struct kvr_msg_reason *reason)
{
    static const kvr_status harmless[] = {KVR_NO_SOURCE, KVR_NOT_AUTHORIZED, KVR_DRAINING,
                                          KVR_STALE,     KVR_ENGINE_LOST,    KVR_FULL,
                                          KVR_NO_MEMORY, KVR_INVALID,        KVR_MALFORMED};

    for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
        if (reason->status == harmless[i])
            return true;
    return false;
}

void sim_proof_check_answer(struct sim_agent *agent, const struct kvr_message *message)
{
    struct sim_world *world = agent->world;
    bool unproven = false;

    for (uint32_t i = 0; agent->source && i < world->unproven_count; i++)
        unproven = unproven || (message->transfer != 0 && message->transfer == world->unproven[i]);
    if (!unproven || message->kind == KVR_MSG_UNKNOWN || message->kind == KVR_MSG_QUIET)
        return;
    if (message->kind != KVR_MSG_FAIL && message->kind != KVR_MSG_CANCEL)
        sim_fail(world, -1, "a target without the secret or the tenant is sent %s",
                 kvr_message_name(message->kind));
    else if (!says_nothing(&message->reason))
        sim_fail(world, -1, "a target without the secret or the tenant learns that its request %s",
                 kvr_status_name(message->reason.status));
}
