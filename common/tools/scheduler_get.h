/* Asks a scheduler's HTTP API, which a person named by --scheduler, with the token or the
 * certificate that the person has. Blocks for at most the timeout. */
#ifndef KVR_TOOLS_SCHEDULER_GET_H
#define KVR_TOOLS_SCHEDULER_GET_H

#include <jansson.h>

#include "base/options.h"
#include "base/status.h"
#include "base/url.h"
#include "tls/tls_options.h"
#include "tls/token.h"

#define SCHEDULER_EXIT_AWAY 75

/* The options of a command that asks one. */
struct scheduler_call {
    char address[KVR_URL_BYTES];
    kvr_ns timeout;
    char token_file[KVR_TLS_PATH_BYTES];
    struct kvr_tls_config tls;
    /* By scheduler_prepare: */
    char url[KVR_URL_BYTES];
    char token[KVR_TOKEN_TEXT_BYTES]; /* "" = none */
};
/* --scheduler and --timeout, --token-file, and certificates. Their struct comes first in the
 * command's own. */
extern const struct kvr_option_part scheduler_parts[];
/* The first two alone. */
extern const struct kvr_option_table scheduler_options;
/* The token alone, for a command that has such options of its own. */
extern const struct kvr_option_table scheduler_token_options;
extern const struct kvr_exit_code scheduler_exit_codes[];

/* After the options are loaded, before the first question: checks them, and reads the token.
 * KVR_INVALID and KVR_SYSTEM with a sentence. */
KVR_MUST_CHECK kvr_status scheduler_prepare(struct scheduler_call *options,
                                            struct kvr_error *error);
/* The same for a command: false after the sentence on stderr. */
bool scheduler_ready(const struct kvr_command *command, struct scheduler_call *options);

/* The JSON object that <path> is answered with, or its array `member`; the caller owns it. NULL,
 * with a sentence, which is the scheduler's own where it answered: KVR_NOT_FOUND, KVR_REFUSED  it
 * answered so; KVR_REFUSED also where it wants another token or certificate, or its own leads to no
 * CA of --tls-ca KVR_SYSTEM                  it was not reached, or cannot answer KVR_MALFORMED
 * there is no such array */
json_t *scheduler_get(const struct scheduler_call *options, const char *path, const char *member,
                      struct kvr_error *error);
/* The text that <path> is answered with; the caller frees it. NULL: as above. */
char *scheduler_get_text(const struct scheduler_call *options, const char *path,
                         struct kvr_error *error);
/* The same as scheduler_get for a POST without a body, which a scheduler answers with status 202.
 */
json_t *scheduler_post(const struct scheduler_call *options, const char *path,
                       struct kvr_error *error);
/* The exit status of a command that got NULL. */
int scheduler_exit(const struct kvr_error *error);
/* For a path: text with all but letters, digits and -._~ as %41; cut to the room there is. */
void scheduler_escape(const char *text, char *path, size_t bytes);

#endif
