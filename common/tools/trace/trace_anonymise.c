/* `kvrail trace anonymise`: a trace that can be given away. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <uthash.h>

#include "base/entropy.h"
#include "tools/trace/trace_hash.h"
#include "tools/trace/trace_tool.h"

#define OPTIONS struct anonymise_options

struct anonymise_options {
    struct kvr_option_list files;
    bool keep_models;
    char output[TRACE_PATH_BYTES];
};

static const struct kvr_option options[] = {
    {.name = "keep-models",
     .section = "what stays",
     .fallback = "yes",
     KVR_OPTION_BOOL(OPTIONS, keep_models),
     .help = "The names of models."},
    TRACE_OUTPUT_OPTION(OPTIONS),
};

static const struct kvr_command command = {
    .name = "kvrail trace anonymise",
    .description =
        "Writes a trace that does not show its origin: names of agents, hosts, engines, cards,\n"
        "planes and tenants become numbers, ids become hashes with a key that is thrown away, and\n"
        "options, versions, sentences, notes and the date are left out. Sizes and times stay.",
    TRACE_ARGUMENT(OPTIONS),
    KVR_OPTION_ROWS(options),
    .footer = "Example:\n"
              "  kvrail trace anonymise incident.kvtrace.zst --output shared.kvtrace.zst",
};

/* Names of one sort, numbered as they come. */
struct name {
    UT_hash_handle hh;
    uint64_t number;
    char text[];
};

struct mask {
    const struct anonymise_options *options;
    uint8_t key[TRACE_KEY_BYTES];
    struct name *hosts, *tenants, *planes, *models, *engines;
    struct kvtrace_record record; /* what is written */
    int64_t *blocks;
    size_t blocks_room;
    bool failed; /* no memory */
};

/* "host" and a number in place of a name. */
static void number_name(struct mask *mask, struct name **names, const char *noun, char *text,
                        size_t room)
{
    struct name *name;
    size_t bytes = strlen(text);

    if (bytes == 0)
        return;
    HASH_FIND(hh, *names, text, bytes, name);
    if (name == NULL) {
        name = malloc(sizeof(*name) + bytes + 1);
        if (name == NULL) {
            mask->failed = true;
            text[0] = '\0';
            return;
        }
        memcpy(name->text, text, bytes + 1);
        name->number = HASH_COUNT(*names);
        HASH_ADD_KEYPTR(hh, *names, name->text, bytes, name);
    }
    snprintf(text, room, "%s-%" PRIu64, noun, name->number);
}

static void forget_names(struct name **names)
{
    struct name *name, *next;

    HASH_ITER(hh, *names, name, next)
    {
        HASH_DEL(*names, name);
        free(name);
    }
}

static void hash_id(const struct mask *mask, char *id, size_t room)
{
    if (id[0] != '\0')
        snprintf(id, room, "%016" PRIx64, trace_hash(mask->key, id, strlen(id)));
}

static void mask_agent(struct mask *mask, struct kvtrace_agent *agent)
{
    number_name(mask, &mask->hosts, "host", agent->host, sizeof(agent->host));
    snprintf(agent->name, sizeof(agent->name), "%s-%" PRId64,
             agent->role == KVR_ROLE_SOURCE ? "prefill" : "decode", agent->number);
    agent->options[0] = agent->version[0] = '\0';
    for (size_t i = 0; i < agent->rail_count; i++) {
        struct kvtrace_rail *rail = &agent->rails[i];

        snprintf(rail->name, sizeof(rail->name), "rail-%zu", i);
        number_name(mask, &mask->planes, "plane", rail->plane, sizeof(rail->plane));
    }
}

static void mask_request(struct mask *mask, struct kvtrace_request *request)
{
    size_t count = request->blocks.count;

    hash_id(mask, request->id, sizeof(request->id));
    number_name(mask, &mask->tenants, "tenant", request->tenant, sizeof(request->tenant));
    if (count > mask->blocks_room) {
        free(mask->blocks);
        mask->blocks = malloc(count * sizeof(mask->blocks[0]));
        mask->blocks_room = mask->blocks != NULL ? count : 0;
    }
    if (count > mask->blocks_room) {
        mask->failed = true;
        return;
    }
    for (size_t i = 0; i < count; i++)
        mask->blocks[i] =
            (int64_t)(trace_hash(mask->key, &request->blocks.numbers[i], sizeof(int64_t)) >> 1);
    request->blocks.numbers = mask->blocks;
}

static void mask_transfer(struct mask *mask, struct kvtrace_transfer *transfer)
{
    hash_id(mask, transfer->id, sizeof(transfer->id));
    hash_id(mask, transfer->request, sizeof(transfer->request));
    number_name(mask, &mask->tenants, "tenant", transfer->tenant, sizeof(transfer->tenant));
    transfer->detail[0] = '\0';
}

static const struct kvtrace_record *choose(void *self, const struct kvtrace_book *book,
                                           const struct kvtrace_record *record, bool *ret_stop)
{
    struct mask *mask = self;
    struct kvtrace_record *out = &mask->record;

    (void)book;
    kvtrace_copy(out, record);
    switch (out->kind) {
    case KVTRACE_AGENT:
        mask_agent(mask, &out->agent);
        break;
    case KVTRACE_GEOMETRY:
        if (!mask->options->keep_models)
            number_name(mask, &mask->models, "model", out->geometry.model,
                        sizeof(out->geometry.model));
        break;
    case KVTRACE_ENGINE:
        number_name(mask, &mask->engines, "engine", out->engine.name, sizeof(out->engine.name));
        break;
    case KVTRACE_REQUEST:
        mask_request(mask, &out->request);
        break;
    case KVTRACE_TRANSFER:
        mask_transfer(mask, &out->transfer);
        break;
    case KVTRACE_FAULT:
        out->fault.text[0] = '\0';
        break;
    case KVTRACE_MARK:
        out->mark.before[0] = out->mark.after[0] = '\0';
        break;
    case KVTRACE_DROPPED:
        out->dropped.what[0] = '\0';
        break;
    default:
        break;
    }
    *ret_stop = mask->failed;
    return mask->failed ? NULL : out;
}

static void change(void *self, struct kvtrace_header *header)
{
    (void)self;
    header->start[0] = header->note[0] = '\0';
    snprintf(header->made_by, sizeof(header->made_by), "kvrail");
    header->start_us = 0;
    header->plain_ids = false;
}

static int anonymise(const struct anonymise_options *config, struct mask *mask)
{
    int exit_status;

    mask->options = config;
    kvr_random_bytes(mask->key, sizeof(mask->key));
    exit_status = trace_copy(&(const struct trace_copy){.command = command.name,
                                                        .path = config->files.items[0],
                                                        .output = config->output,
                                                        .choose = choose,
                                                        .self = mask,
                                                        .change = change});
    if (mask->failed)
        exit_status = trace_fail(command.name, "no memory for the names of this trace");
    forget_names(&mask->hosts);
    forget_names(&mask->tenants);
    forget_names(&mask->planes);
    forget_names(&mask->models);
    forget_names(&mask->engines);
    free(mask->blocks);
    return exit_status;
}

int trace_anonymise_main(int argc, char **argv)
{
    static OPTIONS config;
    struct mask *mask;
    int exit_status;

    if (!kvr_options_load(&command, argc, argv, &config, &exit_status))
        return exit_status;
    mask = calloc(1, sizeof(*mask));
    if (mask == NULL)
        return trace_fail(command.name, "no memory");
    exit_status = anonymise(&config, mask);
    free(mask);
    return exit_status;
}
