#include "tools/bench/bench_agents.h"

#include <stdio.h>
#include <string.h>

#include "base/option_value.h"
#include "tools/bench/bench_certificates.h"
#include "tools/bench/bench_child.h"
#include "tools/bench/bench_program.h"

#define PREFILL_NAME "bench-prefill"
#define DECODE_NAME  "bench-decode"

/* Each row as it was chosen. */
static void add_rows(struct bench_arguments *arguments, const struct kvr_option_table *table,
                     const void *values)
{
    char text[KVR_OPTION_ITEM_BYTES];

    for (size_t i = 0; i < table->count; i++)
        bench_arguments_add(arguments, table->rows[i].name,
                            kvr_option_value_print(&table->rows[i], values, text, sizeof(text)));
}

static bool is_tls(const char *item)
{
    return strncmp(item, "tls=", 4) == 0;
}

/* Certificates are no option of the agents by themselves: the benchmark makes them. */
static bool tls_of(const struct bench_options *options, const struct kvr_option_list *others)
{
    bool tls = options->tls;

    for (uint32_t i = 0; others != NULL && i < others->count; i++) {
        if (is_tls(others->items[i]))
            tls = strcmp(others->items[i], "tls=yes") == 0;
    }
    return tls;
}

/* The last of one name counts. */
static void add_others(struct bench_arguments *arguments, const struct kvr_option_list *others)
{
    for (uint32_t i = 0; others != NULL && i < others->count; i++) {
        if (!is_tls(others->items[i]))
            bench_arguments_add_item(arguments, others->items[i]);
    }
}

static void stamps_path(const struct bench_agents *agents, char ret_path[BENCH_PATH_BYTES + 32])
{
    snprintf(ret_path, BENCH_PATH_BYTES + 32, "%s/stamps", agents->directory);
}

static void add_shared(struct bench_arguments *arguments, const struct bench_agents *agents,
                       const struct bench_options *options, const char (*rails)[BENCH_RAIL_BYTES],
                       const uint32_t *planes, uint32_t rail_count)
{
    char text[BENCH_PATH_BYTES + 32];

    bench_arguments_add(arguments, "provider", options->provider);
    for (uint32_t i = 0; i < rail_count; i++) {
        snprintf(text, sizeof(text), planes[i] != 0 ? "%s@plane-%u" : "%s", rails[i], planes[i]);
        bench_arguments_add(arguments, "rail", text);
    }
    add_rows(arguments, &kvr_posting_options, &options->posting);
    add_rows(arguments, &kvr_staging_options, &options->copying);
    bench_arguments_add(arguments, "device", options->device);
    if (agents->stamps != NULL) {
        stamps_path(agents, text);
        bench_arguments_add(arguments, "stamps", text);
    }
}

static void add_identity(struct bench_arguments *arguments, const struct bench_agents *agents,
                         bool tls, const char *name)
{
    char path[BENCH_PATH_BYTES + 32];

    bench_arguments_add(arguments, "name", name);
    if (!tls) {
        bench_arguments_add_item(arguments, "insecure");
        return;
    }
    snprintf(path, sizeof(path), "%s/%s.pem", agents->directory, name);
    bench_arguments_add(arguments, "tls-certificate", path);
    snprintf(path, sizeof(path), "%s/%s-key.pem", agents->directory, name);
    bench_arguments_add(arguments, "tls-key", path);
    snprintf(path, sizeof(path), "%s/ca.pem", agents->directory);
    bench_arguments_add(arguments, "tls-ca", path);
}

static bool start_source(struct bench_agents *agents, const struct bench_options *options,
                         const struct bench_rails *rails, const struct kvr_option_list *others)
{
    static struct bench_arguments arguments;
    char port_file[BENCH_PATH_BYTES + 32], listen[BENCH_RAIL_BYTES + 8];
    unsigned port;

    snprintf(port_file, sizeof(port_file), "%s/port", agents->directory);
    bench_arguments_init(&arguments);
    add_identity(&arguments, agents, tls_of(options, others), PREFILL_NAME);
    bench_arguments_add(&arguments, "engine-socket", agents->source_socket);
    snprintf(listen, sizeof(listen), "%s:0", rails->control);
    bench_arguments_add(&arguments, "listen", listen);
    bench_arguments_add(&arguments, "port-file", port_file);
    add_shared(&arguments, agents, options, rails->source, rails->source_planes,
               rails->source_count);
    add_others(&arguments, others);
    agents->source =
        bench_program_start(agents->directory, "prefill-agent", &arguments, NULL, NULL);
    if (agents->source == 0 || !bench_program_await(agents->source_socket, agents->source) ||
        !bench_program_await(port_file, agents->source))
        return bench_program_failed(agents->directory, "prefill-agent");
    port = bench_program_port(port_file);
    snprintf(agents->source_address, sizeof(agents->source_address), "%s:%u", rails->control, port);
    return port != 0 || bench_program_failed(agents->directory, "prefill-agent");
}

static bool enter_target(const void *self)
{
    return bench_rails_enter_target(self);
}

static bool start_target(struct bench_agents *agents, const struct bench_options *options,
                         const struct bench_rails *rails, const struct kvr_option_list *others)
{
    static struct bench_arguments arguments;

    bench_arguments_init(&arguments);
    add_identity(&arguments, agents, tls_of(options, others), DECODE_NAME);
    bench_arguments_add(&arguments, "engine-socket", agents->target_socket);
    add_rows(&arguments, &kvr_copying_options, &options->copying);
    add_shared(&arguments, agents, options, rails->target, rails->target_planes,
               rails->target_count);
    add_others(&arguments, others);
    agents->target =
        bench_program_start(agents->directory, "decode-agent", &arguments, enter_target, rails);
    return (agents->target != 0 && bench_program_await(agents->target_socket, agents->target)) ||
           bench_program_failed(agents->directory, "decode-agent");
}

static bool stamps_make(struct bench_agents *agents)
{
    char path[BENCH_PATH_BYTES + 32];
    struct kvr_error error;

    stamps_path(agents, path);
    if (kvr_stamps_create(path, &agents->stamps, &error) == KVR_OK)
        return true;
    fprintf(stderr, "kvrail bench: %s\n", error.detail);
    return false;
}

bool bench_agents_start(struct bench_agents *agents, const struct bench_options *options,
                        const struct bench_rails *rails, const struct kvr_option_list *others)
{
    if (!bench_folder_make(agents->directory))
        return false;
    snprintf(agents->source_socket, sizeof(agents->source_socket), "%s/prefill.sock",
             agents->directory);
    snprintf(agents->target_socket, sizeof(agents->target_socket), "%s/decode.sock",
             agents->directory);
    return (!options->stamps || stamps_make(agents)) &&
           (!tls_of(options, others) ||
            bench_certificates_make(agents->directory, PREFILL_NAME, DECODE_NAME)) &&
           start_source(agents, options, rails, others) &&
           start_target(agents, options, rails, others);
}

void bench_agents_stop(struct bench_agents *agents)
{
    bench_process_stop(&agents->target);
    bench_process_stop(&agents->source);
    kvr_stamps_close(agents->stamps);
    if (agents->directory[0] != '\0')
        bench_folder_remove(agents->directory);
}
