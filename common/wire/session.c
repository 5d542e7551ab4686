#include "wire/session.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/mutant.h"
#include "wire/compat.h"
#include "wire/session_queue.h"

/* HELLO with all rails and engines is the largest message without a number. */
#define SCRATCH_BYTES 16384
/* So much received is acknowledged at once, not at the next beat. */
#define EARLY_BYTES   (256u << 10)
#define EARLY_COUNT   256

/* What this side has to say on this connection before it may say anything else; sent from the
 * lowest bit on. */
enum owed {
    OWE_HELLO = 1,
    OWE_WELCOME = 2,
    OWE_RESUME = 4,
    OWE_BEAT = 8,
};

struct kvr_session {
    struct kvr_session_options options;
    struct kvr_session_queue queue;
    uint32_t owed;
    bool connected; /* a connection is up */
    bool greeted;   /* HELLO and WELCOME are exchanged on it */
    bool flowing;   /* the peer's RESUME has come: numbered messages may go */
    bool confirmed; /* flowing was true once */
    bool starved;   /* send returned KVR_AGAIN, and writable() has not been called since */
    bool excused;   /* `absent` was allowed for since the peer was last heard */
    bool ended;
    uint32_t version;
    uint64_t number; /* 0 until the session has begun */
    uint64_t peer_boot;
    uint32_t peer_beat_ms;
    uint64_t seen;                   /* number of the last message delivered */
    uint32_t news_bytes, news_count; /* received since the last BEAT or RESUME that we sent */
    kvr_ns heard_at, beat_at;
    kvr_ns tick_at;       /* due so that an absence is seen; without a peer no beat is */
    kvr_ns absent;        /* how long this side did not run: no silence of the peer's */
    kvr_ns late, late_at; /* the latest that this side came to a tick lately, and when */
    uint8_t scratch[SCRATCH_BYTES];
};

/* The queue's entries follow the session, aligned. */
static size_t head_bytes(void)
{
    return (sizeof(struct kvr_session) + 15) & ~(size_t)15;
}

size_t kvr_session_bytes(const struct kvr_session_options *options)
{
    return head_bytes() + kvr_session_queue_bytes(options->queue_bytes, options->queue_count);
}

struct kvr_session *kvr_session_init(void *memory, const struct kvr_session_options *options,
                                     kvr_ns now)
{
    struct kvr_session *session = memory;

    assert(options->queue_bytes >= KVR_SESSION_QUEUE_BYTES_MIN &&
           options->queue_count >= KVR_SESSION_QUEUE_COUNT_MIN);
    memset(session, 0, sizeof(*session));
    session->options = *options;
    session->heard_at = now;
    session->tick_at = now + options->beat_ms * KVR_MS;
    kvr_session_queue_init(&session->queue, (uint8_t *)memory + head_bytes(), options->queue_bytes,
                           options->queue_count);
    return session;
}

/* ---- saying ---- */

static void own_hello(const struct kvr_session *session, struct kvr_msg_hello *ret_hello)
{
    memset(ret_hello, 0, sizeof(*ret_hello));
    session->options.sink.hello(session->options.sink.self, ret_hello);
    if (ret_hello->version_max == 0) {
        ret_hello->version_min = KVR_PROTOCOL_MIN;
        ret_hello->version_max = KVR_PROTOCOL_MAX;
    }
    ret_hello->session = session->number;
    ret_hello->beat_ms = session->options.beat_ms;
}

static kvr_status say(struct kvr_session *session, const struct kvr_message *message)
{
    size_t bytes;
    kvr_status status;

    status = kvr_message_encode(message, session->scratch, sizeof(session->scratch), &bytes);
    assert(status ==
           KVR_OK); /* our own hello breaks a limit: the program that filled it is wrong */
    return session->options.sink.write(session->options.sink.self, session->scratch, bytes);
}

static kvr_status say_hello(struct kvr_session *session, kvr_message_kind kind)
{
    struct kvr_message message = {.kind = kind};

    own_hello(session, &message.hello);
    if (kind == KVR_MSG_WELCOME)
        message.hello.version_min = message.hello.version_max = session->version;
    return say(session, &message);
}

static kvr_status say_seen(struct kvr_session *session, kvr_message_kind kind)
{
    struct kvr_message message = {.kind = kind, .seen = {session->number, session->seen}};

    KVR_TRY(say(session, &message));
    session->news_bytes = session->news_count = 0;
    return KVR_OK;
}

static kvr_status say_owed(struct kvr_session *session, kvr_ns now, uint32_t owed)
{
    if (owed == OWE_HELLO)
        return say_hello(session, KVR_MSG_HELLO);
    if (owed == OWE_WELCOME)
        return say_hello(session, KVR_MSG_WELCOME);
    session->beat_at = now + session->options.beat_ms * KVR_MS;
    return say_seen(session, owed == OWE_RESUME ? KVR_MSG_RESUME : KVR_MSG_BEAT);
}

/* Says what is owed, then what is queued, until the connection takes no more. */
static void pump(struct kvr_session *session, kvr_ns now)
{
    const struct kvr_session_sink *sink = &session->options.sink;
    const uint8_t *frame;
    size_t bytes;

    while (session->connected && session->owed != 0) {
        uint32_t owed = session->owed & -session->owed;

        if (say_owed(session, now, owed) != KVR_OK)
            return;
        session->owed &= ~owed;
    }
    while (session->connected && session->flowing &&
           kvr_session_queue_next(&session->queue, &frame, &bytes)) {
        if (sink->write(sink->self, frame, bytes) != KVR_OK)
            return;
        kvr_session_queue_sent(&session->queue);
    }
}

/* ---- the end ---- */

/* The last thing that happens to a session: lost() may reuse its memory. */
static void die(struct kvr_session *session, kvr_ns now, kvr_status status, const char *detail)
{
    struct kvr_session_sink sink = session->options.sink;

    session->ended = true;
    session->connected = session->greeted = session->flowing = false;
    sink.lost(sink.self, now, status, detail);
}

static void say_refused(struct kvr_session *session, kvr_status status, const char *detail)
{
    struct kvr_message message = {.kind = KVR_MSG_REFUSED, .reason = {.status = status}};

    if (!session->connected)
        return;
    snprintf(message.reason.detail, sizeof(message.reason.detail), "%s", detail);
    (void)!say(session, &message); /* without room, the closed connection says enough */
}

static void die_saying(struct kvr_session *session, kvr_ns now, kvr_status status,
                       const char *detail)
{
    say_refused(session, status, detail);
    die(session, now, status, detail);
}

void kvr_session_end(struct kvr_session *session, kvr_ns now, kvr_status status, const char *detail)
{
    if (!session->ended)
        die_saying(session, now, status, detail);
}

static void break_off(struct kvr_session *session, kvr_ns now, const char *sentence)
{
    die_saying(session, now, KVR_MALFORMED, sentence);
}

/* ---- silence ---- */

/* A peer that beats much faster than this side is not called silent as fast. Any host may name a
 * short beat, and sessions that begin and end cost this side more than the peer. */
static kvr_ns peer_beat(const struct kvr_session *session)
{
    uint32_t own = session->options.beat_ms, beat = session->peer_beat_ms;
    uint32_t shortest = own / KVR_BEATS_FASTER_MAX;

    if (beat == 0)
        beat = own;
    return (beat > shortest ? beat : shortest) * KVR_MS;
}

static kvr_ns silent_at(const struct kvr_session *session)
{
    return session->heard_at + KVR_BEATS_MAX * peer_beat(session);
}

static void note_lateness(struct kvr_session *session, kvr_ns now)
{
    kvr_ns due = kvr_session_wake(session), late = now > due ? now - due : 0;

    if (late < session->late && now - session->late_at <= KVR_BEATS_MAX * peer_beat(session))
        return;
    session->late = late;
    session->late_at = now;
}

/* A side that was late itself says so: the two sentences together show which side did not run, or
 * that the network was silent. */
static void die_of_silence(struct kvr_session *session, kvr_ns now, const char *sentence)
{
    char detail[KVR_DETAIL_BYTES];

    if (session->excused || session->late <= session->options.beat_ms * KVR_MS / 2)
        return die(session, now, KVR_PEER_LOST, sentence);
    snprintf(detail, sizeof(detail), "%.180s; own beats came up to %" PRIu64 " ms late", sentence,
             session->late / KVR_MS);
    die(session, now, KVR_PEER_LOST, detail);
}

/* ---- connections ---- */

static void heard(struct kvr_session *session, kvr_ns now)
{
    session->heard_at = now;
    session->excused = false;
}

static void new_connection(struct kvr_session *session, uint32_t owed)
{
    session->connected = true;
    session->greeted = session->flowing = false;
    session->owed = owed;
}

void kvr_session_connected(struct kvr_session *session, kvr_ns now)
{
    assert(session->options.dials && !session->ended);
    new_connection(session, OWE_HELLO);
    pump(session, now);
}

void kvr_session_disconnected(struct kvr_session *session, kvr_ns now)
{
    (void)now;
    session->connected = session->greeted = session->flowing = false;
    session->owed = 0;
}

static void begin(struct kvr_session *session, const struct kvr_msg_hello *peer, uint64_t number)
{
    session->number = number;
    session->peer_boot = peer->boot;
    session->peer_beat_ms = peer->beat_ms;
}

void kvr_session_accepted(struct kvr_session *session, kvr_ns now, const struct kvr_msg_hello *peer,
                          uint32_t version, uint64_t number)
{
    const struct kvr_session_sink *sink = &session->options.sink;
    bool fresh = session->number == 0;
    struct kvr_msg_hello begun = *peer;

    assert(!session->options.dials && !session->ended && number != 0);
    assert(fresh || (number == session->number && peer->boot == session->peer_boot));
    heard(session, now);
    if (fresh) { /* a HELLO that resumes was not checked again: what it says now does not count */
        session->version = version;
        begin(session, peer, number);
    }
    new_connection(session, OWE_WELCOME | OWE_RESUME);
    session->greeted = true;
    pump(session, now);
    begun.session = number;
    if (fresh)
        sink->begun(sink->self, now, &begun);
}

/* ---- frames ---- */

static void take_welcome(struct kvr_session *session, kvr_ns now, const struct kvr_msg_hello *peer)
{
    const struct kvr_session_sink *sink = &session->options.sink;
    bool fresh = session->number == 0;
    struct kvr_msg_hello own;
    struct kvr_error error;
    kvr_status status;

    if (!session->options.dials || session->greeted)
        return break_off(session, now, "a WELCOME without a HELLO");
    if (!fresh && peer->boot != session->peer_boot)
        return die_saying(session, now, KVR_PEER_RESTARTED, "it has another boot id");
    if (!fresh && peer->session != session->number)
        return die_saying(session, now, KVR_PEER_LOST, "it had given up this session");
    if (fresh) {
        own_hello(session, &own);
        status = kvr_hello_check(peer, &own, &session->version, &error);
        if (status != KVR_OK)
            return die_saying(session, now, status, error.detail);
        if (peer->session == 0)
            return break_off(session, now, "a WELCOME without a session number");
    }

    if (fresh) /* as in kvr_session_accepted */
        begin(session, peer, peer->session);
    session->greeted = true;
    session->owed |= OWE_RESUME;
    if (fresh) /* first: with RESUME the peer may write to our rails */
        sink->begun(sink->self, now, peer);
    pump(session, now);
}

static void take_refused(struct kvr_session *session, kvr_ns now,
                         const struct kvr_msg_reason *reason)
{
    kvr_status status = reason->status < 0 ? reason->status : KVR_REFUSED;
    char detail[KVR_DETAIL_BYTES];

    note_lateness(session, now);
    /* Agents of version 6 and older name the versions alone. */
    if (status == KVR_VERSION && strstr(reason->detail, "upgrade") == NULL) {
        snprintf(detail, sizeof(detail), "%.200s: upgrade both agents together", reason->detail);
        return die(session, now, status, detail);
    }
    if (status == KVR_PEER_LOST)
        die_of_silence(session, now, reason->detail);
    else
        die(session, now, status, reason->detail);
}

/* RESUME and BEAT: both say what the peer has seen. */
static void take_seen(struct kvr_session *session, kvr_ns now, const struct kvr_msg_seen *seen,
                      bool resume)
{
    const struct kvr_session_sink *sink = &session->options.sink;

    if (!session->greeted || session->flowing == resume || seen->session != session->number)
        return break_off(session, now,
                         resume ? "a RESUME at the wrong place" : "a BEAT at the wrong place");
    if (!kvr_session_queue_acknowledge(&session->queue, seen->seen))
        return break_off(session, now, "it has seen a message that was never sent");
    if (resume) {
        session->flowing = session->confirmed = true;
        kvr_session_queue_rewind(&session->queue);
    }
    pump(session, now);
    if (session->starved && kvr_session_queue_roomy(&session->queue)) {
        session->starved = false;
        sink->writable(sink->self, now);
    }
}

static void take_message(struct kvr_session *session, kvr_ns now, const struct kvr_message *message,
                         size_t bytes)
{
    const struct kvr_session_sink *sink = &session->options.sink;
    char sentence[KVR_DETAIL_BYTES];

    if (!session->flowing)
        return break_off(session, now, "a numbered message before RESUME");
    if (message->sequence <= session->seen && message->sequence != 0)
        return; /* came before the connection broke */
    if (message->sequence != session->seen + 1) {
        snprintf(sentence, sizeof(sentence), "message %" PRIu64 " followed message %" PRIu64,
                 message->sequence, session->seen);
        return break_off(session, now, sentence);
    }
    session->seen++;
    session->news_count++;
    session->news_bytes += (uint32_t)bytes;
    if (session->news_bytes >= EARLY_BYTES || session->news_count >= EARLY_COUNT) {
        session->owed |= OWE_BEAT;
        pump(session, now);
    }
    sink->message(sink->self, now, message);
}

void kvr_session_frame(struct kvr_session *session, kvr_ns now, const uint8_t *frame, size_t bytes)
{
    struct kvr_message message;
    struct kvr_error error = {0};

    if (!session->connected)
        return;
    heard(session, now);
    if (kvr_message_decode(session->options.decoder, frame, bytes, &message, &error) != KVR_OK)
        return break_off(session, now, error.detail);
    switch (message.kind) {
    case KVR_MSG_HELLO:
        return break_off(session, now, "a HELLO at the wrong place");
    case KVR_MSG_WELCOME:
        return take_welcome(session, now, &message.hello);
    case KVR_MSG_REFUSED:
        return take_refused(session, now, &message.reason);
    case KVR_MSG_RESUME:
    case KVR_MSG_BEAT:
        return take_seen(session, now, &message.seen, message.kind == KVR_MSG_RESUME);
    default:
        return take_message(session, now, &message, bytes);
    }
}

/* ---- time ---- */

/* A tick that comes late: this side was away itself, and messages of the peer lie unread; or the
 * whole machine was away. The time that is late does not count as silence, and the session listens
 * for one more beat at least. Once, until the peer is heard. */
static void allow_for_absence(struct kvr_session *session, kvr_ns now)
{
    kvr_ns beat = peer_beat(session), allowed = (KVR_BEATS_MAX - 1) * beat;
    kvr_ns due = kvr_session_wake(session), late = now > due ? now - due : 0;

    if (session->excused || late <= beat / 2 || KVR_MUTANT(peer_blamed_for_own_absence))
        return;
    session->excused = true;
    session->absent = late;
    session->heard_at += late;
    if (session->heard_at > now)
        session->heard_at = now;
    if (now - session->heard_at > allowed)
        session->heard_at = now - allowed;
}

static void find_silent(struct kvr_session *session, kvr_ns now)
{
    uint64_t ms = (now - session->heard_at) / KVR_MS;
    char here[KVR_DETAIL_BYTES], there[KVR_DETAIL_BYTES];

    if (session->excused)
        snprintf(here, sizeof(here),
                 "nothing was heard from it for %" PRIu64
                 " ms (and this process did not run for %" PRIu64 " ms)",
                 ms, session->absent / KVR_MS);
    else
        snprintf(here, sizeof(here), "nothing was heard from it for %" PRIu64 " ms", ms);
    snprintf(there, sizeof(there), "it heard nothing from this side for %" PRIu64 " ms", ms);
    say_refused(session, KVR_PEER_LOST, there);
    die_of_silence(session, now, here);
}

void kvr_session_tick(struct kvr_session *session, kvr_ns now)
{
    if (session->ended)
        return;
    note_lateness(session, now);
    allow_for_absence(session, now);
    session->tick_at = now + session->options.beat_ms * KVR_MS;
    if (now >= silent_at(session))
        return find_silent(session, now);
    if (session->greeted && now >= session->beat_at)
        session->owed |= OWE_BEAT;
    pump(session, now);
}

kvr_ns kvr_session_wake(const struct kvr_session *session)
{
    kvr_ns wake = kvr_min_u64(silent_at(session), session->tick_at);

    if (session->ended)
        return KVR_NEVER;
    if (session->greeted && session->owed == 0 && session->beat_at < wake)
        return session->beat_at;
    return wake;
}

void kvr_session_writable(struct kvr_session *session, kvr_ns now)
{
    pump(session, now);
}

/* ---- the owner's side ---- */

kvr_status kvr_session_send(struct kvr_session *session, kvr_ns now,
                            const struct kvr_message *message)
{
    struct kvr_message numbered = *message;
    kvr_status status;

    if (session->ended)
        return KVR_PEER_LOST;
    if (!kvr_message_numbered(message->kind))
        return KVR_INVALID;
    numbered.sequence = 1; /* a place for its number */
    status = kvr_session_queue_add(&session->queue, &numbered);
    if (status == KVR_AGAIN)
        session->starved = true;
    if (status == KVR_OK && session->owed == 0)
        pump(session, now);
    return status;
}

uint64_t kvr_session_number(const struct kvr_session *session)
{
    return session->number;
}

bool kvr_session_confirmed(const struct kvr_session *session)
{
    return session->confirmed;
}

bool kvr_session_connected_now(const struct kvr_session *session)
{
    return session->greeted;
}
