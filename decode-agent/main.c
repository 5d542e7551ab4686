/* decode-agent: fetches KV pages for the decode engines of this host, and says when they may be
 * used. Only wiring. */
#include <stdlib.h>

#include "agent/agent.h"
#include "base/address.h"
#include "base/entropy.h"
#include "base/options.h"
#include "decode-agent/inbound.h"
#include "decode-agent/land.h"
#include "trace/report.h"
#include "wire/compat.h"

#define FIELD(kind, field) KVR_OPTION_##kind(struct kvr_agent_config, field)

static const struct kvr_option own_options[] = {
    {.name = "prefill-agent",
     .section = "control",
     .value = "HOST[:PORT]",
     .port = KVR_PREFILL_AGENT_PORT,
     FIELD(LIST, prefill_agents),
     .reported = true,
     .help = "A prefill-agent to connect to at the start and after each loss, rails included, "
             "instead of when the first fetch names it. Port 9480 unless given. Repeat it for "
             "several; fetches may name "
             "others too."},
    {.name = "deadline",
     .section = "transfers",
     .fallback = "120s",
     .min = KVR_MS,
     .max = 3600 * KVR_S,
     FIELD(DURATION, deadline),
     .help = "When a fetch expires whose engine names no deadline."},
    {.name = "slots",
     .section = "transfers",
     .fallback = "4096",
     .min = 1,
     .max = KVR_SLOTS - 1,
     FIELD(COUNT, slots),
     .help = "Names for live transfers, 65,536 writes each; fetches beyond them wait in order. The "
             "numbers are drawn at random: the fewer are in use, the harder they are to guess."},
    {.name = "engine-fetches",
     .section = "agent",
     .fallback = "2048",
     .min = 1,
     .max = KVR_FETCHES_MAX,
     FIELD(COUNT, engines.fetches),
     .help = "Most fetches that one engine rank may have at once; more are refused as full. All "
             "engines together have 4096."},
    {.name = "tenant-fetches",
     .value = "TENANT=N",
     .max = KVR_TENANTS_MAX,
     FIELD(LIST, tenants.fetches),
     .reported = true,
     .help = "Most fetches that one tenant may have at once; more are refused as full."},
    {.name = "fragments",
     .section = "transfers",
     .fallback = "auto",
     .choices = "auto|direct",
     FIELD(CHOICE, fragments),
     .help = "Whether a source may have a request's fragments land in --staging-memory and be "
             "copied from there, if it finds that better (see prefill-agent --fragments). auto: "
             "it may. direct: they are written as they are."},
};

static struct land *lands[KVR_RAIL_GROUPS_MAX];
static struct inbound inbound;

static kvr_status machine_init(const struct kvr_agent_config *config, const struct kvr_ports *ports,
                               struct kvr_buddy *memory, const struct kvr_rail_groups *groups,
                               const struct kvr_write_limits *limits)
{
    struct inbound_options options = {
        .silence_ns = KVR_BEATS_MAX * kvr_agent_time(config, config->heartbeat),
        .quiet_ns = kvr_agent_time(config, config->quiet),
        .deadline_default_ns = kvr_agent_time(config, config->deadline),
        .engine_fetches = (uint32_t)config->engines.fetches,
        .slot_count = (uint32_t)config->slots,
        .rail_count = groups->first[groups->count],
        .groups = *groups,
        .failover = config->group_failover,
        .without_secret = config->tls.insecure,
        .nonce_key = {kvr_random_u64(), kvr_random_u64()},
        .limits = *limits,
        .spans = config->spans,
        .pages = config->pages,
        .stage_bytes =
            strcmp(config->fragments, "direct") == 0 ? 0 : config->copying.staging_memory,
        .digest = kvr_agent_digest(config),
    };

    return inbound_init(&inbound, &options, ports, memory);
}

static kvr_status group_open(uint32_t group, struct kvr_group_user *ret_user)
{
    lands[group] = calloc(1, sizeof(*lands[group]));
    if (lands[group] == NULL)
        return KVR_NO_MEMORY;
    *ret_user = land_user(lands[group]);
    return KVR_OK;
}

static uint64_t unexpected(uint32_t rail, enum land_unexpected why)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < KVR_RAIL_GROUPS_MAX && lands[i] != NULL; i++)
        count += atomic_load_explicit(&lands[i]->unexpected[rail][why], memory_order_relaxed);
    return count;
}

static void counters(uint64_t values[])
{
    values[KVR_COUNTER_DIGEST_MISMATCHES] = inbound.digest_mismatches;
    values[KVR_COUNTER_SKIPPED_BYTES] = inbound.skipped_bytes;
    values[KVR_COUNTER_QUOTA_REQUESTS] = inbound.engines.quota_refused;
    values[KVR_COUNTER_TENANTS_REFUSED] = inbound.engines.tenants_refused;
    values[KVR_COUNTER_SLOTS] = inbound.options.slot_count - inbound.free_count;
    values[KVR_COUNTER_SLOTS_LIMIT] = inbound.options.slot_count;
    values[KVR_COUNTER_STALE_WRITES] = 0;
    for (uint32_t rail = 0; rail < KVR_RAILS_MAX; rail++)
        values[KVR_COUNTER_STALE_WRITES] += unexpected(rail, UNEXPECTED_IDLE_SLOT);
}

static void rail_counters(uint32_t rail, uint64_t values[])
{
    values[KVR_RAIL_IDLE_SLOT] = unexpected(rail, UNEXPECTED_IDLE_SLOT);
    values[KVR_RAIL_WRONG_TAG] = unexpected(rail, UNEXPECTED_TAG);
    values[KVR_RAIL_WRONG_CHUNK] = unexpected(rail, UNEXPECTED_CHUNK);
}

static uint64_t landed(uint32_t rail)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < KVR_RAIL_GROUPS_MAX && lands[i] != NULL; i++)
        bytes += atomic_load_explicit(&lands[i]->bytes[rail], memory_order_relaxed);
    return bytes;
}

int main(int argc, char **argv)
{
    static struct kvr_agent_config config;
    static const struct kvr_option_part parts[] = {
        KVR_AGENT_PARTS,
        {.table = &kvr_copying_options, .offset = offsetof(struct kvr_agent_config, copying)},
        {.table = NULL},
    };
    static const struct kvr_command command = {
        .name = "decode-agent",
        .description =
            "Runs beside the decode engines of one host. They fetch the KV pages of a request\n"
            "from the prefill-agents that hold it; the pages are written straight into the\n"
            "engine's memory over every rail, and the engine is told when they may be used.",
        .parts = parts,
        .options = own_options,
        .option_count = sizeof(own_options) / sizeof(own_options[0]),
        .footer = "Engines find it at /run/kvrail/d0.sock after\n"
                  "    decode-agent --name d0 --run-dir /run/kvrail \\\n"
                  "    --rail 127.0.0.1 --scheduler 127.0.0.1:9470\n\n" KVR_AGENT_SIGNALS,
        .rereads = true,
    };
    const struct kvr_agent_program program = {
        .machine = inbound_machine(&inbound),
        .group_open = group_open,
        .init = machine_init,
        .counters = counters,
        .landed = landed,
        .rail_counters = rail_counters,
    };
    struct kvr_agent_launch launch = {&command, argc, argv};
    int status;

    if (!kvr_options_load(&command, argc, argv, &config, &status))
        return status;
    return kvr_agent_run(&launch, &config, &program);
}
