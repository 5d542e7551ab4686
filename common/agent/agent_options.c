/* The options that both agents share. */
#include "agent/agent.h"
#include "agent/engine/engine_access.h"
#include "agent/report/schedulers.h"
#include "base/address.h"
#include "base/removed.h"
#include "fabric/fabric_provider.h"

/* Then what the row has beside: .value, .fallback, .min … and .help. */
#define ROW(of, called, kind, field, ...)                                                          \
    {                                                                                              \
        .section = (of), .name = (called), KVR_OPTION_##kind(struct kvr_agent_config, field),      \
        __VA_ARGS__                                                                                \
    }

static const struct kvr_option rows[] = {
    ROW("agent", "name", STRING, name, .reported = true, .value = "NAME", .required = true,
        .help = "This agent's name, unique among the agents of a scheduler; shown wherever it "
                "appears."),
    ROW("agent", "engine-socket", STRING, engine_socket, .value = "PATH",
        .help = "Unix socket where the engines of this host attach; made with mode 0600: they "
                "run as the same user, or see --engine-user. Without it NAME.sock in --run-dir."),
    ROW("agent", "engine-user", LIST, engines.users, .value = "NAME|UID", .max = ENGINE_ACCESS_MAX,
        .help =
            "A user with processes that may attach too, besides this agent's own user and root. "
            "Repeat it for several. The socket then lets every user connect, and the agent "
            "asks the kernel for each one's user and groups; the folder must be open to them."),
    ROW("agent", "engine-group", LIST, engines.groups, .value = "NAME|GID",
        .max = ENGINE_ACCESS_MAX,
        .help = "A group: its members may attach too. With one, and without --engine-user, the "
                "socket belongs to that group (mode 0660), of which this agent's user must be a "
                "member."),
    ROW("agent", "tenant", LIST, tenants.list, .value = "NAME[=OWNER[+OWNER]]",
        .max = KVR_TENANTS_MAX,
        .help = "A tenant that engines here may act for; fetches meet only publishes of their "
                "tenant. OWNER is user:NAME or group:NAME: the engines that may, this agent's own "
                "user and root only where it names them; without it every engine may. Repeat it "
                "for several; a request that names none is of the first that its engine may act "
                "for. The agent's certificate and the peer's must serve it. Without it there is "
                "one tenant, default."),
    ROW("agent", "engine-memory", SIZE, engines.memory, .fallback = "0",
        .help = "Most memory that one engine rank may register, as kvrail_memory_create or the "
                "GPU gave it to its regions; more is refused as full. 0: any."),
    ROW("agent", "run-dir", STRING, run_dir, .value = "DIR",
        .help =
            "Where the engine socket lies; made if it is missing, with mode 0700, or 0711 where "
            "--engine-user or --engine-group lets others attach. Without it "
            "$RUNTIME_DIRECTORY (a systemd service), else $XDG_RUNTIME_DIR/kvrail, else "
            "/run/kvrail."),
    ROW("agent", "state-dir", STRING, state_dir, .value = "DIR",
        .help = "Directory of this agent alone for data that must outlive a restart: reports that "
                "the scheduler has not acknowledged, and the results of `kvrail bench calibrate`. "
                "Made if it is missing. Without it reports are kept in memory only."),
    ROW("agent", "lifeline", STRING, lifeline, .value = "FIFO",
        .help = "A named pipe that the engines of this agent hold open for writing. When the last "
                "of them has closed it, or has ended, the agent ends as after SIGTERM. For an "
                "engine that starts its agent itself."),
    ROW("agent", "table-memory", SIZE, table_memory, .fallback = "1G", .min = 96ull << 20,
        .max = 64ull << 30,
        .help = "Most memory for page tables, plans and bitmaps; taken only as it is used."),
    ROW("agent", "drain-timeout", DURATION, drain_timeout, .fallback = "30s", .max = 3600 * KVR_S,
        .live = true,
        .help = "After SIGTERM, how long transfers under way may take to end; what has not is "
                "given up and named."),
    ROW("rails", "provider", CHOICE, provider, .choices_from = kvr_provider_choices_mixed,
        .removed = kvr_removed_provider, .fallback = "tcp+local",
        .help = "What the rails are: a provider of libfabric, or local, where the target maps the "
                "source's memory; both agents of a pair must use the same. CARDS+local: for a peer "
                "of this host and user that says so too, local, for others the cards; a peer's log "
                "says which, and each transfer's record. Without +local cards for all. verbs, "
                "efa and efa-direct pin memory (RLIMIT_MEMLOCK); the others do not. local alone "
                "is for two agents of one host and one user."),
    ROW("rails", "rail", LIST, rails, .reported = true, .value = "NAME[@PLANE]",
        .max = KVR_AGENT_CARDS_MAX,
        .help = "A card to use: its interface, its libfabric domain, its PCI address or an IP "
                "address of it. Repeat for every card. all, without another --rail: every card "
                "that the provider can use, one rail each; the log names those left out, and why. "
                "Without it all on verbs and efa; on tcp 127.0.0.1. PLANE is a label for what the "
                "card is connected to: cards of both hosts with one label are paired. Without a "
                "label those in one IP network are."),
    ROW("rails", "plane", LIST, planes, .reported = true, .value = "PATTERN=PLANE",
        .max = KVR_AGENT_CARDS_MAX,
        .help =
            "The plane of cards without a label, as with --rail all: of those with an interface "
            "or libfabric domain that matches the shell's pattern. The first that matches "
            "counts."),
    ROW("rails", "other-planes", CHOICE, other_planes, .choices = "as-needed|never|always",
        .fallback = "as-needed",
        .help = "Of a prefill-agent: whether a card may write to a card of another plane. "
                "as-needed: while no pair within a plane works; never: it may not; always: as if "
                "planes were connected."),
    ROW("rails", "rail-ports", STRING, rail_ports, .reported = true, .value = "FIRST-LAST",
        .help = "Ports that the rails listen on, for a firewall between the hosts. Each rail needs "
                "two: its endpoint's, and a second one while a successor replaces it. Agents of "
                "one host may share a range that has enough for all. tcp uses it, and verbs for "
                "its ports of rdma_cm, which no firewall of the kernel sees; efa and local listen "
                "on no ports. Without it the kernel chooses."),
    ROW("rails", "rail-filter", STRING, rail_filter, .value = "SOCKET",
        .help = "The socket of kvrail-filter on this host (/run/kvrail-filter/filter.sock): it "
                "closes the ports of tcp rails to all but the addresses of authenticated peers, "
                "and over loopback to all but the users of agents. With --rail-ports they are "
                "closed from the start on. While it does not answer the agent goes on, and warns."),
    ROW("rails", "rail-filter-required", BOOL, rail_filter_required,
        .help = "Do not start unless kvrail-filter answers."),
    ROW("rails", "group", LIST, groups, .reported = true, .value = "NAME[@PLANE]+NAME[@PLANE]",
        .max = KVR_RAIL_GROUPS_MAX,
        .help = "Cards that one thread drives, instead of --rail. Repeat for every group. Without "
                "it the cards of --rail are divided by the GPU or NUMA node that they are near "
                "(see kvrail topo)."),
    ROW("rails", "group-failover", BOOL, group_failover, .fallback = "yes",
        .help = "When no rail of a transfer's group is left, another group's carry on: the "
                "engine's memory is then registered with those too. Else the transfer fails."),
    ROW("rails", "cores", STRING, cores, .reported = true, .value = "LIST", .fallback = "auto",
        .help = "Cores for the threads that drive the rails, as 0-3,8, or a list for each group of "
                "rails, as 0-3/4-7. auto: the cores beside the group's cards (see kvrail topo); "
                "the agent's other threads run in the cards' NUMA node. any: the system chooses."),
    ROW("rails", "calibration", BOOL, calibration, .fallback = "yes",
        .help =
            "Use what `kvrail bench calibrate` kept in --state-dir for this provider, if it did."),
    /* For tests, host memory behind a copy engine that is slow and may fail. emulated: no card
     * reaches it; emulated-direct: every card does; emulated-blind: as emulated, and no agent can
     * import another's. */
    ROW("device", "device", CHOICE, device, .choices = "cuda|none",
        .choices_hidden = "emulated|emulated-direct|emulated-blind", .fallback = "cuda",
        .help = "Device memory that engines may register. cuda: NVIDIA's; an agent uses a GPU "
                "from the first region on it. Cards that reach the memory register it, else it is "
                "staged (`kvrail topo` says which, "
                "and why). Between two agents of one host with provider local, the decode-agent's "
                "GPU copies the pages, where it can import the engine's memory. none: host memory "
                "only; libfabric then leaves GPUs alone (FI_HMEM=system)."),
    ROW("device", "require-gpudirect", BOOL, require_gpudirect,
        .help = "Refuse device memory that would be copied through host memory, and say which card "
                "lacks what."),
    ROW("device", "device-failures", COUNT, device_failures, .hidden = true, .value = "PROMILLE",
        .fallback = "0", .max = 1000,
        .help = "With --device emulated, how many copies of a thousand fail half done."),
    ROW("control", "heartbeat", DURATION, heartbeat, .fallback = "1s", .min = 10 * KVR_MS,
        .max = 60 * KVR_S,
        .help = "How often a peer hears from us; silent for three of them, it is dead."),
    ROW("control", "quiet", DURATION, quiet, .fallback = "1s", .min = KVR_MS, .max = 60 * KVR_S,
        .help = "How long counts of writes may differ before the endpoint is replaced."),
    ROW("control", "time-scale", COUNT, time_scale, .value = "PERCENT", .fallback = "100",
        .min = 10, .max = 10000,
        .help = "Every time that decides (heartbeat, quiet, lease, deadline, drain-timeout) is "
                "this much of what it is set to: for hosts and builds that are slower than times "
                "were meant for. Both agents of a pair the same."),
    ROW("control", "digest", CHOICE, digest, .choices = "off|sample|full", .fallback = "off",
        .help =
            "Hash one write in 16, or every one, on both sides; bytes that differ end the transfer "
            "as FAILED(digest), never as DONE. LAYER_IN does not wait for it: layers may be "
            "announced before. The stronger wish of the two agents counts."),
    ROW("control", "scheduler", LIST, schedulers, .reported = true, .value = "HOST[:PORT]",
        .max = KVR_SCHEDULERS_MAX, .port = KVR_SCHEDULER_PORT, .url = true,
        .help =
            "Where to report; port 9470 unless given. Repeat it for several schedulers of one "
            "database: one of them gets the reports, and the next one when it fails. Transfers go "
            "on without a scheduler. With --tls-certificate by https; http:// before it says "
            "otherwise, on this host."),
    ROW("control", "spans-every", COUNT, spans.every, .value = "N", .fallback = "100",
        .max = UINT32_MAX,
        .help = "Report the times of each layer (ready, posted, landed, delivered) and what each "
                "rail carried, of one transfer in N. Both agents choose the same ones. All that "
                "failed or were slow are reported too. 0: none."),
    ROW("control", "spans-slow", DURATION, spans.slow_ns, .fallback = "1s", .max = 3600 * KVR_S,
        .help = "A transfer is slow for --spans-every if so much time goes by from its grant to "
                "its end."),
    ROW("control", "pages-every", COUNT, pages.every, .value = "N", .fallback = "0",
        .max = UINT32_MAX,
        .help =
            "Report the page tables of one transfer in N, as runs of neighbouring pages, and of "
            "all that failed or were slow. 0: only while kvrail trace record --pages asks for "
            "them."),
    ROW("http", "http", STRING, http.listen, .reported = true, .value = "[HOST:]PORT",
        .help = "Serve /metrics and /healthz here, also while no scheduler runs; a port alone is "
                "one of 127.0.0.1, and port 0 any free one. With --tls-certificate by https, and "
                "then only client certificates and tokens may read."),
    ROW("http", "http-port-file", STRING, http.port_file, .value = "FILE",
        .help = "Write the port of --http here once it is open."),
    ROW("http", "http-token-file", STRING, http.token_file, .value = "FILE",
        .help = "Tokens that may read at --http: a line NAME read HASH for each token, as `kvrail "
                "token` makes it. Read again when it changes. Without it and without certificates "
                "all that reach the port may."),
    ROW("http", "http-host", LIST, http.hosts, .reported = true, .value = "NAME",
        .help = "A name by which Prometheus reaches --http; repeat for every name. Its addresses, "
                "loopback and this host's own name need none. Requests by other names are "
                "refused: a foreign page could make them."),
    ROW("http", "http-open", LIST, http.open, .reported = true, .value = "metrics|health",
        .help = "What needs no right at --http: metrics for /metrics, health for /healthz."),
    ROW("control", "stamps", STRING, stamps, .hidden = true, .value = "FILE",
        .help =
            "Note here when layers pass through: for `kvrail bench ping`, which makes the file."),
};
const struct kvr_option_table kvr_agent_options = {rows, sizeof(rows) / sizeof(rows[0])};

kvr_ns kvr_agent_time(const struct kvr_agent_config *config, kvr_ns configured)
{
    return configured * config->time_scale / 100;
}

kvr_digest_mode kvr_agent_digest(const struct kvr_agent_config *config)
{
    if (strcmp(config->digest, "full") == 0)
        return KVR_DIGEST_FULL;
    return strcmp(config->digest, "sample") == 0 ? KVR_DIGEST_SAMPLE : KVR_DIGEST_OFF;
}
