/* Goal: an agent makes no context on any GPU before a region lies on one, so that engines measure
 * their GPU's memory undisturbed. The trial on the rails uses that region's GPU, and leaves nothing
 * behind. Method: a driver of host memory that counts contexts, and a rail that writes down what is
 * registered. */
#include "tests/support/check.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "agent/agent_state.h"
#include "device/device_cuda.h"

static struct kvr_rail_facts facts = {.name = "card", .device = {.dmabuf = KVR_WHY_NOTHING}};
static struct kvr_memory_span registered;
static unsigned registrations, open_now;

static const struct kvr_rail_facts *rail_facts(const struct kvr_rail *rail)
{
    (void)rail;
    return &facts;
}

static kvr_status memory_register(struct kvr_rail *rail, const struct kvr_memory_span *span,
                                  struct kvr_memory **ret_memory, struct kvr_error *error)
{
    (void)rail, (void)error;
    registered = *span;
    registrations++;
    open_now++;
    *ret_memory = (struct kvr_memory *)(void *)&registrations;
    return KVR_OK;
}

static void memory_release(struct kvr_memory *memory)
{
    (void)memory;
    open_now--;
}

static const struct kvr_fabric_ops ops = {
    .rail_facts = rail_facts, .memory_register = memory_register, .memory_release = memory_release};
static struct kvr_agent_config config = {.device = "cuda"};
static struct kvr_agent agent = {
    .config = &config, .provider = "verbs", .fabric = {.ops = &ops}, .rail_count = 2};

static void *symbol(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);

    assert_non_null(found);
    return found;
}

static unsigned retains(void)
{
    return ((unsigned (*)(void))symbol("fake_cuda_retains"))();
}

static int contexts(int gpu)
{
    return ((int (*)(int))symbol("fake_cuda_contexts"))(gpu);
}

static void a_start_makes_no_context(void **state)
{
    unsigned before = retains();

    (void)state;
    agent_trial_announce(&agent);
    assert_int_equal(retains(), before);
    assert_int_equal(registrations, 0);
}

static void the_trial_is_of_the_region_s_gpu(void **state)
{
    struct kvr_device *device = NULL;
    struct kvr_error error;

    (void)state;
    assert_int_equal(kvr_device_cuda_open(1, KVR_CUDA_COPIER_AUTO, &device, &error), KVR_OK);
    assert_int_equal(contexts(1), 1);
    agent_trial(&agent, device);
    assert_int_equal(registrations, 2); /* a rail each */
    assert_int_equal(open_now, 0);
    assert_int_equal(registered.kind, KVR_SPAN_DMABUF);
    assert_int_equal(registered.device, 1);
    assert_int_equal(contexts(0), 0);
    assert_int_equal(contexts(1), 1);
    kvr_device_close(device);
    assert_int_equal(contexts(1), 0);
}

/* A context of this driver takes 500 MiB. */
static void a_device_says_what_it_takes(void **state)
{
    struct kvr_device *device = NULL, *second = NULL;
    struct kvr_error error;

    (void)state;
    assert_int_equal(kvr_device_cuda_open(1, KVR_CUDA_COPIER_AUTO, &device, &error), KVR_OK);
    assert_int_equal(device->held_bytes, 500u << 20);
    assert_int_equal(kvr_device_cuda_open(1, KVR_CUDA_COPIER_AUTO, &second, &error), KVR_OK);
    assert_int_equal(second->held_bytes, 0); /* a process has one context on a GPU */
    kvr_device_close(second);
    kvr_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_makes_no_context),
        cmocka_unit_test(the_trial_is_of_the_region_s_gpu),
        cmocka_unit_test(a_device_says_what_it_takes),
    };
    struct kvr_device_cuda_facts gpus[2];

    setenv("FAKE_CUDA_GPUS", "2", 1);
    if (kvr_device_cuda_list(gpus, 2, NULL) != 2) /* it loads the driver */
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
