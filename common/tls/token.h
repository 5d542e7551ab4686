/* A bearer token of the scheduler's HTTP port: "kvrail_" and 64 hexadecimal digits, 256 random
 * bits. The prefix lets a scanner find one that was left somewhere. A scheduler keeps only the hash
 * "sha256:" and 64 digits: the token is random, so a plain hash is as hard to reverse as a slow
 * one. No state. */
#ifndef KVR_TLS_TOKEN_H
#define KVR_TLS_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#define KVR_TOKEN_PREFIX          "kvrail_"
#define KVR_TOKEN_DIGITS          64
#define KVR_TOKEN_TEXT_BYTES      (sizeof(KVR_TOKEN_PREFIX) + KVR_TOKEN_DIGITS)
#define KVR_TOKEN_HASH_BYTES      32
#define KVR_TOKEN_HASH_TEXT_BYTES (sizeof("sha256:") + 2 * KVR_TOKEN_HASH_BYTES)

struct kvr_token_hash {
    uint8_t bytes[KVR_TOKEN_HASH_BYTES];
};

/* A new one, from the kernel's random numbers. */
void kvr_token_make(char ret_text[KVR_TOKEN_TEXT_BYTES]);
/* False: that is no token, whatever else it is. */
bool kvr_token_shaped(const char *text);
/* A token stands somewhere in the text. */
bool kvr_token_within(const char *text);

/* A name of a token has letters, digits and ._@-, and fits KVR_NAME_BYTES. */
bool kvr_token_name_valid(const char *name);

/* Of any text. */
void kvr_token_hash(const char *text, struct kvr_token_hash *ret_hash);
void kvr_token_hash_print(const struct kvr_token_hash *hash,
                          char ret_text[KVR_TOKEN_HASH_TEXT_BYTES]);
bool kvr_token_hash_parse(const char *text, struct kvr_token_hash *ret_hash);
/* Takes the same time wherever they differ. */
bool kvr_token_hash_equal(const struct kvr_token_hash *a, const struct kvr_token_hash *b);

/* The token in a file that holds nothing else. KVR_INVALID and KVR_SYSTEM with a sentence. */
KVR_MUST_CHECK kvr_status kvr_token_read(const char *path, char ret_text[KVR_TOKEN_TEXT_BYTES],
                                         struct kvr_error *error);

#endif
