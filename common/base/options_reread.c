/* What SIGHUP does to options: some change at once, the rest is said to wait for the next start. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/option_value.h"
#include "base/options_help.h"

/* The log is the process's, and so are the options about it. */
static struct kvr_common_options common_now;

bool kvr_options_apply_common(const struct kvr_command *command,
                              const struct kvr_common_options *common, FILE *errors)
{
    kvr_log_level level = KVR_LOG_INFO;
    struct kvr_error error;

    if (strcmp(common->log_file, common_now.log_file) != 0 &&
        kvr_log_open(common->log_file, &error) != KVR_OK) {
        fprintf(errors, "%s: --log-file is '%s', but %s\n", command->name, common->log_file,
                error.detail);
        return false;
    }
    if (kvr_log_level_from_name(common->log_level, &level))
        kvr_log_set_level(level);
    common_now = *common;
    return true;
}

/* Reports an option that differs in `then`, and copies it into `now` if it may change. */
static void compare(const struct kvr_option *option, void *now, const void *then,
                    kvr_options_tell *tell, void *self)
{
    void *field = (char *)now + option->offset;
    const void *read = (const char *)then + option->offset;
    char before[160], after[160], sentence[512];

    if (kvr_option_value_same(option, field, read))
        return;
    kvr_option_value_print(option, now, before, sizeof(before));
    kvr_option_value_print(option, then, after, sizeof(after));
    if (option->live)
        snprintf(sentence, sizeof(sentence), "--%s is '%s' from now on; it was '%s'", option->name,
                 after, before);
    else
        snprintf(sentence, sizeof(sentence),
                 "--%s is '%s' in its source and stays '%s' here: it takes a restart", option->name,
                 after, before);
    tell(self, false, sentence);
    if (option->live)
        memcpy(field, read, option->bytes);
}

/* Reads into `then` and changes the log; false after a sentence to errors. */
static bool read_again(const struct kvr_command *command, int argc, char **argv, FILE *errors,
                       void *then, struct kvr_common_options *common)
{
    int status;

    return kvr_options_read(command, argc, argv, errors, errors, then, common, &status) &&
           kvr_options_apply_common(command, common, errors);
}

bool kvr_options_reread(const struct kvr_command *command, int argc, char **argv, void *config,
                        size_t config_bytes, kvr_options_tell *tell, void *self)
{
    struct kvr_common_options common_before = common_now, common;
    void *then = calloc(1, config_bytes);
    char problem[1024] = "no memory to read the options into";
    FILE *errors = fmemopen(problem, sizeof(problem), "w");
    bool fine =
        then != NULL && errors != NULL && read_again(command, argc, argv, errors, then, &common);

    if (errors != NULL)
        fclose(errors);
    if (fine) {
        for (size_t i = 0; i < kvr_command_rows(command); i++)
            compare(kvr_command_row(command, i),
                    (char *)config + kvr_command_row_offset(command, i),
                    (char *)then + kvr_command_row_offset(command, i), tell, self);
        for (size_t i = 0; i < KVR_COMMON_OPTIONS; i++)
            compare(&kvr_common_options[i], &common_before, &common, tell, self);
    } else {
        problem[strcspn(problem, "\n")] = '\0';
        tell(self, true, problem);
    }
    free(then);
    return fine;
}

static void log_told(void *self, bool problem, const char *sentence)
{
    ++*(int *)self;
    if (problem)
        kvr_log_warning("SIGHUP: all options stay as they were: %s", sentence);
    else
        kvr_log_info("SIGHUP: %s", sentence);
}

void kvr_options_hang_up(const struct kvr_command *command, int argc, char **argv, void *config,
                         size_t config_bytes)
{
    struct kvr_error error;
    int told = 0;

    if (kvr_log_reopen(&error) != KVR_OK)
        kvr_log_failure(KVR_LOG_WARNING, "SIGHUP: the log stays where it was", &error);
    kvr_options_reread(command, argc, argv, config, config_bytes, log_told, &told);
    if (told == 0)
        kvr_log_info("SIGHUP: the log is reopened, and no option has changed");
}
