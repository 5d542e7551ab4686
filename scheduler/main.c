/* kvrail-scheduler: its options, its limits, and the signals that it waits for. */
#include <limits.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/absence.h"
#include "base/address.h"
#include "base/log.h"
#include "base/need.h"
#include "base/options.h"
#include "base/port_file.h"
#include "base/state_folder.h"
#include "base/version.h"
#include "scheduler/page.h"
#include "scheduler/scheduler.h"
#include "scheduler/store_import.h"
#include "tls/tls_options.h"

#define FILES_BESIDE       64 /* beside connections */
#define STATE_NEEDED       (64ull << 20)
#define DATABASE_URL_BYTES 1024

struct config {
    char listen[KVR_ADDRESS_TEXT_BYTES];
    char port_file[PATH_MAX];
    char state_dir[PATH_MAX - 64];
    char database[DATABASE_URL_BYTES], password_file[PATH_MAX], import[PATH_MAX];
    char web_root[PATH_MAX];
    kvr_ns retention;
    uint64_t database_bytes;
    struct kvr_tls_config tls;
    char token_file[PATH_MAX];
    struct kvr_option_list hosts, open;
    kvr_ns session_life;
    uint64_t connections_max, connections_per_host;
};

static const struct kvr_option options[] = {
    {.name = "listen",
     .section = "network",
     .value = "HOST[:PORT]",
     .fallback = "127.0.0.1:9470",
     .port = KVR_SCHEDULER_PORT,
     KVR_OPTION_ADDRESS(struct config, listen),
     .help = "Where agents report and people look. Port 0: any free one."},
    {.name = "port-file",
     .section = "network",
     .value = "FILE",
     KVR_OPTION_STRING(struct config, port_file),
     .help = "Write the listening port here once it is open (for --listen HOST:0)."},
    {.name = "connections-max",
     .section = "network",
     .fallback = "1536",
     .min = 16,
     .max = 1000000,
     KVR_OPTION_COUNT(struct config, connections_max),
     .help = "How many connections may be open; each agent keeps one. Further ones are closed at "
             "once, counted and logged. Each takes a file descriptor."},
    {.name = "connections-per-host",
     .section = "network",
     .fallback = "128",
     KVR_OPTION_COUNT(struct config, connections_per_host),
     .help = "How many of them may come from one address, of IPv6 from one /64. Raise it where a "
             "proxy or a gateway stands for many agents; 0: any number."},
    {.name = "host",
     .section = "access",
     .value = "NAME",
     KVR_OPTION_LIST(struct config, hosts),
     .help = "A name by which others reach this scheduler, as browsers and Prometheus use it; "
             "repeat for every name. Its addresses, loopback and this host's own name need none. "
             "Requests by other names are refused: a foreign page could make them."},
    {.name = "token-file",
     .value = "FILE",
     KVR_OPTION_STRING(struct config, token_file),
     .help =
         "Tokens that may read or act: a line NAME read|act HASH for each token, as `kvrail token` "
         "makes it. Read again when it changes. Without it and without certificates "
         "all that reach the port may."},
    {.name = "open",
     .value = "metrics|health",
     .max = 2,
     KVR_OPTION_LIST(struct config, open),
     .help = "What needs no right: metrics for /metrics, health for /healthz."},
    {.name = "session-life",
     .fallback = "12h",
     .min = 60 * KVR_S,
     .max = 30ull * 24 * 3600 * KVR_S,
     KVR_OPTION_DURATION(struct config, session_life),
     .help = "How long a browser that has signed in may go on without its token."},
    {.name = "state-dir",
     .section = "state",
     .value = "DIR",
     .fallback = ".",
     KVR_OPTION_STRING(struct config, state_dir),
     .help = "Holds the database kvrail.db, of this scheduler alone; with --database a lock alone. "
             "Made if it is missing."},
    {.name = "database",
     .section = "state",
     .value = "URL",
     KVR_OPTION_STRING(struct config, database),
     .help =
         "Keep the state in PostgreSQL (14 or newer) instead: postgresql://USER@HOST/NAME. "
         "It may name four hosts (HOST,HOST); each address that does not answer is waited for 3 s. "
         "Several schedulers may have one database. The URL holds no password. Unless it has "
         "sslmode=..., the server must prove its name (verify-full). The tables are made in "
         "the schema kvrail."},
    {.name = "database-password-file",
     .section = "state",
     .value = "FILE",
     KVR_OPTION_STRING(struct config, password_file),
     .help = "The password for --database, in the first line; read for each connection. Without "
             "it libpq looks at PGPASSFILE, ~/.pgpass and service files."},
    {.name = "import",
     .value = "FILE",
     KVR_OPTION_STRING(struct config, import),
     .help = "Move the history of this kvrail.db into --database, compare the counts and exit. No "
             "scheduler may use the file. Run it again after an interruption: it goes on."},
    {.name = "retention",
     .section = "state",
     .fallback = "7d",
     .min = 60 * KVR_S,
     .max = KVR_NEVER,
     KVR_OPTION_DURATION(struct config, retention),
     .help = "How long transfers and events are kept; \"never\" ends: keep everything."},
    {.name = "database-bytes",
     .section = "state",
     .fallback = "0",
     KVR_OPTION_SIZE(struct config, database_bytes),
     .help =
         "With more of SQLite's database in use, the oldest ended transfers go with their events, "
         "however young they are, until 95 % of this are in use. Rows that come take the room "
         "of those that went, so the file stays so large. 0: no bound."},
    {.name = "web-root",
     .section = "page",
     .value = "DIR",
     KVR_OPTION_STRING(struct config, web_root),
     .help = "Serve the page from this folder instead of the one that is compiled in."},
};

static const struct kvr_option_part option_parts[] = {
    {.table = &kvr_tls_options, .offset = offsetof(struct config, tls)},
    {.table = NULL},
};

static const struct kvr_command command = {
    .name = "kvrail-scheduler",
    .description =
        "Keeps the state of every transfer, in SQLite or PostgreSQL, and shows it: agents\n"
        "post their events here, /metrics is for Prometheus, /api/v1 for programs, / for people.\n"
        "Agents move data without it.",
    .parts = option_parts,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .footer = "SIGTERM and SIGINT end it in good order; killed, it comes back with all it has\n"
              "acknowledged.",
    .rereads = true,
};

/* Reports a wrong folder at the start, not when the page is first opened. */
static kvr_status check_web_root(const char *web_root, struct kvr_error *error)
{
    struct page page;

    if (web_root == NULL)
        return KVR_OK;
    if (!page_get(web_root, "/", &page))
        return kvr_error_set(error, KVR_SYSTEM, "scheduler",
                             "--web-root %s: the page cannot be read there", web_root);
    page_done(&page);
    return KVR_OK;
}

static struct access_options access_options(const struct config *config)
{
    struct access_options access = {
        .token_file = config->token_file[0] != '\0' ? config->token_file : NULL,
        .tls = kvr_tls_given(&config->tls),
        .session_life = config->session_life,
        .hosts = {.extra = config->hosts},
    };

    if (gethostname(access.hosts.own, sizeof(access.hosts.own) - 1) != 0)
        access.hosts.own[0] = '\0';
    return access;
}

/* So that the log says which rights are needed. */
static void log_access(const struct config *config)
{
    bool tokens = config->token_file[0] != '\0', tls = kvr_tls_given(&config->tls);

    if (config->tls.insecure)
        kvr_log_warning("--insecure: any program that reaches %s may report in an agent's name%s",
                        config->listen,
                        tokens ? "" : ", read every request id and abandon requests");
    if (tokens)
        kvr_log_info("tokens of --token-file may read and act%s",
                     tls ? ", and client certificates" : "");
    else if (tls)
        kvr_log_info("only client certificates may read and act: there is no --token-file, so no "
                     "browser signs in");
    else
        kvr_log_info("all that reach the port may read and act: there is no --token-file");
}

static struct store_place place_of(const struct config *config, int stop_fd)
{
    return (struct store_place){.folder = config->state_dir,
                                .stop_fd = stop_fd,
                                .url = config->database[0] != '\0' ? config->database : NULL,
                                .password_file =
                                    config->password_file[0] != '\0' ? config->password_file : NULL,
                                .retention = config->retention};
}

static kvr_status start(const struct config *config, const struct kvr_address *listen_at,
                        int stop_fd, struct scheduler *scheduler, struct kvr_error *error)
{
    struct scheduler_options parts = {
        .place = place_of(config, stop_fd),
        .database_bytes = config->database_bytes,
        .listen = *listen_at,
        .connections_max = config->connections_max,
        .connections_per_host = config->connections_per_host,
        .web_root = config->web_root[0] != '\0' ? config->web_root : NULL,
        .access = access_options(config),
        .tls = kvr_tls_given(&config->tls) ? &config->tls : NULL,
    };
    struct kvr_address listening = *listen_at;
    char printed[KVR_ADDRESS_TEXT_BYTES];
    kvr_status status = kvr_need_files(config->connections_max + FILES_BESIDE, error);

    if (status == KVR_OK)
        status = access_open_paths(&config->open, "--open", &parts.access, error);
    if (status == KVR_OK)
        status = check_web_root(parts.web_root, error);
    if (status == KVR_OK)
        status = kvr_state_folder_take(config->state_dir, STATE_NEEDED, error);
    if (status == KVR_OK)
        status = scheduler_open(&parts, scheduler, error);
    listening.port = scheduler->port;
    if (status == KVR_OK && config->port_file[0] != '\0')
        status = kvr_port_file_write(config->port_file, listening.port, error);
    if (status == KVR_OK)
        log_access(config);
    if (status == KVR_OK)
        kvr_log_info("kvrail-scheduler %s listens on %s://%s/", KVRAIL_VERSION,
                     parts.tls != NULL ? "https" : "http", kvr_address_print(&listening, printed));
    return status;
}

static void look_for_absence(const struct scheduler *scheduler, struct kvr_absence *absence,
                             kvr_ns now)
{
    kvr_ns away = kvr_absence_tick(absence, now, KVR_S);

    if (away == 0)
        return;
    kvr_log_warning(KVR_ABSENCE_SENTENCE, away / KVR_MS);
    metrics_absence(scheduler->metrics);
}

/* Returns SIGTERM or SIGINT; until then it handles each SIGHUP and does the work of each second. */
static int wait_for_end(const sigset_t *signals, int argc, char **argv, struct config *config,
                        struct scheduler *scheduler)
{
    const struct timespec second = {.tv_sec = 1};
    struct kvr_absence absence = {0};

    for (;;) {
        int number = sigtimedwait(signals, NULL, &second);

        if (number == SIGHUP) {
            kvr_options_hang_up(&command, argc, argv, config, sizeof(*config));
            access_reread(scheduler->access, true);
            if (scheduler->tls != NULL)
                http_tls_look(scheduler->tls, true);
        } else if (number > 0) {
            return number;
        }
        look_for_absence(scheduler, &absence, kvr_clock_now());
        scheduler_tick(scheduler, kvr_clock_now());
        kvr_log_tick();
    }
}

/* Before anything is made: a bad option is refused with status 2. */
static kvr_status check_listen(const struct config *config, struct kvr_address *ret_address,
                               struct kvr_error *error)
{
    struct sockaddr_storage socket;
    socklen_t bytes;

    KVR_TRY(kvr_address_parse(config->listen, -1, error, ret_address));
    if (strcmp(ret_address->host, "localhost") == 0 ||
        kvr_address_to_socket(ret_address, &socket, &bytes) == KVR_OK)
        return KVR_OK;
    return kvr_error_set(error, KVR_INVALID, "scheduler",
                         "--listen is '%s', but a scheduler listens on a numeric address",
                         config->listen);
}

/* Instead of a scheduler's work. */
static int import(const struct config *config, int stop_fd)
{
    const struct store_place to = place_of(config, stop_fd);
    struct kvr_error error = {0};
    kvr_status status = import_run(config->import, &to, &error);

    if (status != KVR_OK)
        kvr_log_error("kvrail-scheduler: %s", error.detail);
    kvr_log_flush();
    return status == KVR_OK ? 0 : 1;
}

/* Before the first thread is made, so that every thread leaves them to the first one. Returns a
 * descriptor that is readable once a signal to end has come; it stays pending. */
static int block_signals(sigset_t *signals)
{
    sigset_t ends;
    int fd;

    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    *signals = ends;
    sigaddset(signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    fd = signalfd(-1, &ends, SFD_CLOEXEC);
    return fd > 0 ? fd : 0;
}

static bool must_stop(int stop_fd)
{
    struct pollfd stop = {.fd = stop_fd, .events = POLLIN};

    return stop_fd != 0 && poll(&stop, 1, 0) > 0;
}

int main(int argc, char **argv)
{
    static struct config config;
    struct scheduler scheduler = {0};
    struct kvr_error error = {0};
    struct kvr_address address;
    sigset_t signals;
    kvr_status status;
    int exit_status, stop_fd;
    bool stopped;

    if (!kvr_options_load(&command, argc, argv, &config, &exit_status))
        return exit_status;
    stop_fd = block_signals(&signals);
    if (config.import[0] != '\0')
        return import(&config, stop_fd);
    if (kvr_tls_check(&config.tls, &error) != KVR_OK)
        return kvr_options_refuse(&command, "%s", error.detail);
    if (check_listen(&config, &address, &error) != KVR_OK)
        return kvr_options_refuse(&command, "%s", error.detail);
    if (config.database_bytes != 0 && config.database[0] != '\0')
        return kvr_options_refuse(&command, "--database-bytes bounds the file of SQLite: give "
                                            "--retention with --database");
    /* Each answer frees a large block, and glibc then sorts all its small ones anew. */
    (void)mallopt(M_MXFAST, 0);
    status = start(&config, &address, stop_fd, &scheduler, &error);
    stopped = status != KVR_OK && must_stop(stop_fd);
    if (stopped)
        kvr_log_info("a signal ended the start: %s", error.detail);
    else if (status == KVR_OK)
        kvr_log_info("%s received: stopping",
                     wait_for_end(&signals, argc, argv, &config, &scheduler) == SIGTERM ? "SIGTERM"
                                                                                        : "SIGINT");
    else
        kvr_log_error("kvrail-scheduler: %s", error.detail);
    scheduler_close(&scheduler);
    kvr_log_flush();
    if (status == KVR_INVALID)
        return KVR_EXIT_USAGE; /* another start would meet the same */
    return status == KVR_OK || stopped ? 0 : 1;
}
