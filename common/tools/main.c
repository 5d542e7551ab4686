/* `kvrail`: what an operator or developer runs beside the agents. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "tools/tool.h"

const char tool_description[] =
    "Moves the KV cache of a language model from the GPU that computed it "
    "to the GPU that uses it.";

const struct kvr_subcommand tool_subcommands[] = {
    {"abandon", "give up a published request that no target will fetch", tool_abandon_main},
    {"alive", "ask an agent whether it lives, for probes", tool_alive_main},
    {"bench", "measure how fast pages move", tool_bench_main},
    {"cancel", "end a transfer and the fetch that it belongs to", tool_cancel_main},
    {"certificates", "make the CA and the certificates of a small fleet", tool_certificates_main},
    {"compare", "say what changed between two traces", tool_compare_main},
    {"completion", "print a script by which a shell completes kvrail's words",
     tool_completion_main},
    {"doctor", "check this host before production, with a remedy for each finding",
     tool_doctor_main},
    {"drain", "let an agent take no new requests", tool_drain_main},
    {"manual", "write the pages of the manual", tool_manual_main},
    {"plan-fleet", "how many hosts and which cards meet a wait budget, by replays in virtual time",
     tool_plan_fleet_main},
    {"renew", "hold a published request for longer", tool_renew_main},
    {"replay", "play request traces through running agents and check every byte", tool_replay_main},
    {"resume", "let an agent that was drained take requests again", tool_resume_main},
    {"sim", "run the agents' state machines in simulated worlds that check every byte",
     tool_sim_main},
    {"status", "show agents, rails, transfers and oddities", tool_status_main},
    {"token", "make a token for the scheduler's HTTP port", tool_token_main},
    {"topo", "show this host's cards and the rails on them", tool_topo_main},
    {"trace", "make request traces", tool_trace_main},
    {"why", "explain why a transfer is not done, or how it ended", tool_why_main},
    {NULL, NULL, NULL},
};

int main(int argc, char **argv)
{
    int status = kvr_subcommands_run("kvrail", tool_description, tool_subcommands, argc, argv);

    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    fprintf(stderr, "kvrail: standard output cannot be written: %s\n", strerror(errno));
    return status != 0 ? status : 1;
}
