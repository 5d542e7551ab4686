/* A connection: connecting, reading frames, a ring of bytes to write, and three ways to end.
 *
 * With TLS (channel_tls.c) what is read is decrypted before it reaches the parser, and what leaves
 * the ring is encrypted into the output of the TLS session. KVR_AGAIN depends on the ring alone. */
#include "wire/channel.h"

#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

#include "wire/channel_parts.h"

#define CORKED_BYTES_MAX 4096u /* a larger frame is not copied where it can go at once */

static void on_timer(uv_timer_t *timer);
static void write_now(struct kvr_channel *channel);
static void shut_down_when_empty(struct kvr_channel *channel);

/* ---- life ---- */

struct kvr_channel *kvr_channel_new(uv_loop_t *loop, const struct kvr_channel_options *options)
{
    struct kvr_channel *channel = calloc(1, sizeof(*channel));

    if (channel == NULL)
        return NULL;
    channel->memory = malloc(KVR_CHANNEL_QUEUE_BYTES + KVR_FRAME_BUFFER_BYTES);
    if (channel->memory == NULL) {
        free(channel);
        return NULL;
    }
    channel->state = KVR_CHANNEL_CONNECTING;
    channel->options = *options;
    channel->refusal = KVR_TLS_REFUSAL_END;
    channel->ring = channel->memory;
    kvr_frame_parser_init(&channel->parser, channel->memory + KVR_CHANNEL_QUEUE_BYTES);
    uv_tcp_init(loop, &channel->tcp);
    uv_timer_init(loop, &channel->timer);
    uv_prepare_init(loop, &channel->corking);
    channel->tcp.data = channel->timer.data = channel->corking.data = channel;
    channel->holds = 3;
    return channel;
}

static void let_go(struct kvr_channel *channel)
{
    if (--channel->holds > 0)
        return;
    kvr_tls_stream_close(channel->tls);
    free(channel->memory);
    free(channel);
}

static void on_closed(uv_handle_t *handle)
{
    let_go(handle->data);
}

static void end(struct kvr_channel *channel)
{
    if (channel->state == KVR_CHANNEL_RESOLVING)
        uv_cancel((uv_req_t *)&channel->resolving);
    channel->state = KVR_CHANNEL_CLOSED;
    kvr_listener_forget(channel);
    uv_close((uv_handle_t *)&channel->tcp, on_closed);
    uv_close((uv_handle_t *)&channel->timer, on_closed);
    uv_close((uv_handle_t *)&channel->corking, on_closed);
}

void kvr_channel_close(struct kvr_channel *channel)
{
    if (channel->state == KVR_CHANNEL_CLOSED)
        return;
    if (channel->state == KVR_CHANNEL_UP)
        write_now(channel);
    end(channel);
}

void kvr_channel_fail(struct kvr_channel *channel, kvr_status status, const char *format, ...)
{
    struct kvr_channel_handler handler = channel->options.handler;
    bool told = channel->state != KVR_CHANNEL_FINISHING;
    char detail[KVR_DETAIL_BYTES];
    va_list values;

    if (channel->state == KVR_CHANNEL_CLOSED)
        return;
    va_start(values, format);
    vsnprintf(detail, sizeof(detail), format, values);
    va_end(values);
    end(channel);
    if (told)
        handler.closed(handler.self, channel, status, detail);
}

void kvr_channel_start_timer(struct kvr_channel *channel, uint64_t ms)
{
    uv_update_time(channel->timer.loop);
    uv_timer_start(&channel->timer, on_timer, ms, 0);
}

static void on_timer(uv_timer_t *timer)
{
    struct kvr_channel *channel = timer->data;

    if (channel->broken != 0)
        kvr_channel_fail(channel, KVR_SYSTEM, "cannot write: %s", uv_strerror(channel->broken));
    else if (channel->state == KVR_CHANNEL_SECURING)
        kvr_channel_handshake_cut(channel, "it did not finish the TLS handshake in time");
    else
        kvr_channel_fail(channel, KVR_TIMED_OUT, "it sent no HELLO in time");
}

/* ---- writing ---- */

static void flush(struct kvr_channel *channel);

void kvr_channel_took(struct kvr_channel *channel, size_t bytes)
{
    channel->ring_first = (channel->ring_first + bytes) % KVR_CHANNEL_QUEUE_BYTES;
    channel->ring_used -= bytes;
}

static void written(struct kvr_channel *channel, size_t bytes)
{
    if (channel->tls != NULL)
        kvr_tls_stream_sent(channel->tls, bytes);
    else
        kvr_channel_took(channel, bytes);
}

/* The ring has room again, or nothing. */
static void go_on(struct kvr_channel *channel)
{
    struct kvr_channel_handler *handler = &channel->options.handler;

    shut_down_when_empty(channel);
    if (channel->state == KVR_CHANNEL_UP && channel->starved &&
        channel->ring_used <= KVR_CHANNEL_QUEUE_BYTES / 2) {
        channel->starved = false;
        handler->writable(handler->self, channel);
    }
}

static void on_written(uv_write_t *request, int result)
{
    struct kvr_channel *channel = request->data;

    written(channel, channel->flying);
    channel->flying = 0;
    if (channel->state != KVR_CHANNEL_CLOSED && result < 0)
        kvr_channel_fail(channel, KVR_SYSTEM, "cannot write: %s", uv_strerror(result));
    if (channel->state != KVR_CHANNEL_CLOSED) {
        flush(channel);
        go_on(channel);
    }
    let_go(channel);
}

/* The bytes that go to the socket next, in one piece or two. Returns how many; 0: nothing. */
static unsigned outgoing(struct kvr_channel *channel, uv_buf_t ret_buffers[2], size_t *ret_bytes)
{
    size_t first = channel->ring_first, used = channel->ring_used;
    size_t until_end = KVR_CHANNEL_QUEUE_BYTES - first;
    unsigned count = used > until_end ? 2 : 1;

    if (channel->tls != NULL) {
        const uint8_t *output = kvr_channel_encrypt(channel, ret_bytes);

        ret_buffers[0] = uv_buf_init((char *)(uintptr_t)output, (unsigned)*ret_bytes);
        return *ret_bytes > 0;
    }
    ret_buffers[0] =
        uv_buf_init((char *)channel->ring + first, (unsigned)(count == 2 ? until_end : used));
    ret_buffers[1] =
        uv_buf_init((char *)channel->ring, (unsigned)(count == 2 ? used - until_end : 0));
    *ret_bytes = used;
    return used > 0 ? count : 0;
}

/* One write is in flight at a time; it carries all that was queued when it began. */
static void flush(struct kvr_channel *channel)
{
    uv_buf_t buffers[2];
    unsigned count;
    size_t bytes;
    int result;

    if (channel->flying > 0 || channel->broken != 0)
        return;
    count = outgoing(channel, buffers, &bytes);
    if (count == 0)
        return;
    channel->writing.data = channel;
    result = uv_write(&channel->writing, (uv_stream_t *)&channel->tcp, buffers, count, on_written);
    if (result < 0) {
        channel->broken = result;
        kvr_channel_start_timer(channel, 0);
        return;
    }
    channel->flying = bytes;
    channel->holds++;
}

/* What an empty socket buffer takes at once; an error shows again from the loop. */
static void write_now(struct kvr_channel *channel)
{
    uv_buf_t buffers[2];
    size_t bytes;
    unsigned count;
    int result;

    if (channel->flying > 0 || channel->broken != 0)
        return;
    while ((count = outgoing(channel, buffers, &bytes)) > 0) {
        result = uv_try_write((uv_stream_t *)&channel->tcp, buffers, count);
        if (result > 0)
            written(channel, (size_t)result);
        if (result < 0 || (size_t)result < bytes)
            return;
    }
}

void kvr_channel_flush(struct kvr_channel *channel)
{
    write_now(channel);
    flush(channel);
}

static void on_cork(uv_prepare_t *corking)
{
    struct kvr_channel *channel = corking->data;

    write_now(channel);
    go_on(channel); /* what is added here leaves too: there may be no other turn for long */
    if (channel->state == KVR_CHANNEL_CLOSED)
        return;
    uv_prepare_stop(corking);
    flush(channel);
}

void kvr_channel_put(struct kvr_channel *channel, const uint8_t *bytes, size_t count)
{
    size_t at = (channel->ring_first + channel->ring_used) % KVR_CHANNEL_QUEUE_BYTES;
    size_t until_end = KVR_CHANNEL_QUEUE_BYTES - at;
    size_t now = count < until_end ? count : until_end;

    if (count == 0)
        return;
    memcpy(channel->ring + at, bytes, now);
    memcpy(channel->ring, bytes + now, count - now);
    channel->ring_used += count;
}

/* A large frame goes at once to an empty socket buffer and never sees the ring. */
static size_t try_write(struct kvr_channel *channel, uint8_t *header, const uint8_t *frame,
                        size_t bytes)
{
    uv_buf_t buffers[2] = {
        uv_buf_init((char *)header, KVR_FRAME_HEADER_BYTES),
        uv_buf_init((char *)frame, (unsigned)bytes),
    };
    int result;

    if (bytes <= CORKED_BYTES_MAX || channel->tls != NULL)
        return 0;
    write_now(channel);
    if (channel->ring_used > 0)
        return 0;
    result = uv_try_write((uv_stream_t *)&channel->tcp, buffers, 2);
    return result > 0 ? (size_t)result : 0;
}

kvr_status kvr_channel_send(struct kvr_channel *channel, const uint8_t *frame, size_t bytes)
{
    uint8_t header[KVR_FRAME_HEADER_BYTES];
    size_t went, of_header;

    assert(bytes <= KVR_FRAME_BYTES_MAX);
    if (channel->state != KVR_CHANNEL_UP)
        return KVR_PEER_LOST;
    if (channel->ring_used + KVR_FRAME_HEADER_BYTES + bytes > KVR_CHANNEL_QUEUE_BYTES) {
        channel->starved = true;
        return KVR_AGAIN;
    }
    kvr_frame_header((uint32_t)bytes, header);
    went = try_write(channel, header, frame, bytes);
    of_header = went < sizeof(header) ? went : sizeof(header);
    kvr_channel_put(channel, header + of_header, sizeof(header) - of_header);
    kvr_channel_put(channel, frame + (went - of_header), bytes - (went - of_header));
    if (channel->ring_used > 0 && channel->flying == 0)
        uv_prepare_start(&channel->corking, on_cork);
    return KVR_OK;
}

/* ---- reading ---- */

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buffer)
{
    static thread_local char ciphertext[65536]; /* used up before the next read */
    struct kvr_channel *channel = handle->data;
    size_t room;
    uint8_t *memory;

    (void)suggested;
    if (channel->state == KVR_CHANNEL_SECURING) { /* without room libuv reads nothing */
        bool now = kvr_listener_step(channel);

        *ret_buffer = uv_buf_init(ciphertext, now ? KVR_CHANNEL_STEP_BYTES : 0);
        return;
    }
    if (channel->tls != NULL) {
        *ret_buffer = uv_buf_init(ciphertext, sizeof(ciphertext));
        return;
    }
    if (channel->state == KVR_CHANNEL_FINISHING)
        channel->parser.taken = channel->parser.filled;
    memory = kvr_frame_parser_room(&channel->parser, &room);
    *ret_buffer = uv_buf_init((char *)memory, (unsigned)room);
}

static void frame_refuse(struct kvr_channel *channel, size_t bytes)
{
    bool is_tls = channel->tls == NULL && channel->parser.taken == 0 &&
                  channel->parser.buffer[0] == KVR_TLS_FIRST_BYTE;

    if (is_tls) {
        channel->refusal = KVR_TLS_PLAIN;
        kvr_channel_fail(channel, KVR_MALFORMED,
                         "it speaks TLS, and this agent was started with --insecure");
    } else {
        kvr_channel_fail(channel, KVR_MALFORMED, "a frame of %zu bytes: at most %u are allowed",
                         bytes, KVR_FRAME_BYTES_MAX);
    }
}

void kvr_channel_give_frames(struct kvr_channel *channel)
{
    struct kvr_channel_handler *handler = &channel->options.handler;
    const uint8_t *frame;
    kvr_status status = KVR_OK;
    size_t bytes = 0;

    while (channel->state == KVR_CHANNEL_UP) { /* each frame may end it */
        status = kvr_frame_parser_next(&channel->parser, &frame, &bytes);
        if (status != KVR_OK)
            break;
        handler->frame(handler->self, channel, frame, bytes);
    }
    if (status == KVR_MALFORMED)
        frame_refuse(channel, bytes);
}

static void read_ended(struct kvr_channel *channel, ssize_t result)
{
    if (channel->state == KVR_CHANNEL_SECURING)
        kvr_channel_handshake_cut(channel, "it ended the connection in the TLS handshake");
    else if (result == UV_EOF)
        kvr_channel_fail(channel, KVR_SYSTEM, "the other side closed the connection");
    else
        kvr_channel_fail(channel, KVR_SYSTEM, "cannot read: %s", uv_strerror((int)result));
}

static void read_some(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    struct kvr_channel *channel = stream->data;

    if (count == UV_ENOBUFS && channel->state == KVR_CHANNEL_SECURING) {
        uv_read_stop(stream); /* kvr_channel_go_on follows */
    } else if (count < 0) {
        read_ended(channel, count);
    } else if (count > 0 && channel->tls != NULL) {
        kvr_channel_decrypt(channel, (const uint8_t *)buffer->base, (size_t)count);
    } else if (count > 0) {
        kvr_frame_parser_filled(&channel->parser, (size_t)count);
        kvr_channel_give_frames(channel);
    }
}

void kvr_channel_go_on(struct kvr_channel *channel)
{
    uv_read_start((uv_stream_t *)&channel->tcp, on_room, read_some);
}

void kvr_channel_begin(struct kvr_channel *channel, bool accepted)
{
    struct kvr_channel_handler *handler = &channel->options.handler;
    unsigned timeout_ms = channel->options.user_timeout_ms;
    uv_os_fd_t fd;

    uv_tcp_nodelay(&channel->tcp, 1);
    if (timeout_ms != 0 && uv_fileno((uv_handle_t *)&channel->tcp, &fd) == 0)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
    if (channel->options.credentials != NULL) {
        channel->state = KVR_CHANNEL_SECURING;
        kvr_channel_secure(channel, accepted);
    } else {
        channel->state = KVR_CHANNEL_UP;
    }
    if (channel->state == KVR_CHANNEL_CLOSED)
        return;
    kvr_channel_go_on(channel);
    if (channel->state == KVR_CHANNEL_UP)
        handler->up(handler->self, channel);
}

/* ---- connecting ---- */

static void on_connected(uv_connect_t *request, int result)
{
    struct kvr_channel *channel = request->data;

    if (channel->state == KVR_CHANNEL_CONNECTING && result < 0)
        kvr_channel_fail(channel, KVR_SYSTEM, "cannot connect: %s", uv_strerror(result));
    else if (channel->state == KVR_CHANNEL_CONNECTING)
        kvr_channel_begin(channel, false);
    let_go(channel);
}

static int start_connect(struct kvr_channel *channel, const struct sockaddr *address)
{
    int result;

    channel->state = KVR_CHANNEL_CONNECTING;
    channel->connecting.data = channel;
    result = uv_tcp_connect(&channel->connecting, &channel->tcp, address, on_connected);
    if (result == 0)
        channel->holds++;
    return result;
}

static const struct addrinfo *choose(const struct addrinfo *list, uint32_t attempt)
{
    const struct addrinfo *at = list;

    while (attempt-- > 0)
        at = at->ai_next != NULL ? at->ai_next : list;
    return at;
}

static void on_resolved(uv_getaddrinfo_t *request, int result, struct addrinfo *list)
{
    struct kvr_channel *channel = request->data;

    if (channel->state == KVR_CHANNEL_RESOLVING && result == 0)
        result = start_connect(channel, choose(list, channel->options.attempt)->ai_addr);
    if (channel->state != KVR_CHANNEL_CLOSED && result < 0)
        kvr_channel_fail(channel, KVR_SYSTEM, "cannot reach it: %s", uv_strerror(result));
    uv_freeaddrinfo(list);
    let_go(channel);
}

static int start_resolve(struct kvr_channel *channel, const struct kvr_address *address)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    char port[8];
    int result;

    snprintf(port, sizeof(port), "%u", address->port);
    channel->resolving.data = channel;
    result = uv_getaddrinfo(channel->tcp.loop, &channel->resolving, on_resolved, address->host,
                            port, &hints);
    if (result == 0) {
        channel->state = KVR_CHANNEL_RESOLVING;
        channel->holds++;
    }
    return result;
}

kvr_status kvr_channel_dial(uv_loop_t *loop, const char *text,
                            const struct kvr_channel_options *options,
                            struct kvr_channel **ret_channel, struct kvr_error *error)
{
    struct kvr_address address;
    struct sockaddr_storage socket;
    struct kvr_channel *channel;
    socklen_t bytes;
    int result;

    KVR_TRY(kvr_address_parse(text, -1, error, &address));
    channel = kvr_channel_new(loop, options);
    if (channel == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "channel", "no memory for a connection");
    kvr_address_print(&address, channel->name);
    if (kvr_address_to_socket(&address, &socket, &bytes) == KVR_OK)
        result = start_connect(channel, (const struct sockaddr *)&socket);
    else
        result = start_resolve(channel, &address);
    if (result < 0) {
        kvr_channel_close(channel);
        return kvr_error_system(error, "channel", -result, "cannot dial %s", text);
    }
    *ret_channel = channel;
    return KVR_OK;
}

/* ---- finishing ---- */

static void on_shut_down(uv_shutdown_t *request, int result)
{
    (void)result; /* the other side's end, or the timer, follows */
    let_go(request->data);
}

/* Nothing waits any more, not even the farewell of TLS. */
static bool all_sent(struct kvr_channel *channel)
{
    size_t waiting = channel->ring_used;

    if (channel->tls == NULL || waiting > 0)
        return waiting == 0;
    if (!channel->tls_finished) {
        channel->tls_finished = true;
        kvr_tls_stream_finish(channel->tls);
        kvr_channel_flush(channel);
    }
    (void)kvr_tls_stream_output(channel->tls, &waiting);
    return waiting == 0;
}

/* Closing at once could make the system throw away what the other side has not read yet: we say
 * that nothing more comes and wait for its end. */
static void shut_down_when_empty(struct kvr_channel *channel)
{
    if (channel->state != KVR_CHANNEL_FINISHING || channel->shutting.data != NULL ||
        !all_sent(channel))
        return;
    channel->shutting.data = channel;
    if (uv_shutdown(&channel->shutting, (uv_stream_t *)&channel->tcp, on_shut_down) == 0)
        channel->holds++;
    else
        kvr_channel_close(channel);
}

void kvr_channel_wind_up(struct kvr_channel *channel)
{
    channel->state = KVR_CHANNEL_FINISHING;
    kvr_channel_start_timer(channel, KVR_CHANNEL_FINISH_MS);
    shut_down_when_empty(channel);
}

void kvr_channel_finish(struct kvr_channel *channel)
{
    if (channel->state == KVR_CHANNEL_UP)
        kvr_channel_wind_up(channel);
    else if (channel->state != KVR_CHANNEL_FINISHING)
        kvr_channel_close(channel);
}

/* ---- the rest ---- */

void kvr_channel_trust(struct kvr_channel *channel)
{
    if (channel->state == KVR_CHANNEL_UP) {
        kvr_listener_forget(channel);
        uv_timer_stop(&channel->timer);
    }
}

const char *kvr_channel_name(const struct kvr_channel *channel)
{
    return channel->name;
}

void kvr_channel_set_owner(struct kvr_channel *channel, void *owner)
{
    channel->owner = owner;
}

void *kvr_channel_owner(const struct kvr_channel *channel)
{
    return channel->owner;
}
