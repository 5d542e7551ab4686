/* A decode engine on a GPU: fetches one request into pages in device memory. Its stream waits for
 * each layer to be in place, and a kernel looks at every word of it there, as a model would use it;
 * no thread is asked in between.
 *
 *   REQUEST_SECRET=<the source's> decode_gpu <agent's socket> <request id>
 *       <host:port of the prefill-agent> <source's generation> [graph]
 *
 * With "graph" all of it is one CUDA graph, in which a kernel waits: as an engine has it that
 * captures a step once and launches it for every request.
 *
 * Exit 77: there is no GPU. */
#include "pages_gpu.h"

#define WORD 0u /* of the landed words: this engine has one stream */

/* What a step reads in device memory, new at every launch. */
struct step {
    unsigned long long base;  /* of the fetch: the landed word as it began */
    unsigned long long wrong; /* words */
};

static __global__ void compare(struct pages pages, struct step *step)
{
    const uint32_t *page = page_at(&pages);

    for (uint32_t word = threadIdx.x; word < pages.page_words; word += blockDim.x)
        if (page[word] != content_of(pages.number, blockIdx.y, blockIdx.x, word))
            atomicAdd(&step->wrong, 1);
}

/* Waits until the first `layers` layers are in place, or the fetch has failed: then the word is far
 * larger, and the host gets an event. */
static __global__ void await_layers(const unsigned long long *landed, const struct step *step,
                                    unsigned long long layers)
{
    unsigned long long value;

    for (;;) {
        asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(landed) : "memory");
        if (value >= step->base + layers)
            return;
        __nanosleep(500);
    }
}

static void look(const struct engine *engine, void *memory, uint32_t layer,
                 const uint32_t ids[PAGES], struct step *step, cudaStream_t stream)
{
    compare<<<dim3(PAGES, 2), 256, 0, stream>>>(pages_of(engine, memory, layer, ids), step);
    gpu_check(cudaGetLastError(), "to compare");
}

/* The values to wait for are the stream's: not for a graph. */
static int step_by_stream(const struct engine *engine, void *memory, const uint32_t ids[PAGES],
                          struct step *step, uint64_t base, cudaStream_t stream)
{
    kvrail_store by = KVRAIL_STORE_GPU;
    cudaFuncAttributes loaded;

    /* A kernel that is first launched behind a wait may be loaded only when the wait has ended. */
    gpu_check(cudaFuncGetAttributes(&loaded, compare), "to load a kernel");
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        if (kvrail_landed_on_stream(engine->agent, WORD, base + layer + 1, stream, &by) !=
            KVRAIL_OK)
            return engine_failed("to wait", kvrail_last_error(engine->agent));
        look(engine, memory, layer, ids, step, stream);
    }
    printf("layers are awaited by %s\n", by == KVRAIL_STORE_GPU ? "a stream" : "a host function");
    return 0;
}

static int step_by_graph(const struct engine *engine, void *memory, const uint32_t ids[PAGES],
                         struct step *step, cudaStream_t stream)
{
    cudaGraphExec_t launchable;
    cudaGraph_t graph;
    uint64_t landed;

    if (kvrail_landed_on_device(engine->agent, &landed) != KVRAIL_OK)
        return engine_failed("words", kvrail_last_error(engine->agent));
    landed += WORD * sizeof(uint64_t);
    gpu_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        await_layers<<<1, 1, 0, stream>>>((const unsigned long long *)(uintptr_t)landed, step,
                                          layer + 1);
        look(engine, memory, layer, ids, step, stream);
    }
    gpu_check(cudaStreamEndCapture(stream, &graph), "capture");
    gpu_check(cudaGraphInstantiate(&launchable, graph, 0), "graph");
    gpu_check(cudaGraphDestroy(graph), "graph");
    gpu_check(cudaGraphLaunch(launchable, stream), "the model's work");
    gpu_check(cudaGraphExecDestroy(launchable), "graph"); /* once it has run */
    printf("layers are awaited by a kernel of a graph\n");
    return 0;
}

/* Until the event that hands the pages back. Were the agent to die, this is what ends the wait. */
static int wait_for_end(const struct engine *engine, kvrail_handle target)
{
    struct kvrail_event event;

    while (engine_wait(engine, &event)) {
        printf("%s: %s%s%s\n", kvrail_event_name(event.kind), event.status_name,
               event.detail[0] != '\0' ? ", " : "", event.detail);
        if (event.terminal && event.handle == target)
            return event.kind == KVRAIL_EVENT_DONE ? 0 : 1;
    }
    return 1;
}

/* `base` of its landed word is what the word is now. */
static int fetch(const struct engine *engine, char **arguments, const uint32_t ids[PAGES],
                 uint64_t base, kvrail_handle *ret_target)
{
    struct kvrail_target_options request;
    struct kvrail_source_address from;

    memset(&request, 0, sizeof(request));
    memset(&from, 0, sizeof(from));
    from.size = sizeof(from);
    from.agent = arguments[1];
    from.engine[0] = 1;
    from.generation = strtoull(arguments[2], NULL, 10);
    request.size = sizeof(request);
    request.request = arguments[0];
    request.secret = engine_secret();
    request.tokens = TOKENS;
    request.sources = &from;
    request.source_count = 1;
    if (kvrail_target_open(engine->agent, &request, ret_target) != KVRAIL_OK ||
        kvrail_target_pages(engine->agent, *ret_target, 0, ids, PAGES) != KVRAIL_OK ||
        kvrail_target_watch(engine->agent, *ret_target, WORD, base) != KVRAIL_OK)
        return engine_failed("fetch", kvrail_last_error(engine->agent));
    return 0;
}

static int report(const struct engine *engine, const struct step *step)
{
    struct step seen;

    gpu_check(cudaMemcpy(&seen, step, sizeof(seen), cudaMemcpyDeviceToHost), "to compare");
    printf(
        "%llu of %llu words on the GPU are wrong\n", seen.wrong,
        (unsigned long long)(LAYERS * 2 * PAGES * engine->region.page_stride / sizeof(uint32_t)));
    return seen.wrong == 0 ? 0 : 1;
}

static int run(const struct engine *engine, char **arguments, void *memory, bool by_graph)
{
    static const uint32_t ids[PAGES] = {0, 50, 51, 52};
    struct step begin, *step;
    cudaStream_t stream;
    kvrail_handle target;
    int status;

    begin.base = kvrail_landed(engine->agent, WORD);
    begin.wrong = 0;
    gpu_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    gpu_check(cudaMalloc((void **)&step, sizeof(*step)), "a counter");
    gpu_check(cudaMemcpyAsync(step, &begin, sizeof(begin), cudaMemcpyHostToDevice, stream),
              "a counter");
    if (fetch(engine, arguments, ids, begin.base, &target) != 0)
        return 1;
    status = by_graph ? step_by_graph(engine, memory, ids, step, stream)
                      : step_by_stream(engine, memory, ids, step, begin.base, stream);
    if (status != 0 || wait_for_end(engine, target) != 0)
        return 1;
    gpu_check(cudaStreamSynchronize(stream), "the model's work");
    status = report(engine, step);
    gpu_check(cudaFree(step), "a counter");
    gpu_check(cudaStreamDestroy(stream), "stream");
    return status;
}

int main(int argc, char **argv)
{
    bool by_graph = argc == 6 && strcmp(argv[5], "graph") == 0;
    struct engine engine;
    void *memory;
    int status;

    if (argc != 5 && !by_graph) {
        fprintf(stderr, "usage: decode_gpu SOCKET REQUEST HOST:PORT GENERATION [graph]\n");
        return 2;
    }
    status = gpu_start(argv[1], "example-decode-gpu", 2, &engine, &memory);
    if (status != 0)
        return status;
    status = run(&engine, argv + 2, memory, by_graph);
    if (status != 0)
        return status; /* something may be waiting for a word: it ends with the process */
    kvrail_close(engine.agent);
    gpu_check(cudaFree(memory), "device memory");
    return status;
}
