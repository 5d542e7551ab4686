#include "tests/support/inbound_host.h"

#include "tests/support/check.h"

_Atomic uint64_t revocation_word;
bool revocation_word_shown;

static const _Atomic uint64_t *revocation_word_take(void *self, uint32_t peer, uint64_t words,
                                                    uint32_t number)
{
    (void)self, (void)peer, (void)words;
    return revocation_word_shown && number == 7 ? &revocation_word : NULL;
}

static void revocation_word_return(void *self, const _Atomic uint64_t *taken)
{
    (void)self;
    assert_ptr_equal(taken, &revocation_word);
}

struct kvr_region *target_region(void)
{
    return inbound.engines.local[0].set->locals[0];
}

void meet(bool same_host)
{
    const struct kvr_rail_address rail = {.rail = COPY, .epoch = 1, .same_host = true};
    struct kvr_msg_hello hello = {
        .limits = {1, 1, SMALL_PAGE_BYTES, false}, .rails = &rail, .rail_count = same_host};

    inbound_peer_up(&inbound, now, 0, &hello);
    machine_log_clear();
}

int open_same_host(void **state)
{
    static struct kvr_ports ports;
    static int registration;
    struct kvr_region *region;

    (void)open_inbound(state);
    ports = machine_ports;
    ports.revocation_word_take = revocation_word_take;
    ports.revocation_word_return = revocation_word_return;
    inbound.ports = &ports;
    inbound.options.groups =
        (struct kvr_rail_groups){.count = 1, .first = {0, 2}, .same_host = 1u << COPY};
    region = target_region();
    region->memory[CARD] = region->memory[COPY] = (struct kvr_memory *)&registration;
    revocation_word_shown = true;
    meet(true);
    return 0;
}

const struct transfer *transfer_of(uint64_t nonce)
{
    uint32_t index;

    assert_true(kvr_table_find(&inbound.by_nonce, nonce, &index));
    return kvr_pool_at(&inbound.transfers, index, NULL);
}
