/* `kvrail trace record`: transfers of a scheduler as a trace. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/entropy.h"
#include "base/hex.h"
#include "base/small_file.h"
#include "tools/interrupt.h"
#include "tools/scheduler_get.h"
#include "tools/trace/trace_marks.h"
#include "tools/trace/trace_tool.h"

#define OPTIONS       struct record_options
#define PATH_BYTES    2048
#define PAGE          500
#define LOOK_NS       (500 * KVR_MS) /* between two looks at transfers that have not ended */
#define REPORTS_NS    (1 * KVR_S)    /* agents have reported what has ended by then */
/* Agents are asked for page tables so often, and send them for so much longer: a recorder that dies
 * leaves no wish behind. */
#define PAGES_ASK_NS  (60 * KVR_S)
#define PAGES_MORE_NS (15 * KVR_S)
#define ORDERS_NS     (5 * KVR_S) /* an idle agent asks for orders every 2 s; a slow one later */

struct record_options {
    struct scheduler_call scheduler; /* first */
    kvr_ns since, during, settle;
    char request[KVR_REQUEST_BYTES], tenant[KVR_NAME_BYTES], agent[KVR_NAME_BYTES];
    char state[16], reason[24];
    char key_file[TRACE_PATH_BYTES], output[TRACE_PATH_BYTES];
    bool plain_ids, pages;
};

static const struct kvr_option options[] = {
    {.name = "since",
     .section = "what is recorded",
     .fallback = "10min",
     KVR_OPTION_DURATION(OPTIONS, since),
     .help = "Transfers with an event after this time, counted back from now; 0s: from now on."},
    {.name = "during",
     .fallback = "0s",
     KVR_OPTION_DURATION(OPTIONS, during),
     .help = "Wait for so long first, or until SIGINT or SIGTERM comes, and record up to that "
             "moment. 0s: "
             "record what is there."},
    {.name = "settle",
     .fallback = "10s",
     KVR_OPTION_DURATION(OPTIONS, settle),
     .help = "Wait at most so long for transfers of that time to end; then they are recorded as "
             "live."},
    {.name = "pages",
     KVR_OPTION_BOOL(OPTIONS, pages),
     .help =
         "Ask all agents for the page tables of transfers while this recording lasts (--during), "
         "which needs the right to give orders. Else the file has those that agents send by "
         "themselves (--pages-every of an agent)."},
    {.name = "request",
     .value = "ID",
     KVR_OPTION_STRING(OPTIONS, request),
     .help = "Of requests with an id that begins so."},
    {.name = "tenant",
     .value = "NAME",
     KVR_OPTION_STRING(OPTIONS, tenant),
     .help = "Of this tenant."},
    {.name = "agent",
     .value = "NAME",
     KVR_OPTION_STRING(OPTIONS, agent),
     .help = "Of this agent, on either side."},
    {.name = "state",
     .choices = "live|done|failed|cancelled|expired|lost",
     KVR_OPTION_CHOICE(OPTIONS, state),
     .help = "In this state."},
    {.name = "reason",
     .value = "NAME",
     KVR_OPTION_STRING(OPTIONS, reason),
     .help = "That ended for this reason, such as peer_lost."},
    {.name = "plain-ids",
     .section = "output",
     KVR_OPTION_BOOL(OPTIONS, plain_ids),
     .help = "Ids of requests as the engines gave them. Else they are hashes with a key that is "
             "drawn for this file and thrown away."},
    {.name = "key-file",
     .value = "FILE",
     KVR_OPTION_STRING(OPTIONS, key_file),
     .help = "64 hexadecimal digits: the key of those hashes. Traces with the same key have the "
             "same ids, so kvrail compare matches their requests."},
    TRACE_OUTPUT_OPTION(OPTIONS),
};

static const struct kvr_command command = {
    .name = "kvrail trace record",
    .description =
        "Writes transfers that a scheduler knows as a trace: out of its history, or of the time\n"
        "that follows. Times of layers and rails come with those transfers of which the agents\n"
        "send them: all that failed or were slow, and one in --spans-every of an agent. What "
        "broke\n"
        "meanwhile is recorded, too: rails, agents, engines, the scheduler.",
    .parts = scheduler_parts,
    KVR_OPTION_ROWS(options),
    .exit_codes = scheduler_exit_codes,
    .footer = "Example:\n"
              "  kvrail trace record --scheduler 10.0.0.5:18800 --since 1h --reason peer_lost \\\n"
              "      --output incident.kvtrace.zst",
};

struct recording {
    const struct record_options *options;
    struct trace_recorder *recorder;
    kvr_ns from, until; /* wall: of the last events that are asked for */
    kvr_ns opened_by;   /* wall: later ones are not recorded */
};

/* ---- questions ------------------------------------------------------------------------------- */

static void add_parameter(char *path, const char *name, const char *value)
{
    size_t used = strlen(path);
    char escaped[3 * KVR_REQUEST_BYTES];

    if (value[0] == '\0')
        return;
    scheduler_escape(value, escaped, sizeof(escaped));
    snprintf(path + used, PATH_BYTES - used, "%c%s=%s", strchr(path, '?') != NULL ? '&' : '?', name,
             escaped);
}

static void add_window(const struct recording *recording, char *path)
{
    char text[KVR_RFC3339_BYTES];

    add_parameter(path, "from", kvr_clock_rfc3339(recording->from, text));
    add_parameter(path, "until", kvr_clock_rfc3339(recording->until, text));
}

static void transfers_path(const struct recording *recording, const char *state, const char *after,
                           unsigned limit, char path[PATH_BYTES])
{
    const struct record_options *config = recording->options;

    snprintf(path, PATH_BYTES, "/api/v1/transfers?trace=yes&limit=%u", limit);
    add_window(recording, path);
    add_parameter(path, "state", state);
    add_parameter(path, "request", config->request);
    add_parameter(path, "tenant", config->tenant);
    add_parameter(path, "agent", config->agent);
    add_parameter(path, "reason", config->reason);
    add_parameter(path, "after", after);
}

/* ---- recording ------------------------------------------------------------------------------- */

static void take_next(const json_t *answer, char ret_next[64])
{
    const char *next = json_string_value(json_object_get(answer, "next"));

    snprintf(ret_next, 64, "%s", next != NULL ? next : "");
}

/* One page. *ret_next "": there is no more. */
static kvr_status record_page(struct recording *recording, char ret_next[64],
                              struct kvr_error *error)
{
    char path[PATH_BYTES];
    json_t *answer, *transfer;
    size_t index;
    kvr_status status = KVR_OK;

    transfers_path(recording, recording->options->state, ret_next, PAGE, path);
    answer = scheduler_get(&recording->options->scheduler, path, NULL, error);
    if (answer == NULL)
        return error->status;
    json_array_foreach(json_object_get(answer, "transfers"), index, transfer)
    {
        if (status == KVR_OK && json_integer_value(json_object_get(transfer, "opened_us")) <=
                                    (json_int_t)(recording->opened_by / KVR_US))
            status = trace_record_transfer(recording->recorder, transfer, error);
    }
    take_next(answer, ret_next);
    json_decref(answer);
    return status;
}

static kvr_status record_transfers(struct recording *recording, struct kvr_error *error)
{
    char next[64] = "";
    unsigned heard = interrupts();

    do {
        KVR_TRY(record_page(recording, next, error));
        if (interrupts() > heard)
            return kvr_error_set(error, KVR_CANCELLED, "trace",
                                 "a signal came before all transfers were recorded");
    } while (next[0] != '\0');
    return KVR_OK;
}

/* One page of engines, also of those that have gone. *ret_next "": there is no more. */
static kvr_status record_engines_page(struct recording *recording, char ret_next[64],
                                      struct kvr_error *error)
{
    char path[PATH_BYTES], from[KVR_RFC3339_BYTES];
    json_t *answer, *engine;
    size_t index;
    kvr_status status = KVR_OK;

    snprintf(path, sizeof(path), "/api/v1/engines?limit=%d", PAGE);
    add_parameter(path, "from", kvr_clock_rfc3339(recording->from, from));
    add_parameter(path, "after", ret_next);
    ret_next[0] = '\0';
    answer = scheduler_get(&recording->options->scheduler, path, NULL, error);
    if (answer == NULL)
        return error->status == KVR_NOT_FOUND ? KVR_OK : error->status; /* an older scheduler */
    json_array_foreach(json_object_get(answer, "engines"), index, engine)
    {
        const char *agent = json_string_value(json_object_get(engine, "agent"));

        if (status == KVR_OK && agent != NULL)
            status = trace_record_engine(recording->recorder, agent, engine, error);
    }
    take_next(answer, ret_next);
    json_decref(answer);
    return status;
}

/* Those that are attached. Of an older scheduler no others are known. */
static kvr_status record_attached(struct recording *recording, const json_t *agents,
                                  struct kvr_error *error)
{
    size_t index, place;
    json_t *agent, *engine;

    json_array_foreach(agents, index, agent)
    {
        const char *name = json_string_value(json_object_get(agent, "name"));

        json_array_foreach(json_object_get(agent, "engines"), place, engine)
        {
            if (name != NULL)
                KVR_TRY(trace_record_engine(recording->recorder, name, engine, error));
        }
    }
    return KVR_OK;
}

static kvr_status record_agents(struct recording *recording, struct kvr_error *error)
{
    json_t *agents =
        scheduler_get(&recording->options->scheduler, "/api/v1/agents", "agents", error);
    char next[64] = "";
    kvr_status status;

    if (agents == NULL)
        return error->status;
    status = trace_record_agents(recording->recorder, agents, error);
    do
        if (status == KVR_OK)
            status = record_engines_page(recording, next, error);
    while (status == KVR_OK && next[0] != '\0');
    if (status == KVR_OK)
        status = record_attached(recording, agents, error);
    json_decref(agents);
    return status;
}

static kvr_status record_faults(struct recording *recording, struct kvr_error *error)
{
    char path[PATH_BYTES] = "/api/v1/faults";
    json_t *answer, *fault;
    size_t index;
    kvr_status status = KVR_OK;

    add_window(recording, path);
    answer = scheduler_get(&recording->options->scheduler, path, NULL, error);
    if (answer == NULL)
        return error->status == KVR_NOT_FOUND ? KVR_OK : error->status; /* an older scheduler */
    json_array_foreach(json_object_get(answer, "faults"), index, fault)
    {
        if (status == KVR_OK)
            status = trace_record_fault(recording->recorder, fault, error);
    }
    if (json_is_true(json_object_get(answer, "more")))
        fprintf(stderr, "note: only the last %zu faults of that time are recorded\n", index);
    json_decref(answer);
    return status;
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Asks agents for page tables: for a little longer than until it asks again. */
static kvr_status ask_for_pages(const struct recording *recording, kvr_ns left,
                                struct kvr_error *error)
{
    kvr_ns length = (left < PAGES_ASK_NS ? left : PAGES_ASK_NS) + PAGES_MORE_NS;
    char path[64];
    json_t *answer;

    snprintf(path, sizeof(path), "/api/v1/agents/%%2A/record?for_ms=%" PRIu64, length / KVR_MS);
    answer = scheduler_post(&recording->options->scheduler, path, error);
    if (answer == NULL)
        return error->status;
    json_decref(answer);
    return KVR_OK;
}

/* Until --during is over, or a signal comes. */
static kvr_status wait_during(const struct recording *recording, struct kvr_error *error)
{
    bool asks = recording->options->pages, said = false, goes_on = true;
    kvr_ns until = kvr_clock_now() + recording->options->during, now = 0;

    while (goes_on && (now = kvr_clock_now()) < until) {
        kvr_ns left = until - now;
        kvr_status status = asks ? ask_for_pages(recording, left, error) : KVR_OK;

        if (status != KVR_OK && !said)
            return status;
        if (status != KVR_OK)
            fprintf(stderr, "note: agents were not asked again for page tables: %s\n",
                    error->detail);
        if (!said && asks)
            (void)interrupt_sleep(ORDERS_NS, 0);
        if (!said)
            fprintf(stderr, "recording; SIGINT or SIGTERM ends it, and the file is written\n");
        said = true;
        goes_on = interrupt_sleep(asks && left > PAGES_ASK_NS ? PAGES_ASK_NS : left, 0);
    }
    return KVR_OK;
}

/* Until no transfer of that time is live, --settle is over, or a signal comes. */
static kvr_status settle(struct recording *recording, struct kvr_error *error)
{
    kvr_ns until = kvr_clock_now() + recording->options->settle;
    size_t live = 1;
    unsigned heard = interrupts();

    if (recording->options->state[0] != '\0')
        return KVR_OK;
    while (live > 0 && kvr_clock_now() < until && interrupts() <= heard) {
        char path[PATH_BYTES];
        json_t *transfers;

        recording->until = kvr_clock_wall();
        transfers_path(recording, "live", "", 1, path);
        transfers = scheduler_get(&recording->options->scheduler, path, "transfers", error);
        if (transfers == NULL)
            return error->status;
        live = json_array_size(transfers);
        json_decref(transfers);
        if (live > 0)
            (void)interrupt_sleep(LOOK_NS, heard);
    }
    return KVR_OK;
}

static kvr_status record(struct recording *recording, struct kvr_error *error)
{
    KVR_TRY(settle(recording, error));
    recording->until = kvr_clock_wall(); /* of those that ended meanwhile, too */
    KVR_TRY(record_agents(recording, error));
    KVR_TRY(record_transfers(recording, error));
    KVR_TRY(record_faults(recording, error));
    KVR_TRY(trace_record_marks(&recording->options->scheduler, recording->recorder, recording->from,
                               recording->until, error));
    return trace_recorder_finish(recording->recorder, error);
}

/* ---- the file -------------------------------------------------------------------------------- */

/* False after a sentence. */
static bool load_key(const struct record_options *config, uint8_t key[TRACE_KEY_BYTES],
                     int *ret_exit)
{
    char text[2 * TRACE_KEY_BYTES + 2];

    kvr_random_bytes(key, TRACE_KEY_BYTES);
    if (config->key_file[0] == '\0' || (kvr_small_file_line(config->key_file, text, sizeof(text)) &&
                                        kvr_hex_parse(text, TRACE_KEY_BYTES, key)))
        return true;
    *ret_exit = kvr_options_refuse(&command,
                                   "--key-file is %s, but no file with 64 hexadecimal digits in "
                                   "lower case in its first line",
                                   config->key_file);
    return false;
}

static kvr_status record_file(struct recording *recording, const uint8_t *key,
                              struct kvr_error *error)
{
    struct kvtrace_header header = {.plain_ids = key == NULL,
                                    .start_us = (int64_t)(recording->from / KVR_US)};
    char start[KVR_RFC3339_BYTES];
    struct kvtrace_writer *writer;
    kvr_status status;

    snprintf(header.start, sizeof(header.start), "%s", kvr_clock_rfc3339(recording->from, start));
    KVR_TRY(kvtrace_create(recording->options->output, &header, &writer, error));
    recording->recorder = trace_recorder_open(writer, header.start_us, key);
    if (recording->recorder == NULL)
        status = kvr_error_set(error, KVR_NO_MEMORY, "trace", "no memory for a recorder");
    else
        status = record(recording, error);
    if (status == KVR_OK)
        return kvtrace_finish(writer, error);
    kvtrace_abandon(writer);
    return status;
}

int trace_record_main(int argc, char **argv)
{
    static OPTIONS config;
    uint8_t key[TRACE_KEY_BYTES];
    struct recording recording = {.options = &config};
    struct kvr_error error = {0};
    kvr_status status;
    int exit_status;

    if (!kvr_options_load(&command, argc, argv, &config, &exit_status) ||
        !load_key(&config, key, &exit_status))
        return exit_status;
    if (!scheduler_ready(&command, &config.scheduler))
        return KVR_EXIT_USAGE;
    if (config.pages && config.during == 0)
        return kvr_options_refuse(&command,
                                  "--pages asks agents for page tables of transfers to come: say "
                                  "with --during for how long");
    recording.from = kvr_clock_wall() - config.since;
    interrupt_catch();
    status = wait_during(&recording, &error);
    if (status != KVR_OK) {
        trace_fail(command.name, error.detail);
        return scheduler_exit(&error);
    }
    recording.until = recording.opened_by = kvr_clock_wall();
    if (config.during > 0)
        (void)interrupt_sleep(REPORTS_NS, interrupts());
    status = record_file(&recording, config.plain_ids ? NULL : key, &error);
    if (status == KVR_OK)
        fprintf(stderr, "%" PRIu64 " transfers\n", trace_recorder_transfers(recording.recorder));
    trace_recorder_close(recording.recorder);
    if (status == KVR_OK)
        return 0;
    trace_fail(command.name, error.detail);
    return strcmp(error.where, "trace") == 0 ? 1 : scheduler_exit(&error);
}
