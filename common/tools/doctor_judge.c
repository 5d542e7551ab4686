/* The judgement of `kvrail doctor`: libfabric and its rails here, other parts beside. Pure. */
#include <assert.h>
#include <stdarg.h>
#include <string.h>

#include "base/text.h"
#include "tools/doctor.h"

#define BUILD_AGAIN "build kvrail with libfabric 1.20 or later (-DKVRAIL_LIBFABRIC_ROOT=DIR)"

const char *doctor_state_name(doctor_state state)
{
    static const char *const names[DOCTOR_STATES] = {[DOCTOR_OK] = "ok",
                                                     [DOCTOR_WARNING] = "warning",
                                                     [DOCTOR_WRONG] = "wrong",
                                                     [DOCTOR_ABSENT] = "absent"};

    return names[state];
}

void doctor_add(struct doctor_findings *findings, const char *check, doctor_state state,
                const char *remedy, const char *format, ...)
{
    char found[DOCTOR_FOUND_BYTES];
    struct doctor_finding *finding;
    va_list arguments;

    assert(findings->count < DOCTOR_FINDINGS_MAX);
    finding = &findings->list[findings->count++];
    va_start(arguments, format);
    (void)vsnprintf(found, sizeof(found), format, arguments);
    va_end(arguments);
    finding->check = check;
    finding->state = state;
    kvr_text_show(found, sizeof(finding->found), finding->found);
    kvr_text_show(remedy != NULL ? remedy : "", sizeof(finding->remedy), finding->remedy);
    findings->wrong += state == DOCTOR_WRONG;
    findings->warnings += state == DOCTOR_WARNING;
}

bool doctor_local_alone(const struct doctor_facts *facts)
{
    const struct kvr_provider *provider = kvr_provider_find(facts->provider);

    return provider != NULL && provider->same_host_only;
}

/* ---- libfabric ------------------------------------------------------------------------------- */

/* A card of a provider for which the API of the build is too old. */
static const struct kvr_topology_card *needs_later_api(const struct doctor_facts *facts)
{
    const struct kvr_topology *topology = facts->host->topology;

    for (uint32_t i = 0; i < topology->card_count; i++) {
        const struct kvr_topology_card *card = &topology->cards[i];
        const struct kvr_provider *provider =
            card->kind == KVR_CARD_RDMA ? kvr_provider_find(kvr_provider_of_card(card)) : NULL;

        if (provider != NULL && provider->libfabric.api_since > facts->libfabric.api)
            return card;
    }
    return NULL;
}

/* Whether a rail cannot take dmabufs for that reason alone. */
static bool lacks_dmabuf(const struct topo *host, kvr_path_why why)
{
    for (unsigned i = 0; i < host->rail_count; i++)
        if (host->rails[i].device.dmabuf == why)
            return true;
    return false;
}

static void judge_libfabric(const struct doctor_facts *facts, struct doctor_findings *findings)
{
    const struct doctor_libfabric *libfabric = &facts->libfabric;
    const struct kvr_topology_card *card = needs_later_api(facts);
    const char *check = "libfabric";
    bool gpus = doctor_gpu_count(facts->host) > 0;

    if (libfabric->error.status != KVR_OK && doctor_local_alone(facts))
        doctor_add(findings, check, DOCTOR_ABSENT, NULL, "%s; provider local needs none",
                   libfabric->error.detail);
    else if (libfabric->error.status != KVR_OK)
        doctor_add(findings, check, DOCTOR_WRONG,
                   "install libfabric1, or name the folder of another one with --libfabric; "
                   "provider local needs none",
                   "%s", libfabric->error.detail);
    else if (card != NULL)
        doctor_add(findings, check, DOCTOR_WRONG, BUILD_AGAIN,
                   "%s, and that API is too old for card %s (provider %s)", libfabric->text,
                   card->name, kvr_provider_of_card(card));
    else if (gpus && lacks_dmabuf(facts->host, KVR_WHY_OLD_BUILD))
        doctor_add(findings, check, DOCTOR_WARNING, BUILD_AGAIN,
                   "%s, and cards take dmabufs of GPUs from 1.20 on", libfabric->text);
    else if (gpus && lacks_dmabuf(facts->host, KVR_WHY_OLD_LIBRARY))
        doctor_add(findings, check, DOCTOR_WARNING,
                   "choose a libfabric of 1.20 or later with --libfabric",
                   "%s, and cards take dmabufs of GPUs from 1.20 on", libfabric->text);
    else
        doctor_add(findings, check, DOCTOR_OK, NULL, "%s", libfabric->text);
}

/* ---- rails ----------------------------------------------------------------------------------- */

void doctor_names_show(const char *const *names, uint32_t count, char ret_text[DOCTOR_NAMES_BYTES])
{
    uint32_t shown = count < DOCTOR_NAMES_SHOWN ? count : DOCTOR_NAMES_SHOWN;
    size_t used = 0;

    ret_text[0] = '\0';
    for (uint32_t i = 0; i < shown && used < DOCTOR_NAMES_BYTES; i++) {
        int length = snprintf(ret_text + used, DOCTOR_NAMES_BYTES - used, "%s%s", i > 0 ? ", " : "",
                              names[i]);

        used += length > 0 ? (size_t)length : 0;
    }
    if (count > shown && used < DOCTOR_NAMES_BYTES)
        snprintf(ret_text + used, DOCTOR_NAMES_BYTES - used, " and %u more", count - shown);
}

static void rails_show(const struct topo_provider *list, char ret_text[DOCTOR_NAMES_BYTES])
{
    const char *names[DOCTOR_NAMES_SHOWN] = {NULL};

    for (unsigned i = 0; i < list->listed && i < DOCTOR_NAMES_SHOWN; i++)
        names[i] = list->rails[i].source[0] != '\0' ? list->rails[i].source : list->rails[i].name;
    doctor_names_show(names, list->count, ret_text);
}

static void judge_rails(const struct doctor_facts *facts, struct doctor_findings *findings)
{
    for (unsigned i = 0; i < facts->host->provider_count; i++) {
        const struct topo_provider *list = &facts->host->providers[i];
        bool asked = strcmp(facts->provider, list->provider) == 0;
        char names[DOCTOR_NAMES_BYTES];

        rails_show(list, names);
        if (list->count > 0)
            doctor_add(findings, "rails", DOCTOR_OK, NULL, "%s: %u rail%s: %s", list->provider,
                       list->count, list->count == 1 ? "" : "s", names);
        else
            doctor_add(findings, "rails", asked ? DOCTOR_WRONG : DOCTOR_ABSENT,
                       asked ? kvr_odd_remedy(KVR_ODD_NO_RAILS) : NULL, "%s: %s", list->provider,
                       list->error.detail);
    }
}

void doctor_judge(const struct doctor_facts *facts, struct doctor_findings *ret_findings)
{
    bool here = !facts->host->topology->from_file;

    ret_findings->count = ret_findings->wrong = ret_findings->warnings = 0;
    if (here) {
        judge_libfabric(facts, ret_findings);
        judge_rails(facts, ret_findings);
        doctor_judge_opened(facts, ret_findings);
    }
    doctor_judge_cards(facts, ret_findings);
    if (here) {
        doctor_judge_gpus(facts, ret_findings);
        doctor_judge_process(facts, ret_findings);
    }
}
