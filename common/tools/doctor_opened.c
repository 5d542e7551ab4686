/* What `kvrail doctor` says about the cards that an agent would open without --rail. Pure. */
#include <string.h>

#include "tools/doctor.h"

#define REMEDY_NONE                                                                                \
    "do as the sentences of the cards say, or name a card with --rail; without one the agent "     \
    "does not start"

static const char *const check = "rail_all";

static void judge_count(const struct doctor_opened *opened, bool asked,
                        struct doctor_findings *findings)
{
    uint32_t count = opened->cards.count;

    if (count == 0)
        doctor_add(findings, check, asked ? DOCTOR_WRONG : DOCTOR_WARNING, REMEDY_NONE,
                   "an agent of provider %s finds no usable card", opened->provider);
    else if (count > KVR_AGENT_CARDS_MAX)
        doctor_add(findings, check, asked ? DOCTOR_WRONG : DOCTOR_WARNING,
                   "name the cards of each agent with --rail, and start several agents",
                   "provider %s has %u usable cards, and an agent uses at most %d",
                   opened->provider, count, KVR_AGENT_CARDS_MAX);
    else
        doctor_add(findings, check, DOCTOR_OK, NULL, "an agent of provider %s opens %u card%s: %s",
                   opened->provider, count, count == 1 ? "" : "s", opened->names);
}

static void judge_left_out(const struct doctor_opened *opened, struct doctor_findings *findings)
{
    const struct kvr_host_cards *cards = &opened->cards;

    for (uint32_t i = 0; i < cards->left_out_count && i < KVR_LEFT_OUT_MAX; i++)
        doctor_add(findings, check, DOCTOR_WARNING, "mend the card, or name the others with --rail",
                   "an agent of provider %s leaves out %s", opened->provider, cards->left_out[i]);
    if (cards->left_out_count > KVR_LEFT_OUT_MAX)
        doctor_add(findings, check, DOCTOR_WARNING, "see `kvrail topo`",
                   "an agent of provider %s leaves out %u more", opened->provider,
                   cards->left_out_count - KVR_LEFT_OUT_MAX);
}

static const struct doctor_opened *opened_of(const struct doctor_facts *facts, const char *provider)
{
    for (unsigned i = 0; i < facts->opened_count; i++)
        if (strcmp(facts->opened[i].provider, provider) == 0 && facts->opened[i].cards.count > 0)
            return &facts->opened[i];
    return NULL;
}

/* The two fabrics of an EFA card cannot write to each other, so a fleet names one of them. */
static void judge_efa_direct(const struct doctor_facts *facts, struct doctor_findings *findings)
{
    const char *name = "efa_direct";
    const struct doctor_opened *efa = opened_of(facts, "efa");

    if (opened_of(facts, "efa-direct") != NULL)
        doctor_add(findings, name, DOCTOR_OK, NULL,
                   "this host offers efa-direct; agents take it by --provider efa-direct, all of a "
                   "fleet or none");
    else if (efa != NULL && facts->provider[0] == '\0')
        doctor_add(findings, name, DOCTOR_OK, NULL,
                   "this host offers efa, and not efa-direct, which needs libfabric 2.4");
    else
        doctor_add(findings, name, DOCTOR_ABSENT, NULL, "no card here offers efa-direct");
}

void doctor_judge_opened(const struct doctor_facts *facts, struct doctor_findings *findings)
{
    for (unsigned i = 0; i < facts->opened_count; i++) {
        const struct doctor_opened *opened = &facts->opened[i];

        judge_count(opened, strcmp(opened->provider, facts->provider) == 0, findings);
        judge_left_out(opened, findings);
    }
    if (facts->opened_count == 0)
        doctor_add(findings, check, DOCTOR_ABSENT, NULL,
                   "no provider here opens every card by default");
    judge_efa_direct(facts, findings);
}
