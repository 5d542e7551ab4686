#include "base/buddy.h"

#include <assert.h>
#include <string.h>

#include "base/poison.h"

#define NONE   UINT32_MAX
#define FREE   0x40 /* with the order: a free block begins here */
#define USED   0x80 /* with the order: an allocated block begins here */
#define ORDER  0x3f
#define INSIDE 0x00 /* no block begins here */

/* Lies at the start of every free block. Units, not pointers: the same on every machine. */
struct free_links {
    uint32_t previous, next;
};

static struct free_links *links_of(const struct kvr_buddy *buddy, uint32_t unit)
{
    return (struct free_links *)(void *)(buddy->memory + (size_t)unit * KVR_BUDDY_BLOCK_BYTES);
}

static uint32_t unit_of(const struct kvr_buddy *buddy, const void *block)
{
    size_t offset = (size_t)((const unsigned char *)block - buddy->memory);

    assert(offset % KVR_BUDDY_BLOCK_BYTES == 0 && offset / KVR_BUDDY_BLOCK_BYTES < buddy->units);
    return (uint32_t)(offset / KVR_BUDDY_BLOCK_BYTES);
}

static void put_free(struct kvr_buddy *buddy, uint32_t unit, uint32_t order)
{
    uint32_t next = buddy->free_first[order];

    KVR_UNPOISON(links_of(buddy, unit), sizeof(struct free_links));
    *links_of(buddy, unit) = (struct free_links){NONE, next};
    if (next != NONE)
        links_of(buddy, next)->previous = unit;
    buddy->free_first[order] = unit;
    buddy->orders[unit] = (uint8_t)(FREE | order);
}

static void take_free(struct kvr_buddy *buddy, uint32_t unit, uint32_t order)
{
    const struct free_links *links = links_of(buddy, unit);

    if (links->next != NONE)
        links_of(buddy, links->next)->previous = links->previous;
    if (links->previous != NONE)
        links_of(buddy, links->previous)->next = links->next;
    else
        buddy->free_first[order] = links->next;
    buddy->orders[unit] = INSIDE;
}

void kvr_buddy_init(struct kvr_buddy *buddy, void *memory, size_t bytes)
{
    size_t skipped = -(uintptr_t)memory % KVR_BUDDY_BLOCK_BYTES;
    uint32_t unit = 0;

    assert(bytes >= 256 && bytes <= (size_t)64 << 30);
    KVR_UNPOISON(memory, bytes);
    buddy->memory = (unsigned char *)memory + skipped;
    buddy->units = (uint32_t)((bytes - skipped) / (KVR_BUDDY_BLOCK_BYTES + 1));
    buddy->orders = buddy->memory + (size_t)buddy->units * KVR_BUDDY_BLOCK_BYTES;
    buddy->used_bytes = 0;
    memset(buddy->orders, INSIDE, buddy->units);
    for (uint32_t i = 0; i < KVR_BUDDY_ORDERS; i++)
        buddy->free_first[i] = NONE;
    /* Whole memory as the largest blocks that fit, each at a multiple of its size. */
    for (uint32_t order = KVR_BUDDY_ORDERS; order-- > 0;) {
        if (buddy->units - unit >= UINT32_C(1) << order) {
            put_free(buddy, unit, order);
            unit += UINT32_C(1) << order;
        }
    }
}

static uint32_t order_for(size_t bytes)
{
    uint32_t order = 0;

    while (order < KVR_BUDDY_ORDERS && ((size_t)KVR_BUDDY_BLOCK_BYTES << order) < bytes)
        order++;
    return order;
}

void *kvr_buddy_alloc(struct kvr_buddy *buddy, size_t bytes)
{
    uint32_t wanted = order_for(bytes);
    uint32_t order = wanted;
    uint32_t unit;

    while (order < KVR_BUDDY_ORDERS && buddy->free_first[order] == NONE)
        order++;
    if (order >= KVR_BUDDY_ORDERS)
        return NULL;
    unit = buddy->free_first[order];
    take_free(buddy, unit, order);
    while (order > wanted) {
        order--;
        put_free(buddy, unit + (UINT32_C(1) << order), order);
    }
    buddy->orders[unit] = (uint8_t)(USED | wanted);
    buddy->used_bytes += (size_t)KVR_BUDDY_BLOCK_BYTES << wanted;
    KVR_UNPOISON(links_of(buddy, unit), (size_t)KVR_BUDDY_BLOCK_BYTES << wanted);
    return buddy->memory + (size_t)unit * KVR_BUDDY_BLOCK_BYTES;
}

void kvr_buddy_free(struct kvr_buddy *buddy, void *block)
{
    uint32_t unit, order;

    if (block == NULL)
        return;
    unit = unit_of(buddy, block);
    assert(buddy->orders[unit] & USED);
    order = buddy->orders[unit] & ORDER;
    buddy->used_bytes -= (size_t)KVR_BUDDY_BLOCK_BYTES << order;
    buddy->orders[unit] = INSIDE;
    KVR_POISON(block, (size_t)KVR_BUDDY_BLOCK_BYTES << order);
    while (order + 1 < KVR_BUDDY_ORDERS) {
        uint32_t sibling = unit ^ (UINT32_C(1) << order);

        if (sibling >= buddy->units || buddy->orders[sibling] != (FREE | order))
            break;
        take_free(buddy, sibling, order);
        unit = unit < sibling ? unit : sibling;
        order++;
    }
    put_free(buddy, unit, order);
}
