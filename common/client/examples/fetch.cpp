// A decode engine in C++: fetches what the example `prefill` publishes, and looks at every byte.
//
//   fetch <agent's socket> <request id> <host:port of the prefill-agent> <generation of the source>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <poll.h>
#include <vector>

#include <kvrail.h>

namespace
{

constexpr std::uint32_t layers = 4;
constexpr std::uint64_t tokens = 64;

struct Closer {
    void operator()(kvrail *agent) const
    {
        kvrail_close(agent);
    }
};

int failed(const char *what, const kvrail_error &error)
{
    std::fprintf(stderr, "%s: %s\n", what, error.detail);
    return 1;
}

// The engine of the source fills layer n with n + 1.
int check(const kvrail_memory &memory, const kvrail_region &region,
          const std::vector<std::uint32_t> &pages)
{
    const auto *bytes = static_cast<const unsigned char *>(memory.address);
    std::size_t wrong = 0;

    for (std::uint32_t layer = 0; layer < layers; layer++)
        for (std::uint32_t part = 0; part < region.part_count; part++)
            for (std::uint32_t page : pages) {
                const auto *at = bytes + layer * region.layer_stride + part * region.part_stride +
                                 page * region.page_stride;

                for (std::uint64_t i = 0; i < region.page_stride; i++)
                    wrong += at[i] != layer + 1;
            }
    std::printf("%zu bytes wrong\n", wrong);
    return wrong == 0 ? 0 : 1;
}

// The event that hands the pages back; true when they hold the request.
bool wait_for_end(kvrail *agent, kvrail_handle target)
{
    pollfd readable = {kvrail_event_fd(agent), POLLIN, 0};
    kvrail_event event;
    int got;

    while ((got = kvrail_poll(agent, &event, 1)) >= 0) {
        if (got == 0)
            poll(&readable, 1, -1);
        else if (event.terminal && event.handle == target) {
            std::printf("%s: %s, %s\n", kvrail_event_name(event.kind), event.status_name,
                        event.detail);
            return event.kind == KVRAIL_EVENT_DONE;
        }
    }
    return false;
}

} // namespace

int main(int argc, char **argv)
{
    kvrail_error error;
    kvrail_memory memory;
    kvrail_region region = {};
    kvrail_identity me = {};
    kvrail_source_address from = {};
    kvrail_target_options request = {};
    const std::vector<std::uint32_t> pages = {9, 2, 60, 61};
    kvrail *opened = nullptr;
    kvrail_handle target;
    std::uint32_t region_id;

    if (argc != 5) {
        std::fprintf(stderr, "usage: fetch SOCKET REQUEST HOST:PORT GENERATION\n");
        return 2;
    }
    me.name = "example-fetch";
    me.engine[0] = 3;
    me.generation =
        static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
    me.tp_size = me.pp_size = 1;
    me.model = "example";
    me.dtype = "bfloat16";
    me.layers_total = layers;
    me.kv_heads_total = 2;
    me.head_dim = 64;
    region.name = "kv";
    region.device = -1;
    region.layer_count = layers;
    region.part_count = 2;
    region.parts[0] = KVRAIL_PART_K;
    region.parts[1] = KVRAIL_PART_V;
    region.head_count = 2;
    region.page_tokens = 16;
    region.page_count = 128;
    region.head_bytes = 128;
    kvrail_region_dense(&region);
    if (kvrail_memory_create("kv", region.bytes, &memory, &error) != KVRAIL_OK)
        return failed("memory", error);
    region.fd = memory.fd;
    if (kvrail_open(argv[1], &me, 2000, &opened, &error) != KVRAIL_OK)
        return failed("open", error);
    const std::unique_ptr<kvrail, Closer> agent(opened);
    if (kvrail_region_add(agent.get(), &region, 10000, &region_id) != KVRAIL_OK)
        return failed("region", *kvrail_last_error(agent.get()));

    from.agent = argv[3];
    from.engine[0] = 1;
    from.generation = std::strtoull(argv[4], nullptr, 10);
    request.request = argv[2];
    request.tokens = tokens;
    request.sources = &from;
    request.source_count = 1;
    if (kvrail_target_open(agent.get(), &request, &target) != KVRAIL_OK ||
        kvrail_target_pages(agent.get(), target, 0, pages.data(), pages.size()) != KVRAIL_OK)
        return failed("fetch", *kvrail_last_error(agent.get()));
    return wait_for_end(agent.get(), target) ? check(memory, region, pages) : 1;
}
