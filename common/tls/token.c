#include "tls/token.h"

#include <errno.h>
#include <nettle/memops.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>

#include "base/entropy.h"
#include "base/hex.h"
#include "base/limits.h"

#define PREFIX_BYTES (sizeof(KVR_TOKEN_PREFIX) - 1)
#define HASH_PREFIX  "sha256:"

static const char digits[] = "0123456789abcdef";

/* No strncmp here, so that build.token_compared sees that none compares a secret. */
static bool begins(const char *text, const char *prefix)
{
    while (*prefix != '\0' && *text == *prefix)
        text++, prefix++;
    return *prefix == '\0';
}

void kvr_token_make(char ret_text[KVR_TOKEN_TEXT_BYTES])
{
    uint8_t bytes[KVR_TOKEN_DIGITS / 2];

    kvr_random_bytes(bytes, sizeof(bytes));
    memcpy(ret_text, KVR_TOKEN_PREFIX, PREFIX_BYTES);
    kvr_hex_print(bytes, sizeof(bytes), ret_text + PREFIX_BYTES);
}

bool kvr_token_shaped(const char *text)
{
    return begins(text, KVR_TOKEN_PREFIX) &&
           strspn(text + PREFIX_BYTES, digits) == KVR_TOKEN_DIGITS &&
           text[PREFIX_BYTES + KVR_TOKEN_DIGITS] == '\0';
}

bool kvr_token_within(const char *text)
{
    for (; (text = strstr(text, KVR_TOKEN_PREFIX)) != NULL; text += PREFIX_BYTES)
        if (strspn(text + PREFIX_BYTES, digits) >= KVR_TOKEN_DIGITS)
            return true;
    return false;
}

bool kvr_token_name_valid(const char *name)
{
    size_t length = strlen(name);

    return length > 0 && length < KVR_NAME_BYTES &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@-") ==
               length;
}

void kvr_token_hash(const char *text, struct kvr_token_hash *ret_hash)
{
    struct sha256_ctx sha;

    sha256_init(&sha);
    sha256_update(&sha, strlen(text), (const uint8_t *)text);
    sha256_digest(&sha, sizeof(ret_hash->bytes), ret_hash->bytes);
}

void kvr_token_hash_print(const struct kvr_token_hash *hash,
                          char ret_text[KVR_TOKEN_HASH_TEXT_BYTES])
{
    memcpy(ret_text, HASH_PREFIX, sizeof(HASH_PREFIX) - 1);
    kvr_hex_print(hash->bytes, sizeof(hash->bytes), ret_text + sizeof(HASH_PREFIX) - 1);
}

bool kvr_token_hash_parse(const char *text, struct kvr_token_hash *ret_hash)
{
    struct kvr_token_hash hash;

    if (!begins(text, HASH_PREFIX))
        return false;
    if (!kvr_hex_parse(text + sizeof(HASH_PREFIX) - 1, sizeof(hash.bytes), hash.bytes))
        return false;
    *ret_hash = hash;
    return true;
}

bool kvr_token_hash_equal(const struct kvr_token_hash *a, const struct kvr_token_hash *b)
{
    return memeql_sec(a->bytes, b->bytes, sizeof(a->bytes)) != 0;
}

kvr_status kvr_token_read(const char *path, char ret_text[KVR_TOKEN_TEXT_BYTES],
                          struct kvr_error *error)
{
    char line[256] = "";
    FILE *file = fopen(path, "re");

    if (file == NULL)
        return kvr_error_system(error, "token", errno, "the token file %s cannot be read", path);
    if (fgets(line, sizeof(line), file) == NULL)
        line[0] = '\0';
    fclose(file);
    line[strcspn(line, " \t\r\n")] = '\0';
    if (!kvr_token_shaped(line))
        return kvr_error_set(error, KVR_INVALID, "token",
                             "%s holds no token: its first line is one that `kvrail token` has "
                             "made, alone (a scheduler's file of hashes is another)",
                             path);
    memcpy(ret_text, line, KVR_TOKEN_TEXT_BYTES);
    return KVR_OK;
}
