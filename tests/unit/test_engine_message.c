/* Goal: each message of an engine arrives as it was sent, and no other packet is accepted.
 * Method: every request and notice is encoded and decoded; then packets are broken in every way in
 * which a foreign or damaged library could break them. */
#include "tests/support/check.h"

#include <sys/socket.h>
#include <unistd.h>

#include "wire/engine.pb-c.h"
#include "wire/engine_message.h"
#include "wire/packet_queue.h"
#include "wire/packet_socket.h"

static uint8_t packet[KVR_PACKET_BYTES_MAX];
static struct kvr_engine_decoder *decoder;

static int open_decoder(void **state)
{
    (void)state;
    decoder = kvr_engine_decoder_open();
    return decoder == NULL;
}

static int close_decoder(void **state)
{
    (void)state;
    kvr_engine_decoder_close(decoder);
    return 0;
}

static kvr_status round_trip(const struct kvr_request *request, struct kvr_request *ret_request)
{
    struct kvr_error error;
    size_t bytes;

    assert_int_equal(kvr_request_encode(request, packet, sizeof(packet), &bytes), KVR_OK);
    return kvr_request_decode(decoder, packet, bytes, ret_request, &error);
}

static void request_attach_round_trip(void **state)
{
    struct kvr_request in = {.kind = KVR_REQ_ATTACH}, out;

    (void)state;
    in.attach.rank =
        (struct kvr_rank){.generation = 7, .tp = 1, .tp_size = 4, .pp = 2, .pp_size = 3};
    memset(in.attach.rank.engine.bytes, 0xab, 16);
    in.attach.compat = (struct kvr_compat){"llama", "bfloat16", .layers_total = 80,
                                           .kv_heads_total = 8, .head_dim = 128};
    strcpy(in.attach.name, "decode-3 \xc3\xa9");
    assert_int_equal(round_trip(&in, &out), KVR_OK);
    assert_memory_equal(&in, &out, sizeof(in));
}

static void request_region_round_trip(void **state)
{
    struct kvr_request in = {.kind = KVR_REQ_REGION_ADD}, out;

    (void)state;
    in.region = (struct kvr_req_region){.name = "kv",
                                        .memory = KVR_MEMORY_CUDA_IPC,
                                        .device = -1,
                                        .gpu = {.uuid = {{1, 2, 3}}, .pci = "0000:9d:00.0"},
                                        .fd_offset = 4096,
                                        .extent_count = 77,
                                        .dmabuf = true,
                                        .dmabuf_offset = 256,
                                        .order = KVR_ORDER_FLUSHED};
    memset(in.region.ipc, 5, sizeof(in.region.ipc));
    in.region.layout = (struct kvr_region_layout){.region = 1,
                                                  .group = 2,
                                                  .layer_first = 3,
                                                  .layer_count = 4,
                                                  .part_count = 2,
                                                  .parts = {KVR_PART_K, KVR_PART_V},
                                                  .replicated = true,
                                                  .head_first = 5,
                                                  .head_count = 6,
                                                  .page_tokens = 16,
                                                  .page_count = 8,
                                                  .bytes = UINT64_MAX,
                                                  .base = 10,
                                                  .layer_stride = 11,
                                                  .part_stride = 12,
                                                  .page_stride = 13,
                                                  .token_stride = 14,
                                                  .head_stride = 15,
                                                  .head_bytes = 256};
    assert_int_equal(round_trip(&in, &out), KVR_OK);
    assert_memory_equal(&in, &out, sizeof(in));
}

static void request_extents_round_trip(void **state)
{
    uint64_t sizes[KVR_PACKET_FDS_MAX];
    struct kvr_request in = {.kind = KVR_REQ_REGION_EXTENTS}, out;
    size_t bytes;

    (void)state;
    for (uint32_t i = 0; i < KVR_PACKET_FDS_MAX; i++)
        sizes[i] = UINT64_MAX - i; /* the longest varints */
    in.extents = (struct kvr_req_extents){3, 256, 5120, sizes, KVR_PACKET_FDS_MAX};
    assert_int_equal(round_trip(&in, &out), KVR_OK);
    assert_int_equal(out.kind, KVR_REQ_REGION_EXTENTS);
    assert_int_equal(out.extents.region, 3);
    assert_int_equal(out.extents.first, 256);
    assert_int_equal(out.extents.total, 5120);
    assert_int_equal(out.extents.count, KVR_PACKET_FDS_MAX);
    assert_memory_equal(out.extents.bytes, sizes, sizeof(sizes));
    in.extents = (struct kvr_req_extents){.region = 3};
    assert_int_equal(round_trip(&in, &out), KVR_OK);
    assert_int_equal(out.extents.count, 0);
    in.extents = (struct kvr_req_extents){.bytes = sizes, .count = KVR_PACKET_FDS_MAX + 1};
    assert_int_equal(kvr_request_encode(&in, packet, sizeof(packet), &bytes), KVR_INVALID);
    in.kind = (kvr_request_kind)(KVR_REQ_DETACH + 1); /* a number of a notice */
    assert_int_equal(kvr_request_encode(&in, packet, sizeof(packet), &bytes), KVR_INVALID);
}

static void request_opens_round_trip(void **state)
{
    struct kvr_source_address sources[KVR_SOURCES_MAX] = {0};
    struct kvr_request in = {.kind = KVR_REQ_SOURCE_OPEN, .handle = UINT64_MAX}, out;

    (void)state;
    in.source_open = (struct kvr_req_source_open){"req", 1, 2, 3, 4, -5, "blue", {{7, 8}}};
    assert_int_equal(round_trip(&in, &out), KVR_OK);
    assert_memory_equal(&in, &out, sizeof(in));

    memset(&in, 0, sizeof(in));
    in.kind = KVR_REQ_TARGET_OPEN;
    in.handle = 9;
    memset(sources[63].agent, 'h', sizeof(sources[63].agent) - 1);
    sources[63].tp = 63;
    in.target_open = (struct kvr_req_target_open){
        "req", 1, 2, 3, 4, -5, "red-1", sources, KVR_SOURCES_MAX, KVR_DIGEST_FULL, {{9}}};
    assert_int_equal(round_trip(&in, &out), KVR_OK);
    assert_int_equal(out.target_open.digest, KVR_DIGEST_FULL);
    assert_int_equal(out.target_open.source_count, KVR_SOURCES_MAX);
    assert_memory_equal(out.target_open.sources, sources, sizeof(sources));
    assert_int_equal(out.target_open.priority, -5);
    assert_string_equal(out.target_open.tenant, "red-1");
    assert_memory_equal(&out.target_open.secret, &in.target_open.secret, KVR_SECRET_BYTES);
    kvr_engine_decoder_wipe(decoder);
    assert_true(out.target_open.sources[63].tp == 0); /* it was in the decoder's memory */
    in.target_open.digest = (kvr_digest_mode)3;
    assert_int_equal(round_trip(&in, &out), KVR_MALFORMED);
}

static void request_pages_full_packet(void **state)
{
    static uint32_t ids[KVR_PAGES_PER_PACKET + 1];
    struct kvr_request in = {.kind = KVR_REQ_TARGET_PAGES, .handle = 3}, out;
    size_t bytes;

    (void)state;
    for (size_t i = 0; i < KVR_PAGES_PER_PACKET; i++)
        ids[i] = UINT32_MAX - (uint32_t)i; /* the longest varints */
    in.pages = (struct kvr_req_pages){7, 99, ids, KVR_PAGES_PER_PACKET};
    assert_int_equal(round_trip(&in, &out), KVR_OK);
    assert_int_equal(out.pages.id_count, KVR_PAGES_PER_PACKET);
    assert_memory_equal(out.pages.ids, ids, KVR_PAGES_PER_PACKET * sizeof(ids[0]));
    in.pages.id_count++;
    assert_int_equal(kvr_request_encode(&in, packet, sizeof(packet), &bytes), KVR_INVALID);
}

static void request_small_kinds_round_trip(void **state)
{
    static uint8_t tail[KVR_TAIL_BYTES_MAX - 1024];
    struct kvr_request in = {.kind = KVR_REQ_WATCH, .handle = 1}, out;

    (void)state;
    in.watch = (struct kvr_req_watch){1, 2, 3, 4};
    assert_int_equal(round_trip(&in, &out), KVR_OK);
    assert_memory_equal(&in, &out, sizeof(in));
    in = (struct kvr_request){.kind = KVR_REQ_TARGET_SKIP, .handle = 1, .skip = {7, UINT64_MAX}};
    assert_int_equal(round_trip(&in, &out), KVR_OK);
    assert_memory_equal(&in, &out, sizeof(in));
    in = (struct kvr_request){.kind = KVR_REQ_TARGET_HOLD, .handle = 1};
    assert_int_equal(round_trip(&in, &out), KVR_OK);
    assert_memory_equal(&in, &out, sizeof(in));
    memset(tail, 'x', sizeof(tail));
    in = (struct kvr_request){.kind = KVR_REQ_SOURCE_TAIL, .tail = {tail, sizeof(tail)}};
    assert_int_equal(round_trip(&in, &out), KVR_OK);
    assert_int_equal(out.tail.byte_count, sizeof(tail));
    assert_memory_equal(out.tail.bytes, tail, sizeof(tail));
    in = (struct kvr_request){.kind = KVR_REQ_CANCEL, .cancel = {KVR_CANCELLED}};
    assert_int_equal(round_trip(&in, &out), KVR_OK);
    assert_int_equal(out.cancel.reason, KVR_CANCELLED);
    in = (struct kvr_request){.kind = KVR_REQ_SOURCE_END, .end = {KVR_ABORTED}};
    assert_int_equal(round_trip(&in, &out), KVR_OK);
    assert_int_equal(out.end.status, KVR_ABORTED);
    in = (struct kvr_request){.kind = KVR_REQ_RENEW, .renew = {30000}};
    assert_int_equal(round_trip(&in, &out), KVR_OK);
    assert_int_equal(out.renew.lease_ms, 30000);
    in = (struct kvr_request){.kind = KVR_REQ_REGION_DROP};
    in.region.layout.region = 12;
    assert_int_equal(round_trip(&in, &out), KVR_OK);
    assert_int_equal(out.region.layout.region, 12);
    in = (struct kvr_request){.kind = KVR_REQ_PAIRS};
    assert_int_equal(round_trip(&in, &out), KVR_OK);
    assert_memory_equal(&in, &out, sizeof(in));
    for (int kind = KVR_REQ_WHY; kind <= KVR_REQ_DETACH; kind++) {
        in = (struct kvr_request){.kind = (kvr_request_kind)kind, .handle = 77};
        assert_int_equal(round_trip(&in, &out), KVR_OK);
        assert_int_equal(out.kind, kind);
        assert_int_equal(out.handle, 77);
    }
}

static void notice_round_trip(void **state)
{
    static uint8_t payload[KVR_TAIL_BYTES_MAX - 1024];
    struct kvr_notice in = {.kind = KVR_NOTICE_TAIL_IN,
                            .handle = 5,
                            .status = KVR_PEER_LOST,
                            .layer_first = 1,
                            .layer_count = 2,
                            .token_first = 3,
                            .token_end = 4,
                            .bytes = 1ull << 40,
                            .writes = 6,
                            .retries = 7,
                            .at = 8,
                            .agent = "agent",
                            .payload = payload,
                            .payload_bytes = sizeof(payload)},
                      out;
    struct kvr_error error;
    size_t bytes;

    (void)state;
    memset(in.detail, 'd', sizeof(in.detail) - 1);
    assert_int_equal(kvr_notice_encode(&in, packet, sizeof(packet), &bytes), KVR_OK);
    assert_int_equal(kvr_notice_decode(decoder, packet, bytes, &out, &error), KVR_OK);
    assert_memory_equal(out.payload, payload, sizeof(payload));
    out.payload = payload;
    assert_memory_equal(&in, &out, sizeof(in));
    assert_string_equal(kvr_notice_name(KVR_NOTICE_SOURCE_FREE), "source_free");
    assert_true(kvr_notice_terminal(KVR_NOTICE_DONE));
    assert_false(kvr_notice_terminal(KVR_NOTICE_FAILING));
    assert_string_equal(kvr_request_name(KVR_REQ_RENEW), "renew");
    assert_string_equal(kvr_request_name((kvr_request_kind)99), "?");
}

static void layers_that_follow_are_joined(void **state)
{
    const struct kvr_notice first = {.kind = KVR_NOTICE_LAYER_IN,
                                     .handle = 7,
                                     .layer_first = 3,
                                     .layer_count = 2,
                                     .token_first = 16,
                                     .token_end = 32};
    struct kvr_notice notice = first, next = first;

    (void)state;
    next.layer_first = 5;
    next.layer_count = 3;
    assert_true(kvr_notice_join(&notice, &next));
    assert_int_equal(notice.layer_first, 3);
    assert_int_equal(notice.layer_count, 5);
    assert_false(kvr_notice_join(&notice, &next)); /* reported before */
    next.layer_first = 8;
    for (unsigned field = 0; field < 4; field++) {
        struct kvr_notice other = next;

        other.kind = field == 0 ? KVR_NOTICE_DONE : other.kind;
        other.handle += field == 1;
        other.token_first += field == 2;
        other.token_end += field == 3;
        assert_false(kvr_notice_join(&notice, &other));
    }
    assert_int_equal(notice.layer_count, 5);
    notice.kind = KVR_NOTICE_TAIL_IN;
    assert_false(kvr_notice_join(&notice, &next));
}

/* Each side accepts only the kinds of packet that the other side sends. */
static void packets_of_the_wrong_side_are_malformed(void **state)
{
    struct kvr_notice notice = {.kind = KVR_NOTICE_DONE};
    struct kvr_request request = {.kind = KVR_REQ_WHY};
    struct kvr_error error;
    size_t bytes;

    (void)state;
    assert_int_equal(kvr_notice_encode(&notice, packet, sizeof(packet), &bytes), KVR_OK);
    assert_int_equal(kvr_request_decode(decoder, packet, bytes, &request, &error), KVR_MALFORMED);
    request.kind = KVR_REQ_WHY;
    assert_int_equal(kvr_request_encode(&request, packet, sizeof(packet), &bytes), KVR_OK);
    assert_int_equal(kvr_notice_decode(decoder, packet, bytes, &notice, &error), KVR_MALFORMED);
    notice.kind = (kvr_notice_kind)200;
    assert_int_equal(kvr_notice_encode(&notice, packet, sizeof(packet), &bytes), KVR_OK);
    assert_int_equal(kvr_notice_decode(decoder, packet, bytes, &notice, &error), KVR_UNSUPPORTED);
    assert_int_equal(kvr_request_decode(decoder, packet, 0, &request, &error), KVR_MALFORMED);
}

static kvr_status decode_built(const Kvrail__Engine__EnginePacket *built, struct kvr_error *error)
{
    struct kvr_request request;
    size_t bytes = protobuf_c_message_get_packed_size(&built->base);

    assert_true(bytes <= sizeof(packet));
    protobuf_c_message_pack(&built->base, packet);
    return kvr_request_decode(decoder, packet, bytes, &request, error);
}

static void foreign_values_are_malformed(void **state)
{
    Kvrail__Engine__EnginePacket built = KVRAIL__ENGINE__ENGINE_PACKET__INIT;
    Kvrail__Engine__SourceOpen open = KVRAIL__ENGINE__SOURCE_OPEN__INIT;
    Kvrail__Engine__Status status = KVRAIL__ENGINE__STATUS__INIT;
    Kvrail__Engine__Attach attach = KVRAIL__ENGINE__ATTACH__INIT;
    Kvrail__Engine__RegionExtents extents = KVRAIL__ENGINE__REGION_EXTENTS__INIT;
    uint64_t sizes[KVR_PACKET_FDS_MAX + 1] = {0};
    static const char *const bad[] = {"",         "a\nb", "\xff", "\xc0\x80", "\xed\xa0\x80",
                                      "\xe2\x82", "\x7f"};
    struct kvr_error error;
    char request_id[200] = {0};

    (void)state;
    built.body_case = KVRAIL__ENGINE__ENGINE_PACKET__BODY_SOURCE_OPEN;
    built.source_open = &open;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        open.request = (char *)(uintptr_t)bad[i];
        assert_int_equal(decode_built(&built, &error), KVR_MALFORMED);
        assert_true(strlen(error.detail) > 10);
    }
    memset(request_id, 'r', KVR_REQUEST_BYTES);
    open.request = request_id;
    assert_int_equal(decode_built(&built, &error), KVR_MALFORMED);
    request_id[KVR_REQUEST_BYTES - 1] = '\0';
    assert_int_equal(decode_built(&built, &error), KVR_OK);

    built.body_case = KVRAIL__ENGINE__ENGINE_PACKET__BODY_CANCEL;
    built.cancel = &status;
    status.status = -12345;
    assert_int_equal(decode_built(&built, &error), KVR_MALFORMED);

    built.body_case = KVRAIL__ENGINE__ENGINE_PACKET__BODY_ATTACH;
    built.attach = &attach;
    attach.version = KVR_ENGINE_PROTOCOL + 1;
    assert_int_equal(decode_built(&built, &error), KVR_VERSION);
    assert_non_null(strstr(error.detail, "speaks version 4 of the engine protocol, this agent 3: "
                                         "upgrade the agent"));
    attach.version = KVR_ENGINE_PROTOCOL;
    assert_int_equal(decode_built(&built, &error), KVR_MALFORMED);

    built.body_case = KVRAIL__ENGINE__ENGINE_PACKET__BODY_REGION_EXTENTS;
    built.region_extents = &extents;
    extents.bytes = sizes;
    extents.n_bytes = KVR_PACKET_FDS_MAX;
    assert_int_equal(decode_built(&built, &error), KVR_OK);
    extents.n_bytes++;
    assert_int_equal(decode_built(&built, &error), KVR_MALFORMED);
    assert_non_null(strstr(error.detail, "more extents than one packet"));
}

/* 32,000 empty sources in 64 KiB would take megabytes; the decoder has fixed memory. */
static void decoder_memory_is_bounded(void **state)
{
    struct kvr_request request;
    struct kvr_error error;
    size_t bytes = 0, body = 60000;

    (void)state;
    packet[bytes++] = 10 << 3 | 2; /* target_open */
    packet[bytes++] = (uint8_t)(body & 0x7f) | 0x80;
    packet[bytes++] = (uint8_t)(body >> 7 & 0x7f) | 0x80;
    packet[bytes++] = (uint8_t)(body >> 14);
    for (size_t i = 0; i < body; i += 2) {
        packet[bytes++] = 8 << 3 | 2; /* sources */
        packet[bytes++] = 0;
    }
    assert_int_equal(kvr_request_decode(decoder, packet, bytes, &request, &error), KVR_MALFORMED);
}

static void every_cut_and_flip_is_survived(void **state)
{
    struct kvr_source_address sources[2] = {{.agent = "a:1"}, {.agent = "b:2"}};
    struct kvr_request in = {.kind = KVR_REQ_TARGET_OPEN, .handle = 9}, out;
    uint8_t copy[512];
    struct kvr_error error;
    size_t bytes;

    (void)state;
    in.target_open =
        (struct kvr_req_target_open){"req", 1, 2, 3, 4, -5, "t", sources, 2, KVR_DIGEST_OFF, {{9}}};
    assert_int_equal(kvr_request_encode(&in, packet, sizeof(packet), &bytes), KVR_OK);
    assert_true(bytes < sizeof(copy));
    for (size_t cut = 0; cut < bytes; cut++)
        (void)!kvr_request_decode(decoder, packet, cut, &out, &error);
    for (size_t bit = 0; bit < bytes * 8; bit++) {
        memcpy(copy, packet, bytes);
        copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
        (void)!kvr_request_decode(decoder, copy, bytes, &out, &error);
        (void)!kvr_notice_decode(decoder, copy, bytes, &(struct kvr_notice){0}, &error);
    }
}

static void packet_queue_keeps_order_over_the_edge(void **state)
{
    uint8_t memory[64], out[64], in[20];
    struct kvr_packet_queue queue;
    uint8_t pushed = 0, popped = 0;

    (void)state;
    kvr_packet_queue_init(&queue, memory, sizeof(memory));
    assert_int_equal(kvr_packet_queue_peek(&queue, out, sizeof(out)), 0);
    kvr_packet_queue_pop(&queue);
    for (int round = 0; round < 200; round++) {
        memset(in, pushed, sizeof(in));
        while (kvr_packet_queue_push(&queue, in, 1 + pushed % sizeof(in)))
            memset(in, ++pushed, sizeof(in));
        assert_false(kvr_packet_queue_fits(&queue, 1 + pushed % sizeof(in), 1));
        assert_int_equal(kvr_packet_queue_peek(&queue, out, sizeof(out)), 1 + popped % sizeof(in));
        assert_int_equal(out[popped % sizeof(in)], popped);
        kvr_packet_queue_pop(&queue);
        popped++;
    }
    assert_false(kvr_packet_queue_fits(&queue, 20, 3));
    while (!kvr_packet_queue_empty(&queue))
        kvr_packet_queue_pop(&queue);
    assert_true(kvr_packet_queue_fits(&queue, 12, 4));
    assert_false(kvr_packet_queue_fits(&queue, 13, 4));
}

/* A socket refuses a packet larger than its buffer: the connection goes on. */
static void a_packet_that_no_buffer_holds_is_named(void **state)
{
    static const uint8_t large[16384];
    struct kvr_error error;
    int sockets[2], least = 1;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    assert_int_equal(kvr_packet_check(sockets[0], sizeof(large), &error), KVR_OK);
    assert_int_equal(setsockopt(sockets[0], SOL_SOCKET, SO_SNDBUF, &least, sizeof(least)), 0);
    assert_int_equal(kvr_packet_send(sockets[0], large, sizeof(large), NULL), KVR_TOO_LARGE);
    assert_int_equal(kvr_packet_check(sockets[0], sizeof(large), &error), KVR_TOO_LARGE);
    assert_non_null(strstr(error.detail, "a packet of 16384 bytes is larger"));
    for (size_t bytes = 4000; bytes < 5000; bytes++) /* both sides know the same bound */
        if (kvr_packet_check(sockets[0], bytes, &error) == KVR_OK)
            assert_int_not_equal(kvr_packet_send(sockets[0], large, bytes, NULL), KVR_TOO_LARGE);
        else
            assert_int_equal(kvr_packet_send(sockets[0], large, bytes, NULL), KVR_TOO_LARGE);
    close(sockets[1]);
    assert_int_equal(kvr_packet_send(sockets[0], large, 1, NULL), KVR_PEER_LOST);
    close(sockets[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_attach_round_trip),
        cmocka_unit_test(request_region_round_trip),
        cmocka_unit_test(request_extents_round_trip),
        cmocka_unit_test(request_opens_round_trip),
        cmocka_unit_test(request_pages_full_packet),
        cmocka_unit_test(request_small_kinds_round_trip),
        cmocka_unit_test(notice_round_trip),
        cmocka_unit_test(layers_that_follow_are_joined),
        cmocka_unit_test(packets_of_the_wrong_side_are_malformed),
        cmocka_unit_test(foreign_values_are_malformed),
        cmocka_unit_test(decoder_memory_is_bounded),
        cmocka_unit_test(every_cut_and_flip_is_survived),
        cmocka_unit_test(packet_queue_keeps_order_over_the_edge),
        cmocka_unit_test(a_packet_that_no_buffer_holds_is_named),
    };

    return cmocka_run_group_tests(tests, open_decoder, close_decoder);
}
