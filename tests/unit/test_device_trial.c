/* Goal: a rail is asked with a dmabuf as regions are registered, what it answers is reported, and
 * nothing stays behind. Method: a device and a rail that write down what they get. */
#include "tests/support/check.h"

#include <unistd.h>

#include "fabric/device_trial.h"

static struct kvr_device_memory device_memory;
static struct kvr_device_import imported;
static struct kvr_memory_span registered;
static unsigned imports, registrations; /* that are open */
static int dmabuf_fd;
static kvr_status answer;

static kvr_status device_import(struct kvr_device *device, const struct kvr_device_import *import,
                                struct kvr_device_memory **ret_memory, struct kvr_error *error)
{
    (void)device, (void)error;
    imported = *import;
    imports++;
    *ret_memory = &device_memory;
    return KVR_OK;
}

static void device_release(struct kvr_device *device, struct kvr_device_memory *memory)
{
    (void)device;
    assert_ptr_equal(memory, &device_memory);
    imports--;
}

static struct kvr_device_hint device_hint(const struct kvr_device_memory *memory)
{
    (void)memory;
    return (struct kvr_device_hint){.addressable = true,
                                    .address = 0x7000200,
                                    .dmabuf = dmabuf_fd,
                                    .dmabuf_offset = 0x200,
                                    .ordinal = 3};
}

static const struct kvr_device_ops device_ops = {
    .name = "test", .import = device_import, .release = device_release, .hint = device_hint};
static struct kvr_device device = {.ops = &device_ops, .ordinal = 3};

static kvr_status memory_register(struct kvr_rail *rail, const struct kvr_memory_span *span,
                                  struct kvr_memory **ret_memory, struct kvr_error *error)
{
    (void)rail;
    registered = *span;
    if (answer != KVR_OK)
        return kvr_error_set(error, answer, "fabric", "Function not implemented");
    registrations++;
    *ret_memory = (struct kvr_memory *)(void *)&registrations;
    return KVR_OK;
}

static void memory_release(struct kvr_memory *memory)
{
    assert_ptr_equal(memory, &registrations);
    registrations--;
}

static const struct kvr_fabric_ops fabric_ops = {.memory_register = memory_register,
                                                 .memory_release = memory_release};
static const struct kvr_fabric fabric = {.ops = &fabric_ops};

static void a_dmabuf_is_registered_and_released(void **state)
{
    struct kvr_device_trial trial;
    struct kvr_error error = {0};

    (void)state;
    dmabuf_fd = 77;
    answer = KVR_OK;
    assert_int_equal(kvr_device_trial_open(&device, &trial, &error), KVR_OK);
    assert_true(imported.for_cards);
    assert_int_equal(kvr_device_trial_register(&trial, &fabric, NULL, &error), KVR_OK);
    assert_int_equal(registered.kind, KVR_SPAN_DMABUF);
    assert_int_equal(registered.fd, 77);
    assert_int_equal(registered.fd_offset, 0x200);
    assert_ptr_equal(registered.base, (void *)0x7000200);
    assert_int_equal(registered.device, 3);
    assert_true(registered.bytes > 0 && registered.local && registered.remote);
    assert_int_equal(registrations, 0);
    kvr_device_trial_close(&trial);
    assert_int_equal(imports, 0);
}

static void a_refusal_is_reported(void **state)
{
    struct kvr_device_trial trial;
    struct kvr_error error = {0};

    (void)state;
    dmabuf_fd = 77;
    answer = KVR_SYSTEM;
    assert_int_equal(kvr_device_trial_open(&device, &trial, &error), KVR_OK);
    assert_int_equal(kvr_device_trial_register(&trial, &fabric, NULL, &error), KVR_SYSTEM);
    assert_string_equal(error.detail, "Function not implemented");
    kvr_device_trial_close(&trial);
}

static void a_device_without_dmabufs_is_no_trial(void **state)
{
    struct kvr_device_trial trial;
    struct kvr_error error = {0};

    (void)state;
    dmabuf_fd = -1;
    assert_int_equal(kvr_device_trial_open(&device, &trial, &error), KVR_UNSUPPORTED);
    assert_non_null(strstr(error.detail, "GPU 3 gives no dmabuf"));
    assert_int_equal(imports, 0);
}

static void only_rails_that_may_take_one_are_asked(void **state)
{
    struct kvr_rail_facts facts = {0}; /* as tcp's */

    (void)state;
    assert_false(kvr_device_trial_wanted(&facts));
    facts.device.hmem = KVR_WHY_NOTHING;
    facts.device.dmabuf = KVR_WHY_OLD_BUILD;
    assert_false(kvr_device_trial_wanted(&facts));
    facts.device.dmabuf = KVR_WHY_NOTHING;
    assert_true(kvr_device_trial_wanted(&facts));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dmabuf_is_registered_and_released),
        cmocka_unit_test(a_refusal_is_reported),
        cmocka_unit_test(a_device_without_dmabufs_is_no_trial),
        cmocka_unit_test(only_rails_that_may_take_one_are_asked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
