/* prefill-agent: publishes what the prefill engines of this host computed, and writes it to the
 * targets that fetch it. Only wiring. */
#include <stdlib.h>

#include "agent/agent.h"
#include "base/address.h"
#include "base/options.h"
#include "fabric/fabric_provider.h"
#include "fabric/local/fabric_local.h"
#include "prefill-agent/outbound.h"
#include "prefill-agent/push.h"
#include "trace/report.h"
#include "wire/compat.h"

#define FIELD(kind, field) KVR_OPTION_##kind(struct kvr_agent_config, field)

static const struct kvr_option own_options[] = {
    {.name = "listen",
     .section = "control",
     .value = "HOST[:PORT]",
     .fallback = "127.0.0.1:9480",
     .port = KVR_PREFILL_AGENT_PORT,
     FIELD(ADDRESS, listen),
     .help = "Where decode-agents dial. Port 0: any free one."},
    {.name = "advertise",
     .value = "HOST[:PORT]",
     FIELD(STRING, advertise),
     .reported = true,
     .help = "Address under which decode-agents dial this agent, if that of --listen is not it: a "
             "host name, or an address that is translated on the way. Engines and the scheduler "
             "get this address. Without a port: the port of --listen."},
    {.name = "port-file",
     .section = "control",
     .value = "FILE",
     FIELD(STRING, port_file),
     .help = "Write the listening port here once it is open (for --listen HOST:0)."},
    {.name = "lease",
     .section = "transfers",
     .fallback = "30s",
     .min = KVR_MS,
     .max = 3600 * KVR_S,
     FIELD(DURATION, lease),
     .help =
         "How long a published request is held for a target that has not come, unless its engine "
         "names or renews a lease."},
    {.name = "engine-publishes",
     .section = "agent",
     .fallback = "2048",
     .min = 1,
     .max = KVR_PUBLISHES_MAX,
     FIELD(COUNT, engines.publishes),
     .help = "Most publishes that one engine rank may have at once; more are refused as full. All "
             "engines together have 4096."},
    {.name = "tenant-publishes",
     .value = "TENANT=N",
     .max = KVR_TENANTS_MAX,
     FIELD(LIST, tenants.publishes),
     .reported = true,
     .help = "Most publishes that one tenant may have at once; more are refused as full."},
    {.name = "tenant-bytes",
     .value = "TENANT=SIZE",
     .max = KVR_TENANTS_MAX,
     FIELD(LIST, tenants.bytes),
     .reported = true,
     .help = "Most bytes of pages that the publishes of one tenant may hold at once; a publish "
             "beyond it fails as full. Each publish counts its pages once, however many targets "
             "fetch them."},
    {.name = "tenant-weight",
     .value = "TENANT=N",
     .max = KVR_TENANTS_MAX,
     FIELD(LIST, tenants.weights),
     .reported = true,
     .help = "Share of the rails that one tenant has while others have something to send too, 1 to "
             "100, by bytes; 1 unless given. Deadlines and priorities count within a tenant."},
    {.name = "fragments",
     .section = "transfers",
     .fallback = "auto",
     .choices = "auto|staged|direct|refuse",
     FIELD(CHOICE, fragments),
     .help =
         "What to do where the layouts of source and target have pieces in common that are shorter "
         "than --fragment-bytes-min (other order of heads and tokens, unequal tensor parallelism "
         "in token order). direct: write them as they are. staged: copy them through "
         "--staging-memory, here or at a target that has it to spare, so that one write carries "
         "many. auto: that where it should save a quarter of the time, by the cost of writes and "
         "copies "
         "(kvrail bench calibrate). refuse: the request, with both sizes. The transfer's record "
         "names the choice, "
         "and the expected cost of both ways."},
    {.name = "fragment-bytes-min",
     .section = "transfers",
     .fallback = "2k",
     .min = 1,
     .max = 1ull << 30,
     FIELD(SIZE, fragment_bytes_min),
     .help = "A shorter piece is a fragment."},
};

static struct push *pushes[KVR_RAIL_GROUPS_MAX];
static struct outbound outbound;

static kvr_fragment_choice fragment_choice(const char *option)
{
    static const char *const names[] = {[KVR_FRAGMENT_AUTO] = "auto",
                                        [KVR_FRAGMENT_WRITE] = "direct",
                                        [KVR_FRAGMENT_STAGE] = "staged",
                                        [KVR_FRAGMENT_REFUSE] = "refuse"};
    uint32_t choice = 0;

    while (strcmp(names[choice], option) != 0) /* it is one of the choices */
        choice++;
    return (kvr_fragment_choice)choice;
}

static kvr_status machine_init(const struct kvr_agent_config *config, const struct kvr_ports *ports,
                               struct kvr_buddy *memory, const struct kvr_rail_groups *groups,
                               const struct kvr_write_limits *limits)
{
    struct outbound_options options = {
        .silence_ns = KVR_BEATS_MAX * kvr_agent_time(config, config->heartbeat),
        .quiet_ns = kvr_agent_time(config, config->quiet),
        .engine_publishes = (uint32_t)config->engines.publishes,
        .lease_default_ns = kvr_agent_time(config, config->lease),
        .rail_count = groups->first[groups->count],
        .groups = *groups,
        .failover = config->group_failover,
        .without_secret = config->tls.insecure,
        .limits = *limits,
        .spans = config->spans,
        .pages = config->pages,
        .fragments = fragment_choice(config->fragments),
        .fragment_bytes_min = config->fragment_bytes_min,
    };
    char cards[16];

    if (kvr_provider_cards(config->provider, cards))
        options.costs_local = kvr_agent_fragment_costs(config, KVR_FABRIC_LOCAL);
    options.costs = kvr_agent_fragment_costs(config, cards);
    return outbound_init(&outbound, &options, ports, memory);
}

static kvr_status group_open(uint32_t group, struct kvr_group_user *ret_user)
{
    pushes[group] = calloc(1, sizeof(*pushes[group]));
    if (pushes[group] == NULL)
        return KVR_NO_MEMORY;
    *ret_user = push_user(pushes[group]);
    return KVR_OK;
}

static void counters(uint64_t values[])
{
    values[KVR_COUNTER_LEASES_EXPIRED] = outbound.leases_expired;
    values[KVR_COUNTER_WANTS_REFUSED] = outbound.wants_refused;
    values[KVR_COUNTER_QUOTA_REQUESTS] = outbound.engines.quota_refused;
    values[KVR_COUNTER_WANTS_UNPROVEN] = outbound.wants_unproven;
    values[KVR_COUNTER_WANTS_OTHERS] = outbound.wants_of_others;
    values[KVR_COUNTER_TENANTS_REFUSED] = outbound.engines.tenants_refused;
}

static uint64_t posted(uint32_t tenant)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < KVR_RAIL_GROUPS_MAX && pushes[i] != NULL; i++)
        bytes += atomic_load_explicit(&pushes[i]->posted[tenant], memory_order_relaxed);
    return bytes;
}

int main(int argc, char **argv)
{
    static struct kvr_agent_config config;
    static const struct kvr_option_part parts[] = {
        KVR_AGENT_PARTS,
        {.table = NULL},
    };
    static const struct kvr_command command = {
        .name = "prefill-agent",
        .description =
            "Runs beside the prefill engines of one host. They publish the KV pages of a\n"
            "request; a decode-agent that wants them dials --listen, and the pages are written\n"
            "straight into its engine's memory over every rail.",
        .parts = parts,
        .options = own_options,
        .option_count = sizeof(own_options) / sizeof(own_options[0]),
        .footer = "Engines find it at /run/kvrail/p0.sock after\n"
                  "    prefill-agent --name p0 --run-dir /run/kvrail \\\n"
                  "    --listen 127.0.0.1:9480 --rail 127.0.0.1 --scheduler "
                  "127.0.0.1:9470\n\n" KVR_AGENT_SIGNALS,
        .rereads = true,
    };
    const struct kvr_agent_program program = {
        .machine = outbound_machine(&outbound),
        .group_open = group_open,
        .init = machine_init,
        .counters = counters,
        .posted = posted,
    };
    struct kvr_agent_launch launch = {&command, argc, argv};
    int status;

    if (!kvr_options_load(&command, argc, argv, &config, &status))
        return status;
    if (config.listen[0] == '\0')
        return kvr_options_refuse(&command, "--listen is empty, but decode-agents dial it");
    return kvr_agent_run(&launch, &config, &program);
}
