#include "tools/bench/bench_agents.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/option_value.h"
#include "tools/bench/bench_certificates.h"
#include "tools/bench/bench_child.h"

#define ARGUMENTS_MAX  (28 + 2 * KVR_RAILS_MAX + KVR_OPTION_LIST_MAX)
#define START_TRIES    1000 /* of 10 ms */
#define LOG_TAIL_BYTES 2000
#define PREFILL_NAME   "bench-prefill"
#define DECODE_NAME    "bench-decode"

struct arguments {
    char *list[ARGUMENTS_MAX + 1];
    unsigned count;
    char text[ARGUMENTS_MAX][KVR_OPTION_ITEM_BYTES + 96];
};

static void add(struct arguments *arguments, const char *name, const char *value)
{
    char *text = arguments->text[arguments->count];

    if (value[0] == '\0')
        return;
    snprintf(text, sizeof(arguments->text[0]), "--%s=%s", name, value);
    arguments->list[arguments->count++] = text;
}

/* Each row as it was chosen. */
static void add_rows(struct arguments *arguments, const struct kvr_option_table *table,
                     const void *values)
{
    char text[KVR_OPTION_ITEM_BYTES];

    for (size_t i = 0; i < table->count; i++)
        add(arguments, table->rows[i].name,
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
static void add_others(struct arguments *arguments, const struct kvr_option_list *others)
{
    for (uint32_t i = 0; others != NULL && i < others->count; i++) {
        char *text = arguments->text[arguments->count];

        if (is_tls(others->items[i]))
            continue;
        snprintf(text, sizeof(arguments->text[0]), "--%s", others->items[i]);
        arguments->list[arguments->count++] = text;
    }
}

static void stamps_path(const struct bench_agents *agents, char ret_path[BENCH_PATH_BYTES + 32])
{
    snprintf(ret_path, BENCH_PATH_BYTES + 32, "%s/stamps", agents->directory);
}

static void add_shared(struct arguments *arguments, const struct bench_agents *agents,
                       const struct bench_options *options, const char (*rails)[BENCH_RAIL_BYTES],
                       const uint32_t *planes, uint32_t rail_count)
{
    char text[BENCH_PATH_BYTES + 32];

    add(arguments, "provider", options->provider);
    for (uint32_t i = 0; i < rail_count; i++) {
        snprintf(text, sizeof(text), planes[i] != 0 ? "%s@plane-%u" : "%s", rails[i], planes[i]);
        add(arguments, "rail", text);
    }
    add_rows(arguments, &kvr_posting_options, &options->posting);
    add_rows(arguments, &kvr_staging_options, &options->copying);
    add(arguments, "device", options->device);
    if (agents->stamps != NULL) {
        stamps_path(agents, text);
        add(arguments, "stamps", text);
    }
}

/* The directory that this executable lies in. */
static bool own_directory(char ret_path[BENCH_PATH_BYTES])
{
    ssize_t length = readlink("/proc/self/exe", ret_path, BENCH_PATH_BYTES - 1);
    char *slash;

    if (length <= 0)
        return false;
    ret_path[length] = '\0';
    slash = strrchr(ret_path, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    return true;
}

/* What the user's environment says to agents is meant for others, except which libfabric to load.
 */
static void forget_environment(void)
{
    char name[128];

    for (char **at = environ; *at != NULL;) {
        size_t length = strcspn(*at, "=");

        if (strncmp(*at, "KVRAIL_", 7) != 0 || strncmp(*at, "KVRAIL_LIBFABRIC=", 17) == 0 ||
            length >= sizeof(name)) {
            at++;
            continue;
        }
        memcpy(name, *at, length);
        name[length] = '\0';
        (void)unsetenv(name); /* moves the rest up */
    }
}

static void become(const char *program, const char *log, char **arguments)
{
    int file = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);

    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_DFL);
    if (file >= 0) {
        (void)dup2(file, STDOUT_FILENO);
        (void)dup2(file, STDERR_FILENO);
    }
    forget_environment();
    execv(program, arguments);
    fprintf(stderr, "%s: %s\n", program, strerror(errno));
    _exit(127);
}

/* rails: enter their target's namespace first; or NULL. */
static pid_t launch(const struct bench_agents *agents, const char *program_name,
                    struct arguments *arguments, const struct bench_rails *rails)
{
    char program[BENCH_PATH_BYTES + 32], log[BENCH_PATH_BYTES + 32], directory[BENCH_PATH_BYTES];
    pid_t pid;

    if (!own_directory(directory))
        return 0;
    snprintf(program, sizeof(program), "%s/%s", directory, program_name);
    snprintf(log, sizeof(log), "%s/%s.log", agents->directory, program_name);
    arguments->list[0] = program;
    arguments->list[arguments->count] = NULL;
    (void)fflush(NULL);
    pid = fork();
    if (pid == 0 && rails != NULL && !bench_rails_enter_target(rails))
        _exit(126);
    if (pid == 0)
        become(program, log, arguments->list);
    return pid > 0 ? pid : 0;
}

static bool show_log(const struct bench_agents *agents, const char *program_name)
{
    char path[BENCH_PATH_BYTES + 32], text[LOG_TAIL_BYTES + 1];
    FILE *file;
    size_t got;

    if (bench_interrupted()) {
        fprintf(stderr, "kvrail bench: interrupted\n");
        return false;
    }
    fprintf(stderr, "kvrail bench: the %s did not start; its log ends:\n", program_name);
    snprintf(path, sizeof(path), "%s/%s.log", agents->directory, program_name);
    file = fopen(path, "re");
    if (file == NULL)
        return false;
    if (fseek(file, -LOG_TAIL_BYTES, SEEK_END) != 0)
        rewind(file);
    got = fread(text, 1, LOG_TAIL_BYTES, file);
    text[got] = '\0';
    fputs(text, stderr);
    fclose(file);
    return false;
}

/* Until the file is there and not empty (a port), or a socket is: an agent listens on it then. */
static bool await(const char *path, pid_t pid)
{
    struct stat status;

    for (int tries = 0; tries < START_TRIES && !bench_interrupted(); tries++) {
        if (stat(path, &status) == 0 && (S_ISSOCK(status.st_mode) || status.st_size > 0))
            return true;
        if (kill(pid, 0) != 0 || waitpid(pid, NULL, WNOHANG) == pid)
            return false;
        (void)poll(NULL, 0, 10);
    }
    return false;
}

static void add_identity(struct arguments *arguments, const struct bench_agents *agents, bool tls,
                         const char *name)
{
    static char insecure[] = "--insecure";
    char path[BENCH_PATH_BYTES + 32];

    add(arguments, "name", name);
    if (!tls) {
        arguments->list[arguments->count++] = insecure;
        return;
    }
    snprintf(path, sizeof(path), "%s/%s.pem", agents->directory, name);
    add(arguments, "tls-certificate", path);
    snprintf(path, sizeof(path), "%s/%s-key.pem", agents->directory, name);
    add(arguments, "tls-key", path);
    snprintf(path, sizeof(path), "%s/ca.pem", agents->directory);
    add(arguments, "tls-ca", path);
}

static bool start_source(struct bench_agents *agents, const struct bench_options *options,
                         const struct bench_rails *rails, const struct kvr_option_list *others)
{
    static struct arguments arguments;
    char port_file[BENCH_PATH_BYTES + 32], listen[BENCH_RAIL_BYTES + 8];
    unsigned port = 0;
    FILE *file;

    snprintf(port_file, sizeof(port_file), "%s/port", agents->directory);
    arguments.count = 1;
    add_identity(&arguments, agents, tls_of(options, others), PREFILL_NAME);
    add(&arguments, "engine-socket", agents->source_socket);
    snprintf(listen, sizeof(listen), "%s:0", rails->control);
    add(&arguments, "listen", listen);
    add(&arguments, "port-file", port_file);
    add_shared(&arguments, agents, options, rails->source, rails->source_planes,
               rails->source_count);
    add_others(&arguments, others);
    agents->source = launch(agents, "prefill-agent", &arguments, NULL);
    if (agents->source == 0 || !await(agents->source_socket, agents->source) ||
        !await(port_file, agents->source))
        return show_log(agents, "prefill-agent");
    file = fopen(port_file, "re");
    if (file == NULL || fscanf(file, "%u", &port) != 1)
        port = 0;
    if (file != NULL)
        fclose(file);
    snprintf(agents->source_address, sizeof(agents->source_address), "%s:%u", rails->control, port);
    return port != 0 || show_log(agents, "prefill-agent");
}

static bool start_target(struct bench_agents *agents, const struct bench_options *options,
                         const struct bench_rails *rails, const struct kvr_option_list *others)
{
    static struct arguments arguments;
    arguments.count = 1;
    add_identity(&arguments, agents, tls_of(options, others), DECODE_NAME);
    add(&arguments, "engine-socket", agents->target_socket);
    add_rows(&arguments, &kvr_copying_options, &options->copying);
    add_shared(&arguments, agents, options, rails->target, rails->target_planes,
               rails->target_count);
    add_others(&arguments, others);
    agents->target = launch(agents, "decode-agent", &arguments, rails);
    return (agents->target != 0 && await(agents->target_socket, agents->target)) ||
           show_log(agents, "decode-agent");
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
    const char *base = getenv("TMPDIR");

    if (base == NULL || base[0] == '\0' || strlen(base) > 60) /* a socket's path is short */
        base = "/tmp";
    snprintf(agents->directory, sizeof(agents->directory), "%s/kvrail-bench.XXXXXX", base);
    if (mkdtemp(agents->directory) == NULL) {
        fprintf(stderr, "kvrail bench: %s: %s\n", agents->directory, strerror(errno));
        agents->directory[0] = '\0';
        return false;
    }
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

/* Flat: the agents make files there and no folders. */
static void remove_directory(const char *path)
{
    DIR *directory = opendir(path);
    const struct dirent *entry;

    while (directory != NULL && (entry = readdir(directory)) != NULL)
        if (entry->d_name[0] != '.')
            (void)unlinkat(dirfd(directory), entry->d_name, 0);
    if (directory != NULL)
        closedir(directory);
    (void)rmdir(path);
}

void bench_agents_stop(struct bench_agents *agents)
{
    bench_process_stop(&agents->target);
    bench_process_stop(&agents->source);
    kvr_stamps_close(agents->stamps);
    if (agents->directory[0] != '\0')
        remove_directory(agents->directory);
}
