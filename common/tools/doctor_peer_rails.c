/* What `kvrail doctor --peer` says about the rails of two hosts. Rails are compared with those that
 * writes would take: the near pairs of rail_pairs.h. Pure. */
#include <string.h>

#include "tools/doctor_peer_parts.h"

/* What this host would call its planes is not known: then networks alone are compared. */
static void cards_find(const struct doctor_side *side, bool labels, struct doctor_cards *cards)
{
    *cards = (struct doctor_cards){.side = side, .reported = true};
    for (uint32_t i = 0; i < side->facts.rail_count; i++) {
        const struct kvr_rail_snapshot *rail = &side->facts.rails[i];
        const struct kvr_provider *provider = kvr_provider_find(rail->provider);

        if (provider != NULL && provider->same_host_only)
            continue;
        cards->planes[cards->count] = labels ? rail->traits.plane : rail->traits.network;
        cards->list[cards->count++] = rail;
        cards->reported &= rail->traits.reported;
    }
}

static void pairs_find(const struct doctor_pair *pair, struct doctor_rail_pairs *pairs)
{
    struct kvr_rail_pair all[KVR_RAIL_PAIRS_MAX];
    uint32_t count;

    cards_find(&pair->ours, pair->ours.agent, &pairs->ours);
    cards_find(&pair->theirs, pair->ours.agent, &pairs->theirs);
    pairs->count = 0;
    count = kvr_rail_pairs(pairs->ours.planes, pairs->ours.count, pairs->theirs.planes,
                           pairs->theirs.count, all);
    for (uint32_t i = 0; i < count; i++) {
        if (all[i].far)
            continue;
        pairs->ours.paired[all[i].ours] = pairs->theirs.paired[all[i].theirs] = true;
        pairs->list[pairs->count++] = all[i];
    }
}

bool doctor_rails_unreported(const struct doctor_rail_pairs *pairs, const char *check,
                             struct doctor_findings *findings)
{
    bool ours = doctor_unreported(pairs->ours.side, pairs->ours.reported, check, findings);

    return doctor_unreported(pairs->theirs.side, pairs->theirs.reported, check, findings) || ours;
}

/* ---- provider and number --------------------------------------------------------------------- */

/* False: there is nothing more to compare. */
static bool judge_provider(const struct doctor_pair *pair, struct doctor_findings *findings)
{
    char ours[16], theirs[16];

    kvr_provider_cards(pair->ours.facts.provider, ours);
    kvr_provider_cards(pair->theirs.facts.provider, theirs);
    if (strcmp(ours, theirs) == 0) {
        const struct kvr_provider *provider = kvr_provider_find(theirs);

        doctor_add(findings, "peer_provider", DOCTOR_OK, NULL, "%s at both", theirs);
        return provider == NULL || !provider->same_host_only;
    }
    if (ours[0] == '\0')
        doctor_add(findings, "peer_provider", DOCTOR_WRONG, kvr_odd_remedy(KVR_ODD_NO_RAILS),
                   "%s uses provider %s, and %s has no rail of it", pair->theirs.name, theirs,
                   pair->ours.name);
    else
        doctor_add(findings, "peer_provider", DOCTOR_WRONG,
                   "give both --provider of one name: rails of two providers do not reach each "
                   "other",
                   "%s uses provider %s, and %s uses %s", pair->ours.name, ours, pair->theirs.name,
                   theirs);
    return false;
}

struct names {
    uint32_t count;
    const char *first[DOCTOR_NAMES_SHOWN];
};

static void names_add(struct names *names, const char *name)
{
    if (names->count < DOCTOR_NAMES_SHOWN)
        names->first[names->count] = name;
    names->count++;
}

static void judge_down(const struct doctor_cards *cards, struct doctor_findings *findings)
{
    struct names names = {.count = 0};
    char text[DOCTOR_NAMES_BYTES];

    for (uint32_t i = 0; i < cards->count; i++)
        if (cards->list[i]->state == KVR_RAIL_DOWN)
            names_add(&names, cards->list[i]->name);
    doctor_names_show(names.first, names.count, text);
    if (names.count > 0)
        doctor_add(findings, "peer_rails", DOCTOR_WARNING, kvr_odd_remedy(KVR_ODD_RAIL_DOWN),
                   "down at %s: %s", cards->side->name, text);
}

static void judge_number(const struct doctor_rail_pairs *pairs, struct doctor_findings *findings)
{
    uint32_t ours = pairs->ours.count, theirs = pairs->theirs.count;

    if (ours == theirs)
        doctor_add(findings, "peer_rails", DOCTOR_OK, NULL, "%u at both", theirs);
    else
        doctor_add(findings, "peer_rails", DOCTOR_WARNING,
                   "let both use as many cards (--rail): the side with fewer bounds the speed",
                   "%s has %u rail%s, and %s has %u", pairs->ours.side->name, ours,
                   ours == 1 ? "" : "s", pairs->theirs.side->name, theirs);
    judge_down(&pairs->ours, findings);
    judge_down(&pairs->theirs, findings);
}

/* ---- planes ---------------------------------------------------------------------------------- */

/* "eth0 (10.1.0.0/24), eth1 (10.2.0.0/24) and 6 more"; returns how many. */
static uint32_t alone_show(const struct doctor_cards *cards, char ret_text[DOCTOR_NAMES_BYTES])
{
    char shown[DOCTOR_NAMES_SHOWN][KVR_NAME_BYTES];
    const char *names[DOCTOR_NAMES_SHOWN] = {NULL};
    uint32_t count = 0;

    for (uint32_t i = 0; i < cards->count; i++) {
        if (cards->paired[i])
            continue;
        if (count < DOCTOR_NAMES_SHOWN) {
            snprintf(shown[count], sizeof(shown[count]), "%.24s (%.32s)", cards->list[i]->name,
                     cards->planes[i]);
            names[count] = shown[count];
        }
        count++;
    }
    doctor_names_show(names, count, ret_text);
    return count;
}

static bool any_plane(const struct doctor_cards *cards)
{
    for (uint32_t i = 0; i < cards->count; i++)
        if (cards->planes[i][0] != '\0')
            return true;
    return false;
}

static void judge_planes(const struct doctor_rail_pairs *pairs, struct doctor_findings *findings)
{
    static const char *const remedy =
        "give the cards addresses in one network with their partners, or name planes by --plane; "
        "`kvrail topo --peer` shows what reaches what";
    const struct doctor_cards *sides[] = {&pairs->ours, &pairs->theirs};
    const char *check = "peer_planes";
    char text[DOCTOR_NAMES_BYTES];
    uint32_t alone = 0;

    if (doctor_rails_unreported(pairs, check, findings))
        return;
    for (int i = 0; i < 2; i++) {
        uint32_t count = alone_show(sides[i], text);

        alone += count;
        if (count > 0)
            doctor_add(findings, check, pairs->count == 0 ? DOCTOR_WRONG : DOCTOR_WARNING, remedy,
                       "no rail of %s is in a plane or network of %u of %s: %s",
                       sides[1 - i]->side->name, count, sides[i]->side->name, text);
    }
    if (alone > 0)
        return;
    if (any_plane(&pairs->ours) && any_plane(&pairs->theirs))
        doctor_add(findings, check, DOCTOR_OK, NULL,
                   "every rail has a partner in its plane or network");
    else
        doctor_add(findings, check, DOCTOR_ABSENT, NULL,
                   "no plane or network is known at %s, so any rail may reach any",
                   any_plane(&pairs->ours) ? pairs->theirs.side->name : pairs->ours.side->name);
}

/* Ends that agree on doing nothing lose packets all the same. */
static void judge_lossless(const struct doctor_cards *cards, struct doctor_findings *findings)
{
    struct names names = {.count = 0};
    char text[DOCTOR_NAMES_BYTES];

    for (uint32_t i = 0; i < cards->count; i++) {
        const struct kvr_link *link = &cards->list[i]->traits.link;

        if (link->pfc_known && link->pfc == 0 && link->ecn_known && link->ecn == 0)
            names_add(&names, cards->list[i]->name);
    }
    doctor_names_show(names.first, names.count, text);
    if (names.count > 0)
        doctor_add(
            findings, "peer_lossless", DOCTOR_WARNING,
            "turn on PFC or ECN for the priority of RoCE, on the switches too: a lost packet "
            "costs RoCE much",
            "RoCE cards of %s without PFC and without ECN: %s", cards->side->name, text);
}

void doctor_judge_pair_rails(const struct doctor_pair *pair, struct doctor_findings *findings)
{
    struct doctor_rail_pairs pairs;

    if (!judge_provider(pair, findings))
        return;
    pairs_find(pair, &pairs);
    judge_number(&pairs, findings);
    judge_planes(&pairs, findings);
    doctor_compare_rails(&pairs, findings);
    judge_lossless(&pairs.ours, findings);
    judge_lossless(&pairs.theirs, findings);
}
