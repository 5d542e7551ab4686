/* The options that both agents share. */
#include "agent/agent.h"
#include "fabric/fabric_provider.h"

#define FIELD(kind, field) KVR_OPTION_##kind(struct kvr_agent_config, field)

static const struct kvr_option rows[] = {
    {.name = "name",
     .section = "agent",
     .value = "NAME",
     .required = true,
     FIELD(STRING, name),
     .help =
         "This agent's name, unique among the agents of a scheduler; shown wherever it appears."},
    {.name = "engine-socket",
     .section = "agent",
     .value = "PATH",
     FIELD(STRING, engine_socket),
     .help = "Unix socket where the engines of this host attach; made with mode 0600, so they run "
             "as the same user. Without it NAME.sock in --run-dir."},
    {.name = "run-dir",
     .section = "agent",
     .value = "DIR",
     FIELD(STRING, run_dir),
     .help = "Where the engine socket lies; made with mode 0700 if it is missing. Without it "
             "$RUNTIME_DIRECTORY (a systemd service), else $XDG_RUNTIME_DIR/kvrail, else "
             "/run/kvrail."},
    {.name = "state-dir",
     .section = "agent",
     .value = "DIR",
     FIELD(STRING, state_dir),
     .help =
         "Directory for what must outlive a restart, of this agent alone; made if it is missing: "
         "reports that the scheduler has not acknowledged, which are else kept in memory only, "
         "and what `kvrail bench calibrate` found."},
    {.name = "table-memory",
     .section = "agent",
     .fallback = "1G",
     .min = 64ull << 20,
     .max = 64ull << 30,
     FIELD(SIZE, table_memory),
     .help = "Most memory for page tables, plans and bitmaps; taken only as it is used."},
    {.name = "drain-timeout",
     .section = "agent",
     .fallback = "30s",
     .max = 3600 * KVR_S,
     .live = true,
     FIELD(DURATION, drain_timeout),
     .help = "After SIGTERM, how long transfers under way may take to end; what has not is given "
             "up and named."},
    {.name = "provider",
     .section = "rails",
     .choices = KVR_PROVIDERS_MIXED,
     .fallback = "tcp+local",
     FIELD(CHOICE, provider),
     .help = "What the rails are: a provider of libfabric, or local, where the target maps the "
             "source's memory; both agents of a pair must use the same. CARDS+local: for a peer of "
             "this host and user that says so too, local, for others the cards; a peer's log says "
             "which, and each transfer's record. Without +local cards for all. verbs and efa pin "
             "memory (RLIMIT_MEMLOCK); the others do not. shm and local alone are for two agents "
             "of one host and one user; shm needs room in /dev/shm."},
    {.name = "rail",
     .section = "rails",
     .value = "NAME",
     .max = KVR_AGENT_CARDS_MAX,
     FIELD(LIST, rails),
     .help =
         "A card to use: its interface, its libfabric domain or an address of it. Repeat for every "
         "card. Without it, the provider's first; of tcp, loopback; shm twice, so that one of the "
         "two always has something to copy."},
    {.name = "group",
     .section = "rails",
     .value = "NAME+NAME",
     .max = KVR_RAIL_GROUPS_MAX,
     FIELD(LIST, groups),
     .help = "Cards that one thread drives, instead of --rail. Repeat for every group. Without it "
             "the cards of --rail are divided by the GPU or NUMA node that they are near (see "
             "kvrail topo)."},
    {.name = "group-failover",
     .section = "rails",
     .fallback = "yes",
     FIELD(BOOL, group_failover),
     .help = "When no rail of a transfer's group is left, another group's carry on: the engine's "
             "memory is then registered with those too. Else the transfer fails."},
    {.name = "cores",
     .section = "rails",
     .value = "LIST",
     .fallback = "auto",
     FIELD(STRING, cores),
     .help = "Cores for the threads that drive the rails, as 0-3,8, or a list for each group of "
             "rails, as 0-3/4-7; auto: those beside its cards (see kvrail topo), and the rest of "
             "the agent in their NUMA node; any: wherever the system puts them."},
    {.name = "calibration",
     .section = "rails",
     .fallback = "yes",
     FIELD(BOOL, calibration),
     .help = "Use what `kvrail bench calibrate` kept in --state-dir for this provider, if it did."},
    {.name = "chunk-bytes-max",
     .section = "rails",
     .fallback = "1M",
     .min = KVR_CHUNK_BYTES_MIN,
     .max = 1ull << 30,
     FIELD(SIZE, chunk_bytes_max),
     .help = "Largest write; pages that are neighbours on both sides are merged up to it."},
    {.name = "window-bytes",
     .section = "rails",
     .fallback = "0",
     .max = 1ull << 32,
     FIELD(SIZE, window_bytes),
     .help = "Bytes posted and not completed, of each rail, half of them to one peer; 0: what "
             "suits the provider, 64M on local, 8M on shm and 16M on others."},
    {.name = "window-writes",
     .section = "rails",
     .fallback = "0",
     .max = 65536,
     FIELD(COUNT, window_writes),
     .help = "Writes posted and not completed, of each rail; 0: what the provider takes."},
    {.name = "spin",
     .section = "rails",
     .fallback = "20us",
     .max = KVR_S,
     FIELD(DURATION, spin),
     .help = "How long the rails' thread polls after the last progress before it sleeps. Beyond "
             "20us it leaves the core to whoever else wants it."},
    {.name = "warm-up",
     .section = "rails",
     .fallback = "yes",
     FIELD(BOOL, warm_up),
     .help = "Write a few bytes over every pair of rails when it comes into use, into a page kept "
             "for that, so that no transfer waits for a connection; both agents of a pair."},
    {.name = "pieces",
     .section = "rails",
     .fallback = "0",
     .max = KVR_IOV_MAX,
     FIELD(COUNT, pieces),
     .help = "Pieces of memory that one write gathers, at most; 0: as many as the provider takes, "
             "or calibration found to pay."},
    {.name = "batch",
     .section = "rails",
     .fallback = "0",
     .max = 1024,
     FIELD(COUNT, batch),
     .help = "Writes posted with one doorbell, at most; 1: each rings; 0: 32."},
    {.name = "lazy",
     .section = "rails",
     .fallback = "yes",
     FIELD(BOOL, lazy),
     .help = "A rail that refused a write waits for a completion; no: it is tried at every step."},
    {.name = "choice",
     .section = "rails",
     .fallback = "yes",
     FIELD(BOOL, choice),
     .help = "Writes go to the rail that is through with them first; no: to each in turn."},
    {.name = "acknowledge",
     .section = "rails",
     .fallback = "yes",
     FIELD(BOOL, acknowledge),
     .help = "On tcp a write is on its way until the target has it; no: until the kernel has taken "
             "it, and what its buffers hold comes on top of --window-bytes."},
    {.name = "tcp-congestion",
     .section = "rails",
     .value = "NAME",
     .fallback = "auto",
     FIELD(STRING, tcp_congestion),
     .help = "Congestion control of tcp's connections, a name that the host has (sysctl "
             "net.ipv4.tcp_available_congestion_control). auto: cubic where the host's own is bbr, "
             "whose pacing leaves a part of a short path unused; host: always its own."},
    {.name = "inline",
     .section = "rails",
     .fallback = "0",
     .max = 65536,
     FIELD(SIZE, inline_bytes),
     .help =
         "Writes of up to so many bytes are handed to the provider with their bytes, so that "
         "nothing need read them from memory; tcp and shm, at most what they take so; 0: none."},
    {.name = "device",
     .section = "device",
     .choices = "cuda|emulated|emulated-direct|emulated-blind|none",
     .fallback = "cuda",
     FIELD(CHOICE, device),
     .help =
         "Whose device memory engines may register. cuda: NVIDIA's, whose driver is loaded "
         "when the first such region comes; cards that reach it by themselves are told of it, "
         "else it is staged (`kvrail topo` says which, and why), but between two agents of one "
         "host with provider local: there the decode-agent's GPU moves the pages, where it sees "
         "the engine's memory. emulated: for tests, host memory behind a copy engine that is "
         "slow and may fail; emulated-direct: the same, and every card reaches it; "
         "emulated-blind: the same, and it sees no other agent's. none: host memory only."},
    {.name = "staging-memory",
     .section = "device",
     .fallback = "256M",
     .min = 2ull << 20,
     .max = 1ull << 40,
     FIELD(SIZE, staging_memory),
     .help =
         "Pinned memory of each GPU, for pages that no card can reach, and of host memory, for "
         "fragments (see --fragments), at least two of --chunk-bytes-max: at a prefill-agent a "
         "ring; at a decode-agent each transfer goes through an eighth of it at most, and those "
         "beyond wait. Transfers of any size go through either. Taken with a GPU's first region, "
         "and with the first "
         "transfer whose fragments are copied."},
    {.name = "require-gpudirect",
     .section = "device",
     FIELD(BOOL, require_gpudirect),
     .help = "Refuse device memory that would be copied through host memory, and say which card "
             "lacks what."},
    {.name = "device-failures",
     .section = "device",
     .value = "PROMILLE",
     .fallback = "0",
     .max = 1000,
     FIELD(COUNT, device_failures),
     .help = "With --device emulated, how many copies of a thousand fail half done."},
    {.name = "heartbeat",
     .section = "control",
     .fallback = "1s",
     .min = 10 * KVR_MS,
     .max = 60 * KVR_S,
     FIELD(DURATION, heartbeat),
     .help = "How often a peer hears from us; silent for three of them, it is dead."},
    {.name = "quiet",
     .section = "control",
     .fallback = "1s",
     .min = KVR_MS,
     .max = 60 * KVR_S,
     FIELD(DURATION, quiet),
     .help = "How long counts of writes may differ before the endpoint is replaced."},
    {.name = "time-scale",
     .section = "control",
     .value = "PERCENT",
     .fallback = "100",
     .min = 10,
     .max = 10000,
     FIELD(COUNT, time_scale),
     .help = "Every time that decides (heartbeat, quiet, lease, want-timeout, deadline, "
             "drain-timeout) is this much of what it is set to: for hosts and builds that are "
             "slower than times were meant for. Both agents of a pair the same."},
    {.name = "digest",
     .section = "control",
     .choices = "off|sample|full",
     .fallback = "off",
     FIELD(CHOICE, digest),
     .help =
         "Hash one write in 16, or every one, on both sides; bytes that differ end the transfer "
         "as FAILED(digest), never as DONE. The stronger wish of the two agents counts."},
    {.name = "scheduler",
     .section = "control",
     .value = "HOST:PORT",
     FIELD(ADDRESS, scheduler),
     .help = "Where to report; transfers go on without it."},
    {.name = "stamps",
     .section = "control",
     .value = "FILE",
     FIELD(STRING, stamps),
     .help = "Note here when layers pass through: for `kvrail bench ping`, which makes the file."},
    {.name = "insecure",
     .section = "control",
     FIELD(BOOL, insecure),
     .help =
         "Listen beyond this host although nothing is encrypted and nobody is asked who he is."},
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
