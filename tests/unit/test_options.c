/* Goal: each source of values reaches its field, and the source of higher rank wins. A value that
 * is not allowed gives one sentence with the option, its value and the allowed values. Method: one
 * table with every type and one shared table, loaded from a scripted command line, environment and
 * file. */
#include "tests/support/check.h"

#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/options.h"
#include "base/version.h"

struct queue {
    uint64_t breadth, depth;
};

struct config {
    char name[8];
    char listen[64];
    char provider[16], delay[16];
    struct kvr_option_list rails;
    struct kvr_option_list files;
    bool drain;
    uint64_t workers, pool_bytes;
    kvr_ns heartbeat, deadline;
    struct queue queue;
};

static const struct kvr_option shared_rows[] = {
    {.name = "name",
     .section = "agent",
     .required = true,
     .value = "NAME",
     KVR_OPTION_STRING(struct config, name),
     .help = "Unique in the fleet."},
    {.name = "listen",
     .section = "network",
     .fallback = "127.0.0.1:0",
     KVR_OPTION_ADDRESS(struct config, listen),
     .help = "Where to listen."},
};
static const struct kvr_option_table shared = {shared_rows, 2};
static const struct kvr_option queue_rows[] = {
    {.name = "queue-depth",
     .section = "queue",
     .fallback = "7",
     .hidden = true,
     KVR_OPTION_COUNT(struct queue, depth),
     .help = "How much waits."},
};
static const struct kvr_option_table queue = {queue_rows, 1};
static const struct kvr_option_part option_parts[] = {
    {.table = &shared},
    {.table = &queue, .offset = offsetof(struct config, queue), .shows_hidden = true},
    {.table = NULL},
};

static const struct kvr_option rows[] = {
    {.name = "provider",
     .section = "network",
     .fallback = "tcp",
     .choices = "tcp|local|verbs",
     KVR_OPTION_CHOICE(struct config, provider),
     .help = "Cards to use."},
    {.name = "rail",
     .section = "network",
     .fallback = "lo",
     .max = 3,
     KVR_OPTION_LIST(struct config, rails),
     .help = "A network card."},
    {.name = "drain",
     .section = "agent",
     .fallback = "yes",
     KVR_OPTION_BOOL(struct config, drain),
     .help = "Wait for transfers at the end."},
    {.name = "workers",
     .fallback = "2",
     .min = 1,
     .max = 16,
     KVR_OPTION_COUNT(struct config, workers),
     .help = "How many threads."},
    {.name = "worker-delay",
     .section = "tests",
     .fallback = "slow",
     .choices = "none|some",
     .choices_hidden = "slow|slowest",
     .hidden = true,
     KVR_OPTION_CHOICE(struct config, delay),
     .help = "How long a worker waits."},
    {.name = "pool-bytes",
     .section = "agent",
     .fallback = "64M",
     .min = 4096,
     KVR_OPTION_SIZE(struct config, pool_bytes),
     .help = "Memory for page tables."},
    {.name = "heartbeat",
     .section = "network",
     .fallback = "1s",
     .min = 10 * KVR_MS,
     .max = 60 * KVR_S,
     KVR_OPTION_DURATION(struct config, heartbeat),
     .help = "How often."},
    {.name = "deadline",
     .section = "network",
     .fallback = "never",
     .live = true,
     KVR_OPTION_DURATION(struct config, deadline),
     .help = "How long at most."},
};

static const struct kvr_exit_code exit_codes[] = {
    {1, "it was seen to fail"}, {3, "bytes were wrong"}, {0, NULL}};

static const struct kvr_command command = {
    .name = "test agent",
    .description = "Does nothing, for a test.",
    .parts = option_parts,
    .options = rows,
    .option_count = sizeof(rows) / sizeof(rows[0]),
    .arguments = "[FILE...]",
    .arguments_offset = offsetof(struct config, files),
    .arguments_max = 2,
    .exit_codes = exit_codes,
    .footer = "Example: test agent --name a",
    .rereads = true,
};

static struct config config;
static char *out_text, *error_text;
static int exit_status;

static bool load(const char *const *arguments)
{
    char *argv[32] = {(char *)"test"};
    size_t out_bytes, error_bytes;
    FILE *out, *errors;
    int argc = 1;
    bool go_on;

    free(out_text);
    free(error_text);
    out = open_memstream(&out_text, &out_bytes);
    errors = open_memstream(&error_text, &error_bytes);
    memset(&config, 0, sizeof(config));
    exit_status = -1;
    while (*arguments != NULL)
        argv[argc++] = (char *)*arguments++;
    go_on = kvr_options_load_to(&command, argc, argv, out, errors, &config, &exit_status);
    fclose(out);
    fclose(errors);
    return go_on;
}

#define LOAD(...) load((const char *const[]){__VA_ARGS__, NULL})

static void refuses(const char *sentence)
{
    char expected[512];

    assert_int_equal(exit_status, KVR_EXIT_USAGE);
    snprintf(expected, sizeof(expected), "test agent: %s\n", sentence);
    assert_string_equal(error_text, expected);
    assert_string_equal(out_text, "");
}

static const char *write_file(const char *text)
{
    static char path[64];
    FILE *file;

    if (path[0] == '\0') {
        strcpy(path, "/tmp/test_options.XXXXXX");
        assert_true(close(mkstemp(path)) == 0);
    }
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    return path;
}

static int clean(void **state)
{
    (void)state;
    unsetenv("KVRAIL_RAIL");
    unsetenv("KVRAIL_WORKERS");
    unsetenv("KVRAIL_CONFIG");
    kvr_log_set_level(KVR_LOG_INFO);
    return 0;
}

static int forget(void **state)
{
    unlink(write_file(""));
    free(out_text);
    free(error_text);
    return clean(state);
}

static void options_have_defaults(void **state)
{
    (void)state;
    assert_true(LOAD("--name", "a"));
    assert_string_equal(config.name, "a");
    assert_string_equal(config.listen, "127.0.0.1:0");
    assert_string_equal(config.provider, "tcp");
    assert_int_equal(config.rails.count, 1);
    assert_string_equal(config.rails.items[0], "lo");
    assert_true(config.drain);
    assert_int_equal(config.workers, 2);
    assert_int_equal(config.pool_bytes, 64 << 20);
    assert_true(config.heartbeat == KVR_S && config.deadline == KVR_NEVER);
    assert_string_equal(error_text, "");
}

static void options_read_the_command_line(void **state)
{
    (void)state;
    assert_true(LOAD("--name=b=c", "one", "--rail", "eth0, eth1", "--rail=eth2", "--no-drain",
                     "--workers", "16", "--pool-bytes", "3G", "--heartbeat", "250ms", "--deadline",
                     "0", "--log-level", "debug", "--", "--two"));
    assert_string_equal(config.name, "b=c");
    assert_int_equal(config.rails.count, 3);
    assert_string_equal(config.rails.items[1], "eth1");
    assert_string_equal(config.rails.items[2], "eth2");
    assert_false(config.drain);
    assert_int_equal(config.workers, 16);
    assert_true(config.pool_bytes == UINT64_C(3) << 30);
    assert_true(config.heartbeat == 250 * KVR_MS && config.deadline == 0);
    assert_true(kvr_log_enabled(KVR_LOG_DEBUG));
    assert_int_equal(config.files.count, 2);
    assert_string_equal(config.files.items[0], "one");
    assert_string_equal(config.files.items[1], "--two");
}

static void options_better_sources_win(void **state)
{
    const char *path = write_file("name = file\n; a comment\n[agent]\nworkers = 3\ndrain = no\n"
                                  "[network]\nrail = f0,\n  f1\nheartbeat = 2s ; inline\n");

    (void)state;
    assert_true(LOAD("--config", path));
    assert_string_equal(config.name, "file");
    assert_int_equal(config.workers, 3);
    assert_int_equal(config.rails.count, 2);
    assert_string_equal(config.rails.items[1], "f1");
    assert_false(config.drain);
    assert_true(config.heartbeat == 2 * KVR_S);

    setenv("KVRAIL_WORKERS", "4", 1);
    setenv("KVRAIL_RAIL", "e0", 1);
    setenv("KVRAIL_CONFIG", path, 1);
    assert_true(LOAD("--drain"));
    assert_string_equal(config.name, "file");
    assert_int_equal(config.workers, 4);
    assert_int_equal(config.rails.count, 1);
    assert_string_equal(config.rails.items[0], "e0");
    assert_true(config.drain);

    assert_true(LOAD("--workers", "5", "--rail", "a0", "--rail", "a1"));
    assert_int_equal(config.workers, 5);
    assert_int_equal(config.rails.count, 2);
    assert_string_equal(config.rails.items[0], "a0");
}

static void options_refuse_in_one_sentence(void **state)
{
    (void)state;
    assert_false(LOAD("--workers", "3"));
    refuses("--name NAME is missing: Unique in the fleet.");
    assert_false(LOAD("--name", "eight888"));
    refuses("--name is 'eight888', but must have at most 7 characters");
    assert_false(LOAD("--name", ""));
    refuses("--name is '', but must not be empty");
    assert_false(LOAD("--workers", "0"));
    refuses("--workers is '0', but must be from 1 to 16");
    assert_false(LOAD("--workers", "-1"));
    refuses("--workers is '-1', but must be a whole number");
    assert_false(LOAD("--workers", "99999999999999999999999"));
    refuses("--workers is '99999999999999999999999', but must be a whole number");
    assert_false(LOAD("--workers", "2x"));
    refuses("--workers is '2x', but must be a whole number");
    assert_false(LOAD("--pool-bytes", "1k"));
    refuses("--pool-bytes is '1k', but must be at least 4k");
    assert_false(LOAD("--pool-bytes", "17179869184G"));
    refuses("--pool-bytes is '17179869184G', but must be a number of bytes, or one with k, M or G, "
            "as in 64M");
    assert_false(LOAD("--heartbeat", "5"));
    refuses("--heartbeat is '5', but must be a number with us, ms, s, min, h or d, as in 250ms");
    assert_false(LOAD("--heartbeat", "1h"));
    refuses("--heartbeat is '1h', but must be from 10ms to 1min");
    assert_false(LOAD("--heartbeat", "never"));
    refuses(
        "--heartbeat is 'never', but must be a number with us, ms, s, min, h or d, as in 250ms");
    assert_false(LOAD("--provider", "sh"));
    refuses("--provider is 'sh', but must be one of tcp|local|verbs");
    assert_false(LOAD("--listen", "here"));
    refuses("--listen is 'here', but must be host:port or [IPv6]:port, as in 10.0.0.7:18900");
    assert_false(LOAD("--drain=maybe"));
    refuses("--drain is 'maybe', but must be yes or no");
    assert_false(LOAD("--rail", "a,b,c,d"));
    refuses("--rail is 'a,b,c,d', but must have at most 3 items");
    assert_false(LOAD("--log-level", "loud"));
    refuses("--log-level is 'loud', but must be one of error|warning|info|debug");
}

static const char *pigeons(void)
{
    return "dove|owl";
}

static const char *extinct(const char *value)
{
    return strcmp(value, "dodo") == 0 ? "dodos died out: use a dove" : NULL;
}

/* Addresses that may lack a port, and choices from a list in another file. */
static void options_complete_values(void **state)
{
    struct birds {
        char at[64], kind[16];
        struct kvr_option_list peers;
    } birds;
    const struct kvr_option bird_rows[] = {
        {.name = "at",
         .section = "birds",
         .fallback = "127.0.0.1",
         .port = 9480,
         KVR_OPTION_ADDRESS(struct birds, at),
         .help = "Where."},
        {.name = "peer",
         .section = "birds",
         .max = 4,
         .port = 9470,
         .url = true,
         KVR_OPTION_LIST(struct birds, peers),
         .help = "Others."},
        {.name = "kind",
         .section = "birds",
         .choices_from = pigeons,
         .removed = extinct,
         KVR_OPTION_CHOICE(struct birds, kind),
         .help = "Which."},
    };
    const struct kvr_command birds_command = {
        .name = "birds", .description = "", .options = bird_rows, .option_count = 3};
    const char *const good[] = {"birds",  "--peer",  "a,[::1], 10.0.0.1:0", "--kind", "owl",
                                "--peer", "http://b"};
    static const struct {
        const char *option, *value, *sentence;
    } bad[] = {
        {"--at", "a:b",
         "birds: --at is 'a:b', but must be host, host:port or [IPv6]:port, as in "
         "10.0.0.7:9480\n"},
        {"--peer", "a,b:",
         "birds: --peer is 'a,b:', but must be host, host:port or [IPv6]:port, "
         "as in 10.0.0.7:9470\n"},
        {"--peer", "https://a:b",
         "birds: --peer is 'https://a:b', but must be host, host:port or [IPv6]:port, "
         "as in 10.0.0.7:9470\n"},
        {"--peer", "a,b,c,d,e", "birds: --peer is 'a,b,c,d,e', but must have at most 4 items\n"},
        {"--kind", "dodo", "birds: --kind is 'dodo', but dodos died out: use a dove\n"},
        {"--kind", "cat", "birds: --kind is 'cat', but must be one of dove|owl\n"},
    };
    int status;

    (void)state;
    memset(&birds, 0, sizeof(birds));
    assert_true(kvr_options_load(&birds_command, 7, (char **)(uintptr_t)good, &birds, &status));
    assert_string_equal(birds.at, "127.0.0.1:9480");
    assert_int_equal(birds.peers.count, 4);
    assert_string_equal(birds.peers.items[0], "a:9470");
    assert_string_equal(birds.peers.items[1], "[::1]:9470");
    assert_string_equal(birds.peers.items[2], "10.0.0.1:0");
    assert_string_equal(birds.peers.items[3], "http://b:9470");
    assert_string_equal(birds.kind, "owl");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const char *const wrong[] = {"birds", bad[i].option, bad[i].value};
        size_t bytes;
        char *text;
        FILE *errors = open_memstream(&text, &bytes);

        assert_false(kvr_options_load_to(&birds_command, 3, (char **)(uintptr_t)wrong, errors,
                                         errors, &birds, &status));
        fclose(errors);
        assert_int_equal(status, KVR_EXIT_USAGE);
        assert_string_equal(text, bad[i].sentence);
        free(text);
    }
}

static void options_refuse_what_is_unknown(void **state)
{
    (void)state;
    assert_false(LOAD("--worker", "3"));
    refuses("there is no option --worker; did you mean --workers?");
    assert_false(LOAD("--worker=3"));
    refuses("there is no option --worker; did you mean --workers?");
    assert_false(LOAD("--frobnicate"));
    refuses("there is no option --frobnicate; --help lists them all");
    assert_false(LOAD("--no-workers"));
    refuses("there is no option --no-workers; --help lists them all");
    assert_false(LOAD("-x"));
    refuses("there is no option -x; --help lists them all");
    assert_false(LOAD("--name", "a", "--workers"));
    refuses("--workers lacks its value: --workers N");
    assert_false(LOAD("--name", "a", "1", "2", "3"));
    refuses("'3' is one argument too many: [FILE...]");
    assert_false(LOAD("--name", "a", ""));
    refuses("'' must have 1 to 255 characters: [FILE...]");
    setenv("KVRAIL_WORKERS", "many", 1);
    assert_false(LOAD("--name", "a"));
    refuses("KVRAIL_WORKERS in the environment is 'many', but must be a whole number");
}

static void refuses_file(const char *text, const char *problem)
{
    char sentence[400];
    const char *path = write_file(text);

    assert_false(LOAD("--name", "a", "--config", path));
    snprintf(sentence, sizeof(sentence), "%s %s", path, problem);
    refuses(sentence);
}

static void options_refuse_a_bad_file(void **state)
{
    char text[1000];

    (void)state;
    refuses_file("[agent]\nworkers = 17\n", "line 2: workers is '17', but must be from 1 to 16");
    refuses_file("\n\nworker = 1\nworkers=x\n", "line 3: there is no option 'worker'");
    refuses_file("[network]\nworkers = 1\n",
                 "line 2: 'workers' belongs into [agent], not [network]");
    refuses_file("workers\n", "line 1: neither [section] nor name = value");
    refuses_file("config = x\n", "line 1: there is no option 'config'");
    memset(text, 'a', sizeof(text));
    memcpy(text, "rail = ", 7);
    text[sizeof(text) - 1] = '\0';
    assert_false(LOAD("--name", "a", "--config", write_file(text)));
    assert_non_null(strstr(error_text, "line 1: a line has more than"));
    assert_false(LOAD("--config", "/does/not/exist"));
    refuses("--config is '/does/not/exist', but that cannot be read: No such file or directory");
    assert_false(LOAD("--config", "/proc"));
    refuses("--config is '/proc', but that cannot be read: Is a directory");
}

static void options_help_tells_a_stranger(void **state)
{
    static const char *const parts[] = {
        "Usage: test agent [options] [FILE...]\n\nDoes nothing, for a test.\n",
        "\nAgent options:\n",
        "\nNetwork options:\n",
        "\nGeneral options:\n",
        "SIGHUP reopens the log file and rereads --config: --deadline --log-level\n",
        "--log-file change at once, all others",
        "  --name NAME               Unique in the fleet. Required.\n",
        "--provider tcp|local|verbs",
        "[default: 127.0.0.1:0]",
        "--[no-]drain",
        "KVRAIL_NAME",
        "\nExit status:\n  0  done, or stopped as asked\n  1  it was seen to fail\n  2  ",
        "  3  bytes were wrong\n",
        "Example: test agent --name a\n"};

    (void)state;
    assert_false(LOAD("--workers", "0", "--help"));
    assert_int_equal(exit_status, 0);
    assert_string_equal(error_text, "");
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        assert_non_null(strstr(out_text, parts[i]));
    for (char *line = strtok(out_text, "\n"); line != NULL; line = strtok(NULL, "\n"))
        assert_true(strlen(line) <= 80);
    assert_false(LOAD("--version"));
    assert_int_equal(exit_status, 0);
    assert_string_equal(out_text, "test agent " KVRAIL_VERSION "\n");
    /* A value that looks like an option is still a value. */
    assert_true(LOAD("--name", "--help"));
    assert_string_equal(config.name, "--help");
}

/* Measuring switches work, but no help text or suggestion shows them. */
static void options_hide_what_only_measures(void **state)
{
    (void)state;
    assert_false(LOAD("--help"));
    assert_null(strstr(out_text, "worker-delay"));
    assert_null(strstr(out_text, "Tests options"));
    assert_non_null(strstr(out_text, "\nQueue options:\n  --queue-depth N"));
    assert_true(LOAD("--name", "a", "--worker-delay", "slowest", "--queue-depth", "9"));
    assert_int_equal(config.queue.depth, 9);
    assert_true(LOAD("--name", "a", "--worker-delay", "slowest"));
    assert_int_equal(config.queue.depth, 7);
    assert_string_equal(config.delay, "slowest");
    assert_false(LOAD("--name", "a", "--worker-delay", "fast"));
    refuses("--worker-delay is 'fast', but must be one of none|some");
    assert_false(LOAD("--name", "a", "--worker-delaz", "some"));
    refuses("there is no option --worker-delaz; --help lists them all");
}

static int ran_with;

static int run_one(int argc, char **argv)
{
    assert_string_equal(argv[0], "one");
    ran_with = argc;
    return 5;
}

static char told[1024];

static void note(void *self, bool problem, const char *sentence)
{
    assert_ptr_equal(self, told);
    snprintf(told + strlen(told), sizeof(told) - strlen(told), "%s%s\n", problem ? "! " : "",
             sentence);
}

static bool reread(int argc, char **argv)
{
    told[0] = '\0';
    return kvr_options_reread(&command, argc, argv, &config, sizeof(config), note, told);
}

static void options_are_reread(void **state)
{
    char *path = (char *)write_file("heartbeat = 2s\nrail = a,b\ndeadline = 1min\n");
    char *argv[] = {(char *)"test", (char *)"--name", (char *)"a", (char *)"--config", path};

    (void)state;
    assert_true(LOAD(argv[1], argv[2], argv[3], argv[4]));
    assert_true(reread(5, argv));
    assert_string_equal(told, "");
    write_file("heartbeat = 3s\nrail = a\nlog-level = debug\n");
    assert_true(reread(5, argv));
    assert_string_equal(
        told, "--rail is 'a' in its source and stays 'a,b' here: it takes a restart\n"
              "--heartbeat is '3s' in its source and stays '2s' here: it takes a restart\n"
              "--deadline is 'never' from now on; it was '1min'\n"
              "--log-level is 'debug' from now on; it was 'info'\n");
    assert_true(config.heartbeat == 2 * KVR_S && config.deadline == KVR_NEVER);
    assert_int_equal(config.rails.count, 2);
    assert_true(kvr_log_enabled(KVR_LOG_DEBUG));
}

static void options_stay_when_a_reread_fails(void **state)
{
    char *path = (char *)write_file("deadline = 1min\n");
    char *argv[] = {(char *)"test", (char *)"--name", (char *)"a", (char *)"--config", path};

    (void)state;
    assert_true(LOAD(argv[1], argv[2], argv[3], argv[4]));
    write_file("deadline = 2min\nheartbeat = soon\n");
    assert_false(reread(5, argv));
    assert_non_null(strstr(told, "! test agent: "));
    assert_non_null(strstr(told, "line 2: heartbeat is 'soon', but must be a number"));
    assert_true(config.deadline == 60 * KVR_S);
    write_file("deadline = 2min\nlog-file = /nowhere/log\n");
    assert_false(reread(5, argv));
    assert_non_null(strstr(told, "--log-file is '/nowhere/log', but cannot write the log file"));
    assert_true(config.deadline == 60 * KVR_S);
}

static void options_find_subcommands(void **state)
{
    static const struct kvr_subcommand table[] = {{"one", "The first.", run_one}, {0}};
    char *argv[] = {(char *)"p", (char *)"one", (char *)"--x", NULL};
    char *unknown[] = {(char *)"p", (char *)"two", NULL};

    (void)state;
    assert_int_equal(kvr_subcommands_run("p", "D.", table, 3, argv), 5);
    assert_int_equal(ran_with, 2);
    assert_int_equal(kvr_subcommands_run("p", "D.", table, 2, unknown), KVR_EXIT_USAGE);
    assert_int_equal(kvr_subcommands_run("p", "D.", table, 1, unknown), KVR_EXIT_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(options_have_defaults, clean),
        cmocka_unit_test_setup(options_read_the_command_line, clean),
        cmocka_unit_test_setup(options_better_sources_win, clean),
        cmocka_unit_test_setup(options_refuse_in_one_sentence, clean),
        cmocka_unit_test_setup(options_complete_values, clean),
        cmocka_unit_test_setup(options_refuse_what_is_unknown, clean),
        cmocka_unit_test_setup(options_refuse_a_bad_file, clean),
        cmocka_unit_test_setup(options_are_reread, clean),
        cmocka_unit_test_setup(options_stay_when_a_reread_fails, clean),
        cmocka_unit_test_setup(options_help_tells_a_stranger, clean),
        cmocka_unit_test(options_hide_what_only_measures),
        cmocka_unit_test(options_find_subcommands),
    };

    return cmocka_run_group_tests(tests, NULL, forget);
}
