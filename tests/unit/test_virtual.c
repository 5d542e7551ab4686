/* Goal: a run in virtual time repeats itself; writes that are taken together give the times of
 * writes one by one; both ends of a network limit; planted faults are found; nothing is lost.
 * Method: synthesised traces over small fleets, with few layers so that --exact is quick. */
#include "tests/support/check.h"

#include "tools/virtual/virtual_heap.h"
#include "tools/virtual/virtual_pool.h"
#include "tools/virtual/virtual_run.h"
#include "trace/synth.h"

#define LAYERS 6u

static void config_init(struct virtual_config *config, uint64_t card_bps)
{
    struct kvr_error error = {0};

    *config = (struct virtual_config){
        .fleet = {2, 1, 16, card_bps},
        .costs = *rail_costs_find("efa"),
        .prefill = prefill_time_find("qwen3-235b-a22b"),
        .tp = 4,
        .page_tokens = 16,
        .chunk_tokens = 16384,
        .pool_bytes = UINT64_C(4) << 30,
        .order = PAGES_AGED,
        .seed = 1,
        .speed_permille = 1000,
        .step_ns = 10 * KVR_MS,
        .batch = 32,
        .prefix_cache = true,
    };
    assert_int_equal(
        model_scale(model_find("qwen3-235b-a22b"), LAYERS, 0, &error, &config->geometry), KVR_OK);
}

static kvr_status run(const struct virtual_config *config, uint32_t requests,
                      struct virtual_figures *figures, struct kvr_error *error)
{
    struct kvr_trace trace;
    kvr_status status;

    kvr_trace_init(&trace);
    assert_int_equal(kvr_trace_synth(7, requests, &trace, error), KVR_OK);
    status = virtual_run(config, &trace, NULL, figures, error);
    kvr_trace_done(&trace);
    return status;
}

static void the_same_seed_gives_the_same_run(void **state)
{
    struct virtual_config config;
    struct virtual_figures a, b, c;
    struct kvr_error error = {0};

    (void)state;
    config_init(&config, UINT64_C(200000000000));
    assert_int_equal(run(&config, 60, &a, &error), KVR_OK);
    assert_int_equal(run(&config, 60, &b, &error), KVR_OK);
    config.seed = 2;
    assert_int_equal(run(&config, 60, &c, &error), KVR_OK);
    assert_int_equal(a.requests, 60);
    assert_int_equal(a.digest, b.digest);
    assert_int_equal(a.events, b.events);
    assert_true(a.digest != c.digest); /* other pages */
    assert_int_equal(a.bytes, c.bytes);
    virtual_figures_done(&a);
    virtual_figures_done(&b);
    virtual_figures_done(&c);
}

static void assert_alike(uint64_t a, uint64_t b, double most, const char *what)
{
    double off = 100 * ((double)a / (double)b - 1);

    print_message("%s: %.3f and %.3f ms, %+.2f %%\n", what, (double)a / 1e6, (double)b / 1e6, off);
    assert_true(off <= most && off >= -most);
}

/* What was planned is what the cards of both ends carried. */
static void assert_counts(const struct virtual_figures *figures)
{
    assert_int_equal(figures->source.writes, figures->writes);
    assert_int_equal(figures->target.writes, figures->writes);
    assert_int_equal(figures->source.bytes, figures->bytes);
    assert_int_equal(figures->target.bytes, figures->bytes);
}

static uint64_t mean(const struct virtual_figures *figures, virtual_time time)
{
    uint64_t sum = 0;

    assert_true(figures->count > 0);
    for (size_t i = 0; i < figures->count; i++)
        sum += figures->times[time][i];
    return sum / figures->count;
}

/* 300 requests from four engines to one. At a light load cards rest nearly always; at the other
 * everything waits for those of the target. */
static void together_is_as_one_by_one(void **state)
{
    static const uint64_t cards_bps[] = {UINT64_C(100000000000), UINT64_C(2000000000)};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct virtual_config config;
        struct virtual_figures together, exact;
        struct kvr_error error = {0};

        config_init(&config, cards_bps[i]);
        config.fleet = (struct virtual_fleet){4, 1, 8, cards_bps[i]};
        config.tp = 8;
        config.pool_bytes = UINT64_C(16) << 30;
        config.speed_permille = 2000;
        assert_int_equal(run(&config, 300, &together, &error), KVR_OK);
        config.exact = true;
        assert_int_equal(run(&config, 300, &exact, &error), KVR_OK);
        print_message("cards of the target: %.1f %% of their time\n", 100 * exact.target.share);
        assert_true(i == 0 ? exact.target.share < 0.1 : exact.target.share > 0.5);
        assert_int_equal(together.tokens, exact.tokens);
        assert_counts(&together);
        assert_counts(&exact);
        /* Where requests wait for each other, a moment decides which pages a request gets. */
        if (i == 0)
            assert_int_equal(together.writes, exact.writes);
        if (i == 0)
            assert_int_equal(together.bytes, exact.bytes);
        assert_int_equal(together.checked_words, 0);
        /* A word for each token, in K and in V, of each layer. */
        assert_int_equal(exact.checked_words % (2 * LAYERS), 0);
        assert_true(exact.checked_words >= 2 * LAYERS * (exact.tokens - exact.skipped_tokens));
        assert_true(together.packets < exact.packets);
        /* There also which of two transfers goes first, in the middle of their times. */
        assert_alike(virtual_percentile(&together, VIRTUAL_TRANSFER, 50),
                     virtual_percentile(&exact, VIRTUAL_TRANSFER, 50), i == 0 ? 2 : 5,
                     "transfer p50");
        assert_alike(virtual_percentile(&together, VIRTUAL_TRANSFER, 99),
                     virtual_percentile(&exact, VIRTUAL_TRANSFER, 99), 2, "transfer p99");
        assert_alike(mean(&together, VIRTUAL_TRANSFER), mean(&exact, VIRTUAL_TRANSFER), 2,
                     "transfer mean");
        assert_alike(mean(&together, VIRTUAL_WAIT), mean(&exact, VIRTUAL_WAIT), 2, "wait mean");
        virtual_figures_done(&together);
        virtual_figures_done(&exact);
    }
}

/* One prompt: the last byte cannot come before the slower end has carried all. */
static void cards_limit(void **state)
{
    struct virtual_config config;
    struct virtual_figures figures;
    struct kvr_error error = {0};
    struct kvr_trace trace;
    uint64_t rank_bytes;

    (void)state;
    config_init(&config, UINT64_C(1000000000));
    kvr_trace_init(&trace);
    assert_int_equal(kvr_trace_add(&trace, 0, 16384, 1, NULL, 0, &error), KVR_OK);
    assert_int_equal(virtual_run(&config, &trace, NULL, &figures, &error), KVR_OK);
    rank_bytes = figures.bytes / 4;
    assert_int_equal(figures.bytes, UINT64_C(16384) * config.geometry.token_bytes);
    /* Two cards of 0.91 Gb/s. */
    assert_true((double)virtual_percentile(&figures, VIRTUAL_TRANSFER, 50) >=
                (double)rank_bytes * 8 / (2 * 0.91));
    assert_true((double)virtual_percentile(&figures, VIRTUAL_TRANSFER, 50) <=
                1.02 * (double)rank_bytes * 8 / (2 * 0.91));
    virtual_figures_done(&figures);
    kvr_trace_done(&trace);
}

/* One engine a host, as kvrail replay has, and all cards are its own: what the card was measured to
 * carry decides, and requests begin as far as the concurrency allows. */
static void a_fleet_may_be_a_replays(void **state)
{
    struct virtual_config config;
    struct virtual_figures figures;
    struct kvr_error error = {0};
    struct kvr_trace trace;
    double alone_ns;

    (void)state;
    config_init(&config, UINT64_C(500000000));
    config.fleet = (struct virtual_fleet){1, 1, 2, UINT64_C(500000000)};
    config.tp = config.engines = 1;
    config.costs.line_bps = 400000000;
    config.prefill_tokens_per_s = 100000;
    config.concurrency = 2;
    config.pool_bytes *= 4;
    kvr_trace_init(&trace);
    for (int i = 0; i < 4; i++)
        assert_int_equal(kvr_trace_add(&trace, 0, 2048, 1, NULL, 0, &error), KVR_OK);
    assert_int_equal(virtual_run(&config, &trace, NULL, &figures, &error), KVR_OK);
    assert_int_equal(figures.lanes, 1);
    assert_int_equal(figures.live_max, 2);
    alone_ns = 2048.0 * (double)config.geometry.token_bytes * 8 / (2 * 0.4);
    assert_true((double)figures.end >= 4 * alone_ns);
    assert_true((double)figures.end <= 4.2 * alone_ns);
    /* From the first layer ready; 2,048 tokens take 20 ms. */
    assert_true(figures.times[VIRTUAL_FETCH][0] >= figures.times[VIRTUAL_TRANSFER][0]);
    assert_true(figures.prefill_busy * (double)figures.end > 4 * 20.4e6);
    assert_true(figures.prefill_busy * (double)figures.end < 4 * 20.6e6);
    virtual_figures_done(&figures);
    kvr_trace_done(&trace);
}

/* Fewer cards than GPUs: the ranks share them, and each is played. */
static void ranks_share_a_card(void **state)
{
    struct virtual_config config;
    struct virtual_figures own, shared;
    struct kvr_error error = {0};

    (void)state;
    config_init(&config, UINT64_C(100000000000));
    config.prefix_cache = false;
    assert_int_equal(run(&config, 20, &own, &error), KVR_OK);
    config.fleet.rails = 2;
    assert_int_equal(run(&config, 20, &shared, &error), KVR_OK);
    assert_int_equal(own.lanes, 1);
    assert_int_equal(shared.lanes, 4);
    assert_int_equal(own.bytes, shared.bytes);
    assert_counts(&own);
    assert_counts(&shared);
    assert_true(shared.target.share > own.target.share);
    virtual_figures_done(&own);
    virtual_figures_done(&shared);
}

/* Engines of one GPU share the cards of their host like those of four. */
static void small_engines_share_the_cards_too(void **state)
{
    struct virtual_config config;
    struct virtual_figures wide, small;
    struct kvr_error error = {0};

    (void)state;
    config_init(&config, UINT64_C(10000000000));
    config.prefix_cache = false;
    config.fleet.rails = 2;
    assert_int_equal(run(&config, 40, &wide, &error), KVR_OK);
    config.tp = 1;
    config.pool_bytes *= 4;
    assert_int_equal(run(&config, 40, &small, &error), KVR_OK);
    assert_counts(&small);
    assert_int_equal(small.bytes, wide.bytes);
    print_message("shares %.3f and %.3f\n", small.target.share, wide.target.share);
    assert_true(small.target.share * (double)small.end >
                0.9 * wide.target.share * (double)wide.end);
    virtual_figures_done(&wide);
    virtual_figures_done(&small);
}

static void outputs_may_be_missing(void **state)
{
    struct virtual_config config;
    struct virtual_figures none, some;
    struct kvr_error error = {0};
    struct kvr_trace trace;

    (void)state;
    config_init(&config, UINT64_C(100000000000));
    for (int with = 0; with < 2; with++) {
        config.output_tokens = with ? 500 : 0;
        kvr_trace_init(&trace);
        assert_int_equal(kvr_trace_synth(7, 20, &trace, &error), KVR_OK);
        for (uint32_t i = 0; i < 20; i++)
            trace.requests[i].output_tokens = 0;
        assert_int_equal(virtual_run(&config, &trace, NULL, with ? &some : &none, &error), KVR_OK);
        kvr_trace_done(&trace);
    }
    assert_int_equal(none.without_output, 20);
    assert_int_equal(some.without_output, 20);
    assert_true(some.end > none.end + 4 * KVR_S); /* 500 steps of 10 ms */
    virtual_figures_done(&none);
    virtual_figures_done(&some);
}

/* Prompts of whole blocks alone: there is no page for the fault of --corrupt owner. */
static void a_fault_that_is_not_planted_is_said(void **state)
{
    struct virtual_config config;
    struct virtual_figures figures;
    struct kvr_error error = {0};
    struct kvr_trace trace;

    (void)state;
    config_init(&config, UINT64_C(100000000000));
    config.corrupt = VIRTUAL_CORRUPT_OWNER;
    kvr_trace_init(&trace);
    assert_int_equal(kvr_trace_synth(7, 5, &trace, &error), KVR_OK);
    for (uint32_t i = 0; i < 5; i++)
        (void)kvr_trace_clip(&trace.requests[i], 512);
    for (uint32_t i = 0; i < 5; i++)
        trace.requests[i].input_tokens = 512;
    assert_int_equal(virtual_run(&config, &trace, NULL, &figures, &error), KVR_INTERNAL);
    assert_non_null(strstr(error.detail, "was not planted"));
    kvr_trace_done(&trace);
    virtual_figures_done(&figures);
}

static void planted_faults_are_found(void **state)
{
    struct virtual_config config;
    struct virtual_figures figures;
    struct kvr_error error = {0};

    (void)state;
    config_init(&config, UINT64_C(100000000000));
    config.corrupt = VIRTUAL_CORRUPT_OWNER;
    assert_int_equal(run(&config, 10, &figures, &error), KVR_INTERNAL);
    assert_non_null(strstr(error.detail, "but owner"));
    virtual_figures_done(&figures);
    config.corrupt = VIRTUAL_CORRUPT_PAGE;
    config.exact = true;
    assert_int_equal(run(&config, 10, &figures, &error), KVR_INTERNAL);
    assert_non_null(strstr(error.detail, "does not hold the tokens"));
    virtual_figures_done(&figures);
}

/* Pools of one long request, so that requests wait for pages at both ends. */
static void a_small_pool_ends_too(void **state)
{
    struct virtual_config config;
    struct virtual_figures figures;
    struct kvr_error error = {0};

    (void)state;
    config_init(&config, UINT64_C(100000000000));
    config.pool_bytes = UINT64_C(512) * LAYERS * 16384; /* 16 Ki tokens of one rank */
    assert_int_equal(run(&config, 100, &figures, &error), KVR_OK);
    assert_int_equal(figures.requests, 100);
    assert_true(figures.clipped > 0);
    assert_true(virtual_percentile(&figures, VIRTUAL_QUEUE, 99) > 0);
    virtual_figures_done(&figures);
}

static void events_come_in_order(void **state)
{
    struct virtual_heap heap = {0};
    struct virtual_event event, before = {0};
    struct kvr_rng rng;
    uint32_t count = 0;

    (void)state;
    kvr_rng_init(&rng, 3);
    for (uint32_t i = 0; i < 5000; i++)
        assert_true(virtual_heap_add(&heap, kvr_rng_below(&rng, 300), 0, i));
    for (; virtual_heap_next(&heap, &event); before = event, count++)
        assert_true(count == 0 || event.at > before.at ||
                    (event.at == before.at && event.subject > before.subject));
    assert_int_equal(count, 5000);
    virtual_heap_done(&heap);
}

static void pages_go_round(void **state)
{
    const uint64_t blocks[] = {1, 2, 3};
    struct pool_share first, second;
    struct pool pool;
    uint32_t page;

    (void)state;
    assert_true(pool_init(&pool, 100, 16, PAGES_AGED, 1, true, false)); /* 32 pages a block */
    assert_true(pool_take(&pool, blocks, 2, 70, 1, &first));
    assert_int_equal(first.cached_blocks, 0);
    assert_false(pool_take(&pool, blocks, 2, 70, 2, &second)); /* 30 are left */
    assert_true(pool_owned(&pool, &first, &page));
    assert_false(pool_whole(&pool));
    pool_publish(&pool, blocks, 2, &first);
    assert_int_equal(first.cached_blocks, 2);
    assert_true(pool_owned(&pool, &first, &page));
    pool_give_back(&pool, blocks, &first);
    assert_true(pool_whole(&pool));
    assert_int_equal(pool_peek(&pool, blocks, 3), 2);
    assert_true(pool_take(&pool, blocks, 1, 60, 3, &second)); /* one block more goes */
    assert_int_equal(second.cached_blocks, 1);
    assert_true(pool_owned(&pool, &second, &page));
    assert_true(pool_take(&pool, blocks, 0, 36, 4, &first));
    pool.owners[first.ids[5]] = 3;
    assert_false(pool_owned(&pool, &first, &page));
    assert_int_equal(page, first.ids[5]);
    pool.owners[first.ids[5]] = 4;
    pool_give_back(&pool, blocks, &first);
    pool_give_back(&pool, blocks, &second);
    assert_true(pool_whole(&pool));
    pool_done(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_seed_gives_the_same_run),
        cmocka_unit_test(together_is_as_one_by_one),
        cmocka_unit_test(cards_limit),
        cmocka_unit_test(a_fleet_may_be_a_replays),
        cmocka_unit_test(ranks_share_a_card),
        cmocka_unit_test(small_engines_share_the_cards_too),
        cmocka_unit_test(outputs_may_be_missing),
        cmocka_unit_test(a_fault_that_is_not_planted_is_said),
        cmocka_unit_test(planted_faults_are_found),
        cmocka_unit_test(a_small_pool_ends_too),
        cmocka_unit_test(events_come_in_order),
        cmocka_unit_test(pages_go_round),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
