/* Goal: a measurement is read back as it was kept, and an altered file is refused with a sentence.
 */
#include "tests/support/check.h"

#include "fabric/calibration.h"
#include "tests/support/folder.h"

static void calibration_comes_back(void **state)
{
    struct kvr_calibration kept = {.provider = "tcp",
                                   .libfabric = "1.17.0",
                                   .imm_iov = 4,
                                   .imm_rma_iov = 3,
                                   .pieces = 2,
                                   .chunk_bytes_max = 1u << 20,
                                   .size_count = 2,
                                   .sizes = {{16384, 1.25}, {65536, 2.5}},
                                   .costs = {478000000, 1500, 40000}};
    const char *folder = *state;
    struct kvr_calibration found;
    struct kvr_error error = {0};

    assert_int_equal(kvr_calibration_load(folder, "tcp", &found, &error), KVR_NOT_FOUND);
    assert_int_equal(kvr_calibration_save(folder, &kept, &error), KVR_OK);
    assert_int_equal(kvr_calibration_load(folder, "tcp", &found, &error), KVR_OK);
    assert_string_equal(found.libfabric, "1.17.0");
    assert_int_equal(found.imm_iov, 4);
    assert_int_equal(found.imm_rma_iov, 3);
    assert_int_equal(found.pieces, 2);
    assert_int_equal(found.chunk_bytes_max, 1u << 20);
    assert_int_equal(found.size_count, 2);
    assert_int_equal(found.sizes[1].bytes, 65536);
    assert_true(found.sizes[1].gb_s > 2.49 && found.sizes[1].gb_s < 2.51);
    assert_int_equal(found.costs.rail_bps, 478000000);
    assert_int_equal(found.costs.write_ns, 1500);
    assert_int_equal(found.costs.latency_ns, 40000);
    kept.costs.rail_bps = 0; /* they are not known */
    assert_int_equal(kvr_calibration_save(folder, &kept, &error), KVR_OK);
    assert_int_equal(kvr_calibration_load(folder, "tcp", &found, &error), KVR_OK);
    assert_int_equal(found.costs.rail_bps, 0);
    assert_int_equal(found.costs.write_ns, 0);
    assert_int_equal(kvr_calibration_load(folder, "local", &found, &error), KVR_NOT_FOUND);
    assert_int_equal(kvr_calibration_save("/nowhere", &kept, &error), KVR_SYSTEM);
}

static void calibration_refuses_nonsense(void **state)
{
    static const char *const wrong[] = {
        "",
        "{",
        "[]",
        "{\"provider\": \"tcp\"}",
        "{\"provider\": \"tcp\", \"libfabric\": \"x\", \"imm_iov\": 0, \"imm_rma_iov\": 1, "
        "\"pieces\": 1, \"chunk_bytes_max\": 4096}",
        "{\"provider\": \"tcp\", \"libfabric\": \"x\", \"imm_iov\": 1, \"imm_rma_iov\": 1, "
        "\"pieces\": -1, \"chunk_bytes_max\": 4096}",
        "{\"provider\": \"tcp\", \"libfabric\": \"x\", \"imm_iov\": 1, \"imm_rma_iov\": 1, "
        "\"pieces\": 1, \"chunk_bytes_max\": 1}",
        "{\"provider\": \"efa\", \"libfabric\": \"x\", \"imm_iov\": 1, \"imm_rma_iov\": 1, "
        "\"pieces\": 1, \"chunk_bytes_max\": 4096}"};
    const char *folder = *state;
    struct kvr_calibration found;
    char path[64];

    snprintf(path, sizeof(path), "%s/calibration-tcp.json", folder);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct kvr_error error = {0};
        FILE *file = fopen(path, "w");

        assert_non_null(file);
        fputs(wrong[i], file);
        fclose(file);
        assert_int_equal(kvr_calibration_load(folder, "tcp", &found, &error), KVR_MALFORMED);
        assert_non_null(strstr(error.detail, "kvrail bench calibrate"));
    }
}

/* Costs are all there and in range, or the sentence names the file and the key. */
static void wrong_costs_are_named(void **state)
{
    static const struct {
        const char *costs, *named;
    } wrong[] = {
        {"[]", ": costs is no object"},
        {"{}", ": costs.rail_bps must be"},
        {"{\"rail_bps\": 999999, \"write_ns\": 1, \"latency_ns\": 1}", ": costs.rail_bps must be"},
        {"{\"rail_bps\": 1e9, \"write_ns\": 1, \"latency_ns\": 1}", ": costs.rail_bps must be"},
        {"{\"rail_bps\": 1000000, \"latency_ns\": 1}", ": costs.write_ns must be"},
        {"{\"rail_bps\": 1000000, \"write_ns\": 0, \"latency_ns\": 1}", ": costs.write_ns must be"},
        {"{\"rail_bps\": 1000000, \"write_ns\": 1, \"latency_ns\": -5}",
         ": costs.latency_ns must be"},
        {"{\"rail_bps\": 1000000, \"write_ns\": 1, \"latency_ns\": 1000000001}",
         ": costs.latency_ns must be a whole number from 1 to 1000000000"},
        {"{\"rail_bps\": 1000000, \"write_ns\": 1, \"latency_ns\": 1, \"x\": 1}",
         ": costs.x is not known"}};
    const char *folder = *state;
    struct kvr_calibration found;
    char path[64];

    snprintf(path, sizeof(path), "%s/calibration-tcp.json", folder);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct kvr_error error = {0};
        FILE *file = fopen(path, "w");

        assert_non_null(file);
        fprintf(file,
                "{\"provider\": \"tcp\", \"libfabric\": \"x\", \"imm_iov\": 1, \"imm_rma_iov\": 1, "
                "\"pieces\": 1, \"chunk_bytes_max\": 4096, \"costs\": %s}",
                wrong[i].costs);
        fclose(file);
        assert_int_equal(kvr_calibration_load(folder, "tcp", &found, &error), KVR_MALFORMED);
        assert_non_null(strstr(error.detail, path));
        assert_non_null(strstr(error.detail, wrong[i].named));
        assert_int_equal(kvr_calibration_read(path, &found, &error), KVR_MALFORMED);
    }
}

static void a_removed_provider_is_named(void **state)
{
    struct kvr_calibration kept = {.provider = "shm", .libfabric = "1.17.0"}, found;
    const char *folder = *state;
    struct kvr_error error = {0};

    assert_int_equal(kvr_calibration_save(folder, &kept, &error), KVR_OK);
    assert_int_equal(kvr_calibration_load(folder, "shm", &found, &error), KVR_INVALID);
    assert_non_null(strstr(error.detail, "calibration-shm.json"));
    assert_non_null(strstr(error.detail, "use local"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(calibration_comes_back, folder_open, folder_close),
        cmocka_unit_test_setup_teardown(calibration_refuses_nonsense, folder_open, folder_close),
        cmocka_unit_test_setup_teardown(wrong_costs_are_named, folder_open, folder_close),
        cmocka_unit_test_setup_teardown(a_removed_provider_is_named, folder_open, folder_close),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
