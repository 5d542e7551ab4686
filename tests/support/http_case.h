/* A whole scheduler in this process, and requests to it as text. */
#ifndef KVR_TESTS_HTTP_CASE_H
#define KVR_TESTS_HTTP_CASE_H

#include "scheduler/scheduler.h"
#include "tests/support/folder.h"

struct http_case {
    char folder[FOLDER_BYTES];
    char token_file[FOLDER_BYTES + 16];
    char reader[KVR_TOKEN_TEXT_BYTES], actor[KVR_TOKEN_TEXT_BYTES]; /* tokens of either right */
    struct scheduler scheduler;
    struct scheduler_options options;
    char answer[65536]; /* the last one, with its headers */
    char cookie[256];   /* "name=value" of the last Set-Cookie */
};

/* cmocka's fixtures; the state is a struct http_case. The second has a token file with `reader` and
 * `actor`. */
int http_case_open(void **state);
int http_case_tokens(void **state);
int http_case_close(void **state);

/* Writes the token file: the lines of both tokens, unless a flag leaves one out. */
void http_case_write_tokens(struct http_case *c, bool reader, bool actor);

/* One request on a connection of its own. head: "METHOD PATH", then header lines, each ended by
 * "\r\n"; Host is added unless a line gives it. Returns the status. */
int http_case_ask(struct http_case *c, const char *head);
/* The same with printf's arguments. */
int http_case_askf(struct http_case *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* With bytes behind the headers. */
int http_case_post(struct http_case *c, const char *head, const void *body, size_t bytes);
bool http_case_has(const struct http_case *c, const char *text); /* the last answer */
/* A number of /metrics, by the name and labels of its line; needs the reader's token where tokens
 * are. */
uint64_t http_case_metric(struct http_case *c, const char *name);

#endif
