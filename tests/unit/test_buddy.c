/* Goal: blocks never overlap, lie inside the memory, and all memory comes back. Method: random
 * allocations, each filled with its own byte and checked before it is freed. */
#include "tests/support/check.h"

#include "base/buddy.h"
#include "base/rng.h"

#define MEMORY_BYTES (1 << 20)
#define BLOCKS       500

struct block {
    unsigned char *memory;
    size_t bytes;
    unsigned char fill;
};

static unsigned char *memory;

static int get_memory(void **state)
{
    (void)state;
    memory = malloc(MEMORY_BYTES);
    return memory == NULL;
}

static int put_memory(void **state)
{
    (void)state;
    free(memory);
    return 0;
}

static void check_and_free(struct kvr_buddy *buddy, struct block *block)
{
    for (size_t i = 0; i < block->bytes; i++)
        assert_int_equal(block->memory[i], block->fill);
    kvr_buddy_free(buddy, block->memory);
    block->memory = NULL;
}

static void allocate(struct kvr_buddy *buddy, struct block *block, struct kvr_rng *rng)
{
    block->bytes = kvr_rng_below(rng, (size_t)64 << kvr_rng_below(rng, 9));
    block->memory = kvr_buddy_alloc(buddy, block->bytes);
    if (block->memory == NULL)
        return;
    assert_true((uintptr_t)block->memory % KVR_BUDDY_BLOCK_BYTES == 0);
    assert_true(block->memory >= memory && block->memory + block->bytes <= memory + MEMORY_BYTES);
    block->fill = (unsigned char)kvr_rng_next(rng);
    memset(block->memory, block->fill, block->bytes);
}

/* The largest block that is free at this moment. */
static size_t largest(struct kvr_buddy *buddy)
{
    size_t bytes = (size_t)1 << 30;
    void *block;

    while (bytes > 0 && (block = kvr_buddy_alloc(buddy, bytes)) == NULL)
        bytes /= 2;
    if (bytes > 0)
        kvr_buddy_free(buddy, block);
    return bytes;
}

static void buddy_blocks_never_overlap(void **state)
{
    static struct block blocks[BLOCKS];
    uint64_t cases = check_cases(50000, 5000000);
    struct kvr_buddy buddy;
    struct kvr_rng rng;
    size_t at_first;

    (void)state;
    kvr_rng_init(&rng, 6);
    kvr_buddy_init(&buddy, memory, MEMORY_BYTES);
    at_first = largest(&buddy);
    assert_true(at_first >= MEMORY_BYTES / 4);
    for (uint64_t i = 0; i < cases; i++) {
        struct block *block = &blocks[kvr_rng_below(&rng, BLOCKS)];

        if (block->memory != NULL)
            check_and_free(&buddy, block);
        else
            allocate(&buddy, block, &rng);
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (blocks[i].memory != NULL)
            check_and_free(&buddy, &blocks[i]);
    }
    assert_int_equal(buddy.used_bytes, 0);
    assert_int_equal(largest(&buddy), at_first);
}

static void buddy_uses_nearly_all_memory(void **state)
{
    struct kvr_buddy buddy;
    size_t sizes[] = {256, 300, 1000, 65536, 65536 + 77, MEMORY_BYTES};

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t blocks = 0;

        kvr_buddy_init(&buddy, memory, sizes[i]);
        while (kvr_buddy_alloc(&buddy, 64) != NULL)
            blocks++;
        assert_int_equal(buddy.used_bytes, blocks * 64);
        assert_true(blocks * 65 + 128 >= sizes[i]);
    }
}

static void buddy_full_is_null(void **state)
{
    struct kvr_buddy buddy;
    void *block;

    (void)state;
    kvr_buddy_init(&buddy, memory + 1, 4096);
    assert_null(kvr_buddy_alloc(&buddy, 4096));
    assert_null(kvr_buddy_alloc(&buddy, SIZE_MAX));
    block = kvr_buddy_alloc(&buddy, 0);
    assert_non_null(block);
    kvr_buddy_free(&buddy, block);
    kvr_buddy_free(&buddy, NULL);
}

static void buddy_repeats_itself(void **state)
{
    unsigned char *other = malloc(MEMORY_BYTES + 4096);
    unsigned char *elsewhere = other + (4096 - (uintptr_t)other % 4096) + (uintptr_t)memory % 64;
    struct kvr_buddy a, b;
    struct kvr_rng rng;
    void *old_a = NULL, *old_b = NULL;

    (void)state;
    kvr_rng_init(&rng, 7);
    kvr_buddy_init(&a, memory, MEMORY_BYTES);
    kvr_buddy_init(&b, elsewhere, MEMORY_BYTES);
    for (int i = 0; i < 2000; i++) {
        size_t bytes = kvr_rng_below(&rng, 3000);
        unsigned char *in_a = kvr_buddy_alloc(&a, bytes), *in_b = kvr_buddy_alloc(&b, bytes);

        assert_int_equal(in_a == NULL, in_b == NULL);
        if (in_a != NULL)
            assert_int_equal(in_a - a.memory, in_b - b.memory);
        if (i % 3 == 0) {
            kvr_buddy_free(&a, old_a);
            kvr_buddy_free(&b, old_b);
            old_a = in_a;
            old_b = in_b;
        }
    }
    free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buddy_blocks_never_overlap),
        cmocka_unit_test(buddy_uses_nearly_all_memory),
        cmocka_unit_test(buddy_full_is_null),
        cmocka_unit_test(buddy_repeats_itself),
    };

    return cmocka_run_group_tests(tests, get_memory, put_memory);
}
