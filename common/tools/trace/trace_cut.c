/* `kvrail trace cut`: the part of a trace that is of interest, as a trace. */
#include "tools/trace/trace_tool.h"

#define OPTIONS struct cut_options

struct cut_options {
    struct kvr_option_list files;
    kvr_ns from, to;
    char request[KVR_REQUEST_BYTES], outcome[16], agent[KVR_NAME_BYTES];
    char output[TRACE_PATH_BYTES];
};

static const struct kvr_option options[] = {
    {.name = "from",
     .section = "what stays",
     .fallback = "0s",
     KVR_OPTION_DURATION(OPTIONS, from),
     .help = "Records from this time on, counted from the trace's start."},
    {.name = "to",
     .fallback = "never",
     .max = KVR_NEVER,
     KVR_OPTION_DURATION(OPTIONS, to),
     .help = "Records before this time."},
    {.name = "agent",
     .value = "NAME",
     KVR_OPTION_STRING(OPTIONS, agent),
     .help = "Requests and transfers of this agent, on either side."},
    {.name = "outcome",
     .choices = "live|done|failed|cancelled|expired|lost",
     KVR_OPTION_CHOICE(OPTIONS, outcome),
     .help = "Transfers that ended so, without records of requests."},
    {.name = "request",
     .value = "ID",
     KVR_OPTION_STRING(OPTIONS, request),
     .help = "This request and its transfers, by the id in the trace."},
    TRACE_OUTPUT_OPTION(OPTIONS),
};

static const struct kvr_command command = {
    .name = "kvrail trace cut",
    .description =
        "Writes the part of a trace that all given options choose, as a trace of its own with the\n"
        "same start. Agents, geometries and engines stay, and faults and marks of that time.",
    TRACE_ARGUMENT(OPTIONS),
    KVR_OPTION_ROWS(options),
    .footer = "Example:\n"
              "  kvrail trace cut day.kvtrace.zst --from 2h --to 2h10min --output incident.kvtrace",
};

static bool in_time(const struct cut_options *config, int64_t at_us)
{
    int64_t from = (int64_t)(config->from / KVR_US);

    /* Without --from, transfers that began before the start stay, too. */
    return (from == 0 || at_us >= from) &&
           (config->to == KVR_NEVER || at_us < (int64_t)(config->to / KVR_US));
}

static bool of_agent(const struct cut_options *config, const struct kvtrace_book *book,
                     int64_t source, int64_t target)
{
    const struct kvtrace_agent *one = kvtrace_book_agent(book, source);
    const struct kvtrace_agent *other = kvtrace_book_agent(book, target);

    return config->agent[0] == '\0' || (one != NULL && strcmp(one->name, config->agent) == 0) ||
           (other != NULL && strcmp(other->name, config->agent) == 0);
}

static bool of_request(const struct cut_options *config, const char *id)
{
    return config->request[0] == '\0' || strcmp(config->request, id) == 0;
}

static bool stays(const struct cut_options *config, const struct kvtrace_book *book,
                  const struct kvtrace_record *record)
{
    const struct kvtrace_transfer *transfer = &record->transfer;
    const struct kvtrace_request *request = &record->request;

    switch (record->kind) {
    case KVTRACE_REQUEST:
        return config->outcome[0] == '\0' && in_time(config, request->at_us) &&
               of_request(config, request->id) &&
               of_agent(config, book, request->source, request->target);
    case KVTRACE_TRANSFER:
        return in_time(config, transfer->at_us) && of_request(config, transfer->request) &&
               of_agent(config, book, transfer->sides[KVR_ROLE_SOURCE].agent,
                        transfer->sides[KVR_ROLE_TARGET].agent) &&
               (config->outcome[0] == '\0' ||
                strcmp(config->outcome, kvtrace_outcome_name(transfer->outcome)) == 0);
    case KVTRACE_FAULT:
        return in_time(config, record->fault.at_us);
    case KVTRACE_MARK:
        return in_time(config, record->mark.at_us);
    default:
        return true;
    }
}

static const struct kvtrace_record *choose(void *self, const struct kvtrace_book *book,
                                           const struct kvtrace_record *record, bool *ret_stop)
{
    (void)ret_stop;
    return stays(self, book, record) ? record : NULL;
}

int trace_cut_main(int argc, char **argv)
{
    static OPTIONS config;
    int exit_status;

    if (!kvr_options_load(&command, argc, argv, &config, &exit_status))
        return exit_status;
    return trace_copy(&(const struct trace_copy){.command = command.name,
                                                 .path = config.files.items[0],
                                                 .output = config.output,
                                                 .choose = choose,
                                                 .self = &config});
}
