/* `kvrail topo`: what this host, or the one that a file describes, has that a rail could use, which
 * cards belong together, and what is odd about it. */
#include "tools/topo.h"

#include "tools/json_output.h"
#include "tools/tool.h"
#include "tools/topo_peer.h"

struct topo_options {
    struct topo_host host;
    struct scheduler_call scheduler;
    char peer[KVR_NAME_BYTES]; /* "": this host is shown, where there is no agent either */
    char agent[108];           /* its engine socket; "": the scheduler is asked */
    char json[JSON_OUTPUT_PATH_BYTES];
};

static const struct kvr_option_part parts[] = {
    {.table = &topo_host_options, .offset = offsetof(struct topo_options, host)},
    {.table = &scheduler_options, .offset = offsetof(struct topo_options, scheduler)},
    {.table = &scheduler_token_options, .offset = offsetof(struct topo_options, scheduler)},
    {.table = &kvr_tls_client_options, .offset = offsetof(struct topo_options, scheduler.tls)},
    {.table = NULL},
};

static const struct kvr_option options[] = {
    {.name = "peer",
     .section = "rails",
     .value = "NAME",
     KVR_OPTION_STRING(struct topo_options, peer),
     .help = "An agent: show how its rails and those of its peers reach each other, as the "
             "scheduler knows it, in place of this host."},
    {.name = "agent",
     .value = "SOCKET",
     KVR_OPTION_STRING(struct topo_options, agent),
     .help = "Ask the prefill-agent at this engine socket, not the scheduler; without --peer for "
             "all its peers. A process that may attach an engine may ask."},
    JSON_OUTPUT_OPTION(struct topo_options, "output", "all facts, or pairs of rails,"),
};

static const struct kvr_command command = {
    .name = "kvrail topo",
    .description =
        "Shows which network cards belong together: a line for each GPU with the NUMA node, the\n"
        "cores for the thread that drives them and the cards, nearest first come; cards without a\n"
        "GPU near, by NUMA node. Then what is odd, then NUMA nodes, cards, and the rails that\n"
        "libfabric offers: what --provider and --rail of an agent can name. Last, which way pages\n"
        "on a GPU would take over each of them (--device cuda), why no better one, what the card\n"
        "said to a small dmabuf of GPU 0; of each GPU its free memory, whether processes\n"
        "share it by MPS, and when it sees what cards have written.\n"
        "\n"
        "With --peer it asks the scheduler instead, or with --agent an agent, and shows a matrix\n"
        "for each peer of that agent: which rail of the source reaches which rail of the target,\n"
        "how many bytes came through, and in a sentence each why a pair carries nothing, or "
        "little.",
    .parts = parts,
    KVR_OPTION_ROWS(options),
    .exit_codes = scheduler_exit_codes,
    .footer =
        "Beside a card of a GPU's group: switch, both are below one PCIe switch; host bridge,\n"
        "below one root of PCIe; node, in one NUMA node; far, in two or at an unknown place.\n"
        "Distance counts links of the PCI tree between card and GPU, and 10 for each of host\n"
        "bridge, NUMA node and other NUMA node on the way.",
};

/* Pairs of rails with a peer, of one agent or as the scheduler knows them. */
static int show_pairs(const struct topo_options *config)
{
    json_t *pairs = NULL;
    int exit_status =
        config->agent[0] != '\0'
            ? topo_peer_of_agent(config->agent, config->scheduler.timeout, config->peer, &pairs)
            : topo_peer(&config->scheduler, config->peer, &pairs);

    if (exit_status != 0)
        return exit_status;
    if (!json_output_replaces_text(config->json))
        topo_peer_print(pairs, config->agent[0] != '\0' ? "agent" : "scheduler", stdout);
    return json_output_write(pairs, config->json) ? 0 : 1;
}

static bool show_host(const struct topo *topo, const char *json)
{
    if (!json_output_replaces_text(json))
        topo_print(topo, stdout);
    return json_output_write(json[0] != '\0' ? topo_json(topo) : NULL, json);
}

int tool_topo_main(int argc, char **argv)
{
    static struct topo topo; /* large */
    static struct topo_options config;
    struct kvr_error error = {0};
    int exit_status;

    if (!kvr_options_load(&command, argc, argv, &config, &exit_status))
        return exit_status;
    if (!json_output_ready(&command, config.json))
        return KVR_EXIT_USAGE;
    if (config.agent[0] == '\0' && config.peer[0] != '\0' &&
        !scheduler_ready(&command, &config.scheduler))
        return KVR_EXIT_USAGE;
    if (config.agent[0] != '\0' || config.peer[0] != '\0')
        return show_pairs(&config);
    if (topo_read(&config.host, &topo, &error) != KVR_OK) {
        fprintf(stderr, "kvrail topo: %s\n", error.detail);
        return 1;
    }
    exit_status = show_host(&topo, config.json) ? 0 : 1;
    kvr_topology_free(topo.topology);
    return exit_status;
}
