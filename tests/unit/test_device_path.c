/* Goal: device memory takes the best path that its rail and the known facts of the memory allow,
 * and a sentence gives the reason against each better path. Method: the table of both. */
#include "tests/support/check.h"

#include "fabric/device_path.h"

#define OK KVR_WHY_NOTHING

static const struct kvr_rail_device_facts good = {.dmabuf = OK, .hmem = OK};
static const struct kvr_rail_device_facts older = {.dmabuf = KVR_WHY_OLD_LIBRARY, .hmem = OK};
static const struct kvr_rail_device_facts tcp; /* as of a provider without GPU support */

static void the_best_way_is_taken(void **state)
{
    static const struct {
        const struct kvr_rail_device_facts *rail;
        bool same_host;
        struct kvr_path_form form;
        kvr_path path;
        kvr_path_why dmabuf, hmem, local, staged;
    } table[] = {
        {&good,
         false,
         {.dmabuf = true, .address = true, .copies = true},
         KVR_PATH_DMABUF,
         OK,
         KVR_WHY_BETTER,
         KVR_WHY_NETWORK,
         KVR_WHY_BETTER},
        {&good,
         false,
         {.address = true, .copies = true},
         KVR_PATH_HMEM,
         KVR_WHY_NO_DMABUF,
         OK,
         KVR_WHY_NETWORK,
         KVR_WHY_BETTER},
        {&older,
         false,
         {.dmabuf = true, .address = true, .copies = true},
         KVR_PATH_HMEM,
         KVR_WHY_OLD_LIBRARY,
         OK,
         KVR_WHY_NETWORK,
         KVR_WHY_BETTER},
        {&good,
         false,
         {.dmabuf = true},
         KVR_PATH_DMABUF,
         OK,
         KVR_WHY_NO_ADDRESS,
         KVR_WHY_NETWORK,
         KVR_WHY_NO_COPIES},
        {&older,
         false,
         {.dmabuf = true},
         KVR_PATH_NONE,
         KVR_WHY_OLD_LIBRARY,
         KVR_WHY_NO_ADDRESS,
         KVR_WHY_NETWORK,
         KVR_WHY_NO_COPIES},
        {&good,
         false,
         {.copies = true},
         KVR_PATH_STAGED,
         KVR_WHY_NO_DMABUF,
         KVR_WHY_NO_ADDRESS,
         KVR_WHY_NETWORK,
         OK},
        {&tcp,
         false,
         {.dmabuf = true, .address = true, .copies = true},
         KVR_PATH_STAGED,
         KVR_WHY_HOST_ONLY,
         KVR_WHY_HOST_ONLY,
         KVR_WHY_NETWORK,
         OK},
        {&tcp,
         true,
         {.dmabuf = true, .address = true, .copies = true},
         KVR_PATH_STAGED,
         KVR_WHY_HOST_ONLY,
         KVR_WHY_HOST_ONLY,
         KVR_WHY_HOST_ONLY,
         OK},
        {&good,
         false,
         {.dmabuf = true, .address = true, .copies = true, .hashed = true},
         KVR_PATH_STAGED,
         KVR_WHY_DIGEST,
         KVR_WHY_DIGEST,
         KVR_WHY_NETWORK,
         OK},
        {&good,
         false,
         {.dmabuf = true, .address = true, .copies = true, .refused_dmabuf = true},
         KVR_PATH_HMEM,
         KVR_WHY_REFUSED,
         OK,
         KVR_WHY_NETWORK,
         KVR_WHY_BETTER},
        {&good,
         false,
         {.dmabuf = true,
          .address = true,
          .copies = true,
          .refused_dmabuf = true,
          .refused_hmem = true},
         KVR_PATH_STAGED,
         KVR_WHY_REFUSED,
         KVR_WHY_REFUSED,
         KVR_WHY_NETWORK,
         OK},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct kvr_path_choice choice;

        kvr_path_choose(table[i].rail, table[i].same_host, false, &table[i].form, &choice);
        assert_int_equal(choice.path, table[i].path);
        assert_int_equal(choice.why[KVR_PATH_DMABUF], table[i].dmabuf);
        assert_int_equal(choice.why[KVR_PATH_HMEM], table[i].hmem);
        assert_int_equal(choice.why[KVR_PATH_LOCAL], table[i].local);
        assert_int_equal(choice.why[KVR_PATH_STAGED], table[i].staged);
    }
}

/* Where no card reaches the memory, agents of this host move the pages that they import; pages that
 * they must read are excepted. */
static void a_neighbours_pages_are_moved(void **state)
{
    static const struct {
        struct kvr_path_form form;
        kvr_path path;
        kvr_path_why local, staged;
    } table[] = {
        {{.address = true, .copies = true}, KVR_PATH_LOCAL, OK, KVR_WHY_BETTER},
        {{.copies = true, .hashed = true}, KVR_PATH_STAGED, KVR_WHY_DIGEST, OK},
        {{.dmabuf = true}, KVR_PATH_NONE, KVR_WHY_NO_COPIES, KVR_WHY_NO_COPIES},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct kvr_path_choice choice;

        kvr_path_choose(&tcp, true, true, &table[i].form, &choice);
        assert_int_equal(choice.path, table[i].path);
        assert_int_equal(choice.why[KVR_PATH_LOCAL], table[i].local);
        assert_int_equal(choice.why[KVR_PATH_STAGED], table[i].staged);
    }
}

static void it_is_said_what_is_against_a_better_one(void **state)
{
    struct kvr_path_form form = {.copies = true, .address = true, .dmabuf = true};
    struct kvr_path_choice choice;
    char text[240];

    (void)state;
    kvr_path_choose(&tcp, false, false, &form, &choice);
    kvr_path_reasons(&choice, text, sizeof(text));
    assert_string_equal(text, "dmabuf, hmem: its provider moves host memory only");
    form.refused_hmem = true;
    kvr_path_choose(&older, false, false, &form, &choice);
    kvr_path_reasons(&choice, text, sizeof(text));
    assert_string_equal(text, "dmabuf: the libfabric that is loaded is older than 1.20; "
                              "hmem: the card refuses it");
    kvr_path_choose(&good, false, false, &form, &choice);
    kvr_path_reasons(&choice, text, sizeof(text));
    assert_string_equal(text, "");
    for (int why = 0; why < KVR_WHY_END; why++)
        assert_true(strlen(kvr_path_why_text((kvr_path_why)why)) < sizeof(text) / 2 - 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_way_is_taken),
        cmocka_unit_test(a_neighbours_pages_are_moved),
        cmocka_unit_test(it_is_said_what_is_against_a_better_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
