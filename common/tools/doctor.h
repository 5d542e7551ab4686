/* `kvrail doctor`: what would keep kvrail from its work on this host, each with a remedy. Facts are
 * read first (doctor_read.c). The judgement is pure: facts in, findings out. */
#ifndef KVR_TOOLS_DOCTOR_H
#define KVR_TOOLS_DOCTOR_H

#include <jansson.h>
#include <stdio.h>

#include "base/clock_sync.h"
#include "fabric/host_rails.h"
#include "tools/topo.h"

/* ---- facts ----------------------------------------------------------------------------------- */

#define DOCTOR_NAMES_SHOWN 4u
#define DOCTOR_NAMES_BYTES (4 * KVR_NAME_BYTES + 32)

/* Of an error, status KVR_OK: all is well. */
struct doctor_facts {
    const struct topo *host; /* with a topology of a file, all else here is unknown */
    const char *provider;    /* that the agents will use; "": any */
    struct doctor_libfabric {
        struct kvr_error error;
        const char *text; /* which one is loaded, and the API of the build */
        uint32_t api;
    } libfabric;
    /* What --rail all opens: of each provider that has it as default, and has rails here. */
    unsigned opened_count;
    struct doctor_opened {
        const char *provider;
        char names[DOCTOR_NAMES_BYTES]; /* "mlx5_0, mlx5_1 and 6 more" */
        struct kvr_host_cards cards;
    } opened[KVR_PROVIDERS_MAX];
    struct doctor_nodes { /* device nodes of NVIDIA's driver */
        bool control, memory;
        uint32_t gpus;
    } nodes;
    struct doctor_gpu { /* as host->gpus */
        struct kvr_error opened;
        struct kvr_error slower; /* why copies take a slower way */
    } gpus[KVR_HOST_GROUPS_MAX];
    struct doctor_process { /* limits of this process */
        struct kvr_error files, locked, memfd, pidfd;
        struct kvr_error filter; /* kvrail-filter, at its usual socket */
        bool network_alone;      /* no other process is in this network namespace */
        uint64_t files_limit, locked_limit;
        bool every_user; /* false: it is in a user namespace */
    } process;
    struct doctor_memory {
        uint64_t bytes, page_bytes, huge_bytes; /* of the host; of a page; reserved as huge pages */
    } memory;
    struct kvr_clock_sync clock;
};

/* *facts is zeroed; the host was read before. */
void doctor_read(const struct topo *host, const char *provider, struct doctor_facts *ret_facts);

/* The rails of a provider's list that an agent opens by --rail all; returns how many. */
uint32_t doctor_usable_rails(const struct topo *host, const struct topo_provider *list,
                             uint32_t ret_rails[KVR_HOST_RAILS_MAX]);

/* ---- findings -------------------------------------------------------------------------------- */

typedef enum doctor_state {
    DOCTOR_OK,
    DOCTOR_WARNING, /* kvrail works, with less speed or with a risk */
    DOCTOR_WRONG,   /* an agent does not start, or a card or GPU cannot be used */
    DOCTOR_ABSENT,  /* the host has nothing that the check is about */
    DOCTOR_STATES
} doctor_state;

const char *doctor_state_name(doctor_state state); /* as in JSON */

#define DOCTOR_FOUND_BYTES  640
#define DOCTOR_REMEDY_BYTES 320
/* Each rail and GPU has at most two of its own. */
#define DOCTOR_FINDINGS_MAX                                                                        \
    (2 * KVR_HOST_RAILS_MAX + 2 * KVR_HOST_GROUPS_MAX + KVR_ODDITIES_MAX +                         \
     KVR_PROVIDERS_MAX * (KVR_LEFT_OUT_MAX + 2) + 128)

struct doctor_findings {
    uint32_t count, wrong, warnings;
    struct doctor_finding {
        const char *check;
        doctor_state state;
        char found[DOCTOR_FOUND_BYTES];
        char remedy[DOCTOR_REMEDY_BYTES]; /* "": there is nothing to do */
    } list[DOCTOR_FINDINGS_MAX];
};

/* All findings, in the order of the checks. */
void doctor_judge(const struct doctor_facts *facts, struct doctor_findings *ret_findings);

/* remedy: NULL for none. */
void doctor_add(struct doctor_findings *findings, const char *check, doctor_state state,
                const char *remedy, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* The parts of doctor_judge. */
void doctor_judge_cards(const struct doctor_facts *facts, struct doctor_findings *findings);
void doctor_judge_opened(const struct doctor_facts *facts, struct doctor_findings *findings);
void doctor_judge_gpus(const struct doctor_facts *facts, struct doctor_findings *findings);
void doctor_judge_process(const struct doctor_facts *facts, struct doctor_findings *findings);
/* "mlx5_0, mlx5_1 and 6 more": the first of `count` names. */
void doctor_names_show(const char *const *names, uint32_t count, char ret_text[DOCTOR_NAMES_BYTES]);
/* The agents will use provider local alone, which needs no card and no libfabric. */
bool doctor_local_alone(const struct doctor_facts *facts);
/* GPUs of NVIDIA that the host has, seen from this process or not. */
uint32_t doctor_gpu_count(const struct topo *host);

/* ---- output ---------------------------------------------------------------------------------- */

void doctor_print(const struct doctor_findings *findings, FILE *stream);
json_t *doctor_json(const struct doctor_findings *findings);

#endif
