/* `kvrail doctor`: checks this host before production, or two hosts, and names the remedy of each
 * finding. */
#include "tools/doctor.h"

#include <math.h>

#include "tools/doctor_peer.h"
#include "tools/json_output.h"
#include "tools/scheduler_get.h"
#include "tools/tool.h"

struct doctor_options {
    struct topo_host host;
    struct scheduler_call scheduler;
    char peer[KVR_NAME_BYTES]; /* "": this host alone is checked */
    char from[KVR_NAME_BYTES]; /* "": it is one side of the pair */
    char json[JSON_OUTPUT_PATH_BYTES];
};

static const struct kvr_option_part parts[] = {
    {.table = &topo_host_options, .offset = offsetof(struct doctor_options, host)},
    {.table = &scheduler_options, .offset = offsetof(struct doctor_options, scheduler)},
    {.table = &scheduler_token_options, .offset = offsetof(struct doctor_options, scheduler)},
    {.table = &kvr_tls_client_options, .offset = offsetof(struct doctor_options, scheduler.tls)},
    {.table = NULL},
};

static const struct kvr_option options[] = {
    {.name = "peer",
     .section = "rails",
     .value = "NAME",
     KVR_OPTION_STRING(struct doctor_options, peer),
     .help = "An agent of another host: check also whether this host and that one fit together. "
             "What that agent has comes from the scheduler."},
    {.name = "from",
     .value = "NAME",
     KVR_OPTION_STRING(struct doctor_options, from),
     .help = "With --peer: compare this agent with the peer, in place of this host, which is then "
             "not checked."},
    JSON_OUTPUT_OPTION(struct doctor_options, "output", "the findings"),
};

static const struct kvr_command command = {
    .name = "kvrail doctor",
    .description =
        "Checks this host before agents run on it: libfabric, cards, GPUs, limits, the kernel and\n"
        "the clock. Each line is a check with its state, what was found, and what to do. 'wrong':\n"
        "an agent does not start, or a card or GPU cannot be used. 'warning': kvrail works, with\n"
        "less speed or with a risk. 'not here': the host has nothing that the check is about. Of "
        "a\n"
        "file (--xml) only cards, GPUs and the ways between them are checked.\n"
        "\n"
        "With --peer, checks with names that begin with 'peer_' compare this host, or the agent "
        "of\n"
        "--from, with that agent: versions, provider, rails, networks, MTU, GIDs, flow control,\n"
        "limits, GPUDirect, clocks, ports. 'wrong': the two move nothing between them.",
    .parts = parts,
    KVR_OPTION_ROWS(options),
    .exit_codes = scheduler_exit_codes,
    .footer =
        "Exit status 1 says that something is wrong; warnings do not change it.\n"
        "\n"
        "Limits are those of the process that runs this command: start it as an agent starts,\n"
        "as the same user and in the same container. Name the agents' --provider, so that\n"
        "other providers do not count. No agent need run; one that runs is not disturbed.",
};

static bool show(const struct doctor_findings *findings, const char *json)
{
    if (!json_output_replaces_text(json))
        doctor_print(findings, stdout);
    return json_output_write(json[0] != '\0' ? doctor_json(findings) : NULL, json);
}

/* ---- the peer -------------------------------------------------------------------------------- */

/* What the scheduler said, and by how much our clock is ahead of its own. */
struct asked {
    struct doctor_pair pair; /* without this host */
    double ahead_s;          /* NAN: it did not say its time */
};

/* Its time was taken somewhere between question and answer. */
static void compare_clocks(const json_t *answer, kvr_ns before, kvr_ns after, struct asked *asked)
{
    const json_t *now = json_object_get(answer, "now_seconds");

    asked->pair.clock_doubt_s = (double)(after - before) / 1e9;
    asked->ahead_s = json_is_number(now) ? ((double)before + (double)(after - before) / 2) / 1e9 -
                                               json_number_value(now)
                                         : NAN;
}

static kvr_status ask(const struct doctor_options *config, struct asked *asked,
                      struct kvr_error *error)
{
    kvr_ns before = kvr_clock_wall();
    json_t *answer = scheduler_get(&config->scheduler, "/api/v1/agents", NULL, error);
    kvr_status status;

    if (answer == NULL)
        return error->status;
    compare_clocks(answer, before, kvr_clock_wall(), asked);
    status = doctor_side_read(answer, config->peer, &asked->pair.theirs, error);
    if (status == KVR_OK && config->from[0] != '\0')
        status = doctor_side_read(answer, config->from, &asked->pair.ours, error);
    json_decref(answer);
    return status;
}

static void judge_pair(const struct doctor_options *config, const struct doctor_facts *facts,
                       struct asked *asked, struct doctor_findings *findings)
{
    struct doctor_pair *pair = &asked->pair;
    const char *listen = pair->theirs.facts.listen;
    const char *provider =
        config->host.provider[0] != '\0' ? config->host.provider : pair->theirs.facts.provider;

    if (config->from[0] == '\0')
        doctor_side_own(facts, provider, asked->ahead_s, &pair->ours);
    else
        pair->clock_doubt_s = 0; /* our clock says nothing of theirs */
    if (listen[0] != '\0')
        doctor_dial(listen, DOCTOR_DIAL_NS, &pair->dial);
    doctor_judge_pair(pair, findings);
}

/* ---- the command ----------------------------------------------------------------------------- */

static bool fits_together(const struct doctor_options *config)
{
    if (config->from[0] != '\0' && config->peer[0] == '\0')
        kvr_options_refuse(&command, "--from names one side of a pair: name the other by --peer");
    else if (config->peer[0] != '\0' && config->host.xml[0] != '\0')
        kvr_options_refuse(&command, "--peer compares this host, and --xml describes another one");
    else
        return true;
    return false;
}

static kvr_status judge_host(const struct doctor_options *config, struct topo *host,
                             struct doctor_facts *facts, struct doctor_findings *findings,
                             struct kvr_error *error)
{
    if (config->from[0] != '\0')
        return KVR_OK;
    KVR_TRY(topo_read(&config->host, host, error));
    doctor_read(host, config->host.provider, facts);
    doctor_judge(facts, findings);
    return KVR_OK;
}

int tool_doctor_main(int argc, char **argv)
{
    static struct topo host; /* large, as the next four */
    static struct doctor_facts facts;
    static struct doctor_findings findings;
    static struct doctor_options config;
    static struct asked asked;
    struct kvr_error error = {0};
    int exit_status;

    if (!kvr_options_load(&command, argc, argv, &config, &exit_status))
        return exit_status;
    if (!json_output_ready(&command, config.json))
        return KVR_EXIT_USAGE;
    if (!fits_together(&config) ||
        (config.peer[0] != '\0' && !scheduler_ready(&command, &config.scheduler)))
        return KVR_EXIT_USAGE;
    if (config.peer[0] != '\0' && ask(&config, &asked, &error) != KVR_OK) {
        fprintf(stderr, "kvrail doctor: %s\n", error.detail);
        return scheduler_exit(&error);
    }
    if (judge_host(&config, &host, &facts, &findings, &error) != KVR_OK) {
        fprintf(stderr, "kvrail doctor: %s\n", error.detail);
        return 1;
    }
    if (config.peer[0] != '\0')
        judge_pair(&config, &facts, &asked, &findings);
    exit_status = show(&findings, config.json) && findings.wrong == 0 ? 0 : 1;
    if (host.topology != NULL)
        kvr_topology_free(host.topology);
    return exit_status;
}
