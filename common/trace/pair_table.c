#include "trace/pair_table.h"

#include <stdlib.h>

struct row {
    uint16_t rail, target_rail;
    kvr_pair_state state;
    uint64_t bytes;
    kvr_ns state_ns;
    uint32_t breaks, renewals;
    uint32_t detail; /* where it begins among the texts */
};

/* One block: the rows, then their texts. */
struct peer_rows {
    char name[KVR_NAME_BYTES];
    kvr_ns heard_at;
    uint32_t left_out; /* rows that had no room: then there are none */
    uint32_t count;
    struct row rows[];
};

struct kvr_pair_table {
    uint32_t row_count;
    uint32_t peer_count;
    uint64_t peers_left_out; /* rows of the last peer that had no place */
    struct peer_rows *peers[KVR_PAIR_TABLE_PEERS_MAX];
};

struct kvr_pair_table *kvr_pair_table_open(void)
{
    return calloc(1, sizeof(struct kvr_pair_table));
}

struct kvr_pair_table *kvr_pair_table_close(struct kvr_pair_table *table)
{
    for (uint32_t i = 0; table != NULL && i < table->peer_count; i++)
        free(table->peers[i]);
    free(table);
    return NULL;
}

static void forget(struct kvr_pair_table *table, uint32_t index)
{
    table->row_count -= table->peers[index]->count;
    free(table->peers[index]);
    table->peers[index] = table->peers[--table->peer_count];
}

static void forget_old(struct kvr_pair_table *table, kvr_ns now)
{
    for (uint32_t i = table->peer_count; i > 0; i--)
        if (now > table->peers[i - 1]->heard_at + KVR_PAIR_TABLE_FRESH_NS)
            forget(table, i - 1);
}

static void forget_peer(struct kvr_pair_table *table, const char *name)
{
    for (uint32_t i = table->peer_count; i > 0; i--)
        if (strcmp(table->peers[i - 1]->name, name) == 0)
            forget(table, i - 1);
}

static size_t texts_bytes(const struct kvr_pair_facts *rows, uint32_t count)
{
    size_t bytes = 1; /* "" for all that have none */

    for (uint32_t i = 0; i < count; i++)
        bytes += rows[i].detail[0] != '\0' ? strlen(rows[i].detail) + 1 : 0;
    return bytes;
}

/* NULL: no memory. */
static struct peer_rows *peer_make(const struct kvr_pair_facts *rows, uint32_t count)
{
    struct peer_rows *peer =
        malloc(sizeof(*peer) + count * sizeof(peer->rows[0]) + texts_bytes(rows, count));
    char *texts;
    uint32_t used = 1;

    if (peer == NULL)
        return NULL;
    texts = (char *)&peer->rows[count];
    texts[0] = '\0';
    peer->count = count;
    peer->left_out = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct kvr_pair_facts *from = &rows[i];
        size_t bytes = strlen(from->detail) + 1;

        peer->rows[i] = (struct row){.rail = (uint16_t)from->rail,
                                     .target_rail = (uint16_t)from->target_rail,
                                     .state = from->state,
                                     .bytes = from->bytes,
                                     .state_ns = from->state_ns,
                                     .breaks = from->breaks,
                                     .renewals = from->renewals,
                                     .detail = bytes > 1 ? used : 0};
        if (bytes == 1)
            continue;
        memcpy(texts + used, from->detail, bytes);
        used += (uint32_t)bytes;
    }
    return peer;
}

static void peer_take(struct kvr_pair_table *table, const struct kvr_peer_pairs *from,
                      const struct kvr_pair_facts *rows, kvr_ns now)
{
    struct peer_rows *peer;
    uint32_t room;

    forget_peer(table, from->peer);
    room = KVR_PAIR_TABLE_ROWS_MAX - table->row_count;
    if (from->pair_count == 0)
        return;
    if (table->peer_count == KVR_PAIR_TABLE_PEERS_MAX) {
        table->peers_left_out = from->pair_count;
        return;
    }
    peer = peer_make(rows, from->pair_count <= room ? from->pair_count : 0);
    if (peer == NULL)
        return;
    peer->left_out = from->pair_count - peer->count;
    memcpy(peer->name, from->peer, sizeof(peer->name));
    peer->heard_at = now;
    table->row_count += peer->count;
    table->peers[table->peer_count++] = peer;
}

void kvr_pair_table_take(struct kvr_pair_table *table, const struct kvr_report_pairs *rows,
                         kvr_ns now)
{
    forget_old(table, now);
    if (table->peer_count < KVR_PAIR_TABLE_PEERS_MAX)
        table->peers_left_out = 0;
    for (uint32_t i = 0; i < rows->peer_count; i++)
        peer_take(table, &rows->peers[i], &rows->pairs[rows->peers[i].pair_first], now);
}

static void peer_visit(const struct peer_rows *peer, kvr_ns now, kvr_pair_visit *visit, void *self)
{
    const char *texts = (const char *)&peer->rows[peer->count];
    kvr_ns age = now - peer->heard_at;

    for (uint32_t i = 0; i < peer->count; i++) {
        const struct row *row = &peer->rows[i];

        visit(self, &(struct kvr_pair_row){.peer = peer->name,
                                           .rail = row->rail,
                                           .target_rail = row->target_rail,
                                           .state = row->state,
                                           .bytes = row->bytes,
                                           .detail = texts + row->detail,
                                           .age = age,
                                           .state_ns = row->state_ns > 0 ? row->state_ns + age : 0,
                                           .breaks = row->breaks,
                                           .renewals = row->renewals});
    }
}

uint64_t kvr_pair_table_each(const struct kvr_pair_table *table, const char *peer, kvr_ns now,
                             kvr_pair_visit *visit, void *self)
{
    uint64_t left_out = peer == NULL ? table->peers_left_out : 0;

    for (uint32_t i = 0; i < table->peer_count; i++) {
        const struct peer_rows *rows = table->peers[i];

        if (now > rows->heard_at + KVR_PAIR_TABLE_FRESH_NS ||
            (peer != NULL && strcmp(rows->name, peer) != 0))
            continue;
        left_out += rows->left_out;
        peer_visit(rows, now, visit, self);
    }
    return left_out;
}
