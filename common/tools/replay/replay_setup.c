#include "tools/replay/replay_setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/entropy.h"
#include "trace/synth.h"

#define TAIL_LAYER      UINT32_MAX /* no layer has this number */
#define ALLOCATION_UNIT 4096u
#define LATE            (KVR_NEVER / 4) /* any clock may be added */
#define DEADLINE_MAX    (3600 * KVR_S)  /* that an agent takes */

static bool refuse(const struct kvr_error *error, int *ret_exit)
{
    *ret_exit = kvr_options_refuse(&replay_command, "%s", error->detail);
    return false;
}

static int index_of(const char *choice, const char *const *choices)
{
    int index = 0;

    while (choices[index] != NULL && strcmp(choices[index], choice) != 0)
        index++;
    return index;
}

/* Each is mapped where the one before it ends. */
static kvr_status check_allocations(const struct replay_options *options, struct kvr_error *error)
{
    if (options->allocation_bytes % ALLOCATION_UNIT == 0)
        return KVR_OK;
    return kvr_error_set(error, KVR_INVALID, "replay",
                         "--allocation-bytes is %llu, but must be a multiple of %u",
                         (unsigned long long)options->allocation_bytes, ALLOCATION_UNIT);
}

static kvr_status read_speed(struct replay_setup *setup, struct kvr_error *error)
{
    const char *text = setup->options.speed;
    char *end;

    if (strcmp(text, "max") == 0)
        return KVR_OK;
    setup->speed = strtod(text, &end);
    if (end != text && *end == '\0' && setup->speed >= 0.001 && setup->speed <= 1e6)
        return KVR_OK;
    return kvr_error_set(error, KVR_INVALID, "replay",
                         "--speed is '%s', but must be max or a number from 0.001 to 1000000",
                         text);
}

/* A page of the layers of one kind. Windows have pages twice as long as full attention, so that
 * page tables differ. */
static struct replay_group make_group(const struct replay_setup *setup, model_kind kind)
{
    const struct model_geometry *geometry = &setup->geometry;
    uint32_t tokens = (uint32_t)setup->options.page_tokens;
    struct replay_group group = {.kind = kind,
                                 .layer_count = geometry->kinds[kind],
                                 .part_count = geometry->model->part_count,
                                 .page_tokens = tokens};

    if (kind == MODEL_WINDOW && tokens < KVR_TRACE_BLOCK_TOKENS)
        group.page_tokens = 2 * tokens;
    if (kind == MODEL_STATE) {
        group.page_tokens = MODEL_STATE_TOKENS;
        group.part_count = 1;
    }
    group.plane_bytes = kind == MODEL_STATE
                            ? geometry->state_bytes
                            : (uint64_t)group.page_tokens * geometry->heads * geometry->head_bytes;
    group.page_bytes = group.plane_bytes * group.part_count * group.layer_count;
    return group;
}

static void make_groups(struct replay_setup *setup)
{
    uint8_t numbers[MODEL_KINDS] = {0};

    for (int kind = 0; kind < MODEL_KINDS; kind++) {
        if (setup->geometry.kinds[kind] == 0)
            continue;
        numbers[kind] = (uint8_t)setup->group_count;
        setup->groups[setup->group_count++] = make_group(setup, (model_kind)kind);
    }
    for (uint32_t layer = 0; layer < setup->geometry.layers; layer++)
        setup->layer_groups[layer] =
            numbers[model_layer_kind(setup->geometry.model, setup->geometry.layers, layer)];
}

/* What a group keeps of every request that is under way, and the spare page. */
static uint32_t kept_pages(const struct replay_setup *setup, const struct replay_group *group)
{
    uint32_t each = 1;

    if (group->kind == MODEL_WINDOW)
        each = setup->geometry.model->window_tokens / group->page_tokens + 2;
    return setup->concurrency * each + 1;
}

static kvr_status size_pools(struct replay_setup *setup, struct kvr_error *error)
{
    uint64_t tokens = setup->options.page_tokens, left = setup->options.pool_bytes, others = 0;
    struct replay_group *full = &setup->groups[0];

    if (KVR_TRACE_BLOCK_TOKENS % tokens != 0) {
        return kvr_error_set(error, KVR_INVALID, "replay",
                             "--page-tokens is %u, but must divide %u: 1, 2, 4 … 512",
                             (unsigned)tokens, KVR_TRACE_BLOCK_TOKENS);
    }
    make_groups(setup);
    setup->block_pages = KVR_TRACE_BLOCK_TOKENS / full->page_tokens;
    setup->chunk_tokens = (uint32_t)((setup->options.chunk_tokens + KVR_TRACE_BLOCK_TOKENS - 1) /
                                     KVR_TRACE_BLOCK_TOKENS * KVR_TRACE_BLOCK_TOKENS);
    if (setup->group_count == 1)
        setup->chunk_tokens =
            (uint32_t)((setup->options.chunk_tokens + tokens - 1) / tokens * tokens);
    for (uint32_t i = 1; i < setup->group_count; i++) {
        setup->groups[i].page_count = kept_pages(setup, &setup->groups[i]);
        others += setup->groups[i].page_bytes * setup->groups[i].page_count;
    }
    left = left > others ? left - others : 0;
    full->page_count = (uint32_t)(left / full->page_bytes);
    if (full->page_count >= 2)
        return KVR_OK;
    return kvr_error_set(error, KVR_INVALID, "replay",
                         "--pool-bytes is %llu, but must hold two pages of %llu bytes, beside %llu "
                         "bytes of windows and states",
                         (unsigned long long)setup->options.pool_bytes,
                         (unsigned long long)full->page_bytes, (unsigned long long)others);
}

/* A signal needs a process. */
static kvr_status check_faults(const struct replay_setup *setup, struct kvr_error *error)
{
    const struct replay_options *options = &setup->options;

    if (strcmp(options->faults, "agents") != 0 ||
        options->agents.pids.count == replay_agent_count(&setup->agents))
        return KVR_OK;
    return kvr_error_set(error, KVR_INVALID, "replay",
                         "--faults agents needs --agent-pids of all %u agents, and %u are given",
                         replay_agent_count(&setup->agents), options->agents.pids.count);
}

static void note_shared(kvr_role role, uint32_t shared)
{
    const char *kind = role == KVR_ROLE_SOURCE ? "prefill" : "decode";

    if (shared > 0)
        fprintf(stderr,
                "note: the trace has more %s-agents than there are here: %u of them share one with "
                "another\n",
                kind, shared);
}

static kvr_status read_recording(struct replay_setup *setup, uint32_t limit,
                                 struct kvr_error *error)
{
    struct replay_recording *recording = &setup->recording;
    uint32_t shared[REPLAY_ROLES] = {0};

    KVR_TRY(replay_recording_read(setup->options.trace, limit, &setup->trace, recording, error));
    KVR_TRY(replay_recording_place(recording, &setup->trace, &setup->agents, shared, error));
    kvr_trace_note_problem(&setup->trace);
    note_shared(KVR_ROLE_SOURCE, shared[KVR_ROLE_SOURCE]);
    note_shared(KVR_ROLE_TARGET, shared[KVR_ROLE_TARGET]);
    if (recording->lone_count > 0)
        fprintf(stderr,
                "note: %u publishes and fetches of the trace ended before they met the other side, "
                "and are not played\n",
                recording->lone_count);
    if (recording->transfer_count > 0 && recording->page_tokens > 0 &&
        recording->page_tokens != setup->options.page_tokens)
        fprintf(stderr,
                "note: pages of the trace have %u tokens, and those here %u: --page-tokens\n",
                recording->page_tokens, (unsigned)setup->options.page_tokens);
    return KVR_OK;
}

static kvr_status read_requests(struct replay_setup *setup, struct kvr_error *error)
{
    const struct replay_options *options = &setup->options;
    uint32_t count = (uint32_t)options->requests;
    kvr_trace_format format;

    if (options->trace[0] == '\0')
        return kvr_trace_synth(options->seed, count > 0 ? count : 200, &setup->trace, error);
    if (strcmp(options->format, "kvtrace") == 0)
        return read_recording(setup, count, error);
    KVR_TRY(kvr_trace_format_from_name(options->format, &format));
    return kvr_trace_read(options->trace, format, count, NULL, &setup->trace, error);
}

/* A request that no pool can hold is shortened, and that is said. */
static void clip_requests(struct replay_setup *setup)
{
    uint64_t pool_tokens = (uint64_t)setup->groups[0].page_count * setup->groups[0].page_tokens;
    uint32_t tokens =
        pool_tokens < KVR_TRACE_TOKENS_MAX ? (uint32_t)pool_tokens : KVR_TRACE_TOKENS_MAX;

    for (uint32_t i = 0; i < setup->trace.request_count; i++)
        setup->clipped += kvr_trace_clip(&setup->trace.requests[i], tokens);
    if (setup->clipped > 0)
        fprintf(stderr,
                "%u request%s longer than the %u tokens that a pool of %llu bytes holds, and %s "
                "cut to that.\n",
                setup->clipped, setup->clipped == 1 ? " is" : "s are", tokens,
                (unsigned long long)setup->options.pool_bytes,
                setup->clipped == 1 ? "was" : "were");
}

/* The fault goes into a request with a partial last block: no target can have cached its last
 * page. It needs two pages, for swap. */
static void choose_corrupt_request(struct replay_setup *setup)
{
    uint32_t count = setup->trace.request_count;

    setup->corrupt_request = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t request = (count / 2 + i) % count;

        uint32_t tokens = replay_request(setup, request)->input_tokens;

        if (replay_pages(&setup->groups[0], tokens) < 2 ||
            replay_recorded(setup, request)->cancelled != KVR_NEVER ||
            replay_recorded(setup, request)->skip_tokens >= tokens)
            continue;
        setup->corrupt_request = request;
        if (tokens % KVR_TRACE_BLOCK_TOKENS > setup->groups[0].page_tokens)
            return;
    }
}

bool replay_setup_load(int argc, char **argv, struct replay_setup *setup, int *ret_exit)
{
    static const char *const verify[] = {"full", "sampled", "none", NULL};
    static const char *const corrupt[] = {"", "page", "layer", "swap", NULL};
    static const char *const pages[] = {"fresh", "aged", "shuffled", NULL};
    struct replay_options *options = &setup->options;
    struct kvr_error error = {0};

    memset(setup, 0, sizeof(*setup));
    kvr_trace_init(&setup->trace);
    if (!kvr_options_load(&replay_command, argc, argv, options, ret_exit))
        return false;
    setup->verify = (replay_verify)index_of(options->verify, verify);
    setup->corrupt = (replay_corrupt)index_of(options->corrupt, corrupt);
    setup->order = (pages_order)index_of(options->pages, pages);
    setup->concurrency = (uint32_t)options->concurrency;
    setup->run = kvr_random_u64();
    setup->journal = -1;
    if (model_scale(model_find(options->model), (uint32_t)options->layers,
                    options->kv_bytes_per_token, &error, &setup->geometry) != KVR_OK ||
        read_speed(setup, &error) != KVR_OK ||
        replay_agents_read(&options->agents, &setup->agents, &error) != KVR_OK ||
        check_allocations(options, &error) != KVR_OK || size_pools(setup, &error) != KVR_OK ||
        check_faults(setup, &error) != KVR_OK || read_requests(setup, &error) != KVR_OK)
        return refuse(&error, ret_exit);
    if (setup->corrupt != REPLAY_CORRUPT_NOTHING && setup->verify == REPLAY_VERIFY_NONE) {
        *ret_exit = kvr_options_refuse(&replay_command, "--corrupt needs --verify full or sampled");
        return false;
    }
    clip_requests(setup);
    choose_corrupt_request(setup);
    return true;
}

double replay_pool_bytes(const struct replay_setup *setup)
{
    double bytes = 0;

    for (uint32_t i = 0; i < setup->group_count; i++)
        bytes += (double)setup->groups[i].page_bytes * setup->groups[i].page_count;
    return bytes;
}

void replay_setup_done(struct replay_setup *setup)
{
    replay_recording_done(&setup->recording);
    kvr_trace_done(&setup->trace);
}

const struct replay_recorded *replay_recorded(const struct replay_setup *setup, uint32_t request)
{
    static const struct replay_recorded nothing = {.agents = {-1, -1}, .cancelled = KVR_NEVER};

    return setup->recording.items != NULL
               ? &setup->recording.items[replay_request(setup, request)->number]
               : &nothing;
}

kvr_ns replay_deadline(const struct replay_setup *setup, uint32_t request)
{
    kvr_ns recorded = replay_recorded(setup, request)->deadline;

    if (recorded == 0)
        return setup->options.deadline;
    if (recorded < KVR_MS)
        return KVR_MS;
    return recorded < DEADLINE_MAX ? recorded : DEADLINE_MAX;
}

uint32_t replay_agent_of(const struct replay_setup *setup, uint32_t request, kvr_role role)
{
    uint32_t numbers[REPLAY_ROLES];

    if (setup->recording.items != NULL)
        return replay_agent_at(&setup->agents, role,
                               replay_recorded(setup, request)->numbers[role]);
    replay_agents_in_turn(&setup->agents, request, numbers);
    return replay_agent_at(&setup->agents, role, numbers[role]);
}

kvr_ns replay_scaled(const struct replay_setup *setup, kvr_ns recorded)
{
    double scaled = setup->speed > 0 ? (double)recorded / setup->speed : 0;

    return scaled < (double)LATE ? (kvr_ns)scaled : LATE;
}

char *replay_request_name(const struct replay_setup *setup, uint32_t request,
                          char text[REPLAY_REQUEST_BYTES])
{
    snprintf(text, REPLAY_REQUEST_BYTES, "replay-%08x-%u", (uint32_t)setup->run, request);
    return text;
}

uint32_t replay_first_page(const struct replay_setup *setup, const struct replay_group *group,
                           uint32_t tokens)
{
    uint32_t window = setup->geometry.model->window_tokens;

    if (group->kind == MODEL_STATE)
        return replay_pages(group, tokens) - 1;
    return group->kind == MODEL_WINDOW && tokens > window ? (tokens - window) / group->page_tokens
                                                          : 0;
}

struct content replay_block_content(const struct replay_setup *setup, uint64_t block,
                                    uint64_t token_first, uint32_t layer, uint32_t part)
{
    const struct replay_group *group = replay_group(setup, layer);
    uint32_t tokens = group->kind == MODEL_STATE ? 1 : group->page_tokens;

    return (struct content){
        .key = content_key(setup->options.seed, block, layer, part),
        .token_first = token_first,
        .token_count = tokens,
        .token_words = (uint32_t)(group->plane_bytes / tokens / sizeof(uint64_t)),
    };
}

struct content replay_content(const struct replay_setup *setup, uint32_t request, uint32_t tokens,
                              uint32_t layer, uint32_t part, uint32_t page)
{
    const uint64_t *blocks = kvr_trace_blocks(&setup->trace, replay_request(setup, request));
    const struct replay_group *group = replay_group(setup, layer);
    uint64_t first = (uint64_t)page * group->page_tokens;
    bool state = group->kind == MODEL_STATE;

    return replay_block_content(setup,
                                blocks[(state ? tokens - 1 : first) / KVR_TRACE_BLOCK_TOKENS],
                                state ? tokens : first, layer, part);
}

struct content replay_tail_content(const struct replay_setup *setup, uint32_t request)
{
    return (struct content){.key = content_key(setup->options.seed, request, TAIL_LAYER, 0),
                            .token_count = 1,
                            .token_words = REPLAY_TAIL_WORDS};
}
