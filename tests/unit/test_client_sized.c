/* Goal: a program built with an older or a newer header goes on with this library, and a struct
 * with a wrong size is refused with a sentence. Method: the library against a scripted agent; the
 * structs of a newer program have more bytes at their ends. The same tests run with a library in
 * which the structs have grown: there KVRAIL_LATER says by how many bytes, and this program is the
 * older one. */
#include "tests/support/check.h"

#include <stdio.h>

#include "client/client_sized.h"
#include "tests/support/client_case.h"
#include "tests/support/test_secret.h"

/* More than any later library of the tests knows. */
#define MORE 128

/* Structs as a newer program has them. */
#define NEWER(name)                                                                                \
    struct newer_##name {                                                                          \
        struct kvrail_##name known;                                                                \
        uint8_t later[MORE];                                                                       \
    }
NEWER(identity);
NEWER(region);
NEWER(allocation);
NEWER(source_options);
NEWER(source_address);
NEWER(target_options);
NEWER(event);

static size_t library_grown_by(void)
{
    const char *bytes = getenv("KVRAIL_LATER");

    return bytes != NULL ? (size_t)atoi(bytes) : 0;
}

/* ---- each struct of a call, and the call -------------------------------------------------------
 */

static struct newer_identity identity_of_newer(void)
{
    return (struct newer_identity){.known = {.size = sizeof(struct newer_identity),
                                             .name = "newer",
                                             .tp_size = 1,
                                             .pp_size = 1,
                                             .model = "tiny",
                                             .dtype = "bfloat16"}};
}

static kvrail_status open_as(const struct newer_identity *identity, char *ret_detail)
{
    struct kvrail *connection = NULL;
    struct kvrail_error error = {.reserved = {7}};
    kvrail_status status = kvrail_open(agent.path, &identity->known, 10000, &connection, &error);

    memcpy(ret_detail, error.detail, sizeof(error.detail));
    if (status != KVRAIL_OK)
        assert_int_equal(error.reserved[0], 0);
    kvrail_close(connection);
    return status;
}

static kvrail_status add_as(struct kvrail *engine, const struct newer_region *region)
{
    uint32_t id;

    return kvrail_region_add(engine, &region->known, 10000, &id);
}

static kvrail_status publish_as(struct kvrail *engine, const struct newer_source_options *options)
{
    kvrail_handle handle;

    return kvrail_source_open(engine, &options->known, &handle);
}

static kvrail_status fetch_as(struct kvrail *engine, const struct newer_target_options *options)
{
    kvrail_handle handle;

    return kvrail_target_open(engine, &options->known, &handle);
}

/* The size is 0, one byte short of the first release's, or garbage. */
#define REFUSES_SIZES(value, name, call, sentence)                                                 \
    do {                                                                                           \
        static const uint32_t sizes[] = {0, CLIENT_FIRST_BYTES_##name - 1, UINT32_MAX};            \
        uint32_t right = (value).size;                                                             \
                                                                                                   \
        for (size_t s = 0; s < 3; s++) {                                                           \
            (value).size = sizes[s];                                                               \
            assert_int_equal((call), KVRAIL_INVALID);                                              \
            assert_non_null(strstr((sentence), "the size of a struct kvrail_" #name));             \
        }                                                                                          \
        (value).size = right;                                                                      \
    } while (0)

/* A newer program: what it leaves 0 is nothing, what it sets is missed. */
#define REFUSES_LATER(value, name, call, sentence)                                                 \
    do {                                                                                           \
        assert_int_equal((call), KVRAIL_OK);                                                       \
        (value).later[MORE - 1] = 1;                                                               \
        assert_int_equal((call), KVRAIL_UNSUPPORTED);                                              \
        assert_non_null(strstr((sentence), "set a field of struct kvrail_" #name));                \
        (value).later[MORE - 1] = 0;                                                               \
    } while (0)

static void identities_say_their_size(void **state)
{
    struct newer_identity identity = identity_of_newer();
    char detail[KVRAIL_DETAIL_BYTES];

    (void)state;
    REFUSES_SIZES(identity.known, identity, open_as(&identity, detail), detail);
    REFUSES_LATER(identity, identity, open_as(&identity, detail), detail);
}

static void regions_say_their_size(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    struct newer_region region = {.known = small_region("kv")};
    const char *detail = kvrail_last_error(engine)->detail;
    struct kvrail_memory memory;

    (void)state;
    assert_int_equal(kvrail_memory_create("kv", region.known.bytes, &memory, NULL), KVRAIL_OK);
    for (size_t i = 0; i < sizeof(memory.reserved) / sizeof(memory.reserved[0]); i++)
        assert_int_equal(memory.reserved[i], 0);
    region.known.fd = memory.fd;
    region.known.size = sizeof(region);
    REFUSES_SIZES(region.known, region, add_as(engine, &region), detail);
    REFUSES_LATER(region, region, add_as(engine, &region), detail);
    region.known.size = CLIENT_FIRST_BYTES_region; /* a program of the first release */
    region.known.memory_of = 1000;                 /* is not its own */
    assert_int_equal(add_as(engine, &region), KVRAIL_OK);
    kvrail_close(engine);
    kvrail_memory_destroy(&memory);
}

/* The elements of an array are as far apart as the program has them. */
static void allocations_say_their_size(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    struct newer_region region = {.known = small_region("spread")};
    struct newer_allocation allocations[3] = {0};
    const char *detail = kvrail_last_error(engine)->detail;
    struct kvrail_memory memory;

    (void)state;
    assert_int_equal(kvrail_memory_create("kv", 4096, &memory, NULL), KVRAIL_OK);
    for (size_t i = 0; i < 3; i++)
        allocations[i].known = (struct kvrail_allocation){
            .size = sizeof(allocations[0]), .fd = memory.fd, .bytes = memory.bytes};
    region.known.memory = KVRAIL_MEMORY_CUDA_VMM;
    region.known.fd = -1;
    region.known.device = 0;
    region.known.allocation_count = 3;
    region.known.allocations = &allocations[0].known;
    region.known.bytes = 3 * memory.bytes;
    REFUSES_SIZES(allocations[0].known, allocation, add_as(engine, &region), detail);
    REFUSES_LATER(allocations[2], allocation, add_as(engine, &region), detail);
    assert_int_equal(agent.record->extents, 3);
    kvrail_close(engine);
    kvrail_memory_destroy(&memory);
}

static void publishes_say_their_size(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    struct newer_source_options options = {
        .known = {.size = sizeof(options), .request = "req", .tokens = 64}};
    const char *detail = kvrail_last_error(engine)->detail;

    (void)state;
    REFUSES_SIZES(options.known, source_options, publish_as(engine, &options), detail);
    REFUSES_LATER(options, source_options, publish_as(engine, &options), detail);
    kvrail_close(engine);
}

static void fetches_say_their_size(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    struct newer_source_address sources[3] = {0};
    struct newer_target_options options = {.known = {.size = sizeof(options),
                                                     .secret = TEST_SECRET,
                                                     .request = "hold",
                                                     .tokens = 64,
                                                     .sources = &sources[0].known,
                                                     .source_count = 3}};
    const char *detail = kvrail_last_error(engine)->detail;

    (void)state;
    for (size_t i = 0; i < 3; i++)
        sources[i].known = (struct kvrail_source_address){
            .size = sizeof(sources[0]), .agent = "127.0.0.1:1", .generation = i + 1};
    REFUSES_SIZES(options.known, target_options, fetch_as(engine, &options), detail);
    REFUSES_SIZES(sources[0].known, source_address, fetch_as(engine, &options), detail);
    REFUSES_SIZES(sources[2].known, source_address, fetch_as(engine, &options), detail);
    REFUSES_LATER(options, target_options, fetch_as(engine, &options), detail);
    REFUSES_LATER(sources[2], source_address, fetch_as(engine, &options), detail);
    sources[2].known.agent = "";
    assert_int_equal(fetch_as(engine, &options), KVRAIL_INVALID);
    assert_non_null(strstr(detail, "source 2"));
    kvrail_close(engine);
}

/* ---- events ------------------------------------------------------------------------------------
 */

static kvrail_handle fetch_whole(struct kvrail *engine)
{
    static const uint32_t ids[4] = {1, 2, 3, 4};
    kvrail_handle target = scripted_target(engine, "whole");

    assert_int_equal(kvrail_target_pages(engine, target, 0, ids, 4), KVRAIL_OK);
    return target;
}

/* The four events of a fetch, of events that are that large, and nothing behind them. */
static void take_whole(struct kvrail *engine, uint8_t *bytes, size_t event_bytes)
{
    static const kvrail_event_kind kinds[] = {KVRAIL_EVENT_ACCEPTED, KVRAIL_EVENT_LAYER_IN,
                                              KVRAIL_EVENT_TAIL_IN, KVRAIL_EVENT_DONE};
    kvrail_handle target = fetch_whole(engine);
    int got = 0;

    memset(bytes, 0xaa, 5 * event_bytes);
    while (got < 4) {
        int more = kvrail_poll_sized(
            engine, (struct kvrail_event *)(void *)(bytes + (size_t)got * event_bytes), 4 - got,
            event_bytes);

        assert_true(more >= 0);
        got += more;
    }
    for (size_t i = 0; i < 4; i++) {
        struct kvrail_event event;

        memcpy(&event, bytes + i * event_bytes, sizeof(event));
        assert_int_equal(event.size, sizeof(event) + library_grown_by());
        assert_int_equal(event.kind, kinds[i]);
        assert_true(event.handle == target);
        assert_int_equal(event.terminal, i == 3);
        assert_string_equal(event.status_name, "ok");
        assert_string_equal(event.detail, "");
        for (size_t later = sizeof(event); later < event_bytes; later++)
            assert_int_equal(bytes[i * event_bytes + later], 0);
    }
    for (size_t i = 0; i < event_bytes; i++)
        assert_int_equal(bytes[4 * event_bytes + i], 0xaa);
}

static void events_have_the_programs_size(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    static _Alignas(8) uint8_t bytes[5 * sizeof(struct newer_event)];
    struct kvrail_event event;

    (void)state;
    take_whole(engine, bytes, sizeof(struct kvrail_event));
    take_whole(engine, bytes, sizeof(struct newer_event));
    assert_int_equal(kvrail_poll_sized(engine, &event, 1, sizeof(event) - 1), KVRAIL_INVALID);
    assert_non_null(strstr(kvrail_last_error(engine)->detail, "an event has at least"));
    kvrail_close(engine);
}

/* Otherwise the run with the later library would prove nothing. */
static void the_library_is_the_one_meant(void **state)
{
    struct kvrail *engine = scripted_engine(&agent, "engine");
    struct newer_event event = {0};

    (void)state;
    fetch_whole(engine);
    while (kvrail_poll_sized(engine, &event.known, 1, sizeof(event)) == 0)
        continue;
    assert_int_equal(event.known.size, sizeof(struct kvrail_event) + library_grown_by());
    kvrail_close(engine);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_library_is_the_one_meant, start_thread, stop),
        cmocka_unit_test_setup_teardown(identities_say_their_size, start_thread, stop),
        cmocka_unit_test_setup_teardown(regions_say_their_size, start_thread, stop),
        cmocka_unit_test_setup_teardown(allocations_say_their_size, start_thread, stop),
        cmocka_unit_test_setup_teardown(publishes_say_their_size, start_thread, stop),
        cmocka_unit_test_setup_teardown(fetches_say_their_size, start_thread, stop),
        cmocka_unit_test_setup_teardown(events_have_the_programs_size, start_thread, stop),
    };

    return cmocka_run_group_tests_name("client_sized", tests, NULL, NULL);
}
