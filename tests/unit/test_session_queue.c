/* Goal: a queue that is never empty keeps to the beginning of its memory, and its frames stay whole
 * there. Method: messages are added, sent and acknowledged for long, with some always under way.
 * The memory has a pattern before: bytes that still have it were not touched. */
#include "tests/support/check.h"

#include <stdio.h>

#include "wire/frame.h"
#include "wire/session_queue.h"

#define BYTES     (8u << 20)
#define COUNT     64u
#define MESSAGES  200000u
#define UNDER_WAY 5u
#define PATTERN   0xa5

static struct kvr_session_queue queue;
static struct kvr_message_decoder *decoder;

static void add(uint32_t counter)
{
    struct kvr_message message = {.kind = KVR_MSG_LANDED, .transfer = counter, .sequence = 1};

    snprintf(message.reason.detail, sizeof(message.reason.detail), "%0100u", counter);
    assert_int_equal(kvr_session_queue_add(&queue, &message), KVR_OK);
}

/* The next frame is that message. */
static void send_next(uint32_t counter)
{
    struct kvr_message message;
    struct kvr_error error;
    const uint8_t *frame;
    size_t bytes;

    assert_true(kvr_session_queue_next(&queue, &frame, &bytes));
    assert_int_equal(kvr_message_decode(decoder, frame, bytes, &message, &error), KVR_OK);
    assert_int_equal(message.transfer, counter);
    assert_int_equal(message.sequence, counter);
    assert_int_equal(strtoul(message.reason.detail, NULL, 10), counter);
    kvr_session_queue_sent(&queue);
}

static size_t touched(const uint8_t *memory, size_t bytes)
{
    while (bytes > 0 && memory[bytes - 1] == PATTERN)
        bytes--;
    return bytes;
}

static void queue_keeps_to_its_beginning(void **state)
{
    size_t bytes = kvr_session_queue_bytes(BYTES, COUNT);
    uint8_t *memory = malloc(bytes);

    (void)state;
    assert_non_null(memory);
    memset(memory, PATTERN, bytes);
    kvr_session_queue_init(&queue, memory, BYTES, COUNT);
    for (uint32_t counter = 1; counter <= MESSAGES; counter++) {
        add(counter);
        send_next(counter);
        if (counter % 1000 == 0) { /* the connection breaks */
            kvr_session_queue_rewind(&queue);
            for (uint32_t again = counter - UNDER_WAY; again <= counter; again++)
                send_next(again);
        }
        if (counter > UNDER_WAY)
            assert_true(kvr_session_queue_acknowledge(&queue, counter - UNDER_WAY));
    }
    assert_in_range(touched(memory, bytes), 1, 256 * 1024);
    free(memory);
}

static void queue_begins_again_when_it_was_empty(void **state)
{
    size_t bytes = kvr_session_queue_bytes(BYTES, COUNT * 1024);
    uint8_t *memory = malloc(bytes);

    (void)state;
    assert_non_null(memory);
    memset(memory, PATTERN, bytes);
    kvr_session_queue_init(&queue, memory, BYTES, COUNT * 1024);
    for (uint32_t counter = 1; counter <= COUNT * 1024; counter++) {
        add(counter);
        send_next(counter);
        assert_true(kvr_session_queue_acknowledge(&queue, counter));
    }
    assert_in_range(touched(memory, bytes - BYTES), 1, 1024);
    free(memory);
}

static int open_decoder(void **state)
{
    (void)state;
    decoder = kvr_message_decoder_open();
    return decoder == NULL;
}

static int close_decoder(void **state)
{
    (void)state;
    kvr_message_decoder_close(decoder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queue_keeps_to_its_beginning),
        cmocka_unit_test(queue_begins_again_when_it_was_empty),
    };

    return cmocka_run_group_tests(tests, open_decoder, close_decoder);
}
