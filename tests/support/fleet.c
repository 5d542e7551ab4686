/* One engine rank of a fleet, on the public library and nothing else: a test starts many of these
 * at several agents and kills some.
 *
 *   fleet source socket=PATH engine=N to=N…                    publishes for these target engines
 *   fleet target socket=PATH engine=N from=N,GENERATION,HOST:PORT…   fetches from these sources
 *   fleet source|target socket=PATH engine=N visitors=N    attaches so many ranks at once, and ends
 *
 * Both sides know all requests beforehand, so nothing routes them. Source engine S publishes
 * requests s<S>-t<T>-<n> for target engine T, each rank its heads. A target rank fetches from the
 * source rank of its own number. With consumers=K, s<S>-all-<n> is published once for K ranks. The
 * bytes of a page follow from request, rank, layer, part and logical page. A page that is handed
 * back is overwritten at once, so that a late read or write shows.
 *
 * With gate=PATH it begins when that file is there, so that a fleet begins together. With hold=N a
 * source computes at most one layer of the requests after the first N for each target, until the
 * file release=PATH is there. A rank that is killed before that has requests under way. Each ending
 * is one line, `done NAME` or `failed NAME STATUS: sentence`; the last line counts. Exit 0:
 * everything ended, and no byte was wrong; 1: not so; 3: the agent is gone. */
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/test_secret.h"
#include <kvrail.h>

#define LAYERS       4
#define PARTS        2
#define HEADS        2
#define HEAD_BYTES   128
#define PAGE_TOKENS  16
#define PAGE_BYTES   (PAGE_TOKENS * HEADS * HEAD_BYTES)
#define PAGES        160
#define PAGES_MOST   16 /* of one request */
#define SEGMENTS     2  /* of each publish */
#define STEPS        (SEGMENTS * LAYERS)
#define PARTNERS_MAX 2
#define SHARE        4 /* requests open at once with one partner: a dead one holds up no other */
#define WINDOW       (PARTNERS_MAX * SHARE)
#define POISON       0xdeadbeefdeadbeefu

struct partner {
    unsigned engine;
    uint64_t generation;
    const char *agent;
    uint64_t opened;
    bool lost; /* nothing more is opened with it */
};

static struct {
    bool source;
    const char *socket, *gate, *release;
    uint64_t engine, generation, tp, tp_size, requests, consumers, lease_ms, step_us, timeout_s;
    uint64_t visitors, hold;
    struct partner partners[PARTNERS_MAX];
    uint64_t partner_count;
} options = {.generation = 1,
             .tp_size = 2,
             .requests = 50,
             .consumers = 1,
             .lease_ms = 20000,
             .hold = UINT64_MAX,
             .timeout_s = 25};

struct request {
    bool open;
    kvrail_handle handle;
    char name[32];
    struct partner *partner;
    unsigned number, page_count, step;
    uint32_t pages[PAGES_MOST];
    uint64_t next_us, base;
    bool tail_in;
};

static struct kvrail *agent;
static struct kvrail_memory memory;
static struct kvrail_region region;
static struct request window[WINDOW];
static uint64_t words[WINDOW];
static uint32_t free_pages[PAGES]; /* a queue: the page longest free is used first */
static unsigned free_first, free_count;
static unsigned done, failed, wrong, late;
static bool agent_gone;

static void die(const char *what, const struct kvrail_error *error)
{
    printf("%s: %s\n", what, error->detail);
    exit(1);
}

static uint64_t now_us(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_nsec / 1000;
}

/* ---- what a page holds ----------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t seed_of(const char *name, unsigned layer, unsigned part, unsigned logical_page)
{
    uint64_t seed = mix(options.tp + 1);

    for (const char *c = name; *c != '\0'; c++)
        seed = mix(seed ^ (uint8_t)*c);
    return mix(mix(mix(seed ^ layer) ^ part) ^ logical_page);
}

static uint64_t *page_at(unsigned layer, unsigned part, uint32_t page)
{
    return (uint64_t *)((char *)memory.address + region.base + layer * region.layer_stride +
                        part * region.part_stride + page * region.page_stride);
}

static void layer_fill(const struct request *request, unsigned layer, unsigned first, unsigned end)
{
    for (unsigned part = 0; part < PARTS; part++)
        for (unsigned page = first; page < end; page++) {
            uint64_t seed = seed_of(request->name, layer, part, page);
            uint64_t *at = page_at(layer, part, request->pages[page]);

            for (unsigned i = 0; i < PAGE_BYTES / sizeof(*at); i++)
                at[i] = seed + i;
        }
}

static void layer_check(const struct request *request, unsigned layer, unsigned first, unsigned end)
{
    for (unsigned part = 0; part < PARTS; part++)
        for (unsigned page = first; page < end; page++) {
            uint64_t seed = seed_of(request->name, layer, part, page);
            const uint64_t *at = page_at(layer, part, request->pages[page]);
            unsigned i = 0;

            while (i < PAGE_BYTES / sizeof(*at) && at[i] == seed + i)
                i++;
            if (i == PAGE_BYTES / sizeof(*at))
                continue;
            wrong++;
            printf("wrong %s: layer %u, part %u, page %u, word %u is %016" PRIx64 "\n",
                   request->name, layer, part, page, i, at[i]);
        }
}

/* ---- pages ----------------------------------------------------------------------------------- */

static void page_free(uint32_t page)
{
    for (unsigned layer = 0; layer < LAYERS; layer++)
        for (unsigned part = 0; part < PARTS; part++) {
            uint64_t *at = page_at(layer, part, page);

            for (unsigned i = 0; i < PAGE_BYTES / sizeof(*at); i++)
                at[i] = POISON;
        }
    free_pages[(free_first + free_count++) % PAGES] = page;
}

static uint32_t page_take(void)
{
    uint32_t page = free_pages[free_first];
    bool clean = true;

    for (unsigned layer = 0; layer < LAYERS; layer++)
        for (unsigned part = 0; part < PARTS; part++) {
            const uint64_t *at = page_at(layer, part, page);

            for (unsigned i = 0; i < PAGE_BYTES / sizeof(*at); i++)
                clean = clean && at[i] == POISON;
        }
    late += !clean;
    free_first = (free_first + 1) % PAGES;
    free_count--;
    return page;
}

/* ---- events ---------------------------------------------------------------------------------- */

static void request_end(struct request *request, const struct kvrail_event *event)
{
    uint64_t bytes = (uint64_t)request->page_count * LAYERS * PARTS * PAGE_BYTES;

    if (event->status == KVRAIL_OK) {
        done++;
        if (event->bytes != bytes * (options.source ? options.consumers : 1)) {
            wrong++;
            printf("wrong %s: %" PRIu64 " bytes were moved\n", request->name, event->bytes);
        }
        for (unsigned layer = 0; layer < LAYERS && !options.source; layer++)
            layer_check(request, layer, 0, request->page_count);
        wrong += !options.source && !request->tail_in;
        printf("done %s\n", request->name);
    } else {
        failed++;
        printf("failed %s %s: %s\n", request->name, event->status_name, event->detail);
        request->partner->lost = true; /* as a router would see to it */
    }
    for (unsigned i = 0; i < request->page_count; i++)
        page_free(request->pages[i]);
    request->open = false;
}

static void event_take(const struct kvrail_event *event)
{
    struct request *request = window;

    while (request < window + WINDOW && (!request->open || request->handle != event->handle))
        request++;
    if (event->kind == KVRAIL_EVENT_PEER_UP || event->kind == KVRAIL_EVENT_PEER_DOWN)
        printf("%s %s\n", kvrail_event_name(event->kind), event->name);
    if (request == window + WINDOW) {
        if (event->handle != 0 && ++wrong > 0)
            printf("wrong: event %s for no handle of ours\n", kvrail_event_name(event->kind));
        return;
    }
    if (event->kind == KVRAIL_EVENT_LAYER_IN)
        for (uint32_t i = 0; i < event->layer_count; i++)
            layer_check(request, event->layer_first + i,
                        (unsigned)(event->token_first / PAGE_TOKENS),
                        (unsigned)(event->token_end / PAGE_TOKENS));
    if (event->kind == KVRAIL_EVENT_TAIL_IN)
        request->tail_in = event->payload_bytes == strlen(request->name) &&
                           memcmp(event->payload, request->name, event->payload_bytes) == 0;
    if (event->terminal)
        request_end(request, event);
}

static void events_take(void)
{
    struct kvrail_event event;
    int got;

    while ((got = kvrail_poll(agent, &event, 1)) > 0)
        event_take(&event);
    agent_gone = got < 0;
}

/* What may have no room at this moment. A request that has ended meanwhile is NOT_FOUND. */
#define CALL(call)                                                                                 \
    do {                                                                                           \
        kvrail_status got_;                                                                        \
        while ((got_ = (call)) == KVRAIL_AGAIN)                                                    \
            events_take();                                                                         \
        if (got_ != KVRAIL_OK && got_ != KVRAIL_NOT_FOUND && got_ != KVRAIL_AGENT_LOST)            \
            die(#call, kvrail_last_error(agent));                                                  \
    } while (0)

/* ---- requests -------------------------------------------------------------------------------- */

static kvrail_status publish_open(struct request *request, unsigned n)
{
    struct kvrail_source_options publish = {.size = sizeof(struct kvrail_source_options),
                                            .request = request->name,
                                            .tokens = (uint64_t)request->page_count * PAGE_TOKENS,
                                            .consumers = (uint32_t)options.consumers,
                                            .lease_ms = (uint32_t)options.lease_ms,
                                            .priority = -(int32_t)(n % 2),
                                            .secret = TEST_SECRET};

    return kvrail_source_open(agent, &publish, &request->handle);
}

static kvrail_status fetch_open(struct request *request, unsigned n)
{
    struct kvrail_source_address from = {.size = sizeof(struct kvrail_source_address),
                                         .agent = request->partner->agent,
                                         .engine = {1, (uint8_t)request->partner->engine},
                                         .generation = request->partner->generation,
                                         .tp = (uint32_t)options.tp};
    struct kvrail_target_options fetch = {.size = sizeof(struct kvrail_target_options),
                                          .request = request->name,
                                          .tokens = (uint64_t)request->page_count * PAGE_TOKENS,
                                          .priority = -(int32_t)(n % 2),
                                          .sources = &from,
                                          .source_count = 1,
                                          .secret = TEST_SECRET};

    return kvrail_target_open(agent, &fetch, &request->handle);
}

static void request_open(struct request *request, struct partner *partner, unsigned n)
{
    uint64_t source = options.source ? options.engine : partner->engine;
    uint64_t target = options.source ? partner->engine : options.engine;
    uint64_t tokens, half;
    uint32_t word = (uint32_t)(request - window);

    memset(request, 0, sizeof(*request));
    if (options.consumers > 1)
        snprintf(request->name, sizeof(request->name), "s%" PRIu64 "-all-%u", source, n);
    else
        snprintf(request->name, sizeof(request->name), "s%" PRIu64 "-t%" PRIu64 "-%u", source,
                 target, n);
    request->partner = partner;
    request->number = n;
    request->page_count = 4 + n * 7 % (PAGES_MOST - 3);
    request->base = words[word];
    for (unsigned i = 0; i < request->page_count; i++)
        request->pages[i] = page_take();
    CALL(options.source ? publish_open(request, n) : fetch_open(request, n));
    request->open = true;
    if (!options.source) {
        CALL(kvrail_target_pages(agent, request->handle, 0, request->pages, request->page_count));
        return;
    }
    tokens = (uint64_t)request->page_count * PAGE_TOKENS;
    half = (uint64_t)(request->page_count / 2) * PAGE_TOKENS;
    CALL(kvrail_source_pages(agent, request->handle, 0, request->pages, request->page_count));
    CALL(kvrail_source_watch(agent, request->handle, word, request->base, 0, half));
    CALL(kvrail_source_watch(agent, request->handle, word, request->base + LAYERS, half, tokens));
}

/* Computes one layer of one segment. */
static void publish_step(struct request *request, uint64_t now)
{
    uint32_t word = (uint32_t)(request - window);
    unsigned segment = request->step / LAYERS, half = request->page_count / 2;

    layer_fill(request, request->step % LAYERS, segment == 0 ? 0 : half,
               segment == 0 ? half : request->page_count);
    words[word] = request->base + ++request->step;
    request->next_us = now + options.step_us;
    CALL(kvrail_ready(agent, word, words[word]));
    if (request->step < STEPS)
        return;
    CALL(kvrail_source_tail(agent, request->handle, request->name, strlen(request->name)));
    CALL(kvrail_source_end(agent, request->handle, KVRAIL_OK));
}

static bool held(const struct request *request)
{
    return options.release != NULL && request->number >= options.hold && request->step > 0 &&
           access(options.release, F_OK) != 0;
}

/* Opens what there is room for. False: nothing is open, and nothing is left to open. */
static bool requests_open(void)
{
    bool some = false;

    for (unsigned i = 0; i < WINDOW; i++) {
        struct partner *partner = &options.partners[i / SHARE];
        bool more = i / SHARE < options.partner_count && !partner->lost &&
                    partner->opened < options.requests;

        if (!window[i].open && more && !agent_gone)
            request_open(&window[i], partner, (unsigned)partner->opened++);
        some = some || window[i].open || more;
    }
    return some;
}

static void run(void)
{
    struct pollfd readable = {.fd = kvrail_event_fd(agent), .events = POLLIN};
    uint64_t end = now_us() + options.timeout_s * 1000000;

    while (requests_open() && !agent_gone) {
        bool waiting = false;
        uint64_t now = now_us();

        if (now > end) {
            printf("hung\n");
            for (unsigned i = 0; i < WINDOW; i++)
                if (window[i].open)
                    printf("hung %s\n", window[i].name);
            exit(1);
        }
        for (unsigned i = 0; i < WINDOW && options.source; i++) {
            struct request *request = &window[i];

            if (request->open && request->step < STEPS && now >= request->next_us && !held(request))
                publish_step(request, now);
            waiting = waiting || (request->open && request->step < STEPS);
        }
        poll(&readable, 1, waiting ? 1 : 100);
        events_take();
    }
}

static bool option_take(const char *argument)
{
    static const struct {
        const char *name;
        uint64_t *value;
    } numbers[] = {
        {"engine", &options.engine},
        {"generation", &options.generation},
        {"tp", &options.tp},
        {"tp_size", &options.tp_size},
        {"requests", &options.requests},
        {"consumers", &options.consumers},
        {"lease_ms", &options.lease_ms},
        {"step_us", &options.step_us},
        {"timeout_s", &options.timeout_s},
        {"visitors", &options.visitors},
        {"hold", &options.hold},
    };
    const char *equals = strchr(argument, '=');
    struct partner *partner = &options.partners[options.partner_count % PARTNERS_MAX];
    size_t length = equals != NULL ? (size_t)(equals - argument) : 0;
    char *rest;

    if (strncmp(argument, "socket=", 7) == 0)
        return (options.socket = equals + 1) != NULL;
    if (strncmp(argument, "gate=", 5) == 0)
        return (options.gate = equals + 1) != NULL;
    if (strncmp(argument, "release=", 8) == 0)
        return (options.release = equals + 1) != NULL;
    if (strncmp(argument, "to=", 3) == 0 || strncmp(argument, "from=", 5) == 0) {
        partner->engine = (unsigned)strtoul(equals + 1, &rest, 10);
        partner->generation = *rest == ',' ? strtoull(rest + 1, &rest, 10) : 0;
        partner->agent = *rest == ',' ? rest + 1 : "";
        return ++options.partner_count <= PARTNERS_MAX;
    }
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (strlen(numbers[i].name) == length && strncmp(argument, numbers[i].name, length) == 0) {
            *numbers[i].value = strtoull(equals + 1, &rest, 10);
            return *rest == '\0';
        }
    return false;
}

static void connect_as(uint64_t tp)
{
    char name[32];
    struct kvrail_identity me = {.size = sizeof(struct kvrail_identity),
                                 .name = name,
                                 .engine = {options.source ? 1 : 2, (uint8_t)options.engine},
                                 .generation = options.generation,
                                 .tp = (uint32_t)tp,
                                 .tp_size = (uint32_t)options.tp_size,
                                 .pp_size = 1,
                                 .model = "fleet",
                                 .dtype = "bfloat16",
                                 .layers_total = LAYERS,
                                 .kv_heads_total = HEADS * (uint32_t)options.tp_size,
                                 .head_dim = HEAD_BYTES / 2};
    struct kvrail_error error;

    snprintf(name, sizeof(name), "%s-%" PRIu64 "-%" PRIu64, options.source ? "source" : "target",
             options.engine, tp);
    if (kvrail_open(options.socket, &me, 10000, &agent, &error) != KVRAIL_OK)
        die("open", &error);
}

static void attach(void)
{
    struct kvrail_error error;
    uint32_t id;

    region = (struct kvrail_region){.size = sizeof(struct kvrail_region),
                                    .name = "kv",
                                    .device = -1,
                                    .layer_count = LAYERS,
                                    .part_count = PARTS,
                                    .parts = {KVRAIL_PART_K, KVRAIL_PART_V},
                                    .head_first = HEADS * (uint32_t)options.tp,
                                    .head_count = HEADS,
                                    .page_tokens = PAGE_TOKENS,
                                    .page_count = PAGES,
                                    .head_bytes = HEAD_BYTES};
    kvrail_region_dense(&region);
    if (kvrail_memory_create("kv", region.bytes, &memory, &error) != KVRAIL_OK)
        die("memory", &error);
    region.fd = memory.fd;
    for (uint32_t i = 0; i < PAGES; i++)
        page_free(i * 37 % PAGES);
    connect_as(options.tp);
    if (kvrail_region_add(agent, &region, 10000, &id) != KVRAIL_OK)
        die("region", kvrail_last_error(agent));
    printf("attached\n");
}

static void gate_wait(void)
{
    const struct timespec nap = {.tv_nsec = 5000000};

    for (uint64_t i = 0; i < options.timeout_s * 200; i++)
        if (options.gate != NULL && access(options.gate, F_OK) != 0)
            nanosleep(&nap, NULL);
}

/* All at once, so that every index of the agent must be free that no other engine uses. */
static int visit(void)
{
    static struct kvrail *visitors[1024]; /* they end with the process */

    options.tp_size = options.visitors;
    for (uint64_t i = 0; i < options.visitors; i++) {
        connect_as(i);
        if (i < sizeof(visitors) / sizeof(visitors[0]))
            visitors[i] = agent;
    }
    printf("attached %s\n", visitors[0] != NULL ? "all" : "none");
    return 0;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    options.source = argc > 1 && strcmp(argv[1], "source") == 0;
    for (int i = 2; i < argc; i++)
        if (!option_take(argv[i])) {
            fprintf(stderr, "fleet: '%s' is no option of a rank\n", argv[i]);
            return 2;
        }
    if (options.socket != NULL && options.visitors > 0)
        return visit();
    if (options.socket == NULL || options.partner_count == 0) {
        fprintf(stderr,
                "usage: fleet source|target socket=PATH engine=N to=N|from=N,G,HOST:PORT …\n");
        return 2;
    }
    attach();
    gate_wait();
    run();
    printf("end: done %u, failed %u, wrong %u, late %u\n", done, failed, wrong, late);
    kvrail_close(agent);
    if (wrong > 0 || late > 0)
        return 1;
    return agent_gone ? 3 : 0;
}
