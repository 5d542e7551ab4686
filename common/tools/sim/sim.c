/* `kvrail sim`: runs simulated worlds, one a seed, and says which of them shows a bug. */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mutant.h"
#include "base/options.h"
#include "prefill-agent/push.h"
#include "tools/json_output.h"
#include "tools/sim/sim_host.h"
#include "tools/sim/sim_scheduler.h"
#include "tools/sim/sim_world.h"
#include "tools/tool.h"

struct sim_config {
    char seeds[64], mutant[64], model[8];
    struct kvr_option_list faults;
    char json[JSON_OUTPUT_PATH_BYTES];
    bool verbose, keep_going, list_mutants;
};

static const struct kvr_option options[] = {
    {.name = "seeds",
     .section = "sim",
     .value = "FROM:COUNT",
     .fallback = "1:1000",
     KVR_OPTION_STRING(struct sim_config, seeds),
     .help = "Which worlds: COUNT seeds, the first of them FROM. The same seed is the same world."},
    {.name = "faults",
     .value = "NAME,...",
     KVR_OPTION_LIST(struct sim_config, faults),
     .help = "Only these faults, of the list below, are injected, or none; without it, all."},
    JSON_OUTPUT_OPTION(struct sim_config, "sim", "the sums"),
    {.name = "verbose",
     KVR_OPTION_BOOL(struct sim_config, verbose),
     .help = "Print everything that happens."},
    {.name = "keep-going",
     KVR_OPTION_BOOL(struct sim_config, keep_going),
     .help = "Do not stop at the first failing seed: a line for each, without its history."},
    {.name = "mutant",
     .value = "NAME",
     KVR_OPTION_STRING(struct sim_config, mutant),
     .help = "Plant this bug; only in a build with -DKVRAIL_MUTANTS=ON."},
    {.name = "model",
     .value = "p5|p5en",
     KVR_OPTION_STRING(struct sim_config, model),
     .help = "No worlds, but a host of 32 cards of 100 Gb/s (p5) or 16 of 200 (p5en): how much of "
             "them the posting code would use, with published costs, and what each of its lessons "
             "gives."},
    {.name = "list-mutants",
     KVR_OPTION_BOOL(struct sim_config, list_mutants),
     .help =
         "List the bugs that this build can plant and find, each with the rule that it breaks."},
};

#define FAULT_HELP(symbol, name, mendable, text) "  " name ": " text "\n"

static const struct kvr_command command = {
    .name = "kvrail sim",
    .description =
        "Runs both agents' real state machines in simulated worlds: virtual time, cards that\n"
        "reorder, delay and lose, engines and agents that die. Every byte, every page and every\n"
        "notice is checked. A failing world prints its seed and its history, and ends with 1.\n"
        "In the JSON, mid_transfer counts the seeds in which a fault struck while at least one\n"
        "transfer had some, but not all, of its chunks; lodgers counts regions that were added in\n"
        "the memory of another (memory_of), which a quarter of the worlds have. A way leads from "
        "one\n"
        "card to one card; injected counts each that a write met.",
    KVR_OPTION_ROWS(options),
    .footer = "Faults:\n" SIM_FAULT_LIST(
        FAULT_HELP) "\n"
                    "Examples:\n  kvrail sim --seeds 1:2000 --json\n  kvrail sim --seeds 4711:1 "
                    "--verbose\n"
                    "  kvrail sim --seeds 1:2000 --faults rail_lost,agent_death\n"
                    "  kvrail sim --model p5 --json",
};

static struct sim_world world; /* too large for a stack; an abort handler needs it too */

static void report_failure(void)
{
    printf("seed %" PRIu64 " fails: %s\n", world.seed, world.what);
    printf("what happened%s:\n", world.failed_request >= 0 ? " to that request" : "");
    sim_history_print(&world.history, world.failed_request, stdout);
    printf("seed %" PRIu64 " failed: %s\n", world.seed, world.what);
    printf("replay it with: kvrail sim --seeds %" PRIu64 ":1\n", world.seed);
    fflush(stdout);
}

/* An assertion in the simulated code failed: a finding too. One thread, and the process ends
 * here, so printing from the handler is safe enough. */
static void aborted(int signal)
{
    (void)signal;
    sim_fail(&world, -1, "an assertion failed");
    report_failure();
    _exit(1);
}

static void *memory_of(size_t bytes)
{
    void *memory = malloc(bytes);

    if (memory == NULL)
        abort();
    return memory;
}

/* Sessions of one world after the other live in the same memory. */
static void sessions_open(struct sim_memory *memory)
{
    struct kvr_session_options size = {.queue_bytes = KVR_SESSION_QUEUE_BYTES_MIN,
                                       .queue_count = SIM_SESSION_MESSAGES};

    for (uint32_t i = 0; i < SIM_AGENTS; i++)
        for (uint32_t k = 0; k < SIM_PEERS; k++)
            memory->sessions[i][k] = memory_of(kvr_session_bytes(&size));
}

static void memory_open(struct sim_memory *memory)
{
    sessions_open(memory);
    for (uint32_t i = 0; i < SIM_AGENTS; i++)
        memory->tables[i] = memory_of(SIM_MEMORY);
    memory->outbounds = memory_of(SIM_SOURCES * sizeof(struct outbound));
    memory->inbounds = memory_of(SIM_TARGETS * sizeof(struct inbound));
    memory->pushes = memory_of(SIM_SOURCES * SIM_GROUPS * sizeof(struct push));
    memory->lands = memory_of(SIM_TARGETS * SIM_GROUPS * sizeof(struct land));
    memory->revocation_words =
        memory_of(SIM_SOURCES * SIM_ENGINES * sizeof(struct kvr_revocation_words));
    memory->decoder = kvr_message_decoder_open();
    memory->scheduler = sim_scheduler_open();
    if (memory->decoder == NULL || memory->scheduler == NULL)
        abort();
}

static void memory_close(struct sim_memory *memory)
{
    for (uint32_t i = 0; i < SIM_AGENTS; i++) {
        free(memory->tables[i]);
        for (uint32_t k = 0; k < SIM_PEERS; k++)
            free(memory->sessions[i][k]);
    }
    while (memory->buffer_count > 0)
        free(memory->buffers[--memory->buffer_count]);
    free(memory->outbounds);
    free(memory->inbounds);
    free(memory->pushes);
    free(memory->lands);
    free(memory->revocation_words);
    kvr_message_decoder_close(memory->decoder);
    sim_scheduler_close(memory->scheduler);
}

static json_t *faults_json(const uint64_t counts[SIM_FAULT_COUNT])
{
    json_t *json = json_object();

    for (uint32_t i = 0; i < SIM_FAULT_COUNT; i++)
        (void)json_object_set_new(json, sim_fault_name((sim_fault)i),
                                  json_integer((json_int_t)counts[i]));
    return json;
}

/* failed_seed: NULL where there is none. */
static json_t *totals_json(const struct sim_totals *totals, double seconds,
                           const uint64_t *failed_seed)
{
    json_t *json =
        json_pack("{s:I, s:f, s:I, s:I, s:I, s:I, s:o, s:o}", "seeds", (json_int_t)totals->seeds,
                  "seeds_per_s", seconds > 0 ? (double)totals->seeds / seconds : 0, "transfers",
                  (json_int_t)totals->transfers, "done", (json_int_t)totals->done, "chunks",
                  (json_int_t)totals->chunks, "lodgers", (json_int_t)totals->lodgers, "injected",
                  faults_json(totals->injected), "mid_transfer", faults_json(totals->mid));

    if (failed_seed != NULL)
        (void)json_object_set_new(json, "failed_seed", json_integer((json_int_t)*failed_seed));
    return json;
}

static int run_seeds(uint64_t first, uint64_t count, const struct sim_config *config)
{
    struct sim_memory memory = {0};
    struct sim_totals totals = {0};
    kvr_ns begin = kvr_clock_now();
    bool right = true;
    uint64_t failed_seed = 0;
    int exit_status = 0;
    double seconds;

    memory_open(&memory);
    world.memory = &memory;
    world.totals = &totals;
    world.history.live = config->verbose;
    signal(SIGABRT, aborted);
    for (uint64_t seed = first; (right || config->keep_going) && seed - first < count; seed++) {
        if (sim_world_run(&world, seed))
            continue;
        right = false;
        failed_seed = seed;
        if (config->keep_going)
            printf("seed %" PRIu64 " fails: %s\n", seed, world.what);
    }
    signal(SIGABRT, SIG_DFL);
    seconds = (double)(kvr_clock_now() - begin) / (double)KVR_S;
    if (!right && !config->keep_going)
        report_failure();
    if (!json_output_write(totals_json(&totals, seconds, right ? NULL : &failed_seed),
                           config->json))
        exit_status = 1;
    if (right && !json_output_replaces_text(config->json))
        printf("%" PRIu64 " seeds, %" PRIu64 " transfers, %" PRIu64 " done, %" PRIu64
               " writes, nothing wrong; %.0f seeds a second\n",
               totals.seeds, totals.transfers, totals.done, totals.chunks,
               (double)totals.seeds / seconds);
    free(world.events);
    free(world.history.lines);
    memory_close(&memory);
    return right ? exit_status : 1;
}

/* Into the world, which keeps them from seed to seed. */
static bool faults_choose(const struct kvr_option_list *names)
{
    world.allowed = names->count > 0 ? 0 : UINT64_MAX;
    for (uint32_t i = 0; i < names->count; i++) {
        uint32_t fault = 0;

        if (names->count == 1 && strcmp(names->items[i], "none") == 0)
            return true;
        while (fault < SIM_FAULT_COUNT &&
               strcmp(names->items[i], sim_fault_name((sim_fault)fault)) != 0)
            fault++;
        if (fault == SIM_FAULT_COUNT) {
            (void)!kvr_options_refuse(
                &command, "--faults: there is no fault \"%s\"; --help names them", names->items[i]);
            return false;
        }
        world.allowed |= SIM_FAULT_BIT(fault);
    }
    return true;
}

int tool_sim_main(int argc, char **argv)
{
    struct sim_config config = {0};
    uint64_t first, count;
    int exit_status, end = 0;

    if (!kvr_options_load(&command, argc, argv, &config, &exit_status))
        return exit_status;
    if (config.list_mutants) {
        if (kvr_mutants_list(stdout) > 0)
            return 0;
        fprintf(stderr, "kvrail sim: this build has no planted bugs: build it with "
                        "-DKVRAIL_MUTANTS=ON\n");
        return 1;
    }
    if (config.mutant[0] != '\0' && !kvr_mutant_plant(config.mutant))
        return kvr_options_refuse(
            &command,
            "this build has no mutant \"%s\": --list-mutants names those that it "
            "has",
            config.mutant);
    if (config.model[0] != '\0') {
        const struct host_costs *host = host_costs_find(config.model);

        if (host != NULL)
            return sim_host_report(host, config.json);
        return kvr_options_refuse(&command, "--model is \"%s\"; there are two, p5 and p5en",
                                  config.model);
    }
    if (sscanf(config.seeds, "%" SCNu64 ":%" SCNu64 "%n", &first, &count, &end) != 2 ||
        config.seeds[end] != '\0' || count == 0)
        return kvr_options_refuse(&command,
                                  "--seeds is \"%s\"; it must be FROM:COUNT, like 1:1000, and "
                                  "COUNT at least 1",
                                  config.seeds);
    if (!faults_choose(&config.faults))
        return KVR_EXIT_USAGE;
    return run_seeds(first, count, &config);
}
