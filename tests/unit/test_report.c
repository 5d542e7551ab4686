/* Goal: a report arrives as the agent sent it, and no other body is accepted.
 * Method: round trips of full and empty reports; then bodies that are wrong in one way each. */
#include "tests/support/check.h"

#include <stdio.h>

#include "trace/page_runs.h"
#include "trace/report.h"

static struct kvr_event sample_event(void)
{
    struct kvr_event event = {
        .kind = KVR_EVENT_ENDED,
        .role = KVR_ROLE_TARGET,
        .at = 123456789,
        .transfer = 0xfedcba9876543210u,
        .request = "request-7",
        .tenant = "blue",
        .attempt = 2,
        .peer = "prefill-0",
        .tokens = 4096,
        .skip_tokens = 512,
        .bytes = 1u << 30,
        .layers = 32,
        .chunks = 700,
        .retries = 3,
        .rails = UINT64_C(1) << (KVR_RAILS_MAX - 1) | 5,
        .source_rank = {1, 2},
        .target_rank = {3, 4},
        .pieces = 70000,
        .fragment_bytes = 256,
        .limits = {4, UINT32_MAX, 1u << 20, true},
        .path = KVR_PATH_STAGED,
        .outcome = KVR_PEER_LOST,
        .detail = "3 beats without a sign: \"prefill-0\" — gone",
    };

    memset(event.source_engine.bytes, 0xab, 16);
    return event;
}

/* Some rails say nothing. */
static void sample_rail_traits(int rail, struct kvr_rail_traits *traits)
{
    traits->reported = rail % 3 != 0;
    if (!traits->reported)
        return;
    strcpy(traits->plane, "red");
    strcpy(traits->network, "10.1.0.0/24");
    traits->link.kind = (kvr_link_kind)(rail % KVR_LINK_END);
    traits->link.mtu = 4200u + (uint32_t)rail;
    traits->link.pfc_known = traits->link.ecn_known = rail % 2 == 0;
    traits->link.pfc = 8;
    traits->link.ecn = 255;
    traits->device_path = (kvr_path)(rail % KVR_PATH_END);
    traits->pins_memory = rail % 2 != 0;
    traits->node_known = rail % 2 == 0;
    traits->node = rail % 2 == 0 ? (uint32_t)rail : 0;
}

static void sample_facts(struct kvr_agent_facts *facts)
{
    memset(facts, 0, sizeof(*facts));
    facts->role = KVR_ROLE_TARGET;
    strcpy(facts->version, "0.1.0");
    strcpy(facts->host, "node-3");
    memset(facts->listen, 'l', sizeof(facts->listen) - 1); /* as long as engines get it */
    facts->pid = 4711;
    facts->peers_up = 5;
    facts->peers_warm = 3;
    facts->secure = true;
    strcpy(facts->provider, "tcp");
    memset(facts->scheduler, 's', sizeof(facts->scheduler) - 1);
    memset(facts->options, 'o', sizeof(facts->options) - 1);
    facts->counters[KVR_COUNTER_STALE_WRITES] = 9;
    facts->rail_count = KVR_RAILS_MAX;
    for (int i = 0; i < KVR_RAILS_MAX; i++) {
        snprintf(facts->rails[i].name, KVR_NAME_BYTES, "rail%d", i);
        facts->rails[i].state = (kvr_rail_state)(i % KVR_RAIL_STATE_END);
        facts->rails[i].group = (uint32_t)i / 2;
        facts->rails[i].bytes = (uint64_t)i << 40;
        for (int k = 0; k < KVR_RAIL_COUNTER_END; k++)
            facts->rails[i].counters[k] = (uint64_t)k << 20 | (uint64_t)i;
        sample_rail_traits(i, &facts->rails[i].traits);
    }
    facts->engine_count = 1;
    strcpy(facts->engines[0].model, "llama");
    facts->tenant_count = 2;
    strcpy(facts->tenants[1].name, "blue");
    facts->tenants[1].counters[KVR_TENANT_BYTES] = 7ull << 30;
    facts->tenants[1].counters[KVR_TENANT_POSTED] = UINT64_MAX;
    facts->engines[0].rank.generation = 8;
    facts->engines[0].region_bytes = 3ull << 30;
    facts->gone_count = 2;
    strcpy(facts->engines[1].geometry, "bfloat16 32 0:32:16:65536");
    facts->engines[2].rank.tp = 3;
    facts->traits.reported = true;
    strcpy(facts->traits.libfabric, "2.1.0");
    facts->traits.files_limit = 524288;
    facts->traits.lockable_bytes = UINT64_MAX;
    facts->traits.clock_known = facts->traits.clock_synchronised = true;
    facts->traits.clock_error_us = 4000;
    facts->traits.rail_port_first = 9500;
    facts->traits.rail_port_last = 9563;
    facts->traits.gpu_count = KVR_GPU_TRAITS_MAX;
    for (uint32_t i = 0; i < KVR_GPU_TRAITS_MAX; i++) {
        snprintf(facts->traits.gpus[i].pci, sizeof(facts->traits.gpus[i].pci), "0000:%02x:00.0", i);
        memset(facts->traits.gpus[i].model, 'g', KVR_NAME_BYTES - 1);
        facts->traits.gpus[i].node_known = true;
        facts->traits.gpus[i].node = i / 4;
        facts->traits.gpus[i].groups = 1u << i;
    }
}

static struct kvr_report *round_trip(const struct kvr_report *report)
{
    struct kvr_report *decoded = NULL;
    struct kvr_error error = {0};
    uint8_t *bytes;
    size_t size;

    assert_int_equal(kvr_report_encode(report, &bytes, &size), KVR_OK);
    assert_int_equal(kvr_report_decode(bytes, size, &decoded, &error), KVR_OK);
    free(bytes);
    return decoded;
}

static void report_survives_a_round_trip(void **state)
{
    static struct kvr_agent_facts facts;
    struct kvr_event event = sample_event();
    struct kvr_report report = {.agent = "decode-1",
                                .boot = UINT64_MAX,
                                .sequence_first = 77,
                                .dropped = 4,
                                .orders_taken = 12,
                                .anchor_at = 1000,
                                .anchor_wall = 1700000000000000000u,
                                .facts = &facts,
                                .events = &event,
                                .event_count = 1};
    struct kvr_report *decoded;

    (void)state;
    sample_facts(&facts);
    decoded = round_trip(&report);
    assert_string_equal(decoded->agent, "decode-1");
    assert_true(decoded->boot == UINT64_MAX && decoded->sequence_first == 77);
    assert_int_equal(decoded->sequence_held, 77);
    assert_int_equal(decoded->dropped, 4);
    assert_int_equal(decoded->orders_taken, 12);
    assert_int_equal(decoded->event_count, 1);
    assert_memory_equal(decoded->events, &event, sizeof(event));
    assert_memory_equal(decoded->facts, &facts, sizeof(facts));
    assert_true(kvr_report_wall(decoded, 1500) == 1700000000000000500u);
    kvr_report_free(decoded);
}

static void sample_pairs(struct kvr_report_pairs *pairs)
{
    memset(pairs, 0, sizeof(*pairs));
    for (; pairs->peer_count < 3; pairs->peer_count++) {
        struct kvr_peer_pairs *peer = &pairs->peers[pairs->peer_count];

        snprintf(peer->peer, sizeof(peer->peer), "decode-%u", pairs->peer_count);
        peer->pair_first = pairs->pair_count;
        peer->pair_count = pairs->peer_count == 1 ? 0 : KVR_PAIR_STATE_END; /* one has none */
        for (uint32_t i = 0; i < peer->pair_count; i++)
            pairs->pairs[pairs->pair_count++] =
                (struct kvr_pair_facts){.rail = i,
                                        .target_rail = KVR_RAILS_MAX - 1 - i,
                                        .state = (kvr_pair_state)i,
                                        .bytes = UINT64_MAX - i,
                                        .state_ns = i > 0 ? 3600 * KVR_S + i : 0,
                                        .breaks = 7 * i,
                                        .renewals = UINT32_MAX - i,
                                        .detail = "its writes fail: no way"};
    }
}

static void report_says_how_rails_reach_each_other(void **state)
{
    static struct kvr_report_pairs pairs;
    struct kvr_report report = {.agent = "prefill-0", .boot = 1, .pairs = &pairs};
    struct kvr_report *decoded;
    uint8_t *bytes;
    size_t size;

    (void)state;
    sample_pairs(&pairs);
    decoded = round_trip(&report);
    assert_memory_equal(decoded->pairs, &pairs, sizeof(pairs));
    kvr_report_free(decoded);
    pairs.pair_count = pairs.peers[0].pair_count = KVR_REPORT_PAIRS_MAX;
    pairs.peer_count = 1;
    decoded = round_trip(&report);
    assert_int_equal(decoded->pairs->pair_count, KVR_REPORT_PAIRS_MAX);
    kvr_report_free(decoded);
    pairs.pair_count++;
    assert_int_equal(kvr_report_encode(&report, &bytes, &size), KVR_TOO_LARGE);
    report.pairs = NULL;
    decoded = round_trip(&report);
    assert_null(decoded->pairs);
    kvr_report_free(decoded);
}

/* Those of a newer agent may be longer: the event comes without them. */
static void report_brings_the_spans_of_an_end(void **state)
{
    static uint8_t spans[KVR_SPANS_BYTES_MAX + 1];
    struct kvr_event events[3] = {sample_event(), sample_event(), sample_event()};
    struct kvr_report report = {
        .agent = "decode-0", .sequence_first = 1, .events = events, .event_count = 3};
    struct kvr_report *decoded;
    uint8_t *bytes;
    size_t size;

    (void)state;
    memset(spans, 0x5a, sizeof(spans));
    spans[0] = 1;
    events[0].spans = events[1].spans = spans;
    events[0].spans_bytes = KVR_SPANS_BYTES_MAX;
    events[1].spans_bytes = KVR_SPANS_BYTES_MAX + 1;
    assert_int_equal(kvr_report_encode(&report, &bytes, &size), KVR_OK);
    assert_int_equal(kvr_report_decode(bytes, size, &decoded, NULL), KVR_OK);
    free(bytes);
    assert_int_equal(decoded->event_count, 3);
    assert_int_equal(decoded->events[0].spans_bytes, KVR_SPANS_BYTES_MAX);
    assert_memory_equal(decoded->events[0].spans, spans, KVR_SPANS_BYTES_MAX);
    for (int i = 1; i < 3; i++) {
        assert_int_equal(decoded->events[i].spans_bytes, 0);
        assert_null(decoded->events[i].spans);
        assert_string_equal(decoded->events[i].detail, events[i].detail);
    }
    kvr_report_free(decoded);
}

/* Beside spans or without them; those of a newer agent may be longer. */
static void report_brings_the_page_tables_of_an_end(void **state)
{
    static uint8_t pages[KVR_PAGE_RUNS_BYTES_MAX + 1];
    const uint8_t spans[] = {7, 8};
    struct kvr_event events[3] = {sample_event(), sample_event(), sample_event()};
    struct kvr_report report = {
        .agent = "decode-0", .sequence_first = 1, .events = events, .event_count = 3};
    struct kvr_report *decoded;
    uint8_t *bytes;
    size_t size;

    (void)state;
    memset(pages, 0x5a, sizeof(pages));
    events[0].pages = events[1].pages = events[2].pages = pages;
    events[0].pages_bytes = KVR_PAGE_RUNS_BYTES_MAX;
    events[1].pages_bytes = KVR_PAGE_RUNS_BYTES_MAX + 1;
    events[2].pages_bytes = 3;
    events[2].spans = spans;
    events[2].spans_bytes = sizeof(spans);
    events[2].unrecorded = 5; /* the agent's own count */
    assert_int_equal(kvr_report_encode(&report, &bytes, &size), KVR_OK);
    assert_int_equal(kvr_report_decode(bytes, size, &decoded, NULL), KVR_OK);
    free(bytes);
    assert_int_equal(decoded->events[0].pages_bytes, KVR_PAGE_RUNS_BYTES_MAX);
    assert_memory_equal(decoded->events[0].pages, pages, KVR_PAGE_RUNS_BYTES_MAX);
    assert_int_equal(decoded->events[1].pages_bytes, 0);
    assert_null(decoded->events[1].pages);
    assert_int_equal(decoded->events[2].pages_bytes, 3);
    assert_memory_equal(decoded->events[2].pages, pages, 3);
    assert_memory_equal(decoded->events[2].spans, spans, sizeof(spans));
    assert_int_equal(decoded->events[2].unrecorded, 0);
    kvr_report_free(decoded);
}

static void report_holds_a_full_batch(void **state)
{
    static struct kvr_event events[KVR_REPORT_EVENTS_MAX + 1];
    struct kvr_report report = {
        .agent = "a", .sequence_first = 1, .events = events, .event_count = KVR_REPORT_EVENTS_MAX};
    struct kvr_report *decoded;
    uint8_t *bytes;
    size_t size;

    (void)state;
    for (int i = 0; i < KVR_REPORT_EVENTS_MAX; i++)
        events[i] = sample_event();
    decoded = round_trip(&report);
    assert_memory_equal(decoded->events, events, KVR_REPORT_EVENTS_MAX * sizeof(events[0]));
    kvr_report_free(decoded);
    report.event_count++;
    assert_int_equal(kvr_report_encode(&report, &bytes, &size), KVR_TOO_LARGE);
}

/* A report from the spool, followed by the later changes. */
static void report_followed_by_an_envelope_is_one_report(void **state)
{
    static struct kvr_agent_facts facts;
    struct kvr_event event = sample_event();
    struct kvr_report stored = {
        .agent = "a", .boot = 5, .sequence_first = 10, .events = &event, .event_count = 1};
    struct kvr_report envelope = {.sequence_held = 3, .dropped = 2, .facts = &facts};
    struct kvr_report *decoded;
    uint8_t *head, *tail, *both;
    size_t head_size, tail_size;

    (void)state;
    sample_facts(&facts);
    assert_int_equal(kvr_report_encode(&stored, &head, &head_size), KVR_OK);
    assert_int_equal(kvr_report_encode(&envelope, &tail, &tail_size), KVR_OK);
    both = malloc(head_size + tail_size);
    memcpy(both, head, head_size);
    memcpy(both + head_size, tail, tail_size);
    assert_int_equal(kvr_report_decode(both, head_size + tail_size, &decoded, NULL), KVR_OK);
    assert_int_equal(decoded->sequence_first, 10);
    assert_int_equal(decoded->sequence_held, 3);
    assert_int_equal(decoded->dropped, 2);
    assert_int_equal(decoded->event_count, 1);
    assert_int_equal(decoded->facts->rail_count, KVR_RAILS_MAX);
    kvr_report_free(decoded);
    free(head);
    free(tail);
    free(both);
}

static void report_text_that_cannot_be_printed_becomes_question_marks(void **state)
{
    struct kvr_event event = sample_event();
    struct kvr_report report = {
        .agent = "a", .sequence_first = 1, .events = &event, .event_count = 1};
    struct kvr_report *decoded;

    (void)state;
    strcpy(event.request, "a\xff\xc3(\xed\xa0\x80 \xf0\x9f\x9a\x80 \xe2\x82");
    decoded = round_trip(&report);
    assert_string_equal(decoded->events[0].request, "a?"
                                                    "?(?"
                                                    "?"
                                                    "? \xf0\x9f\x9a\x80 ??");
    kvr_report_free(decoded);
    strcpy(event.request, "\x1b]0;title\a\n"); /* a terminal would obey */
    decoded = round_trip(&report);
    assert_string_equal(decoded->events[0].request, "?]0;title??");
    kvr_report_free(decoded);
}

static void refuse(const char *bytes, size_t size, kvr_status status, const char *word)
{
    struct kvr_report *report = NULL;
    struct kvr_error error = {0};

    assert_int_equal(kvr_report_decode((const uint8_t *)bytes, size, &report, &error), status);
    assert_null(report);
    assert_non_null(strstr(error.detail, word));
}

/* An absent message is not one of zeros. */
static void report_of_an_older_agent_has_no_traits(void **state)
{
    static struct kvr_agent_facts facts;
    struct kvr_report report = {.agent = "a", .facts = &facts}, *decoded;

    (void)state;
    facts.rail_count = 1;
    decoded = round_trip(&report);
    assert_false(decoded->facts->traits.reported);
    assert_false(decoded->facts->rails[0].traits.reported);
    kvr_report_free(decoded);
    facts.traits.reported = facts.rails[0].traits.reported = true; /* and nothing else */
    decoded = round_trip(&report);
    assert_true(decoded->facts->traits.reported);
    assert_true(decoded->facts->rails[0].traits.reported);
    kvr_report_free(decoded);
}

/* Field 8, the facts, has field 1, the role, 16, the scheduler, and 17, the options. */
static void options_of_a_newer_agent_may_be_longer(void **state)
{
    static const char head[] = "\x0a\x01"
                               "a\x42\xfc\x07\x0a\x06target\x82\x01\x01s\x8a\x01\xec\x07";
    char bytes[sizeof(head) - 1 + 1004];
    struct kvr_report *report;

    (void)state;
    memcpy(bytes, head, sizeof(head) - 1);
    memset(bytes + sizeof(head) - 1, 'o', sizeof(bytes) - (sizeof(head) - 1));
    assert_int_equal(kvr_report_decode((const uint8_t *)bytes, sizeof(bytes), &report, NULL),
                     KVR_OK);
    assert_string_equal(report->facts->scheduler, "s");
    assert_string_equal(report->facts->options, "");
    kvr_report_free(report);
}

static void report_refuses_what_is_wrong(void **state)
{
    /* field 1 agent, 3 the first sequence, 9 events, 8 facts; an event's field 2 is its role, 7 the
     * source engine, 8 the target engine */
    static const char no_role[] = "\x0a\x01"
                                  "a\x18\x01\x4a\x00";
    static const char no_sequence[] = "\x0a\x01"
                                      "a\x4a\x08\x12\x06source";
    static const char short_uuid[] = "\x0a\x01"
                                     "a\x18\x01\x4a\x0b\x12\x06source\x3a\x01x";
    static const char short_target[] = "\x0a\x01"
                                       "a\x18\x01\x4a\x0b\x12\x06source\x42\x01x";
    static const char last_sequence[] = "\x0a\x01"
                                        "a\x18\xff\xff\xff\xff\xff\xff\xff\xff\x7f";
    char *many = malloc(KVR_REPORT_BYTES_MAX + 1);

    (void)state;
    refuse("\xff\xff", 2, KVR_MALFORMED, "no report");
    refuse("", 0, KVR_MALFORMED, "agent");
    refuse(no_role, sizeof(no_role) - 1, KVR_MALFORMED, "role");
    refuse(no_sequence, sizeof(no_sequence) - 1, KVR_MALFORMED, "sequence_first");
    refuse(short_uuid, sizeof(short_uuid) - 1, KVR_MALFORMED, "source_engine");
    refuse(short_target, sizeof(short_target) - 1, KVR_MALFORMED, "target_engine");
    refuse(last_sequence, sizeof(last_sequence) - 1, KVR_MALFORMED, "sequence_first");
    for (size_t i = 0; i + 1 < KVR_REPORT_BYTES_MAX; i += 2)
        memcpy(many + i, "\x4a\x00", 2);
    refuse(many, KVR_REPORT_BYTES_MAX, KVR_MALFORMED, "no report"); /* within bounded memory */
    refuse(many, 4000, KVR_TOO_LARGE, "2000 events");
    refuse(many, KVR_REPORT_BYTES_MAX + 1, KVR_TOO_LARGE, "bytes");
    free(many);
}

/* A report of "a" with facts: the role of a source, and behind it `more`, so many times. */
static void refuse_facts(const char *more, size_t size, uint32_t times, const char *word)
{
    static const char role[] = "\x0a\x06source";
    char bytes[2048] = "\x0a\x01"
                       "a\x42";
    size_t all = sizeof(role) - 1 + size * times, at = 4;

    bytes[at++] = (char)(0x80 | (all & 0x7f));
    bytes[at++] = (char)(all >> 7);
    memcpy(bytes + at, role, sizeof(role) - 1);
    at += sizeof(role) - 1;
    for (uint32_t i = 0; i < times; i++, at += size)
        memcpy(bytes + at, more, size);
    refuse(bytes, at, KVR_MALFORMED, word);
}

/* Of the facts, field 9 is a rail, 10 an engine with its UUID in field 2, 14 a tenant with its name
 * in field 1. */
static void report_refuses_facts_that_cannot_be(void **state)
{
    char tenant[2 + 2 + KVR_NAME_BYTES] = {'\x72', 2 + KVR_NAME_BYTES, '\x0a', KVR_NAME_BYTES};

    (void)state;
    memset(tenant + 4, 'x', KVR_NAME_BYTES);
    refuse("\x0a\x01"
           "a\x42\x00",
           5, KVR_MALFORMED, "facts.role");
    refuse_facts("\x4a\x00", 2, 1, "rails.state");
    refuse_facts("\x52\x03\x12\x01x", 5, 1, "engines.uuid");
    refuse_facts(tenant, sizeof(tenant), 1, "tenants.name");
    refuse_facts("\x4a\x00", 2, KVR_RAILS_MAX + 1, "rails");
    refuse_facts("\x52\x00", 2, KVR_ENGINES_MAX + 1, "engines");
    refuse_facts("\x9a\x01\x00", 3, KVR_ENGINES_MAX + 1, "engines_gone");
    refuse_facts("\x72\x00", 2, KVR_TENANTS_MAX + 1, "tenants");
}

static void names_of_what_there_is_not_are_question_marks(void **state)
{
    (void)state;
    assert_string_equal(kvr_counter_name(KVR_COUNTER_END), "?");
    assert_string_equal(kvr_counter_text(KVR_COUNTER_END), "?");
    assert_string_equal(kvr_rail_state_name(KVR_RAIL_STATE_END), "?");
    for (int i = 0; i < KVR_COUNTER_END; i++)
        assert_true(kvr_counter_name((kvr_counter)i)[0] != '?' &&
                    kvr_counter_text((kvr_counter)i)[0] != '?');
    for (int i = 0; i < KVR_RAIL_COUNTER_END; i++)
        assert_non_null(kvr_rail_counter_facts((kvr_rail_counter)i)->name);
    for (int i = 0; i < KVR_TENANT_COUNTER_END; i++)
        assert_non_null(kvr_tenant_counter_facts((kvr_tenant_counter)i)->name);
}

/* field 13 is a peer: its field 1 the name, 2 a pair: its field 1 is a rail, 2 the peer's, 3 the
 * state, 5 a detail */
static void report_refuses_pairs_that_cannot_be(void **state)
{
    static const char no_peer[] = "\x0a\x01"
                                  "a\x6a\x02\x12\x00";
    static const char rail[] = "\x0a\x01"
                               "a\x6a\x07\x0a\x01"
                               "d\x12\x02\x08\x30";
    static const char target_rail[] = "\x0a\x01"
                                      "a\x6a\x07\x0a\x01"
                                      "d\x12\x02\x10\x30";
    static const char newer[] = "\x0a\x01"
                                "a\x6a\x0b\x0a\x01"
                                "d\x12\x06\x1a\x04warp";
    struct kvr_report *report;
    char many[3 + 2 * (KVR_REPORT_PEERS_MAX + 1) * 5] = "\x0a\x01"
                                                        "a";
    size_t size = 3;

    (void)state;
    refuse(no_peer, sizeof(no_peer) - 1, KVR_MALFORMED, "pairs.peer");
    refuse(rail, sizeof(rail) - 1, KVR_MALFORMED, "pairs.rail");
    refuse(target_rail, sizeof(target_rail) - 1, KVR_MALFORMED, "pairs.target_rail");
    for (int i = 0; i < KVR_REPORT_PEERS_MAX + 1; i++, size += 5)
        memcpy(many + size, "\x6a\x03\x0a\x01x", 5);
    refuse(many, size, KVR_MALFORMED, "pairs");
    assert_int_equal(kvr_report_decode((const uint8_t *)newer, sizeof(newer) - 1, &report, NULL),
                     KVR_OK);
    assert_int_equal(report->pairs->pairs[0].state, KVR_PAIR_STATE_END);
    kvr_report_free(report);
}

static void report_keeps_the_number_of_an_event_it_does_not_know(void **state)
{
    static const char newer[] = "\x0a\x01"
                                "a\x18\x01\x4a\x0e\x0a\x04warp\x12\x06target"
                                "\x4a\x12\x12\x06target\x8a\x01\x07no_luck";
    struct kvr_report *report;

    (void)state;
    assert_int_equal(kvr_report_decode((const uint8_t *)newer, sizeof(newer) - 1, &report, NULL),
                     KVR_OK);
    assert_int_equal(report->event_count, 2);
    assert_int_equal(report->events[0].kind, KVR_EVENT_KIND_END);
    assert_int_equal(report->events[1].outcome, KVR_INTERNAL);
    kvr_report_free(report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(report_survives_a_round_trip),
        cmocka_unit_test(report_says_how_rails_reach_each_other),
        cmocka_unit_test(report_brings_the_spans_of_an_end),
        cmocka_unit_test(report_brings_the_page_tables_of_an_end),
        cmocka_unit_test(report_holds_a_full_batch),
        cmocka_unit_test(report_followed_by_an_envelope_is_one_report),
        cmocka_unit_test(report_text_that_cannot_be_printed_becomes_question_marks),
        cmocka_unit_test(report_of_an_older_agent_has_no_traits),
        cmocka_unit_test(options_of_a_newer_agent_may_be_longer),
        cmocka_unit_test(report_refuses_what_is_wrong),
        cmocka_unit_test(report_refuses_facts_that_cannot_be),
        cmocka_unit_test(names_of_what_there_is_not_are_question_marks),
        cmocka_unit_test(report_refuses_pairs_that_cannot_be),
        cmocka_unit_test(report_keeps_the_number_of_an_event_it_does_not_know),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
