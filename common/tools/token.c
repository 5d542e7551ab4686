/* `kvrail token`: a bearer token for the scheduler, and the line that lets it in. */
#include "tls/token.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/options.h"
#include "tools/tool.h"

struct token_options {
    char append[4096];
    struct kvr_option_list arguments;
};

static const struct kvr_option options[] = {
    {.name = "append",
     .section = "token",
     .value = "FILE",
     KVR_OPTION_STRING(struct token_options, append),
     .help =
         "Add the line to this file, the scheduler's --token-file, which is made with mode 0640 "
         "if it is missing; then only the token is printed."},
};

static const struct kvr_command command = {
    .name = "kvrail token",
    .description =
        "Makes a token of 256 random bits for the HTTP port of a scheduler. The token is for the\n"
        "person or program NAME; kvrail's commands take it by --token-file. RIGHT is read, or act\n"
        "for orders to agents too, as kvrail cancel. The scheduler's --token-file gets a line "
        "with\n"
        "the hash of the token, so the token itself is shown here once and never again.",
    KVR_OPTION_ROWS(options),
    .arguments = "NAME RIGHT",
    .arguments_offset = offsetof(struct token_options, arguments),
    .arguments_min = 2,
    .arguments_max = 2,
    .footer = "Example:\n"
              "  (umask 077; kvrail token ops act --append /etc/kvrail/tokens >ops.token)\n"
              "  kvrail status --token-file ops.token",
};

static bool append(const char *path, const char *line)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
    size_t bytes = strlen(line);
    bool written = fd >= 0 && write(fd, line, bytes) == (ssize_t)bytes && fsync(fd) == 0;
    int failed = errno;

    if (fd >= 0)
        close(fd);
    if (!written)
        fprintf(stderr, "kvrail token: --append %s cannot be written: %s\n", path,
                strerror(failed));
    return written;
}

int tool_token_main(int argc, char **argv)
{
    char token[KVR_TOKEN_TEXT_BYTES], hash_text[KVR_TOKEN_HASH_TEXT_BYTES];
    char line[2 * KVR_OPTION_ITEM_BYTES + sizeof(hash_text) + 4];
    struct token_options config = {0};
    struct kvr_token_hash hash;
    const char *name, *right;
    int exit_status;

    if (!kvr_options_load(&command, argc, argv, &config, &exit_status))
        return exit_status;
    name = config.arguments.items[0];
    right = config.arguments.items[1];
    if (!kvr_token_name_valid(name))
        return kvr_options_refuse(&command, "'%s' is no name: letters, digits and ._@-, at most %d",
                                  name, KVR_NAME_BYTES - 1);
    if (strcmp(right, "read") != 0 && strcmp(right, "act") != 0)
        return kvr_options_refuse(&command, "the right is '%s', and may be read or act", right);
    kvr_token_make(token);
    kvr_token_hash(token, &hash);
    kvr_token_hash_print(&hash, hash_text);
    snprintf(line, sizeof(line), "%s %s %s\n", name, right, hash_text);
    if (config.append[0] == '\0') {
        printf("%s\n", token);
        fprintf(stderr, "the scheduler's --token-file needs this line:\n%s", line);
        return 0;
    }
    if (!append(config.append, line))
        return 1;
    printf("%s\n", token);
    return 0;
}
