/* A decode engine on a GPU: fetches one request into pages in device memory, and a kernel looks at
 * every word of them there.
 *
 *   decode_gpu <agent's socket> <request id> <host:port of the prefill-agent> <source's generation>
 *
 * Exit 77: there is no GPU. */
#include "pages_gpu.h"

static __global__ void compare(struct pages pages, unsigned long long *wrong)
{
    const uint32_t *page = page_at(&pages);

    for (uint32_t word = threadIdx.x; word < pages.page_words; word += blockDim.x)
        if (page[word] != content_of(pages.number, blockIdx.y, blockIdx.x, word))
            atomicAdd(wrong, 1);
}

/* Until the event that hands the pages back; each layer could be used as it comes (LAYER_IN). */
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

/* On the GPU. */
static int verify(const struct engine *engine, void *memory, const uint32_t ids[PAGES])
{
    unsigned long long *counter, wrong = 0;

    gpu_check(cudaMalloc((void **)&counter, sizeof(*counter)), "a counter");
    gpu_check(cudaMemset(counter, 0, sizeof(*counter)), "a counter");
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        compare<<<dim3(PAGES, 2), 256>>>(pages_of(engine, memory, layer, ids), counter);
    gpu_check(cudaGetLastError(), "to compare");
    gpu_check(cudaMemcpy(&wrong, counter, sizeof(wrong), cudaMemcpyDeviceToHost), "to compare");
    gpu_check(cudaFree(counter), "a counter");
    printf(
        "%llu of %llu words on the GPU are wrong\n", wrong,
        (unsigned long long)(LAYERS * 2 * PAGES * engine->region.page_stride / sizeof(uint32_t)));
    return wrong == 0 ? 0 : 1;
}

static int fetch(const struct engine *engine, char **arguments, const uint32_t ids[PAGES],
                 kvrail_handle *ret_target)
{
    struct kvrail_target_options request;
    struct kvrail_source_address from;

    memset(&request, 0, sizeof(request));
    memset(&from, 0, sizeof(from));
    from.agent = arguments[1];
    from.engine[0] = 1;
    from.generation = strtoull(arguments[2], NULL, 10);
    request.request = arguments[0];
    request.tokens = TOKENS;
    request.sources = &from;
    request.source_count = 1;
    if (kvrail_target_open(engine->agent, &request, ret_target) != KVRAIL_OK ||
        kvrail_target_pages(engine->agent, *ret_target, 0, ids, PAGES) != KVRAIL_OK)
        return engine_failed("fetch", kvrail_last_error(engine->agent));
    return 0;
}

int main(int argc, char **argv)
{
    static const uint32_t ids[PAGES] = {0, 50, 51, 52};
    struct engine engine;
    kvrail_handle target;
    void *memory;
    int status;

    if (argc != 5) {
        fprintf(stderr, "usage: decode_gpu SOCKET REQUEST HOST:PORT GENERATION\n");
        return 2;
    }
    status = gpu_start(argv[1], "example-decode-gpu", 2, &engine, &memory);
    if (status != 0)
        return status;
    if (fetch(&engine, argv + 2, ids, &target) != 0 || wait_for_end(&engine, target) != 0)
        return 1;
    status = verify(&engine, memory, ids);
    kvrail_close(engine.agent);
    gpu_check(cudaFree(memory), "device memory");
    return status;
}
