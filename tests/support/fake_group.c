#include "tests/support/fake_group.h"

#include <inttypes.h>
#include <stdio.h>

#include "tests/support/check.h"

struct fake fake;

static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void note(const char *format, ...)
{
    size_t used = strlen(fake.log);
    va_list list;

    va_start(list, format);
    vsnprintf(fake.log + used, LOG_BYTES - used, format, list);
    va_end(list);
}

static const struct kvr_rail_facts *fake_facts(const struct kvr_rail *rail)
{
    return &rail->facts;
}

static kvr_status fake_endpoint_open(struct kvr_rail *rail, struct kvr_endpoint **ret_endpoint,
                                     struct kvr_error *error)
{
    struct kvr_endpoint *endpoint;

    if (rail->refuse_open)
        return kvr_error_set(error, KVR_SYSTEM, "fake", "no endpoint");
    assert_true(fake.endpoint_count < 4096);
    endpoint = &fake.endpoints[fake.endpoint_count++];
    memset(endpoint, 0, sizeof(*endpoint));
    endpoint->rail = rail;
    endpoint->number = fake.endpoint_count;
    rail->newest = endpoint;
    *ret_endpoint = endpoint;
    note("open%u ", rail->number);
    return KVR_OK;
}

static void fake_address(const struct kvr_endpoint *endpoint, uint8_t *ret_address,
                         uint32_t *ret_bytes)
{
    memcpy(ret_address, &endpoint->number, sizeof(endpoint->number));
    *ret_bytes = sizeof(endpoint->number);
}

static void fake_stop(struct kvr_endpoint *endpoint)
{
    assert_false(endpoint->stopped);
    endpoint->stopped = true;
    note("stop%u ", endpoint->rail->number);
}

static void fake_close(struct kvr_endpoint *endpoint)
{
    assert_true(endpoint->stopped && !endpoint->closed);
    endpoint->closed = true;
    note("close%u ", endpoint->rail->number);
}

static kvr_status fake_insert(struct kvr_endpoint *endpoint, const uint8_t *address, uint32_t bytes,
                              uint64_t *ret_peer, struct kvr_error *error)
{
    assert_false(endpoint->stopped);
    if (bytes != 1 || address[0] == '?')
        return kvr_error_set(error, KVR_INVALID, "fake", "no address");
    *ret_peer = ++endpoint->peers;
    if (fake.log_inserts)
        note("insert%u(%c) ", endpoint->rail->number, address[0]);
    return KVR_OK;
}

static void fake_remove(struct kvr_endpoint *endpoint, uint64_t peer)
{
    assert_false(endpoint->stopped);
    for (unsigned i = 0; i < endpoint->write_count; i++)
        assert_true(endpoint->writes[i].peer != peer);
    if (fake.log_inserts)
        note("remove%u ", endpoint->rail->number);
}

static kvr_status fake_write(struct kvr_endpoint *endpoint, const struct kvr_fabric_write *write)
{
    assert_false(endpoint->stopped);
    if (endpoint->next_write != KVR_OK)
        return endpoint->next_write;
    if (write->peer == endpoint->dead_peer)
        return KVR_AGAIN;
    if (endpoint->again_once > 0) {
        endpoint->again_once--;
        return KVR_AGAIN;
    }
    if (endpoint->write_count == WRITES)
        return KVR_AGAIN;
    endpoint->writes[endpoint->write_count++] =
        (struct fake_write){write->context, write->peer,         write->immediate,
                            write->more,    write->acknowledged, write->pieces[0]};
    return KVR_OK;
}

static unsigned fake_poll(struct kvr_endpoint *endpoint, struct kvr_completion *ret_completions,
                          unsigned capacity)
{
    void (*happens)(struct kvr_endpoint * endpoint) = fake.while_polled;
    unsigned count;

    assert_false(endpoint->closed);
    fake.while_polled = NULL;
    if (happens != NULL)
        happens(endpoint);
    count = endpoint->queue_count < capacity ? endpoint->queue_count : capacity;
    memcpy(ret_completions, endpoint->queue, count * sizeof(*ret_completions));
    endpoint->queue_count -= count;
    memmove(endpoint->queue, endpoint->queue + count,
            endpoint->queue_count * sizeof(*ret_completions));
    return count;
}

static int fake_wait_fd(const struct kvr_endpoint *endpoint)
{
    (void)endpoint;
    return fake.has_wait_fd ? 0 : -1;
}

static bool fake_may_sleep(struct kvr_endpoint *endpoint)
{
    return endpoint->queue_count == 0;
}

/* Memory is its rail. */
static kvr_status fake_register(struct kvr_rail *rail, const struct kvr_memory_span *span,
                                struct kvr_memory **ret_memory, struct kvr_error *error)
{
    (void)span, (void)error;
    *ret_memory = (struct kvr_memory *)rail;
    return KVR_OK;
}

static void fake_release(struct kvr_memory *memory)
{
    (void)memory;
}

static struct kvr_remote_key fake_key(const struct kvr_memory *memory)
{
    return (struct kvr_remote_key){.key = 100 + ((const struct kvr_rail *)memory)->number};
}

static const struct kvr_fabric_ops fake_ops = {
    .rail_facts = fake_facts,
    .memory_register = fake_register,
    .memory_release = fake_release,
    .memory_key = fake_key,
    .endpoint_open = fake_endpoint_open,
    .endpoint_address = fake_address,
    .endpoint_stop = fake_stop,
    .endpoint_close = fake_close,
    .peer_insert = fake_insert,
    .peer_remove = fake_remove,
    .write = fake_write,
    .poll = fake_poll,
    .endpoint_wait_fd = fake_wait_fd,
    .endpoint_may_sleep = fake_may_sleep,
};
const struct kvr_fabric fake_fabric = {.ops = &fake_ops};

void fake_push(struct kvr_endpoint *endpoint, struct kvr_completion completion)
{
    assert_true(endpoint->queue_count < 2 * WRITES);
    endpoint->queue[endpoint->queue_count++] = completion;
}

/* Completes the i-th oldest write. */
void finish(struct kvr_endpoint *endpoint, unsigned i, kvr_status status)
{
    assert_true(i < endpoint->write_count);
    fake_push(endpoint,
              (struct kvr_completion){
                  .kind = status == KVR_OK ? KVR_COMPLETION_WRITTEN : KVR_COMPLETION_FAILED,
                  .has_context = true,
                  .context = endpoint->writes[i].context,
                  .status = status,
              });
    endpoint->write_count--;
    memmove(endpoint->writes + i, endpoint->writes + i + 1,
            (endpoint->write_count - i) * sizeof(endpoint->writes[0]));
}

void finish_all(struct kvr_endpoint *endpoint)
{
    while (endpoint->write_count > 0)
        finish(endpoint, 0, KVR_OK);
}

void arrive(struct kvr_endpoint *endpoint, uint64_t immediate)
{
    fake_push(endpoint,
              (struct kvr_completion){.kind = KVR_COMPLETION_ARRIVED, .immediate = immediate});
}

/* The user. */
static void user_command(void *self, kvr_ns now, const struct kvr_group_message *message)
{
    (void)self;
    (void)now;
    note("command%u ", message->head.kind);
}

static void user_written(void *self, kvr_ns now, uint64_t token, uint32_t count, kvr_status status)
{
    (void)self;
    (void)now;
    assert_true(token < TOKENS);
    fake.written_count[token] += count;
    fake.written_status[token] = status;
    note("written%llu:%s ", (unsigned long long)token, kvr_status_name(status));
}

static void user_unmoved(void *self, kvr_ns now, uint32_t rail, uint32_t epoch, uint64_t immediate)
{
    (void)self, (void)now;
    note("unmoved%u/%u:%" PRIu64 " ", rail, epoch, immediate);
}

static void user_arrived(void *self, kvr_ns now, uint32_t rail, uint32_t epoch, uint64_t immediate)
{
    (void)self;
    (void)now;
    fake.arrived_count++;
    fake.arrived_epoch = epoch;
    note("arrived%u/%u:%" PRIu64 " ", rail, epoch, immediate);
    if (fake.tell_arrivals) {
        union fake_arrival arrival = {.head.kind = KVR_GROUP_KIND_USER,
                                      .number = fake.arrived_count};

        kvr_group_tell(fake.group, &arrival.any);
    }
}

static void user_epoch_closed(void *self, kvr_ns now, uint32_t rail, uint32_t epoch)
{
    (void)self;
    (void)now;
    note("closed%u/%u ", rail, epoch);
}

static bool user_work(void *self, kvr_ns now)
{
    (void)self;
    (void)now;
    return false;
}

static bool user_expecting(void *self)
{
    (void)self;
    return false;
}

static const struct kvr_group_user writes_down = {.command = user_command,
                                                  .written = user_written,
                                                  .arrived = user_arrived,
                                                  .unmoved = user_unmoved,
                                                  .epoch_closed = user_epoch_closed,
                                                  .work = user_work,
                                                  .expecting = user_expecting};

bool fake_rings_by_itself;
uint32_t fake_same_host;
bool fake_needs_senders, fake_tags;
char fake_networks[FAKE_RAILS][KVR_PLANE_BYTES];

void fixture_open(struct group_fixture *fixture, uint32_t rail_count, uint32_t window,
                  uint32_t ring_entries)
{
    fixture_open_as(fixture, &(struct kvr_group_options){.rail_count = rail_count,
                                                         .window_writes = window,
                                                         .ring_entries = ring_entries,
                                                         .user = writes_down});
}

void fixture_open_as(struct group_fixture *fixture, const struct kvr_group_options *given)
{
    struct kvr_group_options options = *given;
    struct kvr_error error;
    static uint8_t memory[1 << 16];

    memset(&fake, 0, sizeof(fake));
    memset(fixture, 0, sizeof(*fixture));
    for (unsigned i = 0; i < FAKE_RAILS; i++) {
        fixture->rails[i].number = i;
        fixture->rails[i].facts.same_host_only = (fake_same_host >> i & 1) != 0;
        fixture->rails[i].facts.needs_senders = fake_needs_senders;
        memcpy(fixture->rails[i].facts.network, fake_networks[i], KVR_PLANE_BYTES);
        fixture->rails[i].facts.immediate_bits = fake_tags ? 64 : 32;
        fixture->rails[i].facts.write =
            (struct kvr_write_facts){.pieces_local = 4,
                                     .pieces_remote = 4,
                                     .bytes_max = 1 << 20,
                                     .outstanding_max = WRITES,
                                     .doorbells = !fake_rings_by_itself};
        fixture->rail_list[i] = &fixture->rails[i];
    }
    options.fabric = &fake_fabric;
    options.rails = fixture->rail_list;
    if (options.user.command == NULL)
        options.user = writes_down;
    fixture->local.layout.bytes = fixture->remote.layout.bytes = sizeof(memory);
    fixture->local.base = memory;
    fixture->local.rail_count = FAKE_RAILS;
    fixture->remote.rail_count = KVR_RAILS_MAX;
    assert_int_equal(kvr_group_open(&options, &fixture->group, &error), KVR_OK);
    fake.group = fixture->group;
    fake.log[0] = '\0';
}

void fixture_open_in(struct group_fixture *fixture, const char *planes,
                     const struct kvr_group_options *given)
{
    struct kvr_group_options options = *given;

    for (unsigned i = 0; i < FAKE_RAILS; i++)
        snprintf(fake_networks[i], KVR_PLANE_BYTES, "%.1s", i < strlen(planes) ? planes + i : "");
    options.rail_count = (uint32_t)strlen(planes);
    options.ring_entries = 64;
    fixture_open_as(fixture, &options);
    memset(fake_networks, 0, sizeof(fake_networks));
}

bool event(struct group_fixture *fixture, struct kvr_group_message *message)
{
    memset(message, 0, sizeof(*message));
    return kvr_group_event(fixture->group, message);
}

void command(struct group_fixture *fixture, uint32_t kind, uint32_t index, void *pointer)
{
    struct kvr_group_message message = {.head.kind = kind};

    switch (kind) {
    case KVR_GROUP_PEER_ADD:
        message.peer_rails.peer = index;
        message.peer_rails.rails = pointer;
        break;
    case KVR_GROUP_PEER_RAIL:
        message.peer_rail.peer = index;
        message.peer_rail.address = pointer;
        break;
    case KVR_GROUP_PEER_DROP:
        message.peer_drop.peer = index;
        break;
    default:
        assert_int_equal(kind, KVR_GROUP_RECYCLE);
        message.recycle.rail = index;
    }
    assert_true(kvr_group_command(fixture->group, &message));
    assert_true(kvr_group_step(fixture->group, 1));
}

void fixture_settle(struct group_fixture *fixture, kvr_ns now)
{
    while (kvr_group_step(fixture->group, now))
        ;
}

void fixture_tell(struct group_fixture *fixture, kvr_ns now,
                  const struct kvr_group_message *message)
{
    assert_true(kvr_group_command(fixture->group, message));
    fixture_settle(fixture, now);
}

bool fixture_told(struct group_fixture *fixture, uint32_t kind,
                  struct kvr_group_message *ret_message)
{
    while (kvr_group_event(fixture->group, ret_message))
        if (ret_message->head.kind == kind)
            return true;
    return false;
}

void peer_add(struct group_fixture *fixture, uint32_t peer, uint32_t rail_count)
{
    struct kvr_group_message answer;
    struct kvr_peer_rails *rails = &fixture->peer_rails[peer];

    rails->rail_count = rail_count;
    for (uint32_t i = 0; i < rail_count; i++)
        rails->rails[i] =
            (struct kvr_rail_address){.rail = i, .epoch = 1, .bytes = 1, .address = {'a' + i}};
    command(fixture, KVR_GROUP_PEER_ADD, peer, rails);
    assert_true(event(fixture, &answer));
    assert_int_equal(answer.head.kind, KVR_GROUP_PEER_ADDED);
    assert_int_equal(answer.peer_rails.status, KVR_OK);
    assert_ptr_equal(answer.peer_rails.rails, rails);
}

kvr_status post_bytes(struct group_fixture *fixture, uint32_t peer, uint64_t bytes, bool more,
                      struct kvr_pair *ret_pair)
{
    struct kvr_group_piece piece = {&fixture->local, &fixture->remote, 0, 0, bytes, NULL};
    struct kvr_group_post post = {.peer = peer,
                                  .immediate = (uint32_t)fixture->token,
                                  .pieces = &piece,
                                  .piece_count = 1,
                                  .token = fixture->token,
                                  .more = more};
    kvr_status status = kvr_group_post(fixture->group, &post, ret_pair);

    if (status == KVR_OK)
        fixture->token++;
    return status;
}

kvr_status post(struct group_fixture *fixture, uint32_t peer, struct kvr_pair *ret_pair)
{
    return post_bytes(fixture, peer, 100, false, ret_pair);
}
