/* Asks a scheduler's HTTP API, which a person named by --scheduler. Blocks for at most the timeout.
 */
#ifndef KVR_TOOLS_SCHEDULER_GET_H
#define KVR_TOOLS_SCHEDULER_GET_H

#include <jansson.h>

#include "base/options.h"
#include "base/status.h"

#define SCHEDULER_EXIT_AWAY 75

/* The options of a command that asks one, and what it exits with when there is no answer. */
struct scheduler_options {
    char address[272];
    kvr_ns timeout;
};
extern const struct kvr_option_part scheduler_parts[]; /* their struct comes first */
extern const struct kvr_exit_code scheduler_exit_codes[];

/* The JSON object that http://<address><path> answers with, or its array `member`; the caller owns
 * it. NULL, with a sentence, which is the scheduler's own where it answered:
 *   KVR_NOT_FOUND, KVR_REFUSED  it answered so
 *   KVR_SYSTEM                  it was not reached, or cannot answer
 *   KVR_MALFORMED               there is no such array */
json_t *scheduler_get(const char *address, const char *path, const char *member, kvr_ns timeout,
                      struct kvr_error *error);
/* The same for a POST without a body, which a scheduler answers with status 202. */
json_t *scheduler_post(const char *address, const char *path, kvr_ns timeout,
                       struct kvr_error *error);
/* For a path: text with all but letters, digits and -._~ as %41; cut to the room there is. */
void scheduler_escape(const char *text, char *path, size_t bytes);

#endif
