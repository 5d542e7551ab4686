/* What `kvrail doctor --peer` says about two hosts, but for their rails. Pure. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "agent/agent_needs.h"
#include "tools/doctor_peer.h"

/* Clocks that differ by more make the traces of two hosts hard to read. */
#define CLOCK_DIFFERENCE_S 0.25

bool doctor_unreported(const struct doctor_side *side, bool reported, const char *check,
                       struct doctor_findings *findings)
{
    if (reported)
        return false;
    if (!side->traits_shown)
        doctor_add(findings, check, DOCTOR_ABSENT, NULL,
                   "%s: not reported: the scheduler is older than this kvrail", side->name);
    else if (!side->up)
        doctor_add(findings, check, DOCTOR_ABSENT, NULL,
                   "%s: not reported since the scheduler was started", side->name);
    else
        doctor_add(findings, check, DOCTOR_ABSENT, NULL, "%s: not reported by its version %s",
                   side->name, side->facts.version);
    return true;
}

static bool unreported_by_any(const struct doctor_pair *pair, const char *check,
                              struct doctor_findings *findings)
{
    bool ours = doctor_unreported(&pair->ours, pair->ours.facts.traits.reported, check, findings);

    return doctor_unreported(&pair->theirs, pair->theirs.facts.traits.reported, check, findings) ||
           ours;
}

/* ---- the agents ------------------------------------------------------------------------------ */

static const char *role_name(const struct doctor_side *side)
{
    return side->facts.role == KVR_ROLE_SOURCE ? "prefill" : "decode";
}

static void judge_agent(const struct doctor_side *side, struct doctor_findings *findings)
{
    const char *check = "peer_agent";

    if (side->up)
        doctor_add(findings, check, DOCTOR_OK, NULL, "%s (%s, host %s) is up", side->name,
                   role_name(side), side->facts.host);
    else if (strcmp(side->state, "stopped") == 0)
        doctor_add(findings, check, DOCTOR_WRONG, "start it",
                   "%s (%s, host %s) was stopped %.0f s ago", side->name, role_name(side),
                   side->facts.host, side->silent_s);
    else
        doctor_add(
            findings, check, DOCTOR_WRONG,
            "look whether it runs, at its log, and at the way from its host to the scheduler",
            "%s (%s, host %s) is %s: the scheduler has not heard it for %.0f s", side->name,
            role_name(side), side->facts.host, side->state, side->silent_s);
}

static void judge_agents(const struct doctor_pair *pair, struct doctor_findings *findings)
{
    const struct doctor_side *ours = &pair->ours, *theirs = &pair->theirs;

    if (ours->agent)
        judge_agent(ours, findings);
    judge_agent(theirs, findings);
    if (ours->agent && ours->facts.role == theirs->facts.role)
        doctor_add(findings, "peer_agent", DOCTOR_WRONG, "name a prefill-agent and a decode-agent",
                   "%s and %s are both of role %s, and move nothing between them", ours->name,
                   theirs->name, role_name(theirs));
}

static void judge_insecure(const struct doctor_pair *pair, struct doctor_findings *findings)
{
    const struct doctor_side *ours = &pair->ours, *theirs = &pair->theirs;
    const char *check = "peer_insecure";

    if (ours->agent && ours->facts.secure != theirs->facts.secure)
        doctor_add(findings, check, DOCTOR_WRONG,
                   "give it certificates in place of --insecure (operations.md, \"Certificates\")",
                   "%s runs with --insecure and %s with certificates: they refuse each other",
                   ours->facts.secure ? theirs->name : ours->name,
                   ours->facts.secure ? ours->name : theirs->name);
    else if (!theirs->facts.secure)
        doctor_add(findings, check, DOCTOR_WARNING,
                   "give agents certificates, unless no other user or host reaches this network",
                   "%s runs with --insecure: its peers prove no identity, and agents with "
                   "certificates do not talk to it",
                   theirs->name);
    else
        doctor_add(findings, check, DOCTOR_OK, NULL, "%s takes peers with certificates alone",
                   theirs->name);
}

/* ---- versions -------------------------------------------------------------------------------- */

static void judge_versions(const struct doctor_pair *pair, const char *check, const char *what,
                           const char *ours, const char *theirs, struct doctor_findings *findings)
{
    char remedy[DOCTOR_REMEDY_BYTES];
    int order = strverscmp(ours, theirs);
    const char *older = order < 0 ? pair->ours.name : pair->theirs.name;

    if (order == 0) {
        doctor_add(findings, check, DOCTOR_OK, NULL, "%s %s at both", what, theirs);
        return;
    }
    snprintf(remedy, sizeof(remedy), "update %s of %s first: give all hosts the same", what, older);
    doctor_add(findings, check, DOCTOR_WARNING, remedy, "%s has %s %s, and %s has %s",
               pair->ours.name, what, ours, pair->theirs.name, theirs);
}

static void judge_libfabric(const struct doctor_pair *pair, struct doctor_findings *findings)
{
    const char *check = "peer_libfabric";
    const char *ours = pair->ours.facts.traits.libfabric;
    const char *theirs = pair->theirs.facts.traits.libfabric;

    if (unreported_by_any(pair, check, findings))
        return;
    if (ours[0] == '\0' || theirs[0] == '\0')
        doctor_add(findings, check, DOCTOR_ABSENT, NULL, "%s has loaded none",
                   theirs[0] == '\0' ? pair->theirs.name : pair->ours.name);
    else
        judge_versions(pair, check, "libfabric", ours, theirs, findings);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static bool pins_memory(const struct kvr_agent_facts *facts)
{
    for (uint32_t i = 0; i < facts->rail_count; i++)
        if (facts->rails[i].traits.pins_memory)
            return true;
    return false;
}

static void judge_files(const struct doctor_side *side, struct doctor_findings *findings)
{
    uint64_t limit = side->facts.traits.files_limit, needed = kvr_agent_files_needed();

    if (limit < needed)
        doctor_add(findings, "peer_limits", DOCTOR_WARNING,
                   "raise the limit where it starts (LimitNOFILE= of the unit, ulimit -n)",
                   "%s may open %" PRIu64 " files, and up to %" PRIu64 " are needed", side->name,
                   limit, needed);
    else
        doctor_add(findings, "peer_limits", DOCTOR_OK, NULL,
                   "%s may open as many files as it needs", side->name);
}

static void judge_locked(const struct doctor_side *side, struct doctor_findings *findings)
{
    uint64_t limit = side->facts.traits.lockable_bytes;

    if (!pins_memory(&side->facts))
        doctor_add(findings, "peer_limits", DOCTOR_ABSENT, NULL, "no rail of %s pins memory",
                   side->name);
    else if (limit < kvr_agent_locked_advised())
        doctor_add(findings, "peer_limits", DOCTOR_WARNING,
                   "raise the limit where it starts (the units do; ulimit -l unlimited)",
                   "cards of %s may lock %" PRIu64 " KiB, so larger regions are refused",
                   side->name, limit >> 10);
    else
        doctor_add(findings, "peer_limits", DOCTOR_OK, NULL,
                   "cards of %s may lock as much memory as they need", side->name);
}

/* Of this host the other checks say it. */
static void judge_limits(const struct doctor_side *side, struct doctor_findings *findings)
{
    if (!side->agent ||
        doctor_unreported(side, side->facts.traits.reported, "peer_limits", findings))
        return;
    judge_files(side, findings);
    judge_locked(side, findings);
}

/* ---- clocks ---------------------------------------------------------------------------------- */

static bool judge_synchronised(const struct doctor_side *side, struct doctor_findings *findings)
{
    const struct kvr_host_traits *traits = &side->facts.traits;

    if (doctor_unreported(side, traits->reported, "peer_clock", findings))
        return false;
    if (!traits->clock_known)
        doctor_add(findings, "peer_clock", DOCTOR_ABSENT, NULL,
                   "the kernel of %s does not say whether its clock is synchronised", side->name);
    else if (!traits->clock_synchronised)
        doctor_add(findings, "peer_clock", DOCTOR_WARNING,
                   "run chronyd or systemd-timesyncd there: times of two hosts are compared in "
                   "traces",
                   "the clock of %s is not synchronised", side->name);
    return traits->clock_synchronised;
}

static void judge_difference(const struct doctor_pair *pair, struct doctor_findings *findings)
{
    double ahead_s = pair->theirs.clock_ahead_s - pair->ours.clock_ahead_s;

    if (!pair->ours.clock_heard || !pair->theirs.clock_heard)
        doctor_add(findings, "peer_clock", DOCTOR_ABSENT, NULL,
                   "how far both clocks differ is not known");
    else if (fabs(ahead_s) > CLOCK_DIFFERENCE_S + pair->clock_doubt_s)
        doctor_add(findings, "peer_clock", DOCTOR_WARNING,
                   "let both hosts follow the same time servers",
                   "the clock of %s is about %.1f s %s that of %s", pair->theirs.name,
                   fabs(ahead_s), ahead_s > 0 ? "ahead of" : "behind", pair->ours.name);
    else
        doctor_add(findings, "peer_clock", DOCTOR_OK, NULL,
                   "both clocks differ by less than %.2f s, as reports show",
                   CLOCK_DIFFERENCE_S + pair->clock_doubt_s);
}

static void judge_clocks(const struct doctor_pair *pair, struct doctor_findings *findings)
{
    bool ours = judge_synchronised(&pair->ours, findings);
    bool theirs = judge_synchronised(&pair->theirs, findings);

    if (ours && theirs)
        doctor_add(findings, "peer_clock", DOCTOR_OK, NULL,
                   "both are synchronised, with errors of at most %.1f ms and %.1f ms",
                   (double)pair->ours.facts.traits.clock_error_us / 1e3,
                   (double)pair->theirs.facts.traits.clock_error_us / 1e3);
    judge_difference(pair, findings);
}

/* ---- ports ----------------------------------------------------------------------------------- */

static void judge_dial(const struct doctor_pair *pair, struct doctor_findings *findings)
{
    const struct doctor_side *theirs = &pair->theirs;
    const char *check = "peer_control";

    if (!pair->dial.tried)
        doctor_add(findings, check, DOCTOR_ABSENT, NULL,
                   "%s listens for no agent: it dials prefill-agents itself, so run this check on "
                   "its host with --peer PREFILL-AGENT",
                   theirs->name);
    else if (pair->dial.error.status != KVR_OK)
        doctor_add(findings, check, DOCTOR_WRONG,
                   "let the firewalls on the way pass this port from the decode-agents' hosts, and "
                   "look whether --listen of the agent is an address of that network",
                   "%s of %s takes no connection from here: %s", theirs->facts.listen, theirs->name,
                   pair->dial.error.detail);
    else
        doctor_add(findings, check, DOCTOR_OK, NULL,
                   "%s of %s takes connections from here, within %.1f ms", theirs->facts.listen,
                   theirs->name, (double)pair->dial.took / 1e6);
}

/* Those of the target: sources connect to it. */
static void judge_rail_ports(const struct doctor_side *side, struct doctor_findings *findings)
{
    const struct kvr_host_traits *traits = &side->facts.traits;
    const struct kvr_provider *provider;
    const char *check = "peer_ports";
    char cards[16];

    kvr_provider_cards(side->facts.provider, cards);
    provider = kvr_provider_find(cards);
    if (side->facts.role != KVR_ROLE_TARGET)
        doctor_add(findings, check, DOCTOR_ABSENT, NULL, "no peer connects to rails of %s",
                   side->name);
    else if (provider != NULL && !provider->rail_ports)
        doctor_add(findings, check, DOCTOR_ABSENT, NULL, "rails of %s have no IP ports",
                   side->name);
    else if (doctor_unreported(side, traits->reported, check, findings))
        return;
    else if (traits->rail_port_first == 0)
        doctor_add(findings, check, DOCTOR_OK, NULL,
                   "the kernel chooses the ports of %s's rails; --rail-ports would bound what a "
                   "firewall must let pass",
                   side->name);
    else
        doctor_add(findings, check, DOCTOR_OK, NULL,
                   "rails of %s listen at ports %u to %u; firewalls must let source hosts reach "
                   "them",
                   side->name, traits->rail_port_first, traits->rail_port_last);
}

void doctor_judge_pair_host(const struct doctor_pair *pair, struct doctor_findings *findings)
{
    judge_agents(pair, findings);
    judge_insecure(pair, findings);
    judge_versions(pair, "peer_version", "kvrail", pair->ours.facts.version,
                   pair->theirs.facts.version, findings);
    judge_libfabric(pair, findings);
    judge_limits(&pair->ours, findings);
    judge_limits(&pair->theirs, findings);
    judge_clocks(pair, findings);
    judge_dial(pair, findings);
    judge_rail_ports(&pair->theirs, findings);
    if (pair->ours.agent && pair->theirs.facts.role == KVR_ROLE_SOURCE)
        judge_rail_ports(&pair->ours, findings);
}

void doctor_judge_pair(const struct doctor_pair *pair, struct doctor_findings *findings)
{
    doctor_judge_pair_host(pair, findings);
    doctor_judge_pair_rails(pair, findings);
}
