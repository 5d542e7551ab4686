/* Revocation words (rule 11): those of our engines, where targets copy from their memory, and those
 * of peers' engines from which this agent copies. Only the targets of local copy. */
#include <stdlib.h>
#include <unistd.h>

#include "agent/agent_state.h"
#include "base/log.h"
#include "wire/revocation_offer.h"

/* Offers that no transfer has asked for; beyond it the oldest are forgotten. */
#define UNCLAIMED_MAX KVR_REMOTE_ENGINES_MAX
#define NO_PEER       UINT32_MAX

/* An engine of a peer, as long as it is known or a landing looks at its words. */
struct agent_lender {
    struct agent_lender *next;
    struct kvr_revocation_name name;
    const struct kvr_revocation_words *words;
    uint32_t peer; /* with transfers that have asked for it; NO_PEER: none has */
    uint32_t taken;
    bool gone;
};

/* ---- our engines' words ------------------------------------------------------------------------
 */

kvr_status agent_words_open(struct kvr_agent *agent, uint32_t engine, struct kvr_error *error)
{
    struct agent_lent *lent = &agent->engines[engine].lent;

    return agent->lends ? kvr_revocation_words_create(&lent->fd, &lent->words, error) : KVR_OK;
}

void agent_words_close(struct kvr_agent *agent, uint32_t engine)
{
    struct agent_lent *lent = &agent->engines[engine].lent;

    if (lent->words == NULL)
        return;
    kvr_revocation_words_close(lent->words);
    close(lent->fd);
    lent->words = NULL;
}

int agent_words_fd(void *self, uint32_t engine)
{
    const struct agent_lent *lent = &((struct kvr_agent *)self)->engines[engine].lent;

    return lent->words != NULL ? lent->fd : -1;
}

static _Atomic uint64_t *words_of(void *self, uint32_t engine)
{
    return ((struct kvr_agent *)self)->engines[engine].lent.words->words;
}

/* A target that got no offer refuses what needs it. */
static uint64_t words_offer(void *self, uint32_t engine, uint32_t peer)
{
    struct kvr_agent *agent = self;
    struct kvr_revocation_name name = {agent->boot, agent->engines[engine].serial};
    struct kvr_peer_info info;

    if (kvr_peers_info(agent->peers, peer, &info))
        (void)!kvr_revocation_offer(info.boot, &name, agent->engines[engine].lent.fd);
    return name.number;
}

/* ---- the words of peers' engines ---------------------------------------------------------------
 */

static bool is_named(const struct agent_lender *lender, uint32_t peer,
                     const struct kvr_revocation_name *name)
{
    return !lender->gone && (lender->peer == peer || lender->peer == NO_PEER) &&
           lender->name.boot == name->boot && lender->name.number == name->number;
}

static struct agent_lender *lender_find(struct kvr_agent *agent, uint32_t peer,
                                        const struct kvr_revocation_name *name)
{
    struct agent_lender *lender = agent->lenders;

    while (lender != NULL && !is_named(lender, peer, name))
        lender = lender->next;
    return lender;
}

/* Frees those that are not needed, and of the offers that no transfer has asked for all but the
 * newest. */
static void lenders_sweep(struct kvr_agent *agent)
{
    uint32_t unclaimed = 0;

    for (struct agent_lender **at = &agent->lenders; *at != NULL;) {
        struct agent_lender *lender = *at;

        unclaimed += lender->peer == NO_PEER;
        lender->gone |= lender->peer == NO_PEER && unclaimed > UNCLAIMED_MAX;
        if (!lender->gone || lender->taken > 0) {
            at = &lender->next;
            continue;
        }
        *at = lender->next;
        kvr_revocation_words_close(lender->words);
        free(lender);
    }
}

/* Takes `words`. An offer may come twice: what was made first is as good. */
static void lender_add(struct kvr_agent *agent, const struct kvr_revocation_name *name,
                       const struct kvr_revocation_words *words)
{
    struct agent_lender *lender =
        lender_find(agent, NO_PEER, name) == NULL ? calloc(1, sizeof(*lender)) : NULL;

    if (lender == NULL) {
        kvr_revocation_words_close(words);
        return;
    }
    *lender = (struct agent_lender){
        .next = agent->lenders, .name = *name, .words = words, .peer = NO_PEER};
    agent->lenders = lender;
}

static void offers_hear(struct kvr_agent *agent)
{
    const struct kvr_revocation_words *words;
    struct kvr_revocation_name name;

    for (uint32_t i = 0; i < UNCLAIMED_MAX; i++) {
        if (kvr_revocation_hear(agent->offers_socket, &name, &words) != KVR_OK)
            break;
        lender_add(agent, &name, words);
    }
    lenders_sweep(agent);
}

static void missed_say(struct kvr_agent *agent, uint32_t peer)
{
    if (agent->words_missed_said[peer])
        return;
    agent->words_missed_said[peer] = true;
    kvr_log_warning("an engine of peer %u lends its pages, but its revocation words were not "
                    "offered to this agent: they are not copied over provider local. Both agents "
                    "need one user and one network namespace, and room for descriptors",
                    peer);
}

static const _Atomic uint64_t *revocation_word_take(void *self, uint32_t peer, uint64_t words,
                                                    uint32_t number)
{
    struct kvr_agent *agent = self;
    struct kvr_revocation_name name = {.number = words};
    struct agent_lender *lender;
    struct kvr_peer_info info;

    if (words == 0 || number == 0 || number > KVR_TRANSFERS_MAX ||
        !kvr_peers_info(agent->peers, peer, &info))
        return NULL;
    name.boot = info.boot;
    lender = lender_find(agent, peer, &name);
    if (lender == NULL) {
        offers_hear(agent);
        lender = lender_find(agent, peer, &name);
    }
    if (lender == NULL) {
        missed_say(agent, peer);
        return NULL;
    }
    lender->peer = peer;
    lender->taken++;
    return &lender->words->words[number - 1];
}

static void revocation_word_return(void *self, const _Atomic uint64_t *word)
{
    struct kvr_agent *agent = self;

    for (struct agent_lender *at = agent->lenders; at != NULL; at = at->next)
        if (word >= at->words->words && word < at->words->words + KVR_TRANSFERS_MAX)
            at->taken--;
    lenders_sweep(agent);
}

static void revocation_words_forget(void *self, uint32_t peer, uint64_t words)
{
    struct kvr_agent *agent = self;
    struct kvr_revocation_name name = {.number = words};
    struct agent_lender *lender;
    struct kvr_peer_info info;

    if (!kvr_peers_info(agent->peers, peer, &info))
        return;
    name.boot = info.boot;
    offers_hear(agent); /* what no transfer asked for goes too */
    while ((lender = lender_find(agent, peer, &name)) != NULL)
        lender->gone = true;
    lenders_sweep(agent);
}

/* ---- both --------------------------------------------------------------------------------------
 */

static bool any_target_copies(const struct kvr_agent *agent)
{
    bool copies = false;

    for (uint32_t i = 0; i < agent->rail_count; i++)
        copies |= agent->fabric.ops->rail_facts(agent->rails[i])->target_copies;
    return copies;
}

kvr_status agent_revocation_open(struct kvr_agent *agent, struct kvr_error *error)
{
    if (!any_target_copies(agent))
        return KVR_OK;
    if (agent->machine.role == KVR_ROLE_SOURCE) {
        agent->lends = true;
        agent->ports.revocation_words = words_of;
        agent->ports.revocation_words_offer = words_offer;
        return KVR_OK;
    }
    KVR_TRY(kvr_revocation_listen(agent->boot, &agent->offers_socket, error));
    agent->ports.revocation_word_take = revocation_word_take;
    agent->ports.revocation_word_return = revocation_word_return;
    agent->ports.revocation_words_forget = revocation_words_forget;
    return KVR_OK;
}

void agent_revocation_close(struct kvr_agent *agent)
{
    for (uint32_t i = 0; i < KVR_ENGINES_MAX; i++)
        agent_words_close(agent, i);
    for (struct agent_lender *at = agent->lenders; at != NULL; at = at->next) {
        at->gone = true;
        at->taken = 0;
    }
    lenders_sweep(agent);
    if (agent->offers_socket > 0)
        close(agent->offers_socket);
}
