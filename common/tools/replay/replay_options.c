/* The option table of `kvrail replay`. */
#include "tools/replay/replay_setup.h"

#include "base/address.h"

#define OPTIONS struct replay_options

static const struct kvr_option options[] = {
    {.name = "source-socket",
     .section = "agents",
     .value = "[NAME=]PATH",
     .required = true,
     KVR_OPTION_LIST(OPTIONS, agents.sockets[KVR_ROLE_SOURCE]),
     .help = "Engine socket of a prefill-agent. Each socket gets an engine. Requests go to the "
             "agents in turn, or where a trace of transfers has them: to the agent of that NAME, "
             "or to the agents in the order of the trace. Recorded agents beyond those given share "
             "them."},
    {.name = "target-socket",
     .value = "[NAME=]PATH",
     .required = true,
     KVR_OPTION_LIST(OPTIONS, agents.sockets[KVR_ROLE_TARGET]),
     .help = "Engine socket of a decode-agent, likewise."},
    {.name = "source-agent",
     .value = "HOST[:PORT]",
     .port = KVR_PREFILL_AGENT_PORT,
     .required = true,
     KVR_OPTION_LIST(OPTIONS, agents.addresses),
     .help = "Where the prefill-agent listens for decode-agents: one for each --source-socket, in "
             "the same order."},
    {.name = "scheduler",
     .value = "HOST[:PORT]",
     KVR_OPTION_STRING(OPTIONS, scheduler.address),
     .help = "Ask this scheduler what the agents and rails are, for the figures. http:// or "
             "https:// may stand before it; without them --tls-ca means https."},
    {.name = "reconnect",
     KVR_OPTION_BOOL(OPTIONS, reconnect),
     .help = "When an agent ends, wait for it to come back and go on with the remaining requests; "
             "those that were on their way count as failed."},
    {.name = "reconnect-for",
     .fallback = "30s",
     .min = KVR_MS,
     .max = 24 * 3600 * KVR_S,
     KVR_OPTION_DURATION(OPTIONS, reconnect_for),
     .help = "How long --reconnect waits."},

    {.name = "virtual",
     .section = "requests",
     KVR_OPTION_BOOL(OPTIONS, in_virtual_time),
     .help = "Play over a modelled fleet instead, without agents. The options are others: see "
             "kvrail replay --virtual --help."},
    {.name = "trace",
     .value = "FILE",
     KVR_OPTION_STRING(OPTIONS, trace),
     .help = "Request trace to play, compressed or not; -: standard input. Without one, requests "
             "are synthesised from --seed."},
    {.name = "format",
     .choices = KVR_TRACE_FORMATS "|kvtrace",
     .fallback = "mooncake",
     KVR_OPTION_CHOICE(OPTIONS, format),
     .help = "What --trace holds: " KVR_TRACE_FORMATS_HELP
             ", or a trace that kvrail has written (kvrail trace)."},
    {.name = "requests",
     .fallback = "200",
     .max = KVR_TRACE_REQUESTS_MAX,
     KVR_OPTION_COUNT(OPTIONS, requests),
     .help = "How many requests, from the start of the trace; 0: all of it."},
    {.name = "seed",
     .fallback = "1",
     KVR_OPTION_COUNT(OPTIONS, seed),
     .help = "Of contents, page ids and synthesised requests."},
    {.name = "speed",
     .value = "X|max",
     .fallback = "max",
     KVR_OPTION_STRING(OPTIONS, speed),
     .help =
         "Open loop: times as fast as the trace and the prefill. Requests begin at their times, "
         "as far as --concurrency allows. max: closed loop, a request begins as soon as one "
         "of --concurrency has ended."},
    {.name = "concurrency",
     .fallback = "8",
     .min = 1,
     .max = REPLAY_CONCURRENCY_MAX,
     KVR_OPTION_COUNT(OPTIONS, concurrency),
     .help = "Requests on their way at one time, at most."},
    {.name = "prefill-tokens-per-s",
     .fallback = "40000",
     .min = 1,
     .max = 1000000000,
     KVR_OPTION_COUNT(OPTIONS, prefill_tokens_per_s),
     .help = "The modelled prefill: layers become ready at this rate, times --speed. Where a trace "
             "has the times of a transfer's layers, these count instead."},
    {.name = "deadline",
     .fallback = "60s",
     .min = KVR_MS,
     .max = 3600 * KVR_S,
     KVR_OPTION_DURATION(OPTIONS, deadline),
     .help = "Deadline of each fetch for which the trace has none, and lease of each publish."},
    {.name = "faults",
     .choices = "engines|agents|none",
     .fallback = "engines",
     KVR_OPTION_CHOICE(OPTIONS, faults),
     .help = "Which faults of a trace are played. engines: an engine's process is killed and "
             "started anew. agents: also agents are stopped for a while or killed, by signals to "
             "--agent-pids; nothing starts them again. Whatever is not played is counted."},

    {.name = "model",
     .section = "engines",
     .choices = MODEL_NAMES,
     .fallback = "llama-3.1-8b",
     KVR_OPTION_CHOICE(OPTIONS, model),
     .help =
         "The model with the engines' KV cache. In gpt-oss every second layer has a window, in "
         "qwen3-next three of four layers have a state, and hybrid, no published model, has both. "
         "These have KV groups, each with its own page table. A window's pages are twice as long, "
         "and only those of its last tokens are moved; of a state one page is moved."},
    {.name = "layers",
     .fallback = "8",
     .max = KVR_LAYERS_MAX,
     KVR_OPTION_COUNT(OPTIONS, layers),
     .help = "Layers of the scaled model; 0: as many as the model has."},
    {.name = "kv-bytes-per-token",
     .value = "BYTES",
     .fallback = "8k",
     .max = 1 << 20,
     KVR_OPTION_SIZE(OPTIONS, kv_bytes_per_token),
     .help = "All attention layers and parts together; 0: as many as the model has, for --layers. "
             "States are scaled as much."},
    {.name = "page-tokens",
     .fallback = "16",
     .min = 1,
     .max = KVR_TRACE_BLOCK_TOKENS,
     KVR_OPTION_COUNT(OPTIONS, page_tokens),
     .help = "Tokens of one page of full attention; must divide 512."},
    {.name = "pool-bytes",
     .fallback = "1G",
     .min = 1 << 20,
     .max = 3ull << 30,
     KVR_OPTION_SIZE(OPTIONS, pool_bytes),
     .help = "Memory of each engine's pages."},
    {.name = "pages",
     .choices = "aged|fresh|shuffled",
     .fallback = "aged",
     KVR_OPTION_CHOICE(OPTIONS, pages),
     .help = "How the free pages of both engines lie: as after hours of service, as after a start, "
             "or all at random. Where a trace has the pages of a transfer, these lie as there."},
    {.name = "chunk-tokens",
     .fallback = "8192",
     .min = 1,
     .max = KVR_TRACE_TOKENS_MAX,
     KVR_OPTION_COUNT(OPTIONS, chunk_tokens),
     .help = "Longer prompts are prefilled in chunks of so many tokens; rounded up to pages, of a "
             "hybrid model to 512."},
    {.name = "prefix-cache",
     .fallback = "yes",
     KVR_OPTION_BOOL(OPTIONS, prefix_cache),
     .help = "The target keeps blocks of 512 tokens and skips prefixes that it still has. Of a "
             "recorded transfer it skips what the transfer did."},

    {.name = "device-memory",
     .choices = "none|source|target|both",
     .fallback = "none",
     KVR_OPTION_CHOICE(OPTIONS, device_memory),
     .help =
         "Which engines say that their pages lie on a GPU. They do not: the agents on that side "
         "need --device emulated, and everything is staged."},
    {.name = "allocation-bytes",
     .value = "SIZE",
     .fallback = "0",
     .max = 1u << 30,
     KVR_OPTION_SIZE(OPTIONS, allocation_bytes),
     .help = "With --device-memory: pages lie over allocations of this size side by side, as "
             "PyTorch's expandable segments do (20M); a multiple of 4k. 0: over one."},
    {.name = "verify",
     .section = "checks",
     .choices = "full|sampled|none",
     .fallback = "full",
     KVR_OPTION_CHOICE(OPTIONS, verify),
     .help = "What the target looks at: every byte that was moved, three tokens of each page, or "
             "nothing."},
    {.name = "corrupt",
     .choices = "page|layer|swap",
     KVR_OPTION_CHOICE(OPTIONS, corrupt),
     .help = "Plant a fault in the source engine: one page's bytes are wrong, a layer is announced "
             "that was not written, or two pages change places. Must end in exit 1."},

    JSON_OUTPUT_OPTION(OPTIONS, "output", "all figures"),
    {.name = "progress",
     KVR_OPTION_BOOL(OPTIONS, progress),
     .help = "A line a second about progress where standard error is no terminal."},
    {.name = "agent-pids",
     .value = "PID,PID",
     KVR_OPTION_LIST(OPTIONS, agents.pids),
     .help =
         "The agents' processes, for their CPU time and for --faults agents: the prefill-agents "
         "and then the decode-agents, in the order of their sockets. Found by the sockets when "
         "not given."},
    {.name = "pid-file",
     .value = "FILE",
     KVR_OPTION_STRING(OPTIONS, pid_file),
     .help = "Write the engines' process ids there: a line \"source PID\", a line \"target PID\"."},
    {.name = "journal",
     .value = "FILE",
     KVR_OPTION_STRING(OPTIONS, journal),
     .help = "Write a line of JSON there for each event of each engine: when a request was opened, "
             "failed and ended, by the monotonic clock."},
};

static const struct kvr_exit_code exit_codes[] = {
    {REPLAY_EXIT_NO_AGENT, "an agent cannot be reached"},
    {0, NULL},
};

static const struct kvr_option_part parts[] = {
    {.table = &scheduler_token_options, .offset = offsetof(OPTIONS, scheduler)},
    {.table = &kvr_tls_client_options, .offset = offsetof(OPTIONS, scheduler.tls)},
    {.table = NULL},
};

const struct kvr_command replay_command = {
    .name = "kvrail replay",
    .description =
        "Plays prefill and decode engines against running agents: a process on each\n"
        "agent's socket, that share no memory. The first fill pages with known contents\n"
        "as a prefill makes them ready; the others fetch them and check every word.\n"
        "Reports bytes, times and whatever is wrong. A recorded trace (--format kvtrace)\n"
        "is played with its agents, page tables, prefixes, priorities and cancels.",
    .parts = parts,
    KVR_OPTION_ROWS(options),
    .exit_codes = exit_codes,
    .footer = "Example:\n"
              "  kvrail replay --source-socket /run/kvrail/prefill.sock \\\n"
              "      --target-socket /run/kvrail/decode.sock --source-agent 10.0.0.7:18900 \\\n"
              "      --trace conversation.jsonl --requests 500 --json figures.json\n"
              "  kvrail replay --source-socket p0.sock --source-agent 10.0.0.7 \\\n"
              "      --source-socket p1.sock --source-agent 10.0.0.8 \\\n"
              "      --target-socket d0.sock --target-socket d1.sock \\\n"
              "      --trace recorded.kvtrace.zst --format kvtrace --requests 0 --speed 1",
};
