/* What the rails of a pair should have in common. Pure. */
#include <stdio.h>

#include "tools/doctor_peer_parts.h"

#define SHOWN_BYTES 64

typedef enum verdict { UNKNOWN, EQUAL, DIFFERENT } verdict;

static verdict compare_numbers(uint64_t a, uint64_t b)
{
    if (a == 0 || b == 0)
        return UNKNOWN;
    return a == b ? EQUAL : DIFFERENT;
}

static verdict compare_speeds(const struct kvr_rail_snapshot *a, const struct kvr_rail_snapshot *b)
{
    return compare_numbers(a->speed_bps, b->speed_bps);
}

static void show_speed(const struct kvr_rail_snapshot *rail, char ret_text[SHOWN_BYTES])
{
    snprintf(ret_text, SHOWN_BYTES, "%.0f Gb/s", (double)rail->speed_bps / 1e9);
}

static verdict compare_mtus(const struct kvr_rail_snapshot *a, const struct kvr_rail_snapshot *b)
{
    return compare_numbers(a->traits.link.mtu, b->traits.link.mtu);
}

static void show_mtu(const struct kvr_rail_snapshot *rail, char ret_text[SHOWN_BYTES])
{
    snprintf(ret_text, SHOWN_BYTES, "an MTU of %u", rail->traits.link.mtu);
}

static verdict compare_links(const struct kvr_rail_snapshot *a, const struct kvr_rail_snapshot *b)
{
    return compare_numbers(a->traits.link.kind, b->traits.link.kind);
}

static void show_link(const struct kvr_rail_snapshot *rail, char ret_text[SHOWN_BYTES])
{
    snprintf(ret_text, SHOWN_BYTES, "%s", kvr_link_name(rail->traits.link.kind));
}

static verdict compare_priorities(bool known, uint32_t a, uint32_t b)
{
    if (!known)
        return UNKNOWN;
    return a == b ? EQUAL : DIFFERENT;
}

static verdict compare_pfc(const struct kvr_rail_snapshot *a, const struct kvr_rail_snapshot *b)
{
    return compare_priorities(a->traits.link.pfc_known && b->traits.link.pfc_known,
                              a->traits.link.pfc, b->traits.link.pfc);
}

static verdict compare_ecn(const struct kvr_rail_snapshot *a, const struct kvr_rail_snapshot *b)
{
    return compare_priorities(a->traits.link.ecn_known && b->traits.link.ecn_known,
                              a->traits.link.ecn, b->traits.link.ecn);
}

/* "priorities 3 4" or "no priority" */
static void show_priorities(uint32_t bits, const char *what, char ret_text[SHOWN_BYTES])
{
    int used =
        snprintf(ret_text, SHOWN_BYTES, bits == 0 ? "%s on no priority" : "%s on priority", what);

    for (int i = 0; i < 8; i++)
        if ((bits >> i & 1) != 0)
            used += snprintf(ret_text + used, SHOWN_BYTES - (size_t)used, " %d", i);
}

static void show_pfc(const struct kvr_rail_snapshot *rail, char ret_text[SHOWN_BYTES])
{
    show_priorities(rail->traits.link.pfc, "PFC", ret_text);
}

static void show_ecn(const struct kvr_rail_snapshot *rail, char ret_text[SHOWN_BYTES])
{
    show_priorities(rail->traits.link.ecn, "ECN", ret_text);
}

static verdict compare_paths(const struct kvr_rail_snapshot *a, const struct kvr_rail_snapshot *b)
{
    if (a->traits.device_path == KVR_PATH_NONE || b->traits.device_path == KVR_PATH_NONE)
        return UNKNOWN;
    return kvr_path_direct(a->traits.device_path) == kvr_path_direct(b->traits.device_path)
               ? EQUAL
               : DIFFERENT;
}

static void show_path(const struct kvr_rail_snapshot *rail, char ret_text[SHOWN_BYTES])
{
    snprintf(ret_text, SHOWN_BYTES,
             kvr_path_direct(rail->traits.device_path) ? "GPUDirect (%s)" : "pages on GPUs %s",
             kvr_path_name(rail->traits.device_path));
}

/* In the order of the findings. */
static const struct comparison {
    const char *check;
    verdict (*compare)(const struct kvr_rail_snapshot *a, const struct kvr_rail_snapshot *b);
    void (*show)(const struct kvr_rail_snapshot *rail, char ret_text[SHOWN_BYTES]);
    bool reported; /* by newer agents alone */
    doctor_state state;
    const char *remedy;
    const char *unknown; /* of every pair */
} comparisons[] = {
    {"peer_speed", compare_speeds, show_speed, false, DOCTOR_WARNING,
     "pair cards of one speed, or name the fast ones by --rail: the slower end bounds a pair",
     "no link speed is known at both ends of a pair"},
    {"peer_mtu", compare_mtus, show_mtu, true, DOCTOR_WARNING,
     "set one MTU on both and on the switches between (ip link set NAME mtu N): larger packets "
     "are lost or cut on the way",
     "no MTU is known at both ends of a pair"},
    {"peer_link", compare_links, show_link, true, DOCTOR_WRONG,
     "give both cards one kind of link and GID (RoCE: cma_roce_mode of rdma_cm)",
     "no kind of link is known at both ends of a pair"},
    {"peer_pfc", compare_pfc, show_pfc, true, DOCTOR_WARNING,
     "set priority flow control alike on both cards and on the switches between (dcb pfc)",
     "no pair of RoCE cards with drivers that show their PFC"},
    {"peer_ecn", compare_ecn, show_ecn, true, DOCTOR_WARNING,
     "set ECN of RoCE alike on both cards (/sys/class/net/NAME/ecn)",
     "no pair of RoCE cards with drivers that show their ECN"},
    {"peer_gpudirect", compare_paths, show_path, true, DOCTOR_WARNING,
     "run `kvrail doctor` on the host that stages: device_memory says what is missing",
     "no pair of rails with GPUs at both ends"},
};

static void judge_comparison(const struct doctor_rail_pairs *pairs, const struct comparison *of,
                             struct doctor_findings *findings)
{
    const struct kvr_rail_snapshot *example[2] = {NULL, NULL};
    uint32_t different = 0, equal = 0;
    char ours[SHOWN_BYTES], theirs[SHOWN_BYTES];

    for (uint32_t i = 0; i < pairs->count; i++) {
        const struct kvr_rail_snapshot *a = pairs->ours.list[pairs->list[i].ours];
        const struct kvr_rail_snapshot *b = pairs->theirs.list[pairs->list[i].theirs];
        verdict found = of->compare(a, b);

        if (found == UNKNOWN)
            continue;
        if (different == 0) {
            example[0] = a;
            example[1] = b;
        }
        different += found == DIFFERENT;
        equal += found == EQUAL;
    }
    if (example[0] == NULL) {
        if (!of->reported || !doctor_rails_unreported(pairs, of->check, findings))
            doctor_add(findings, of->check, DOCTOR_ABSENT, NULL, "%s", of->unknown);
        return;
    }
    of->show(example[0], ours);
    of->show(example[1], theirs);
    if (different > 0)
        doctor_add(findings, of->check, of->state, of->remedy,
                   "%u of %u pairs of rails differ: %s of %s has %s, and %s of %s has %s",
                   different, different + equal, example[0]->name, pairs->ours.side->name, ours,
                   example[1]->name, pairs->theirs.side->name, theirs);
    else
        doctor_add(findings, of->check, DOCTOR_OK, NULL,
                   "pairs of rails that agree: %u, as %s of %s: %s", equal, example[1]->name,
                   pairs->theirs.side->name, theirs);
}

void doctor_compare_rails(const struct doctor_rail_pairs *pairs, struct doctor_findings *findings)
{
    for (size_t i = 0; i < sizeof(comparisons) / sizeof(comparisons[0]); i++)
        judge_comparison(pairs, &comparisons[i], findings);
}
