/* Keys of one transfer alone (rule 14). A write with a key that is closed is a misuse of the
 * simulated fabric; here is what no write shows. */
#include "tools/sim/sim_keys.h"
#include "decode-agent/transfer.h"

static bool names(const struct landing_spans *spans, uint64_t key)
{
    for (uint32_t i = 0; i < spans->count; i++)
        if (spans->list[i].key.key == key)
            return true;
    return false;
}

/* NULL: no transfer has the key. */
static const struct transfer *owner_of(const struct sim_agent *agent, uint64_t key)
{
    KVR_POOL_EACH (struct transfer, transfer, &agent->inbound->transfers)
        if (transfer->keys.spans != NULL && names(transfer->keys.spans, key))
            return transfer;
    return NULL;
}

void sim_keys_check(const struct sim_agent *agent)
{
    uint32_t at = 0;

    for (uint64_t key = kvr_sim_host_key(agent->host, &at); key != 0;
         key = kvr_sim_host_key(agent->host, &at)) {
        const struct transfer *transfer = owner_of(agent, key);

        if (transfer == NULL || transfer_settled(transfer)) {
            sim_fail(agent->world, -1, "a key of agent %u is open after its transfer has settled",
                     agent->number);
            return;
        }
    }
}

/* The rail thread may have closed them: no write follows where every chunk has come. */
static bool all_in(const struct sim_agent *agent, uint64_t nonce)
{
    const struct transfer *transfer;
    uint32_t index;

    if (!kvr_table_find(&agent->inbound->by_nonce, nonce, &index))
        return false;
    transfer = kvr_pool_at(&agent->inbound->transfers, index, NULL);
    return transfer != NULL && transfer->grant.landing->all_reported;
}

void sim_keys_check_grant(const struct sim_agent *agent, const struct kvr_message *message)
{
    const struct kvr_msg_grant *grant = &message->grant;

    if (agent->source || message->kind != KVR_MSG_GRANT || all_in(agent, message->transfer))
        return;
    for (uint32_t i = 0; i < grant->rail_count; i++)
        for (uint32_t k = 0; k < grant->key_count; k++)
            if (grant->keys[k].key != 0 &&
                !kvr_sim_rail_has_key(agent->rails[grant->rails[i].rail], grant->keys[k].key))
                sim_fail(agent->world, -1, "agent %u sends a GRANT with a key that is not open",
                         agent->number);
}

void sim_keys_check_empty(const struct sim_agent *agent)
{
    uint32_t at = 0;

    if (!agent->source && kvr_sim_host_key(agent->host, &at) != 0)
        sim_fail(agent->world, -1, "agent %u keeps the key of a transfer open", agent->number);
}
