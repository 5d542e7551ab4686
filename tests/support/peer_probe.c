#include "tests/support/peer_probe.h"

#include <signal.h>
#include <stdio.h>

#include "base/entropy.h"
#include "wire/compat.h"

#define SHORT_BEAT_MS 250

uv_loop_t loop;
uint32_t beat_ms = SHORT_BEAT_MS;
struct probe source, target;
struct kvr_credentials *source_credentials, *target_credentials;
char address[64];

static void on_hello(void *self, struct kvr_msg_hello *ret_hello)
{
    *ret_hello = ((struct probe *)self)->hello;
}

static void on_up(void *self, kvr_ns now, uint32_t peer, const struct kvr_msg_hello *hello)
{
    struct probe *probe = self;

    (void)now;
    assert_true(hello->boot != 0);
    probe->up++;
    probe->peer = peer;
}

static void on_message(void *self, kvr_ns now, uint32_t peer, const struct kvr_message *message)
{
    struct probe *probe = self;

    (void)now;
    (void)peer;
    probe->came++;
    probe->in_order &= message->kind == KVR_MSG_PAGES && message->pages.page_first == probe->came;
}

static void on_lost(void *self, kvr_ns now, uint32_t peer, kvr_status status, const char *detail)
{
    struct probe *probe = self;
    struct kvr_message message = {.kind = KVR_MSG_PAGES};

    assert_int_equal(kvr_peers_send(probe->peers, peer, &message), KVR_PEER_LOST);
    probe->lost++;
    probe->status = status;
    probe->lost_at = now;
    snprintf(probe->detail, sizeof(probe->detail), "%s", detail);
    if (probe->redial) {
        probe->redial = false;
        assert_int_equal(
            kvr_peers_dial(probe->peers, probe->redial_address, &probe->redialed_as, NULL), KVR_OK);
    }
}

static void on_writable(void *self, kvr_ns now, uint32_t peer)
{
    (void)now;
    (void)peer;
    ((struct probe *)self)->writable++;
}

static void on_turned_away(void *self, kvr_ns now, const char *who, kvr_status status,
                           const char *detail)
{
    struct probe *probe = self;

    (void)now;
    (void)status;
    assert_true(who[0] != '\0');
    probe->turned_away++;
    snprintf(probe->detail, sizeof(probe->detail), "%s", detail);
}

static void on_refused(void *self, kvr_tls_refusal refusal)
{
    struct probe *probe = self;

    probe->refused++;
    probe->refusal = refusal;
}

bool sanitized(void)
{
    const char *sanitizer = getenv("KVRAIL_SANITIZE");

    return sanitizer != NULL && sanitizer[0] != '\0';
}

/* In a test's process and in its children's: what they have in common. */
static void prepare(void)
{
    signal(SIGPIPE, SIG_IGN); /* as in an agent */
    if (sanitized() && beat_ms < 600)
        beat_ms = 600;
}

void open_table(struct probe *probe, uv_loop_t *on, const char *agent, uint64_t boot)
{
    struct kvr_peers_options options;

    prepare();
    options = (struct kvr_peers_options){
        .owner = {probe, on_hello, on_up, on_message, on_lost, on_writable, on_refused,
                  on_turned_away},
        .beat_ms = beat_ms,
        .queue_bytes = 2u << 20,
        .queue_count = 512,
        .credentials = probe == &source ? source_credentials : target_credentials,
        .roles = 1u << (probe == &source ? KVR_IDENTITY_DECODE : KVR_IDENTITY_PREFILL),
    };

    *probe = (struct probe){.in_order = true};
    snprintf(probe->hello.agent, sizeof(probe->hello.agent), "%s", agent);
    strcpy(probe->hello.provider, "tcp");
    probe->hello.boot = boot;
    probe->hello.limits = (struct kvr_write_limits){1, 1, KVR_CHUNK_BYTES_MIN, false};
    assert_int_equal(kvr_peers_open(on, &options, &probe->peers, NULL), KVR_OK);
}

void listen_at(struct probe *probe, const char *at)
{
    struct kvr_error error = {0};

    if (kvr_peers_listen(probe->peers, at, &error) != KVR_OK)
        fail_msg("%s", error.detail);
    snprintf(address, sizeof(address), "127.0.0.1:%u", kvr_peers_port(probe->peers));
}

int begin(void **state)
{
    (void)state;
    uv_loop_init(&loop);
    open_table(&source, &loop, "source", kvr_random_u64() | 1);
    open_table(&target, &loop, "target", kvr_random_u64() | 1);
    listen_at(&source, "127.0.0.1:0");
    return 0;
}

int begin_as_agents(void **state)
{
    beat_ms = KVR_PEERS_BEAT_MS;
    return begin(state);
}

int begin_patient(void **state)
{
    beat_ms = KVR_BEAT_MS_MAX;
    return begin(state);
}

int end(void **state)
{
    (void)state;
    beat_ms = SHORT_BEAT_MS;
    kvr_peers_close(target.peers);
    kvr_peers_close(source.peers);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}

kvr_status send_counter(struct probe *from, uint32_t peer, uint32_t counter, uint32_t runs)
{
    static struct kvr_page_run many[KVR_RUNS_PER_MESSAGE];
    struct kvr_message message = {.kind = KVR_MSG_PAGES, .transfer = 1};

    for (uint32_t i = 0; i < runs; i++)
        many[i] = (struct kvr_page_run){i * 7919, 1};
    message.pages = (struct kvr_msg_pages){0, counter, many, runs, false};
    return kvr_peers_send(from->peers, peer, &message);
}

uint32_t dial(const char *to)
{
    uint32_t peer;

    assert_int_equal(kvr_peers_dial(target.peers, to, &peer, NULL), KVR_OK);
    return peer;
}

uint32_t meet(void)
{
    uint32_t peer = dial(address);

    LOOP_UNTIL(&loop, target.up == 1 && source.up == 1);
    return peer;
}

void run_for(uint64_t ms)
{
    kvr_ns until = kvr_clock_now() + ms * KVR_MS;

    while (kvr_clock_now() < until)
        loop_run_some(&loop);
}

void expect_lost(const struct probe *probe, kvr_status status, const char *words)
{
    assert_int_equal(probe->lost, 1);
    if (probe->status != status || strstr(probe->detail, words) == NULL)
        fail_msg("%s \"%s\" is not \"%s\"", kvr_status_name(probe->status), probe->detail, words);
}
