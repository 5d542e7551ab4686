/* prefill-agent: publishes what the prefill engines of this host computed, and writes it to whoever
 * fetches it. Only wiring. */
#include <stdlib.h>

#include "agent/machine.h"
#include "base/options.h"
#include "prefill-agent/outbound.h"
#include "trace/report.h"
#include "wire/compat.h"

#define FIELD(kind, field) KVR_OPTION_##kind(struct kvr_agent_config, field)

static const struct kvr_option own_options[] = {
    {.name = "lease",
     .section = "transfers",
     .fallback = "30s",
     .min = KVR_MS,
     .max = 3600 * KVR_S,
     FIELD(DURATION, lease),
     .help =
         "How long a published request is held for a target that has not come, unless its engine "
         "names or renews a lease."},
    {.name = "want-timeout",
     .section = "transfers",
     .fallback = "60s",
     .min = KVR_MS,
     .max = 3600 * KVR_S,
     FIELD(DURATION, want_timeout),
     .help = "How long a target without a deadline waits for a request that nobody has published."},
    {.name = "fragments",
     .section = "transfers",
     .fallback = "direct",
     .choices = "direct|refuse",
     FIELD(CHOICE, fragments),
     .help =
         "What to do where the layouts of source and target have pieces in common that are shorter "
         "than --fragment-bytes-min (other order of heads and tokens, unequal tensor parallelism "
         "in "
         "token order): write them as they are, or refuse the request with both sizes. What was "
         "done and how many pieces it took is in the transfer's record."},
    {.name = "fragment-bytes-min",
     .section = "transfers",
     .fallback = "2k",
     .min = 1,
     .max = 1ull << 30,
     FIELD(SIZE, fragment_bytes_min),
     .help = "A shorter piece is a fragment."},
};
#define OWN_COUNT (sizeof(own_options) / sizeof(own_options[0]))

static struct push *pushes[KVR_RAIL_GROUPS_MAX];
static struct outbound outbound;
KVR_MACHINE(outbound)

static kvr_status machine_init(void *self, const struct kvr_agent_config *config,
                               const struct kvr_ports *ports, struct kvr_buddy *memory,
                               const struct kvr_rail_groups *groups,
                               const struct kvr_write_limits *limits)
{
    struct outbound_options options = {
        .silence_ns = KVR_BEATS_MAX * kvr_agent_time(config, config->heartbeat),
        .quiet_ns = kvr_agent_time(config, config->quiet),
        .lease_default_ns = kvr_agent_time(config, config->lease),
        .want_default_ns = kvr_agent_time(config, config->want_timeout),
        .rail_count = groups->first[groups->count],
        .groups = *groups,
        .failover = config->group_failover,
        .limits = *limits,
        .fragments =
            strcmp(config->fragments, "refuse") == 0 ? KVR_FRAGMENT_REFUSE : KVR_FRAGMENT_WRITE,
        .fragment_bytes_min = config->fragment_bytes_min,
    };

    return outbound_init(self, &options, ports, memory);
}

static kvr_status group_open(uint32_t group, struct kvr_group_user *ret_user)
{
    pushes[group] = calloc(1, sizeof(*pushes[group]));
    if (pushes[group] == NULL)
        return KVR_NO_MEMORY;
    *ret_user = push_user(pushes[group]);
    return KVR_OK;
}

static bool serves(kvr_request_kind kind)
{
    return kind != KVR_REQ_TARGET_OPEN && kind != KVR_REQ_TARGET_PAGES;
}

static uint32_t order(void *self, kvr_ns now, const struct kvr_order *asked)
{
    if (asked->kind == KVR_ORDER_ABANDON)
        return outbound_abandon(self, now, asked->request, asked->attempt);
    if (asked->kind == KVR_ORDER_RENEW)
        return outbound_renew(self, now, asked->request, asked->attempt, asked->lease_ns);
    return 0;
}

/* Published requests, and those that a target waits for and nobody has published. */
static uint32_t requests(const void *self, const char *names[], uint32_t max)
{
    const struct outbound *machine = self;
    uint32_t count = 0;

    for (uint32_t i = 0; i < machine->publishes.reach; i++) {
        const struct publish *publish = kvr_pool_at(&machine->publishes, i, NULL);

        if (publish != NULL && count++ < max)
            names[count - 1] = publish->request;
    }
    for (uint32_t i = 0; i < machine->offers.reach; i++) {
        const struct offer *offer = kvr_pool_at(&machine->offers, i, NULL);

        if (offer != NULL && offer->state == O_PARKED && count++ < max)
            names[count - 1] = offer->request;
    }
    return count;
}

static void counters(const void *self, uint64_t values[])
{
    values[KVR_COUNTER_LEASES_EXPIRED] = ((const struct outbound *)self)->leases_expired;
}

int main(int argc, char **argv)
{
    static struct kvr_option options[KVR_AGENT_OPTION_COUNT + OWN_COUNT];
    static struct kvr_agent_config config;
    static const struct kvr_command command = {
        .name = "prefill-agent",
        .description =
            "Runs beside the prefill engines of one host. They publish the KV pages of a\n"
            "request; a decode-agent that wants them dials --listen, and the pages are written\n"
            "straight into its engine's memory over every rail.",
        .options = options,
        .option_count = KVR_AGENT_OPTION_COUNT + OWN_COUNT,
        .footer = "Engines find it at /run/kvrail/p0.sock after\n"
                  "    prefill-agent --name p0 --run-dir /run/kvrail \\\n"
                  "    --listen 127.0.0.1:9480 --rail 127.0.0.1 --scheduler "
                  "127.0.0.1:9470\n\n" KVR_AGENT_SIGNALS,
        .rereads = true,
    };
    struct kvr_machine machine = {
        .role = KVR_ROLE_SOURCE,
        .group_open = group_open,
        .stage_bytes = sizeof(struct push_stage),
        .page_kind = PUSH_PAGE,
        .page_set_kind = PUSH_PAGE_SET,
        .init = machine_init,
        .serves = serves,
        .order = order,
        .requests = requests,
        .counters = counters,
    };
    struct kvr_agent_launch launch = {&command, argc, argv};
    int status;

    memcpy(options, kvr_agent_options, sizeof(kvr_agent_options));
    memcpy(options + KVR_AGENT_OPTION_COUNT, own_options, sizeof(own_options));
    outbound_machine(&machine);
    if (!kvr_options_load(&command, argc, argv, &config, &status))
        return status;
    if (config.listen[0] == '\0')
        return kvr_options_refuse(&command, "--listen HOST:PORT is needed: decode-agents dial it");
    if (kvr_agent_exposed(&config) != NULL)
        return kvr_options_refuse(&command,
                                  "--listen %s is open to other hosts, and nothing is encrypted: "
                                  "listen on loopback, or say --insecure",
                                  kvr_agent_exposed(&config));
    return kvr_agent_run(&launch, &config, &machine);
}
