#include "tests/support/small_stage.h"

#include "tests/support/check.h"

void small_stage_open(struct small_stage *small, struct small_side *side, uint32_t page_count,
                      bool fail, void *user)
{
    struct kvr_device_emulated_options options = {
        .seed = 1, .latency_ns = SMALL_COPY_NS, .fail_promille = fail ? 1000 : 0};
    struct kvr_device_import import = {
        .kind = KVR_DEVICE_MAPPED, .address = side->memory, .bytes = sizeof(side->memory)};

    memset(small, 0, sizeof(*small));
    assert_true(page_count * SMALL_PAGE_BYTES <= sizeof(small->memory));
    assert_int_equal(kvr_device_emulated_open(&options, &small->stage.device, NULL), KVR_OK);
    assert_int_equal(
        small->stage.device->ops->import(small->stage.device, &import, &small->pages, NULL),
        KVR_OK);
    small->stage.base = small->memory;
    small->stage.bytes = page_count * SMALL_PAGE_BYTES;
    small->stage.pinned = &small->pinned;
    small->stage.user = user;
    small->pinned = side->region;
    small->pinned.base = small->memory;
    small->pinned.layout.bytes = small->stage.bytes;
    side->region.path = KVR_PATH_STAGED;
    side->region.stage = &small->stage;
    side->region.pages = small->pages;
    side->region.base = small->memory;
}

void small_stage_close(struct small_stage *small)
{
    small->stage.device->ops->release(small->stage.device, small->pages);
    kvr_device_close(small->stage.device);
}
