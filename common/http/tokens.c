#include "http/tokens.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const rights[] = {"none", "read", "act"};

const char *token_right_name(token_right right)
{
    return rights[right];
}

bool token_right_from_name(const char *name, token_right *ret_right)
{
    for (int right = RIGHT_READ; right <= RIGHT_ACT; right++)
        if (strcmp(name, rights[right]) == 0) {
            *ret_right = (token_right)right;
            return true;
        }
    return false;
}

static bool is_named(const struct tokens *tokens, const char *name)
{
    for (int i = 0; i < tokens->count; i++)
        if (strcmp(tokens->tokens[i].name, name) == 0)
            return true;
    return false;
}

/* NULL, or what is wrong with the line. */
static const char *parse_line(char *line, struct tokens *tokens)
{
    static const char between[] = " \t\r";
    char *rest = NULL, *name = strtok_r(line, between, &rest);
    const char *right = strtok_r(NULL, between, &rest), *hash = strtok_r(NULL, between, &rest);
    struct token *token = &tokens->tokens[tokens->count];

    if (name == NULL || name[0] == '#')
        return NULL;
    if (tokens->count == TOKENS_MAX)
        return "there are more than 256 tokens";
    if (!kvr_token_name_valid(name))
        return "a name has letters, digits and ._@-, at most 63 of them";
    if (is_named(tokens, name))
        return "that name stands in an earlier line";
    if (right == NULL || !token_right_from_name(right, &token->right))
        return "the right is read or act";
    if (hash == NULL || !kvr_token_hash_parse(hash, &token->hash))
        return "the hash is sha256: and 64 hexadecimal digits; `kvrail token` makes the line, and "
               "the token itself does not belong here";
    if (strtok_r(NULL, between, &rest) != NULL)
        return "something stands behind the hash";
    memcpy(token->name, name, strlen(name) + 1);
    tokens->count++;
    return NULL;
}

kvr_status tokens_parse(char *text, const char *path, struct tokens *ret_tokens,
                        struct kvr_error *error)
{
    int number = 0;

    ret_tokens->count = 0;
    while (text != NULL) {
        char *next = strchr(text, '\n');
        const char *wrong;

        if (next != NULL)
            *next++ = '\0';
        number++;
        wrong = parse_line(text, ret_tokens);
        if (wrong != NULL)
            return kvr_error_set(error, KVR_INVALID, "tokens", "the token file %s, line %d: %s",
                                 path, number, wrong);
        text = next;
    }
    return KVR_OK;
}

static kvr_status read_text(FILE *file, const char *path, char *text, struct kvr_error *error)
{
    struct stat status;
    size_t bytes;

    if (fstat(fileno(file), &status) == 0 && (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return kvr_error_set(
            error, KVR_INVALID, "tokens",
            "the token file %s can be written by others than its owner: chmod go-w", path);
    bytes = fread(text, 1, TOKENS_FILE_BYTES_MAX + 1, file);
    if (ferror(file))
        return kvr_error_system(error, "tokens", errno, "the token file %s cannot be read", path);
    if (bytes > TOKENS_FILE_BYTES_MAX || memchr(text, '\0', bytes) != NULL)
        return kvr_error_set(error, KVR_INVALID, "tokens",
                             "the token file %s is no text of at most 64 KiB", path);
    text[bytes] = '\0';
    return KVR_OK;
}

kvr_status tokens_read(const char *path, struct tokens *ret_tokens, struct kvr_error *error)
{
    FILE *file = fopen(path, "re");
    char *text = malloc(TOKENS_FILE_BYTES_MAX + 2);
    kvr_status status;

    if (file == NULL)
        status = kvr_error_system(error, "tokens", errno, "the token file %s cannot be read", path);
    else if (text == NULL)
        status = kvr_error_set(error, KVR_NO_MEMORY, "tokens", "no memory for the token file");
    else
        status = read_text(file, path, text, error);
    if (status == KVR_OK)
        status = tokens_parse(text, path, ret_tokens, error);
    free(text);
    if (file != NULL)
        fclose(file);
    return status;
}

const struct token *tokens_find(const struct tokens *tokens, const struct kvr_token_hash *hash)
{
    const struct token *found = NULL;

    for (int i = 0; i < tokens->count; i++)
        if (kvr_token_hash_equal(&tokens->tokens[i].hash, hash))
            found = &tokens->tokens[i];
    return found;
}

bool tokens_have(const struct tokens *tokens, const struct token *token)
{
    const struct token *found = tokens_find(tokens, &token->hash);

    return found != NULL && found->right == token->right && strcmp(found->name, token->name) == 0;
}
