#include "tests/support/local_pair.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memfd.h"
#include "fabric/local/fabric_local.h"
#include "tests/support/check.h"

#define ROUNDS 1000 /* polls after which nothing more is to come */

unsigned pair_unseen;

static void on_unseen(const struct kvr_error *error)
{
    assert_true(strlen(error->detail) > 10);
    pair_unseen++;
}

static void side_open(struct pair *pair, enum side which)
{
    const struct kvr_fabric_ops *ops = pair->fabric.ops;
    struct side_of *side = &pair->sides[which];
    struct kvr_rail_options options = {.provider = "local", .copy_threads = 2, .unseen = on_unseen};
    struct kvr_memory_span span = {.bytes = PAIR_BYTES, .local = true, .remote = which == TARGET};
    struct kvr_error error;

    assert_int_equal(kvr_memfd_create(which == WRITER ? "kvr-test-w" : "kvr-test-t", PAIR_BYTES,
                                      "test", &side->fd, &error),
                     KVR_OK);
    side->bytes = mmap(NULL, PAIR_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, side->fd, 0);
    assert_ptr_not_equal(side->bytes, MAP_FAILED);
    memset(side->bytes, which == WRITER ? 'w' : 't', PAIR_BYTES);
    span.base = side->bytes;
    span.fd = side->fd;
    assert_int_equal(ops->rail_open(NULL, &options, &side->rail, &error), KVR_OK);
    assert_int_equal(ops->memory_register(side->rail, &span, &side->memory, &error), KVR_OK);
    assert_int_equal(ops->endpoint_open(side->rail, &side->endpoint, &error), KVR_OK);
    side->key = ops->memory_key(side->memory);
}

void connect_to_target(struct pair *pair)
{
    uint8_t address[KVR_ADDRESS_BYTES];
    struct kvr_error error;
    uint32_t bytes;

    pair->fabric.ops->endpoint_address(pair->sides[TARGET].endpoint, address, &bytes);
    assert_int_equal(pair->fabric.ops->peer_insert(pair->sides[WRITER].endpoint, address, bytes,
                                                   &pair->peer, &error),
                     KVR_OK);
}

int pair_setup(void **state)
{
    struct pair *pair = calloc(1, sizeof(*pair));

    assert_non_null(pair);
    kvr_fabric_local(&pair->fabric);
    side_open(pair, TARGET);
    side_open(pair, WRITER);
    connect_to_target(pair);
    *state = pair;
    return 0;
}

int pair_teardown(void **state)
{
    struct pair *pair = *state;
    const struct kvr_fabric_ops *ops = pair->fabric.ops;

    for (int i = 0; i < 2; i++) {
        struct side_of *side = &pair->sides[i];

        ops->endpoint_stop(side->endpoint);
        ops->endpoint_close(side->endpoint);
        ops->memory_release(side->memory);
        ops->rail_close(side->rail);
        munmap(side->bytes, PAIR_BYTES);
        close(side->fd);
    }
    free(pair);
    return 0;
}

unsigned pair_move(struct pair *pair)
{
    struct kvr_completion completions[8];
    unsigned moved = 0;

    for (int i = 0; i < 2; i++) {
        unsigned count = pair->fabric.ops->poll(pair->sides[i].endpoint, completions, 8);

        for (unsigned k = 0; k < count; k++) {
            pair->written += completions[k].kind == KVR_COMPLETION_WRITTEN;
            pair->failed += completions[k].kind == KVR_COMPLETION_FAILED;
            pair->uncopied += completions[k].kind == KVR_COMPLETION_FAILED &&
                              completions[k].status == KVR_COPY_FAILED;
            pair->arrived += completions[k].kind == KVR_COMPLETION_ARRIVED;
            if (completions[k].kind == KVR_COMPLETION_ARRIVED)
                pair->immediate = completions[k].immediate;
        }
        moved += count;
    }
    return moved;
}

void pair_settle(struct pair *pair)
{
    for (unsigned i = 0; i < ROUNDS; i++)
        pair_move(pair);
}

kvr_status pair_post(struct pair *pair, uint32_t immediate, uint64_t offset, bool more)
{
    struct kvr_fabric_piece piece = {
        .local = pair->sides[WRITER].bytes + offset,
        .memory = pair->sides[WRITER].memory,
        .remote = offset,
        .key = pair->sides[TARGET].key.key,
        .bytes = 4096,
    };
    struct kvr_fabric_write write = {.pieces = &piece,
                                     .piece_count = 1,
                                     .peer = pair->peer,
                                     .immediate = immediate,
                                     .context = immediate,
                                     .more = more};

    return pair->fabric.ops->write(pair->sides[WRITER].endpoint, &write);
}

/* A good write over the link that is there now. */
void pair_writes(struct pair *pair)
{
    unsigned arrived = pair->arrived, written = pair->written;

    memset(pair->sides[TARGET].bytes, 't', PAIR_BYTES);
    assert_int_equal(pair_post(pair, 77, 8192, false), KVR_OK);
    pair_settle(pair);
    assert_int_equal(pair->arrived, arrived + 1);
    assert_int_equal(pair->written, written + 1);
    assert_int_equal(pair->immediate, 77);
    assert_int_equal(pair->sides[TARGET].bytes[8191], 't');
    assert_memory_equal(pair->sides[TARGET].bytes + 8192, pair->sides[WRITER].bytes + 8192, 4096);
    assert_int_equal(pair->sides[TARGET].bytes[8192 + 4096], 't');
}

/* The link came to its end, which both sides have seen, and a new one works. */
void pair_begins_anew(struct pair *pair)
{
    unsigned arrived = pair->arrived;

    pair_settle(pair);
    assert_int_equal(pair->arrived, arrived);
    assert_int_equal(pair_post(pair, 1, 0, false), KVR_RAIL_FAILED);
    pair->fabric.ops->peer_remove(pair->sides[WRITER].endpoint, pair->peer);
    connect_to_target(pair);
    pair_writes(pair);
}

struct local_target *link_of(struct pair *pair)
{
    return pair->sides[WRITER].endpoint->targets[pair->peer];
}

/* As if the writer had put this command there itself. */
void pair_put(struct pair *pair, const struct local_command *command)
{
    struct local_target *link = link_of(pair);

    *local_ring_next(link->shared, link->posted) = *command;
    link->contexts[link->posted % LOCAL_WRITES] = 5;
    local_ring_post(link->shared, link->posted++);
}

struct local_command pair_good_command(struct pair *pair)
{
    return (struct local_command){.immediate = 9,
                                  .piece_count = 1,
                                  .pieces = {{.key = pair->sides[TARGET].key.key,
                                              .source = pair->sides[WRITER].memory->name,
                                              .bytes = 64}}};
}

unsigned mappings_of(const char *name)
{
    FILE *file = fopen("/proc/self/maps", "re");
    unsigned count = 0;
    char line[512];

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL)
        count += strstr(line, name) != NULL;
    fclose(file);
    return count;
}
