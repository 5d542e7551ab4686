/* The costs of writes and copies on this host, from which fragments are written or copied. A
 * write's cost is calibrated, else usual for the provider. A copy's cost is measured now; pages
 * that no cache holds cost more. */
#include "agent/agent.h"
#include "base/log.h"
#include "device/copy_cost.h"
#include "fabric/calibration.h"
#include "fabric/fabric_provider.h"

#define COLD_PIECE_NS 60.0 /* its first cache line comes from memory */
#define COLD_BYTE_NS  0.2  /* the other lines, and the way back to memory */

/* As is usual for the provider. */
static struct kvr_fragment_costs usual_of(const char *provider)
{
    const struct kvr_provider_costs *costs = &kvr_provider_find(provider)->costs;

    return (struct kvr_fragment_costs){.write = costs->write,
                                       .piece = costs->piece,
                                       .wire_byte = costs->wire_byte,
                                       .processors = costs->processors};
}

/* A line through the smallest and the largest size. */
static void calibrated(const struct kvr_calibration *calibration, struct kvr_fragment_costs *costs)
{
    const struct kvr_calibration_size *small = &calibration->sizes[0];
    const struct kvr_calibration_size *large = &calibration->sizes[calibration->size_count - 1];
    double small_ns, large_ns, byte;

    if (calibration->size_count < 2 || small->bytes >= large->bytes || small->gb_s <= 0 ||
        large->gb_s <= 0)
        return;
    small_ns = (double)small->bytes / small->gb_s;
    large_ns = (double)large->bytes / large->gb_s;
    byte = (large_ns - small_ns) / (double)(large->bytes - small->bytes);
    if (byte <= 0 || small_ns <= byte * (double)small->bytes)
        return;
    costs->wire_byte = byte;
    costs->write = small_ns - byte * (double)small->bytes;
}

struct kvr_fragment_costs kvr_agent_fragment_costs(const struct kvr_agent_config *config,
                                                   const char *provider)
{
    struct kvr_fragment_costs costs = usual_of(provider);
    struct kvr_copy_cost copy = {.piece_ns = 40, .byte_ns = 0.1};
    struct kvr_calibration calibration;
    struct kvr_error error;

    if (config->calibration && config->state_dir[0] != '\0' &&
        kvr_calibration_load(config->state_dir, provider, &calibration, &error) == KVR_OK)
        calibrated(&calibration, &costs);
    if (kvr_copy_cost_measure(&copy, &error) != KVR_OK)
        kvr_log_failure(KVR_LOG_WARNING, "the cost of a copy could not be measured", &error);
    costs.copy = copy.piece_ns + COLD_PIECE_NS;
    costs.copy_byte = copy.byte_ns + COLD_BYTE_NS;
    kvr_log_info("fragments: over %s a write is taken to cost %.0f ns and %.2f ns a byte, a copy "
                 "%.0f ns a piece and %.2f ns a byte",
                 provider, costs.write, costs.wire_byte, costs.copy, costs.copy_byte);
    return costs;
}
