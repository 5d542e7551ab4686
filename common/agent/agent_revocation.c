/* Revocation words (rule 11): ours, where targets copy from our engines' memory, and those of the
 * peers from which this agent copies. Only the targets of local copy. */
#include <stdlib.h>
#include <unistd.h>

#include "agent/agent_state.h"
#include "base/log.h"
#include "wire/revocation_offer.h"

/* A boot of a peer: mapped until it is lost and no landing looks at it any more. */
struct agent_lender {
    struct agent_lender *next;
    const struct kvr_revocation_words *revocation_words;
    uint32_t peer, taken;
    bool up;
};

static const _Atomic uint64_t *revocation_word_take(void *self, uint32_t peer, uint32_t number)
{
    struct agent_lender *lender = ((struct kvr_agent *)self)->lenders;

    while (lender != NULL && (!lender->up || lender->peer != peer))
        lender = lender->next;
    if (lender == NULL || number == 0 || number > KVR_TRANSFERS_MAX)
        return NULL;
    lender->taken++;
    return &lender->revocation_words->words[number - 1];
}

static void lenders_sweep(struct kvr_agent *agent)
{
    for (struct agent_lender **at = &agent->lenders; *at != NULL;) {
        struct agent_lender *lender = *at;

        if (lender->up || lender->taken > 0) {
            at = &lender->next;
            continue;
        }
        *at = lender->next;
        kvr_revocation_words_close(lender->revocation_words);
        free(lender);
    }
}

static void revocation_word_return(void *self, const _Atomic uint64_t *word)
{
    struct kvr_agent *agent = self;

    for (struct agent_lender *at = agent->lenders; at != NULL; at = at->next)
        if (word >= at->revocation_words->words &&
            word < at->revocation_words->words + KVR_TRANSFERS_MAX)
            at->taken--;
    lenders_sweep(agent);
}

void agent_words_offer(struct kvr_agent *agent, uint64_t boot)
{
    if (agent->revocation_words != NULL)
        (void)!kvr_revocation_offer(boot, agent->revocation_fd);
}

static const struct kvr_revocation_words *offer_remove(struct kvr_agent *agent, uint32_t index)
{
    const struct kvr_revocation_words *words = agent->offers[index];

    agent->offer_count--;
    for (uint32_t i = index; i < agent->offer_count; i++)
        agent->offers[i] = agent->offers[i + 1];
    return words;
}

/* Offers that no session followed make room for later ones. */
static void offers_hear(struct kvr_agent *agent)
{
    const struct kvr_revocation_words *words;

    for (uint32_t i = 0; i < KVR_PEERS_MAX; i++) {
        if (kvr_revocation_hear(agent->offers_socket, &words) != KVR_OK)
            return;
        if (agent->offer_count == KVR_PEERS_MAX)
            kvr_revocation_words_close(offer_remove(agent, 0));
        agent->offers[agent->offer_count++] = words;
    }
}

/* What the prefill-agent of that boot offered before its WELCOME; NULL: nothing. */
static const struct kvr_revocation_words *offer_take(struct kvr_agent *agent, uint64_t boot)
{
    offers_hear(agent);
    for (uint32_t i = 0; i < agent->offer_count; i++)
        if (agent->offers[i]->boot == boot)
            return offer_remove(agent, i);
    return NULL;
}

kvr_status agent_lender_up(struct kvr_agent *agent, uint32_t peer,
                           const struct kvr_msg_hello *hello, struct kvr_error *error)
{
    struct agent_lender *lender;
    kvr_status status = KVR_OK;

    if (agent->ports.revocation_word_take == NULL)
        return KVR_OK;
    lender = calloc(1, sizeof(*lender));
    if (lender == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "agent",
                             "no memory for a peer's revocation words");
    lender->revocation_words = offer_take(agent, hello->boot);
    if (lender->revocation_words == NULL)
        status = kvr_revocation_words_open(hello->revocation_pid, hello->revocation_fd, hello->boot,
                                           &lender->revocation_words, error);
    if (status != KVR_OK) {
        free(lender);
        return status;
    }
    lender->peer = peer;
    lender->up = true;
    lender->next = agent->lenders;
    agent->lenders = lender;
    return KVR_OK;
}

void agent_lender_lost(struct kvr_agent *agent, uint32_t peer)
{
    for (struct agent_lender *at = agent->lenders; at != NULL; at = at->next)
        if (at->peer == peer)
            at->up = false;
    lenders_sweep(agent);
}

static bool any_target_copies(const struct kvr_agent *agent)
{
    bool copies = false;

    for (uint32_t i = 0; i < agent->rail_count; i++)
        copies |= agent->fabric.ops->rail_facts(agent->rails[i])->target_copies;
    return copies;
}

kvr_status agent_revocation_open(struct kvr_agent *agent, struct kvr_error *error)
{
    kvr_status status = KVR_OK;

    if (!any_target_copies(agent))
        return KVR_OK;
    if (agent->machine.role == KVR_ROLE_SOURCE) {
        status = kvr_revocation_words_create(agent->boot, &agent->revocation_fd,
                                             &agent->revocation_words, error);
        if (status == KVR_OK)
            agent->ports.revocation_words = agent->revocation_words->words;
        return status;
    }
    KVR_TRY(kvr_revocation_listen(agent->boot, &agent->offers_socket, error));
    agent->ports.revocation_word_take = revocation_word_take;
    agent->ports.revocation_word_return = revocation_word_return;
    return KVR_OK;
}

void agent_revocation_close(struct kvr_agent *agent)
{
    for (struct agent_lender *at = agent->lenders; at != NULL; at = at->next) {
        at->up = false;
        at->taken = 0;
    }
    lenders_sweep(agent);
    while (agent->offer_count > 0)
        kvr_revocation_words_close(offer_remove(agent, agent->offer_count - 1));
    if (agent->offers_socket > 0)
        close(agent->offers_socket);
    kvr_revocation_words_close(agent->revocation_words);
    if (agent->revocation_fd > 0)
        close(agent->revocation_fd);
}
