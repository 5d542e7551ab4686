/* Goal: the assumed cost of a write is that of its rail's provider: calibrated where a calibration
 * exists, else the provider's usual cost. Method: read the costs from agent configurations. */
#include "tests/support/check.h"

#include "agent/agent.h"
#include "fabric/calibration.h"
#include "fabric/fabric_provider.h"
#include "tests/support/folder.h"

static void the_usual_costs_are_the_providers(void **state)
{
    static const struct kvr_agent_config config = {.calibration = true};
    struct kvr_fragment_costs tcp = kvr_agent_fragment_costs(&config, "tcp");
    struct kvr_fragment_costs local = kvr_agent_fragment_costs(&config, "local");
    struct kvr_fragment_costs verbs = kvr_agent_fragment_costs(&config, "verbs");

    (void)state;
    assert_true(tcp.processors && local.processors && !verbs.processors);
    assert_true(tcp.write > verbs.write && verbs.write > local.write);
}

/* A line through both sizes: 1000 ns a write and half a nanosecond a byte. An agent of tcp+local
 * asks for its cards. */
static void what_was_calibrated_of_the_cards_counts(void **state)
{
    struct kvr_calibration calibration = {
        .provider = "tcp",
        .libfabric = "1.17",
        .imm_iov = 4,
        .imm_rma_iov = 4,
        .pieces = 4,
        .chunk_bytes_max = 1 << 20,
        .size_count = 2,
        .sizes = {{4096, 4096 / 3048.0}, {40960, 40960 / 21480.0}},
    };
    struct kvr_agent_config config = {.provider = "tcp+local", .calibration = true};
    struct kvr_fragment_costs costs;
    struct kvr_error error;
    const char *folder = *state;
    char cards[16];

    snprintf(config.state_dir, sizeof(config.state_dir), "%s", folder);
    assert_int_equal(kvr_calibration_save(folder, &calibration, &error), KVR_OK);
    assert_true(kvr_provider_cards(config.provider, cards));
    costs = kvr_agent_fragment_costs(&config, cards);
    assert_true(costs.write > 990 && costs.write < 1010);
    assert_true(costs.wire_byte > 0.49 && costs.wire_byte < 0.51);
    assert_true(costs.processors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_usual_costs_are_the_providers),
        cmocka_unit_test_setup_teardown(what_was_calibrated_of_the_cards_counts, folder_open,
                                        folder_close),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
