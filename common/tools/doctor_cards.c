/* What `kvrail doctor` says about cards, and about the GPUs near them. Pure. */
#include <string.h>

#include "tools/doctor.h"

/* Checks that are made of the oddities which `kvrail topo` shows. */
typedef enum card_check {
    CARDS,
    CARD_RAILS,
    CARD_ADDRESS,
    CARD_LINK,
    CARD_SPEED,
    CARD_SUBNET,
    CARD_MTU,
    GPU_CARDS,
    CARD_CHECKS
} card_check;

/* here: only this host can answer, no file. */
static const struct {
    const char *name, *fine;
    bool here;
} checks[CARD_CHECKS] = {
    [CARDS] = {"cards", "there are cards that rails can use", false},
    [CARD_RAILS] = {"card_rails", "libfabric offers rails of every provider that has a card", true},
    [CARD_ADDRESS] = {"card_address", "every RDMA card that is up has a rail", true},
    [CARD_LINK] = {"card_link", "no card's link is down", false},
    [CARD_SPEED] = {"card_speed", "cards of one GPU have one speed, and their slots carry it",
                    false},
    [CARD_SUBNET] = {"card_subnet", "no two cards answer ARP for each other", true},
    [CARD_MTU] = {"card_mtu", "no card of RoCE has a small MTU", true},
    [GPU_CARDS] = {"gpu_cards", "every GPU has cards of its own on its own NUMA node", false},
};

static const struct {
    card_check check;
    doctor_state state;
} judgements[KVR_ODD_END] = {
    [KVR_ODD_NO_CARD] = {CARDS, DOCTOR_WRONG},
    [KVR_ODD_MORE] = {CARDS, DOCTOR_WARNING},
    [KVR_ODD_NO_RAILS] = {CARD_RAILS, DOCTOR_WRONG},
    [KVR_ODD_CARD_UNUSED] = {CARD_ADDRESS, DOCTOR_WARNING},
    [KVR_ODD_RAIL_DOWN] = {CARD_LINK, DOCTOR_WRONG},
    [KVR_ODD_CARD_DOWN] = {CARD_LINK, DOCTOR_WARNING},
    [KVR_ODD_SPEEDS] = {CARD_SPEED, DOCTOR_WARNING},
    [KVR_ODD_SLOT] = {CARD_SPEED, DOCTOR_WARNING},
    [KVR_ODD_SHARED_SUBNET] = {CARD_SUBNET, DOCTOR_WRONG},
    [KVR_ODD_SMALL_MTU] = {CARD_MTU, DOCTOR_WARNING},
    [KVR_ODD_GPU_ALONE] = {GPU_CARDS, DOCTOR_WARNING},
    [KVR_ODD_GPU_SHARES] = {GPU_CARDS, DOCTOR_WARNING},
    [KVR_ODD_UNEVEN] = {GPU_CARDS, DOCTOR_WARNING},
    [KVR_ODD_FAR] = {GPU_CARDS, DOCTOR_WARNING},
};

static bool has_gpu_group(const struct topo *host)
{
    for (uint32_t i = 0; i < host->groups.group_count; i++)
        if (host->groups.groups[i].gpu != NULL)
            return true;
    return false;
}

/* A check without an oddity. */
static void judge_fine(const struct doctor_facts *facts, card_check check,
                       struct doctor_findings *findings)
{
    const struct topo *host = facts->host;

    if (checks[check].here && host->topology->from_file)
        doctor_add(findings, checks[check].name, DOCTOR_ABSENT, NULL, "a file does not have it");
    else if (doctor_local_alone(facts))
        doctor_add(findings, checks[check].name, DOCTOR_ABSENT, NULL, "provider local needs none");
    else if (host->groups.rail_count == 0)
        doctor_add(findings, checks[check].name, DOCTOR_ABSENT, NULL, "there is no card");
    else if (check == GPU_CARDS && !has_gpu_group(host))
        doctor_add(findings, checks[check].name, DOCTOR_ABSENT, NULL, "there is no GPU");
    else
        doctor_add(findings, checks[check].name, DOCTOR_OK, NULL, "%s", checks[check].fine);
}

static void judge_oddities(const struct doctor_facts *facts, card_check check,
                           struct doctor_findings *findings)
{
    const struct kvr_oddities *oddities = &facts->host->oddities;
    uint32_t before = findings->count;

    for (uint32_t i = 0; i < oddities->count; i++) {
        kvr_odd kind = oddities->list[i].kind;

        if (judgements[kind].check != check ||
            (kind == KVR_ODD_NO_CARD && doctor_local_alone(facts)))
            continue;
        doctor_add(findings, checks[check].name, judgements[kind].state, kvr_odd_remedy(kind), "%s",
                   oddities->list[i].text);
    }
    if (findings->count == before)
        judge_fine(facts, check, findings);
}

/* ---- what the cards themselves say ----------------------------------------------------------- */

static void judge_writes(const struct topo *host, struct doctor_findings *findings)
{
    const char *check = "rdma_write";
    unsigned real = 0, emulated = 0;

    for (unsigned i = 0; i < host->rail_count; i++) {
        const struct kvr_rail_facts *rail = &host->rails[i];

        real += rail->writes == KVR_WRITES_RDMA;
        if (rail->writes != KVR_WRITES_EMULATED)
            continue;
        emulated++;
        doctor_add(findings, check, DOCTOR_WARNING,
                   "use a type of instance with RDMA write, and leave "
                   "FI_EFA_USE_DEVICE_RDMA alone or at 1",
                   "rail %s has no RDMA write: libfabric sends, and the target's processor copies",
                   rail->name);
    }
    if (real > 0)
        doctor_add(findings, check, DOCTOR_OK, NULL, "%u rail%s by RDMA", real,
                   real == 1 ? " writes" : "s write");
    else if (emulated == 0)
        doctor_add(findings, check, DOCTOR_ABSENT, NULL,
                   "no provider here sends where a card cannot write");
}

static const char *remedy_of(kvr_path_why why)
{
    switch (why) {
    case KVR_WHY_OLD_BUILD:
        return "build kvrail with libfabric 1.20 or later (-DKVRAIL_LIBFABRIC_ROOT=DIR)";
    case KVR_WHY_OLD_LIBRARY:
        return "choose a libfabric of 1.20 or later with --libfabric";
    case KVR_WHY_NO_HMEM:
        return "choose a libfabric that is built with CUDA (--libfabric), and see `fi_info -v` for "
               "FI_HMEM";
    case KVR_WHY_NO_CUDA:
        return "link libcudart.so in a folder of LD_LIBRARY_PATH, and choose a libfabric that is "
               "built with CUDA";
    case KVR_WHY_REFUSED:
        return "do as the sentence says; dmabufs need the driver's open kernel modules and Linux "
               "5.12 or later";
    default:
        return "see `kvrail topo`; agents with require-gpudirect refuse such regions";
    }
}

/* True: the rail reaches device memory. */
static bool judge_device_rail(const struct kvr_rail_facts *rail, const struct topo_trial *trial,
                              struct doctor_findings *findings)
{
    char said[TOPO_TRIAL_BYTES] = "", reasons[KVR_DETAIL_BYTES];
    struct kvr_path_choice choice;

    topo_device_path(rail, trial, &choice);
    (void)topo_trial_text(trial, said);
    if (!kvr_path_direct(choice.path)) {
        kvr_path_reasons(&choice, reasons, sizeof(reasons));
        doctor_add(findings, "device_memory", DOCTOR_WARNING,
                   remedy_of(choice.why[KVR_PATH_DMABUF]),
                   "rail %s: pages on GPUs pass through host memory: %s%s%s", rail->name, reasons,
                   said[0] != '\0' ? "; " : "", said);
    } else if (trial->wanted && trial->result == TOPO_UNTRIED) {
        doctor_add(findings, "device_memory", DOCTOR_WARNING, remedy_of(KVR_WHY_REFUSED),
                   "rail %s: %s", rail->name, said);
    } else {
        return true;
    }
    return false;
}

static void judge_device_memory(const struct topo *host, struct doctor_findings *findings)
{
    const char *check = "device_memory";
    unsigned cards = 0, reach = 0;

    if (doctor_gpu_count(host) == 0) {
        doctor_add(findings, check, DOCTOR_ABSENT, NULL, "there is no GPU");
        return;
    }
    for (unsigned i = 0; i < host->rail_count; i++) {
        const struct kvr_provider *provider = kvr_provider_find(host->rails[i].provider);

        if (provider == NULL || !provider->libfabric.device_memory)
            continue;
        cards++;
        reach += judge_device_rail(&host->rails[i], &host->trials[i], findings);
    }
    if (reach > 0)
        doctor_add(findings, check, DOCTOR_OK, NULL, "%u of %u rails reach pages on GPUs", reach,
                   cards);
    else if (cards == 0)
        doctor_add(findings, check, DOCTOR_WARNING,
                   "use cards of verbs or EFA where the speed matters",
                   "no card here could reach GPUs: their pages pass through host memory");
}

void doctor_judge_cards(const struct doctor_facts *facts, struct doctor_findings *findings)
{
    for (card_check check = CARDS; check < CARD_CHECKS; check++)
        judge_oddities(facts, check, findings);
    if (facts->host->topology->from_file)
        return;
    judge_writes(facts->host, findings);
    judge_device_memory(facts->host, findings);
}
