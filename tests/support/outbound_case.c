#include "tests/support/outbound_case.h"

#include <stdio.h>

#include "tests/support/check.h"

struct outbound outbound;
static struct small_side source, target;
static struct kvr_shared_page page;
static uint32_t peer_groups, peer_same_host, target_tp;
kvr_ns now;

static void peer_up(uint32_t peer)
{
    struct kvr_rail_address rails[2] = {{.rail = 0, .epoch = 1}, {.rail = 1, .epoch = 1}};
    struct kvr_msg_hello hello = {.limits = {1, 1, SMALL_PAGE_BYTES, false},
                                  .version_max = KVR_PROTOCOL_MAX,
                                  .rails = rails,
                                  .session = SESSION + peer};
    struct kvr_message regions;

    rails[1].group = peer_groups - 1;
    for (uint32_t i = 0; i < 2; i++)
        rails[i].same_host = (peer_same_host >> i & 1) != 0;
    hello.rail_count = 2;
    snprintf(hello.agent, sizeof(hello.agent), "d%u", peer);
    outbound_peer_up(&outbound, now, peer, &hello);
    machine_regions((uint8_t)(10 + peer), &target, 2, &regions);
    outbound_message(&outbound, now, peer, &regions);
}

void outbound_peer_comes(uint32_t peer)
{
    peer_up(peer);
}

static void widen(struct small_side *side, uint32_t page_count)
{
    struct kvr_region_layout *layout = &side->layouts[0];

    layout->page_count = page_count;
    layout->layer_stride = (uint64_t)page_count * SMALL_PAGE_BYTES;
    layout->bytes = SMALL_LAYERS * layout->layer_stride;
    side->region.layout = side->remotes[0].layout = *layout;
}

/* One page a request, of as many bytes as before. */
static void be_state(struct small_side *side)
{
    struct kvr_region_layout *layout = &side->layouts[0];

    layout->parts[0] = KVR_PART_STATE;
    layout->page_tokens = 0;
    side->region.layout = side->remotes[0].layout = *layout;
}

static void begin(const struct kvr_rail_groups *groups, bool failover, uint32_t page_count,
                  bool states)
{
    struct outbound_options options = {.silence_ns = SILENCE,
                                       .quiet_ns = KVR_S,
                                       .lease_default_ns = LEASE,
                                       .rail_count = 2,
                                       .without_secret = true,
                                       .groups = *groups,
                                       .failover = failover,
                                       .limits = {1, 1, SMALL_PAGE_BYTES, false}};

    now = KVR_S;
    target_tp = 0;
    peer_groups = groups->count > 1 ? 2 : 1;
    peer_same_host = groups->same_host;
    machine_log_clear();
    memset(&page, 0, sizeof(page));
    small_side_init(&source, 2);
    small_side_init(&target, 2);
    widen(&source, page_count);
    widen(&target, page_count);
    if (states) {
        be_state(&source);
        be_state(&target);
    }
    assert_int_equal(outbound_init(&outbound, &options, &machine_ports, machine_memory()), KVR_OK);
    machine_engine_up(&outbound.engines, 0, 1, &source, &page);
    peer_up(0);
    peer_up(1);
    machine_log_clear();
}

void outbound_begin(const struct kvr_rail_groups *groups, bool failover)
{
    begin(groups, failover, SMALL_PAGES, false);
}

void outbound_begin_states(void)
{
    begin(&(struct kvr_rail_groups){0}, false, SMALL_PAGES, true);
}

void outbound_begin_wide(uint32_t page_count)
{
    begin(&(struct kvr_rail_groups){0}, false, page_count, false);
}

int open_outbound(void **state)
{
    (void)state;
    outbound_begin(&(struct kvr_rail_groups){0}, false);
    return 0;
}

void ask(struct kvr_request *request)
{
    request->handle = HANDLE;
    outbound_request(&outbound, now, 0, request);
}

void publish_for(uint32_t consumers)
{
    struct kvr_request request = {.kind = KVR_REQ_SOURCE_OPEN};

    snprintf(request.source_open.request, sizeof(request.source_open.request), "r");
    request.source_open.tokens = SMALL_PLANNED;
    request.source_open.consumers = consumers;
    ask(&request);
}

void publish_all(void)
{
    static const uint32_t ids[SMALL_PLANNED] = {0, 2, 4, 6};
    struct kvr_request pages = {.kind = KVR_REQ_SOURCE_PAGES};
    struct kvr_request watch = {.kind = KVR_REQ_WATCH};
    struct kvr_request end = {.kind = KVR_REQ_SOURCE_END};

    pages.pages.ids = ids;
    pages.pages.id_count = SMALL_PLANNED;
    watch.watch.token_end = SMALL_PLANNED;
    ask(&pages);
    ask(&watch);
    ask(&end);
}

static struct kvr_message want_of(uint32_t peer, uint64_t nonce, uint64_t tokens)
{
    struct kvr_message want = {.kind = KVR_MSG_WANT, .transfer = nonce};

    snprintf(want.want.request, sizeof(want.want.request), "r");
    want.want.source_engine = machine_rank(1).engine;
    want.want.source_generation = 1;
    want.want.target = machine_rank((uint8_t)(10 + peer));
    want.want.target.tp = target_tp;
    want.want.tokens = tokens;
    want.want.deadline_ms = FETCH_DEADLINE / KVR_MS;
    return want;
}

void want_of_deadline(uint32_t peer, uint64_t nonce, uint32_t deadline_ms)
{
    struct kvr_message want = want_of(peer, nonce, SMALL_PLANNED);

    want.want.deadline_ms = deadline_ms;
    want.want.attempt = 99;
    outbound_message(&outbound, now, peer, &want);
}

void want_skipping(uint32_t peer, uint64_t nonce, uint64_t tokens, uint64_t skip_tokens)
{
    struct kvr_message want = want_of(peer, nonce, tokens);

    want.want.skip_tokens = skip_tokens;
    outbound_message(&outbound, now, peer, &want);
}

void want_tokens(uint32_t peer, uint64_t nonce, uint64_t tokens)
{
    want_skipping(peer, nonce, tokens, 0);
}

static void want_with(uint32_t peer, uint64_t nonce, uint64_t generation, bool direct_copy,
                      kvr_digest_mode digest)
{
    static const struct kvr_page_run runs[SMALL_PLANNED] = {{1, 1}, {3, 1}, {5, 1}, {7, 1}};
    struct kvr_message want = want_of(peer, nonce, SMALL_PLANNED);
    struct kvr_message pages = {.kind = KVR_MSG_PAGES, .transfer = nonce};

    want.want.source_generation = generation;
    want.want.staged = want.want.direct_copy = direct_copy;
    want.want.digest = digest;
    pages.pages.runs = runs;
    pages.pages.run_count = SMALL_PLANNED;
    outbound_message(&outbound, now, peer, &want);
    outbound_message(&outbound, now, peer, &pages);
}

void want_as(uint32_t peer, uint64_t nonce, uint64_t generation)
{
    want_with(peer, nonce, generation, false, KVR_DIGEST_OFF);
}

void want_moving(uint32_t peer, uint64_t nonce)
{
    want_with(peer, nonce, 1, true, KVR_DIGEST_OFF);
}

void want_hashed(uint32_t peer, uint64_t nonce)
{
    want_with(peer, nonce, 1, false, KVR_DIGEST_FULL);
}

void targets_are(uint32_t tp)
{
    struct kvr_message regions;

    target_tp = tp;
    machine_regions(10, &target, 2, &regions);
    regions.regions.rank.tp = tp;
    outbound_message(&outbound, now, 0, &regions);
}

void want(uint32_t peer, uint64_t nonce)
{
    want_as(peer, nonce, 1);
}

void message(uint32_t peer, uint64_t nonce, kvr_message_kind kind, kvr_status status)
{
    struct kvr_message message = {.kind = kind, .transfer = nonce, .reason = {.status = status}};

    outbound_message(&outbound, now, peer, &message);
}

void grant_rails(uint32_t peer, uint64_t nonce, uint32_t rail)
{
    static const uint16_t slots[1] = {3};
    const struct kvr_rail_address granted = {.rail = rail, .epoch = 1, .group = rail};
    struct kvr_message message = {.kind = KVR_MSG_GRANT, .transfer = nonce};

    message.grant.slots = slots;
    message.grant.slot_count = 1;
    message.grant.tag = GRANT_TAG;
    message.grant.rails = &granted;
    message.grant.rail_count = 1;
    outbound_message(&outbound, now, peer, &message);
}

void grant(uint32_t peer, uint64_t nonce)
{
    grant_rails(peer, nonce, 0);
}

union push_message push_commanded(enum push_kind kind)
{
    const struct kvr_group_message *message = machine_command(kind);

    assert_non_null(message);
    return push_message_of(message);
}

/* The rail thread's word about the job that was opened last. */
void group_says(uint32_t kind, uint64_t a, void *pointer)
{
    const struct kvr_group_message *opened = machine_command(PUSH_OPEN);
    union push_message message;

    assert_non_null(opened);
    message = push_message_of(opened);
    message =
        (union push_message){.head.kind = kind, .job = message.job, .transfer = message.transfer};
    switch (kind) {
    case PUSH_POSTED:
    case PUSH_STAGING_FULL:
    case PUSH_STOPPED:
        message.sum.round = (uint32_t)a;
        message.sum.posted = kind == PUSH_POSTED;
        message.sum.first = pointer;
        break;
    case PUSH_NO_RAIL:
        message.silent_from = a != 0 ? a : now;
        break;
    case PUSH_LISTED:
        message.list = pointer;
        break;
    case PUSH_FAILED_OVER:
        message.failover = pointer;
        break;
    case PUSH_CLOSED:
        message.closed = pointer;
        break;
    default:
        assert_true(a == 0 && pointer == NULL);
    }
    outbound_group(&outbound, now, &message.any);
}

/* The rail thread keeps the segments of a job in it. */
void group_closes(void)
{
    struct push_job *job = push_commanded(PUSH_OPEN).opened;

    for (uint32_t i = 0; i < machine_log.command_count; i++) {
        const union push_message command = push_message_of(&machine_log.commands[i]);

        if (command.head.kind == PUSH_SEGMENT)
            job->first = command.segment; /* one segment in these tests */
    }
    group_says(PUSH_CLOSED, 0, job);
}

const struct kvr_notice *freed(void)
{
    return machine_notice(KVR_NOTICE_SOURCE_FREE);
}

void tick(kvr_ns later)
{
    now += later;
    outbound_tick(&outbound, now);
}
