/* Goal: the pages of an engine are carried by cards near them. Device memory names its GPU; a GPU
 * that is not known, or an older library, leaves the groups to be taken in turns. Method: the
 * agent's shell with groups and GPUs that are written down. */
#include "tests/support/check.h"

#include <stdio.h>

#include "agent/agent_state.h"

static struct kvr_agent agent;

static int setup(void **state)
{
    (void)state;
    memset(&agent, 0, sizeof(agent));
    agent.groups.count = 4;
    for (uint32_t i = 0; i < 4; i++)
        agent.group[i].node = i / 2;
    agent.gpu_count = 2;
    agent.gpus[0] = (struct agent_gpu){.pci = "0000:4f:00.0", .groups = 2};
    agent.gpus[1] = (struct agent_gpu){.pci = "0000:90:00.0", .groups = 4 | 8};
    return 0;
}

static uint32_t home(uint32_t engine, kvr_memory_kind memory, const char *pci)
{
    struct kvr_req_region region = {.memory = memory, .device = 0};

    snprintf(region.gpu.pci, sizeof(region.gpu.pci), "%s", pci);
    return agent_home_of(&agent, engine, &region, -1);
}

static void device_memory_goes_to_cards_near_its_gpu(void **state)
{
    (void)state;
    assert_int_equal(home(0, KVR_MEMORY_CUDA_VMM, "0000:4f:00.0"), 1);
    assert_int_equal(home(3, KVR_MEMORY_CUDA_IPC, "0000:4f:00.0"), 1);
    assert_int_equal(home(4, KVR_MEMORY_DMABUF, "0000:90:00.0"),
                     2); /* equally near ones in turns */
    assert_int_equal(home(5, KVR_MEMORY_DMABUF, "0000:90:00.0"), 3);
}

static void the_first_region_decides(void **state)
{
    (void)state;
    assert_int_equal(home(0, KVR_MEMORY_CUDA_VMM, "0000:4f:00.0"), 1);
    assert_int_equal(home(0, KVR_MEMORY_CUDA_VMM, "0000:90:00.0"), 1);
}

static void an_unknown_gpu_leaves_groups_in_turns(void **state)
{
    (void)state;
    assert_int_equal(home(0, KVR_MEMORY_CUDA_VMM, ""), 0);
    assert_int_equal(home(6, KVR_MEMORY_CUDA_VMM, "0000:ff:00.0"), 2);
    assert_int_equal(home(7, KVR_MEMORY_MEMFD, ""), 3); /* a descriptor without pages */
    agent.groups.count = 1;
    assert_int_equal(home(5, KVR_MEMORY_CUDA_VMM, "0000:90:00.0"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(device_memory_goes_to_cards_near_its_gpu, setup),
        cmocka_unit_test_setup(the_first_region_decides, setup),
        cmocka_unit_test_setup(an_unknown_gpu_leaves_groups_in_turns, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
