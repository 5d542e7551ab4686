#include "tools/replay_setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "trace/synth.h"

#define TAIL_LAYER UINT32_MAX /* no layer has this number */

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

static bool read_speed(struct replay_setup *setup, struct kvr_error *error)
{
    const char *text = setup->options.speed;
    char *end;

    if (strcmp(text, "max") == 0)
        return true;
    setup->speed = strtod(text, &end);
    if (end != text && *end == '\0' && setup->speed >= 0.001 && setup->speed <= 1e6)
        return true;
    (void)kvr_error_set(error, KVR_INVALID, "replay",
                        "--speed is '%s', but must be max or a number from 0.001 to 1000000", text);
    return false;
}

static bool size_pools(struct replay_setup *setup, struct kvr_error *error)
{
    const struct model_geometry *geometry = &setup->geometry;
    uint64_t tokens = setup->options.page_tokens;

    if (KVR_TRACE_BLOCK_TOKENS % tokens != 0) {
        (void)kvr_error_set(error, KVR_INVALID, "replay",
                            "--page-tokens is %u, but must divide %u: 1, 2, 4 … 512",
                            (unsigned)tokens, KVR_TRACE_BLOCK_TOKENS);
        return false;
    }
    setup->page_tokens = (uint32_t)tokens;
    setup->block_pages = KVR_TRACE_BLOCK_TOKENS / setup->page_tokens;
    setup->chunk_tokens = (uint32_t)((setup->options.chunk_tokens + tokens - 1) / tokens * tokens);
    setup->plane_bytes = tokens * (geometry->heads / setup->ranks) * geometry->head_bytes;
    setup->page_bytes = setup->plane_bytes * geometry->model->part_count * geometry->layers;
    setup->page_count = (uint32_t)(setup->options.pool_bytes / setup->page_bytes);
    if (setup->page_count >= 2)
        return true;
    (void)kvr_error_set(
        error, KVR_INVALID, "replay", "--pool-bytes is %llu, but must hold two pages of %llu bytes",
        (unsigned long long)setup->options.pool_bytes, (unsigned long long)setup->page_bytes);
    return false;
}

static bool read_requests(struct replay_setup *setup, struct kvr_error *error)
{
    const struct replay_options *options = &setup->options;
    uint32_t count = (uint32_t)options->requests;
    kvr_trace_format format;
    kvr_status status;

    if (options->trace[0] == '\0') {
        status = kvr_trace_synth(options->seed, count > 0 ? count : 200, &setup->trace, error);
    } else {
        status = kvr_trace_format_from_name(options->format, &format);
        if (status == KVR_OK)
            status = kvr_trace_read(options->trace, format, count, &setup->trace, error);
    }
    return status == KVR_OK;
}

/* A request that no pool can hold is shortened, and that is said. */
static void clip_requests(struct replay_setup *setup)
{
    uint64_t pool_tokens = (uint64_t)setup->page_count * setup->page_tokens;
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

/* The fault goes into a request whose last page no target can have cached: its last block is
 * partial. It needs two pages, for swap. */
static void choose_corrupt_request(struct replay_setup *setup)
{
    uint32_t count = setup->trace.request_count;

    setup->corrupt_request = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t request = (count / 2 + i) % count;

        if (replay_request_pages(setup, request) < 2)
            continue;
        setup->corrupt_request = request;
        if (replay_request(setup, request)->input_tokens % KVR_TRACE_BLOCK_TOKENS >
            setup->page_tokens)
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
    setup->ranks = 1;
    setup->run = kvr_random_u64();
    if (model_scale(model_find(options->model), (uint32_t)options->layers,
                    options->kv_bytes_per_token, &error, &setup->geometry) != KVR_OK ||
        !read_speed(setup, &error) || !size_pools(setup, &error) || !read_requests(setup, &error))
        return refuse(&error, ret_exit);
    if (setup->corrupt != REPLAY_CORRUPT_NOTHING && setup->verify == REPLAY_VERIFY_NONE) {
        *ret_exit = kvr_options_refuse(&replay_command, "--corrupt needs --verify full or sampled");
        return false;
    }
    clip_requests(setup);
    choose_corrupt_request(setup);
    return true;
}

void replay_setup_done(struct replay_setup *setup)
{
    kvr_trace_done(&setup->trace);
}

char *replay_request_name(const struct replay_setup *setup, uint32_t request,
                          char text[REPLAY_REQUEST_BYTES])
{
    snprintf(text, REPLAY_REQUEST_BYTES, "replay-%08x-%u", (uint32_t)setup->run, request);
    return text;
}

struct content_slice replay_slice(const struct replay_setup *setup, uint32_t rank)
{
    uint32_t words = (uint32_t)(setup->plane_bytes / setup->page_tokens / sizeof(uint64_t));

    return (struct content_slice){rank * words, words};
}

uint64_t replay_page_key(const struct replay_setup *setup, uint32_t request, uint32_t page,
                         uint32_t layer, uint32_t part)
{
    const uint64_t *blocks = kvr_trace_blocks(&setup->trace, replay_request(setup, request));

    return content_key(setup->options.seed, blocks[page / setup->block_pages], layer, part);
}

uint64_t replay_tail_key(const struct replay_setup *setup, uint32_t request)
{
    return content_key(setup->options.seed, request, TAIL_LAYER, 0);
}
