/* Both agents in one process, for tests of `kvrail replay`: two real engine ports, and between them
 * nothing but memcpy. It can break, on purpose, each of the promises that a replay checks.
 *
 *   copy_agent SOURCE_SOCKET TARGET_SOCKET [FAULT]
 *
 *   early      says LAYER_IN for a layer before its bytes are there
 *   late       writes pages again after DONE
 *   flip       turns one bit on the way
 *   misplace   writes a page where its neighbour belongs
 *   count      says one byte less in DONE
 *   no_tail    forgets the tail
 *   fail       ends every fifth fetch in FAILED
 *   die        ends itself in the middle of that fetch
 *
 * Faults are planted in request 20. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/engine/engine_port.h"

#define OPEN_MAX_   512
#define SEGMENTS    1024
#define TICK_MS     1
#define VICTIM      "-20" /* the request in which single faults happen */
#define EARLY_TICKS 300   /* from LAYER_IN to the bytes */
#define LATE_TICKS  20    /* after DONE */

struct segment {
    uint32_t word;
    uint64_t base, token_first, token_end;
};

/* A publish or a fetch. */
struct open_request {
    bool used, ended;
    uint32_t engine;
    uint64_t handle;
    char name[KVR_REQUEST_BYTES];
    uint64_t tokens, skip_tokens;
    uint32_t *ids, id_count;
    struct segment segments[SEGMENTS];
    uint32_t segment_count;
    uint8_t tail[KVR_TAIL_BYTES_MAX];
    uint32_t tail_bytes;
    uint32_t segment, layer; /* fetch: what is copied next */
    uint64_t bytes;
    uint32_t writes;
    uint32_t early_ticks;
};

struct side {
    struct kvr_engine_port *port;
    struct open_request *open; /* OPEN_MAX_ */
    struct kvr_region_layout layout;
    uint8_t *memory;
    bool is_source;
};

static struct side source = {.is_source = true}, target;
static const char *fault = "";
static uint32_t fetch_count;
static uint32_t late_ids[65536], late_count; /* pages that are written to late */
static uint64_t late_ticks;

static bool has_fault(const char *name)
{
    return strcmp(fault, name) == 0;
}

/* Replay numbers its requests at the end of their ids. */
static bool is_victim(const struct open_request *request)
{
    const char *number = strrchr(request->name, '-');

    return number != NULL && strcmp(number, VICTIM) == 0;
}

static void tell(struct side *side, const struct open_request *request, kvr_notice_kind kind,
                 kvr_status status)
{
    struct kvr_notice notice = {.kind = kind,
                                .handle = request->handle,
                                .status = status,
                                .bytes = request->bytes,
                                .writes = request->writes};

    if (kind == KVR_NOTICE_DONE && has_fault("count") && is_victim(request))
        notice.bytes--;
    kvr_engine_port_notify(side->port, request->engine, &notice);
}

static void forget(struct open_request *request)
{
    free(request->ids);
    memset(request, 0, sizeof(*request));
}

static struct open_request *find(const struct side *side, const char *name)
{
    for (int i = 0; i < OPEN_MAX_; i++)
        if (side->open[i].used && strcmp(side->open[i].name, name) == 0)
            return &side->open[i];
    return NULL;
}

static struct open_request *find_handle(const struct side *side, uint64_t handle)
{
    for (int i = 0; i < OPEN_MAX_; i++)
        if (side->open[i].used && side->open[i].handle == handle)
            return &side->open[i];
    return NULL;
}

static void open_one(struct side *side, uint32_t engine, uint64_t handle, const char *name,
                     uint64_t tokens, uint64_t skip_tokens)
{
    struct open_request *request = NULL;

    for (int i = 0; i < OPEN_MAX_ && request == NULL; i++)
        if (!side->open[i].used)
            request = &side->open[i];
    if (request == NULL)
        abort();
    request->used = true;
    request->engine = engine;
    request->handle = handle;
    request->tokens = tokens;
    request->skip_tokens = skip_tokens;
    snprintf(request->name, sizeof(request->name), "%s", name);
}

static void add_pages(struct open_request *request, const struct kvr_req_pages *pages)
{
    request->ids = realloc(request->ids, (request->id_count + pages->id_count) * sizeof(uint32_t));
    if (request->ids == NULL || pages->page_first != request->id_count)
        abort();
    memcpy(request->ids + request->id_count, pages->ids, pages->id_count * sizeof(uint32_t));
    request->id_count += pages->id_count;
}

/* ---- copying -------------------------------------------------------------------------------- */

static uint64_t page_bytes(void)
{
    return source.layout.page_tokens * source.layout.token_stride;
}

static uint8_t *page_at(const struct side *side, uint32_t layer, uint32_t part, uint32_t id)
{
    return side->memory + side->layout.base + layer * side->layout.layer_stride +
           part * side->layout.part_stride + id * side->layout.page_stride;
}

static void copy_page(const struct open_request *from, struct open_request *to, uint32_t layer,
                      uint32_t page)
{
    for (uint32_t part = 0; part < source.layout.part_count; part++) {
        uint32_t place =
            has_fault("misplace") && is_victim(to) && page + 1 == to->id_count ? page - 1 : page;
        uint8_t *at = page_at(&target, layer, part, to->ids[place]);

        memcpy(at, page_at(&source, layer, part, from->ids[page]), page_bytes());
        if (has_fault("flip") && is_victim(to) && layer == 1 && page + 1 == to->id_count)
            at[5] ^= 0x10;
        to->bytes += page_bytes();
        to->writes++;
    }
}

static void announce(struct open_request *to, const struct segment *segment, uint32_t layer)
{
    struct kvr_notice notice = {.kind = KVR_NOTICE_LAYER_IN,
                                .handle = to->handle,
                                .layer_first = layer,
                                .layer_count = 1,
                                .token_first = segment->token_first,
                                .token_end = segment->token_end};

    kvr_engine_port_notify(target.port, to->engine, &notice);
}

/* The next layer of a segment, when the source has it ready. */
static bool copy_layer(const struct open_request *from, struct open_request *to)
{
    const struct segment *segment = &from->segments[to->segment];
    const struct kvr_shared_page *shared = kvr_engine_port_page(source.port, from->engine);
    uint64_t page_tokens = source.layout.page_tokens;
    uint64_t first =
        segment->token_first > to->skip_tokens ? segment->token_first : to->skip_tokens;
    uint64_t word = atomic_load_explicit(&shared->words[segment->word], memory_order_acquire);

    if (word < segment->base + to->layer + 1)
        return false;
    if (has_fault("early") && is_victim(to) && to->early_ticks < EARLY_TICKS) {
        if (to->early_ticks++ == 0)
            announce(to, segment, to->layer);
        return false;
    }
    for (uint64_t page = first / page_tokens; page * page_tokens < segment->token_end; page++)
        copy_page(from, to, to->layer, (uint32_t)page);
    if (to->early_ticks == 0 || to->layer > 0 || to->segment > 0)
        announce(to, segment, to->layer);
    if (has_fault("die") && is_victim(to))
        raise(SIGKILL);
    to->layer++;
    if (to->layer == source.layout.layer_count) {
        to->layer = 0;
        to->segment++;
    }
    return true;
}

static void finish(struct open_request *from, struct open_request *to)
{
    struct kvr_notice tail = {.kind = KVR_NOTICE_TAIL_IN,
                              .handle = to->handle,
                              .payload = from->tail,
                              .payload_bytes = from->tail_bytes};

    if (!(has_fault("no_tail") && is_victim(to)))
        kvr_engine_port_notify(target.port, to->engine, &tail);
    if (has_fault("fail") && fetch_count % 5 == 0)
        tell(&target, to, KVR_NOTICE_FAILED, KVR_RAIL_FAILED);
    else
        tell(&target, to, KVR_NOTICE_DONE, KVR_OK);
    tell(&source, from, KVR_NOTICE_SOURCE_FREE,
         has_fault("fail") && fetch_count % 5 == 0 ? KVR_RAIL_FAILED : KVR_OK);
    if (has_fault("late") && is_victim(to)) {
        late_ticks = 1;
        late_count = to->id_count;
        memcpy(late_ids, to->ids, to->id_count * sizeof(late_ids[0]));
    }
    fetch_count++;
    forget(from);
    forget(to);
}

/* Faults of single fetches need one fetch at a time to be in one: the oldest that can go on does.
 */
static void on_tick(uv_timer_t *timer)
{
    (void)timer;
    for (uint32_t i = 0; late_ticks == LATE_TICKS && i < late_count; i++)
        memset(page_at(&target, 0, 0, late_ids[i]), 0x77, page_bytes());
    late_ticks += late_ticks > 0;
    for (int i = 0; i < OPEN_MAX_; i++) {
        struct open_request *to = &target.open[i], *from;

        if (!to->used || to->id_count * target.layout.page_tokens < to->tokens)
            continue;
        from = find(&source, to->name);
        if (from == NULL)
            continue;
        while (to->segment < from->segment_count && copy_layer(from, to))
            ;
        if (from->ended && to->segment == from->segment_count)
            finish(from, to);
    }
}

/* ---- engines -------------------------------------------------------------------------------- */

static kvr_status on_up(void *self, kvr_ns now, uint32_t engine,
                        const struct kvr_req_attach *attach, struct kvr_error *error)
{
    (void)self;
    (void)now;
    (void)engine;
    (void)attach;
    (void)error;
    return KVR_OK;
}

static void on_region(void *self, kvr_ns now, uint32_t engine, const struct kvr_req_region *region,
                      const struct kvr_region_memory *memory)
{
    struct kvr_notice ready = {.kind = KVR_NOTICE_REGION_READY, .handle = region->layout.region};
    struct kvr_region_memory own = *memory;
    struct side *side = self;

    (void)now;
    side->layout = region->layout;
    side->memory =
        mmap(NULL, region->layout.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd, 0);
    kvr_region_memory_close(&own);
    if (side->memory == MAP_FAILED)
        abort();
    kvr_engine_port_notify(side->port, engine, &ready);
}

static void end_source(struct side *side, struct open_request *request, kvr_status status)
{
    request->ended = true;
    if (status == KVR_OK)
        return;
    tell(side, request, KVR_NOTICE_SOURCE_FREE, status);
    forget(request);
}

static void on_open_request(struct side *side, struct open_request *open,
                            const struct kvr_request *request)
{
    switch (request->kind) {
    case KVR_REQ_SOURCE_PAGES:
    case KVR_REQ_TARGET_PAGES:
        add_pages(open, &request->pages);
        return;
    case KVR_REQ_WATCH:
        if (open->segment_count == SEGMENTS)
            abort();
        open->segments[open->segment_count++] =
            (struct segment){request->watch.word, request->watch.base, request->watch.token_first,
                             request->watch.token_end};
        return;
    case KVR_REQ_SOURCE_TAIL:
        open->tail_bytes = request->tail.byte_count;
        memcpy(open->tail, request->tail.bytes, request->tail.byte_count);
        return;
    case KVR_REQ_SOURCE_END:
        end_source(side, open, request->end.status);
        return;
    case KVR_REQ_CANCEL:
        tell(side, open, side->is_source ? KVR_NOTICE_SOURCE_FREE : KVR_NOTICE_CANCELLED,
             KVR_CANCELLED);
        forget(open);
        return;
    default:
        return;
    }
}

static void on_request(void *self, kvr_ns now, uint32_t engine, const struct kvr_request *request)
{
    struct side *side = self;
    struct open_request *open = find_handle(side, request->handle);

    (void)now;
    if (request->kind == KVR_REQ_SOURCE_OPEN)
        open_one(side, engine, request->handle, request->source_open.request,
                 request->source_open.tokens, 0);
    else if (request->kind == KVR_REQ_TARGET_OPEN)
        open_one(side, engine, request->handle, request->target_open.request,
                 request->target_open.tokens, request->target_open.skip_tokens);
    else if (open != NULL)
        on_open_request(side, open, request);
}

/* The other side's requests of this engine's end at once, as a heartbeat would have it. */
static void on_down(void *self, kvr_ns now, uint32_t engine, kvr_status why, const char *detail)
{
    struct side *side = self, *other = side == &source ? &target : &source;

    (void)now;
    (void)why;
    (void)detail;
    for (int i = 0; i < OPEN_MAX_; i++) {
        if (side->open[i].used)
            forget(&side->open[i]);
        if (!other->open[i].used)
            continue;
        tell(other, &other->open[i], other->is_source ? KVR_NOTICE_SOURCE_FREE : KVR_NOTICE_FAILED,
             KVR_ENGINE_LOST);
        forget(&other->open[i]);
    }
    kvr_engine_port_release(side->port, engine);
}

static void open_side(uv_loop_t *loop, struct side *side, const char *path)
{
    struct kvr_engine_handler handler = {
        .self = side, .up = on_up, .region = on_region, .request = on_request, .down = on_down};
    struct kvr_error error;

    side->open = calloc(OPEN_MAX_, sizeof(side->open[0]));
    if (side->open == NULL ||
        kvr_engine_port_open(loop, path, "copy", &handler, &side->port, &error) != KVR_OK) {
        fprintf(stderr, "copy_agent: %s\n", side->open != NULL ? error.detail : "no memory");
        exit(1);
    }
}

int main(int argc, char **argv)
{
    uv_timer_t tick;
    uv_loop_t loop;

    if (argc < 3) {
        fprintf(stderr, "copy_agent SOURCE_SOCKET TARGET_SOCKET [FAULT]\n");
        return 2;
    }
    if (argc > 3)
        fault = argv[3];
    signal(SIGPIPE, SIG_IGN);
    uv_loop_init(&loop);
    open_side(&loop, &source, argv[1]);
    open_side(&loop, &target, argv[2]);
    uv_timer_init(&loop, &tick);
    uv_timer_start(&tick, on_tick, TICK_MS, TICK_MS);
    return uv_run(&loop, UV_RUN_DEFAULT);
}
