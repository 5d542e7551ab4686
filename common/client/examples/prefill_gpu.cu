/* A prefill engine on a GPU: kernels of a CUDA graph compute the layers of one request into its
 * pages, and each layer's last kernel announces the layer by itself.
 *
 *   [REQUEST_SECRET=<64 hexadecimal digits>] prefill_gpu <agent's socket> <request id>
 *
 * Without REQUEST_SECRET the library draws a secret, and the example shows it.
 *
 * Exit 77: there is no GPU. */
#include "pages_gpu.h"

static __global__ void compute(struct pages pages)
{
    uint32_t *page = page_at(&pages);

    for (uint32_t word = threadIdx.x; word < pages.page_words; word += blockDim.x)
        page[word] = content_of(pages.number, blockIdx.y, blockIdx.x, word);
}

/* Runs after the kernels that computed the layer. Each launch of the graph raises the word again. */
static __global__ void say_ready(volatile unsigned long long *word)
{
    __threadfence_system();
    *word = *word + 1; /* the only writer */
}

static cudaGraphExec_t make_graph(const struct engine *engine, void *memory,
                                  const uint32_t ids[PAGES], unsigned long long *word,
                                  cudaStream_t stream)
{
    cudaGraphExec_t launchable;
    cudaGraph_t graph;

    gpu_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        compute<<<dim3(PAGES, 2), 256, 0, stream>>>(pages_of(engine, memory, layer, ids));
        say_ready<<<1, 1, 0, stream>>>(word);
    }
    gpu_check(cudaStreamEndCapture(stream, &graph), "capture");
    gpu_check(cudaGraphInstantiate(&launchable, graph, 0), "graph");
    gpu_check(cudaGraphDestroy(graph), "graph");
    return launchable;
}

static int publish(const struct engine *engine, const char *name, const uint32_t ids[PAGES],
                   kvrail_handle *ret_source)
{
    struct kvrail_source_options request;

    memset(&request, 0, sizeof(request));
    request.size = sizeof(request);
    request.request = name;
    request.secret = engine_secret();
    request.tokens = TOKENS;
    if (kvrail_source_open(engine->agent, &request, ret_source) != KVRAIL_OK ||
        kvrail_source_pages(engine->agent, *ret_source, 0, ids, PAGES) != KVRAIL_OK ||
        kvrail_source_watch(engine->agent, *ret_source, 0, 0, 0, TOKENS) != KVRAIL_OK ||
        kvrail_source_end(engine->agent, *ret_source, KVRAIL_OK) != KVRAIL_OK)
        return engine_failed("publish", kvrail_last_error(engine->agent));
    return 0;
}

/* Waits for the event that hands the pages back. */
static int wait_for_end(const struct engine *engine, kvrail_handle source)
{
    struct kvrail_event event;

    while (engine_wait(engine, &event)) {
        if (!event.terminal || event.handle != source)
            continue;
        printf("%s: %s, %llu bytes\n", kvrail_event_name(event.kind), event.status_name,
               (unsigned long long)event.bytes);
        return event.status == KVRAIL_OK ? 0 : 1;
    }
    return 1;
}

int main(int argc, char **argv)
{
    static const uint32_t ids[PAGES] = {7, 8, 3, 100};
    struct engine engine;
    kvrail_handle source;
    cudaGraphExec_t graph;
    cudaStream_t stream;
    uint64_t words;
    void *memory;
    int status;

    if (argc != 3) {
        fprintf(stderr, "usage: prefill_gpu SOCKET REQUEST\n");
        return 2;
    }
    status = gpu_start(argv[1], "example-prefill-gpu", 1, &engine, &memory);
    if (status != 0)
        return status;
    if (kvrail_words_on_device(engine.agent, &words) != KVRAIL_OK)
        return engine_failed("words", kvrail_last_error(engine.agent));
    gpu_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    graph = make_graph(&engine, memory, ids, (unsigned long long *)(uintptr_t)words, stream);
    printf("generation %llu\n", (unsigned long long)engine.generation);
    (void)fflush(stdout); /* for the target's command line */

    if (publish(&engine, argv[2], ids, &source) != 0 || engine_show_secret(&engine, source) != 0)
        return 1;
    gpu_check(cudaGraphLaunch(graph, stream), "the model's work");
    status = wait_for_end(&engine, source);
    gpu_check(cudaStreamSynchronize(stream), "the model's work");
    kvrail_close(engine.agent);
    gpu_check(cudaGraphExecDestroy(graph), "graph");
    gpu_check(cudaFree(memory), "device memory");
    return status;
}
