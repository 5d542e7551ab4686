/* `kvrail doctor`: checks this host before production, and names the remedy of each finding. */
#include "tools/doctor.h"

#include "tools/tool.h"

struct doctor_options {
    struct topo_host host; /* first: topo_parts fills it */
    bool json;
};

static const struct kvr_option options[] = {
    {.name = "json",
     .section = "rails",
     KVR_OPTION_BOOL(struct doctor_options, json),
     .help = "Print one JSON object instead."},
};

static const struct kvr_command command = {
    .name = "kvrail doctor",
    .description =
        "Checks this host before agents run on it: libfabric, cards, GPUs, limits, the kernel and\n"
        "the clock. Each line is a check with its state, what was found, and what to do. 'wrong':\n"
        "an agent does not start, or a card or GPU cannot be used. 'warning': kvrail works, with\n"
        "less speed or with a risk. 'not here': the host has nothing that the check is about. Of "
        "a\n"
        "file (--xml) only cards, GPUs and the ways between them are checked.",
    .parts = topo_parts,
    KVR_OPTION_ROWS(options),
    .footer =
        "Exit status 1 says that something is wrong; warnings do not change it.\n"
        "\n"
        "Limits are those of the process that runs this command: start it as an agent starts,\n"
        "as the same user and in the same container. Name the agents' --provider, so that\n"
        "other providers do not count. No agent need run; one that runs is not disturbed.",
};

static void show(const struct doctor_findings *findings, bool as_json)
{
    json_t *json;

    if (!as_json) {
        doctor_print(findings, stdout);
        return;
    }
    json = doctor_json(findings);
    json_dumpf(json, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(json);
}

int tool_doctor_main(int argc, char **argv)
{
    static struct topo host; /* large, as the next two */
    static struct doctor_facts facts;
    static struct doctor_findings findings;
    static struct doctor_options config;
    struct kvr_error error = {0};
    int exit_status;

    if (!kvr_options_load(&command, argc, argv, &config, &exit_status))
        return exit_status;
    if (topo_read(&config.host, &host, &error) != KVR_OK) {
        fprintf(stderr, "kvrail doctor: %s\n", error.detail);
        return 1;
    }
    doctor_read(&host, config.host.provider, &facts);
    doctor_judge(&facts, &findings);
    show(&findings, config.json);
    kvr_topology_free(host.topology);
    return findings.wrong > 0 ? 1 : 0;
}
