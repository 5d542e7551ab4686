/* Goal: /api/v1/openapi.json has each path, method and parameter of the API, the words of its
 * enumerations, and no others.
 * Method: the document that is compiled in, beside the lists of the code. */
#include "tests/support/check.h"

#include <jansson.h>
#include <stdio.h>

#include "base/remedy.h"
#include "scheduler/api_parameters.h"
#include "scheduler/embedded.h"

static int setup(void **state)
{
    const struct embedded_file *file = &embedded_openapi;
    json_error_t error;

    *state =
        json_loadb(file->begin, (size_t)(file->end - file->begin), JSON_REJECT_DUPLICATES, &error);
    if (*state == NULL)
        fail_msg("line %d: %s", error.line, error.text);
    return 0;
}

static int teardown(void **state)
{
    json_decref(*state);
    return 0;
}

/* "get" of "GET". */
static const char *lower(const char *method, char small[16])
{
    size_t i = 0;

    for (; method[i] >= 'A' && method[i] <= 'Z'; i++)
        small[i] = (char)(method[i] - 'A' + 'a');
    small[i] = '\0';
    return small;
}

/* How many parameters of that place the operation has; *ret_named: one has that name. */
static size_t parameters_of(const json_t *operation, const char *in, const char *name,
                            bool *ret_named)
{
    size_t index, count = 0;
    json_t *parameter;

    *ret_named = false;
    json_array_foreach(json_object_get(operation, "parameters"), index, parameter)
    {
        if (strcmp(json_string_value(json_object_get(parameter, "in")), in) != 0)
            continue;
        count++;
        *ret_named |= strcmp(json_string_value(json_object_get(parameter, "name")), name) == 0;
    }
    return count;
}

static void check_operation(const struct api_path *path, const char *method,
                            const json_t *operation)
{
    size_t count = 0;
    bool named;

    if (operation == NULL)
        fail_msg("%s %s is not in the document", method, path->path);
    for (; count < API_NAMES_MAX && path->names[count] != NULL; count++) {
        (void)parameters_of(operation, "query", path->names[count], &named);
        if (!named)
            fail_msg("%s of %s is not in the document", path->names[count], path->path);
    }
    if (parameters_of(operation, "query", "", &named) != count)
        fail_msg("the document has more parameters of %s than the code", path->path);
    if (strchr(path->path, '{') != NULL) {
        char name[32];

        snprintf(name, sizeof(name), "%s", strchr(path->path, '{') + 1);
        name[strcspn(name, "}")] = '\0';
        assert_int_equal(parameters_of(operation, "path", name, &named), 1);
        assert_true(named);
    }
}

static void each_path_is_in_the_document(void **state)
{
    const json_t *paths = json_object_get(*state, "paths");

    for (size_t i = 0; i < api_path_count; i++) {
        const json_t *item = json_object_get(paths, api_paths[i].path);
        size_t count = 0;

        for (const char *method = api_paths[i].methods; method != NULL && *method != '\0';
             method = strchr(method, ' ') != NULL ? strchr(method, ' ') + 1 : NULL) {
            char small[16];

            check_operation(&api_paths[i], method, json_object_get(item, lower(method, small)));
            count++;
        }
        assert_int_equal(json_object_size(item), count);
    }
    assert_int_equal(json_object_size(paths), api_path_count);
}

/* Each name is in the list, and so many are. */
static void check_names(const json_t *list, const char *(*name_of)(int at), int count)
{
    assert_int_equal(json_array_size(list), count);
    for (int i = 0; i < count; i++) {
        bool there = false;
        size_t index;
        json_t *name;

        json_array_foreach(list, index, name) there |=
            strcmp(json_string_value(name), name_of(i)) == 0;
        if (!there)
            fail_msg("%s is not in the document", name_of(i));
    }
}

static const char *state_at(int at)
{
    return transfer_state_name((transfer_state)at);
}

static const char *path_at(int at)
{
    return kvr_path_name((kvr_path)(at + 1));
}

static const char *scope_at(int at)
{
    return kvr_scope_name((kvr_scope)at);
}

static const char *pair_state_at(int at)
{
    return kvr_pair_state_name((kvr_pair_state)at);
}

static const json_t *schema(const json_t *document, const char *name)
{
    return json_object_get(json_object_get(json_object_get(document, "components"), "schemas"),
                           name);
}

static const json_t *property(const json_t *of, const char *name)
{
    return json_object_get(json_object_get(of, "properties"), name);
}

static void words_are_those_of_the_code(void **state)
{
    const json_t *errors = property(schema(*state, "Errors"), "errors");

    check_names(json_object_get(schema(*state, "TransferState"), "enum"), state_at, STATE_END);
    check_names(json_object_get(schema(*state, "Path"), "enum"), path_at, KVR_PATH_END - 1);
    check_names(json_object_get(property(json_object_get(errors, "items"), "scope"), "enum"),
                scope_at, KVR_SCOPE_KVRAIL + 1);
    check_names(json_object_get(property(schema(*state, "RailPair"), "state"), "enum"),
                pair_state_at, KVR_PAIR_STATE_END);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_path_is_in_the_document, setup, teardown),
        cmocka_unit_test_setup_teardown(words_are_those_of_the_code, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
