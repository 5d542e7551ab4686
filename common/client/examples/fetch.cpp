// A decode engine in C++: fetches what the example `prefill` publishes, and checks every byte.
//
//   REQUEST_SECRET=<the source's> fetch <agent's socket> <request id>
//       <host:port of the prefill-agent> <source's generation>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "engine.h"

namespace
{

struct Closer {
    void operator()(kvrail *agent) const
    {
        kvrail_close(agent);
    }
};

// The event that hands the pages back; true when they hold the request.
bool wait_for_end(const engine &engine, kvrail_handle target)
{
    kvrail_event event;

    while (engine_wait(&engine, &event)) {
        if (!event.terminal || event.handle != target)
            continue;
        std::printf("%s: %s, %s\n", kvrail_event_name(event.kind), event.status_name, event.detail);
        return event.kind == KVRAIL_EVENT_DONE;
    }
    return false;
}

} // namespace

int main(int argc, char **argv)
{
    const std::vector<std::uint32_t> pages = {9, 2, 60, 61};
    kvrail_source_address from = {};
    kvrail_target_options request = {};
    engine engine;
    kvrail_handle target;

    if (argc != 5) {
        std::fprintf(stderr, "usage: fetch SOCKET REQUEST HOST:PORT GENERATION\n");
        return 2;
    }
    if (engine_start(argv[1], "example-fetch", 3, &engine) != 0)
        return 1;
    const std::unique_ptr<kvrail, Closer> agent(engine.agent);

    from.size = sizeof(from);
    from.agent = argv[3];
    from.engine[0] = 1;
    from.generation = std::strtoull(argv[4], nullptr, 10);
    request.size = sizeof(request);
    request.request = argv[2];
    request.secret = engine_secret();
    request.tokens = TOKENS;
    request.sources = &from;
    request.source_count = 1;
    if (kvrail_target_open(agent.get(), &request, &target) != KVRAIL_OK ||
        kvrail_target_pages(agent.get(), target, 0, pages.data(), pages.size()) != KVRAIL_OK)
        return engine_failed("fetch", kvrail_last_error(agent.get()));
    if (!wait_for_end(engine, target))
        return 1;
    const std::size_t wrong = engine_wrong_bytes(&engine, pages.data(), pages.size());

    std::printf("%zu bytes wrong\n", wrong);
    return wrong == 0 ? 0 : 1;
}
