/* What writes and copies cost here, for who decides whether fragments are copied: the rails as they
 * were calibrated, else as is usual for their provider; copies as measured now, and what pages cost
 * more that no cache holds. */
#include <string.h>

#include "agent/agent.h"
#include "base/log.h"
#include "device/copy_cost.h"
#include "fabric/calibration.h"

/* Of a provider that nobody calibrated. tcp, shm and local: processor time of an end, from replays
 * of pages of 256 B and 1 KiB (tests/bench/RESULTS.md); the runs of a write are in it. Others: what
 * is published of 100 Gb/s cards (1.25 µs a write; 64 KiB in 6.3 µs). */
static const struct {
    const char *provider;
    struct kvr_fragment_costs costs;
} usual[] = {
    {"tcp", {.write = 2200, .wire_byte = 0.27, .processors = true}},
    {"shm", {.write = 2700, .wire_byte = 0.58, .processors = true}},
    {"local", {.write = 500, .wire_byte = 0.55, .processors = true}},
    {"", {.write = 1250, .piece = 50, .wire_byte = 0.08}},
};

#define COLD_PIECE_NS 60.0 /* its first line comes from memory */
#define COLD_BYTE_NS  0.2  /* and the rest, and goes back there */

static struct kvr_fragment_costs usual_of(const char *provider)
{
    uint32_t i = 0;

    while (usual[i].provider[0] != '\0' && strcmp(usual[i].provider, provider) != 0)
        i++;
    return usual[i].costs;
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
        kvr_log_failure(KVR_LOG_WARNING, "what a copy costs is not known here", &error);
    costs.copy = copy.piece_ns + COLD_PIECE_NS;
    costs.copy_byte = copy.byte_ns + COLD_BYTE_NS;
    kvr_log_info("fragments: over %s a write is taken to cost %.0f ns and %.2f ns a byte, a copy "
                 "%.0f ns a piece and %.2f ns a byte",
                 provider, costs.write, costs.wire_byte, costs.copy, costs.copy_byte);
    return costs;
}
