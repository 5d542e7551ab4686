/* The bearer tokens that an HTTP port accepts: a file with a line for each,
 *
 *   NAME RIGHT HASH        ops act sha256:9f86d0…     (`kvrail token ops act` makes it)
 *
 * RIGHT is read, or act, which may read too. Empty lines and lines that begin with # are skipped.
 * Plain value; the owner has a lock. */
#ifndef KVR_HTTP_TOKENS_H
#define KVR_HTTP_TOKENS_H

#include <stddef.h>

#include "base/limits.h"
#include "tls/token.h"

#define TOKENS_MAX            256
#define TOKENS_FILE_BYTES_MAX ((size_t)64 << 10)

typedef enum token_right { RIGHT_NONE, RIGHT_READ, RIGHT_ACT } token_right;

const char *token_right_name(token_right right);
bool token_right_from_name(const char *name, token_right *ret_right); /* read and act */

struct token {
    char name[KVR_NAME_BYTES];
    token_right right;
    struct kvr_token_hash hash;
};

struct tokens {
    int count;
    struct token tokens[TOKENS_MAX];
};

/* text: the whole file; it is changed. path: for errors, with the number of the line. */
KVR_MUST_CHECK kvr_status tokens_parse(char *text, const char *path, struct tokens *ret_tokens,
                                       struct kvr_error *error);
/* Refuses also a file that others than its owner can write. */
KVR_MUST_CHECK kvr_status tokens_read(const char *path, struct tokens *ret_tokens,
                                      struct kvr_error *error);

/* Looks at every line, whichever it is. NULL: none. */
const struct token *tokens_find(const struct tokens *tokens, const struct kvr_token_hash *hash);
/* The same line, unchanged, is still there. */
bool tokens_have(const struct tokens *tokens, const struct token *token);

#endif
