#include "tests/support/http_case.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

void http_case_write_tokens(struct http_case *c, bool reader, bool actor)
{
    char text[KVR_TOKEN_HASH_TEXT_BYTES], partial[sizeof(c->token_file) + 8];
    struct kvr_token_hash hash;
    FILE *file;

    snprintf(partial, sizeof(partial), "%s.part", c->token_file);
    file = fopen(partial, "we");
    assert_non_null(file);
    fputs("# tokens of the test\n", file);
    for (int i = 0; i < 2; i++) {
        if (!(i == 0 ? reader : actor))
            continue;
        kvr_token_hash(i == 0 ? c->reader : c->actor, &hash);
        kvr_token_hash_print(&hash, text);
        fprintf(file, "%s %s %s\n", i == 0 ? "dashboard" : "ops", i == 0 ? "read" : "act", text);
    }
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename(partial, c->token_file), 0);
}

static int open_case(void **state, bool tokens)
{
    struct http_case *c = calloc(1, sizeof(*c));

    folder_make(c->folder);
    snprintf(c->token_file, sizeof(c->token_file), "%s/tokens", c->folder);
    kvr_token_make(c->reader);
    kvr_token_make(c->actor);
    c->options = (struct scheduler_options){.place.folder = c->folder,
                                            .place.retention = KVR_NEVER,
                                            .listen = {.host = "127.0.0.1"},
                                            .connections_max = 1536,
                                            .connections_per_host = 256,
                                            .access = {.session_life = 3600 * KVR_S}};
    if (tokens) {
        http_case_write_tokens(c, true, true);
        c->options.access.token_file = c->token_file;
    }
    assert_int_equal(scheduler_open(&c->options, &c->scheduler, NULL), KVR_OK);
    *state = c;
    return 0;
}

int http_case_open(void **state)
{
    return open_case(state, false);
}

int http_case_tokens(void **state)
{
    return open_case(state, true);
}

int http_case_close(void **state)
{
    struct http_case *c = *state;

    scheduler_close(&c->scheduler);
    folder_remove(c->folder);
    free(c);
    return 0;
}

static void keep_cookie(struct http_case *c)
{
    static const char name[] = "\r\nSet-Cookie: ";
    const char *at = strcasestr(c->answer, name);
    size_t length;

    if (at == NULL)
        return;
    at += sizeof(name) - 1;
    length = strcspn(at, ";\r");
    assert_true(length < sizeof(c->cookie));
    memcpy(c->cookie, at, length);
    c->cookie[length] = '\0';
}

static int connect_to(uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct timeval patience = {.tv_sec = 30};
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    assert_int_equal(connect(client, (struct sockaddr *)&at, sizeof(at)), 0);
    return client;
}

int http_case_post(struct http_case *c, const char *head, const void *body, size_t bytes)
{
    int client = connect_to(c->scheduler.port), status = 0;
    const char *line = strchr(head, '\n');
    size_t used = 0;
    ssize_t got;
    char text[8192];
    int length;

    length = snprintf(text, sizeof(text), "%.*s HTTP/1.1\r\n%sConnection: close\r\n%s",
                      (int)strcspn(head, "\r\n"), head,
                      strcasestr(head, "\r\nHost:") == NULL ? "Host: localhost\r\n" : "",
                      line != NULL ? line + 1 : "");
    if (bytes > 0)
        length += snprintf(text + length, sizeof(text) - (size_t)length, "Content-Length: %zu\r\n",
                           bytes);
    length += snprintf(text + length, sizeof(text) - (size_t)length, "\r\n");
    assert_true((size_t)length < sizeof(text));
    assert_int_equal(send(client, text, (size_t)length, MSG_NOSIGNAL), length);
    if (bytes > 0)
        assert_int_equal(send(client, body, bytes, MSG_NOSIGNAL), bytes);
    while (used < sizeof(c->answer) - 1 &&
           (got = recv(client, c->answer + used, sizeof(c->answer) - 1 - used, 0)) > 0)
        used += (size_t)got;
    c->answer[used] = '\0';
    close(client);
    keep_cookie(c);
    if (sscanf(c->answer, "HTTP/1.1 %d", &status) != 1)
        fail_msg("no answer to: %s", head);
    return status;
}

int http_case_ask(struct http_case *c, const char *head)
{
    return http_case_post(c, head, NULL, 0);
}

int http_case_askf(struct http_case *c, const char *format, ...)
{
    char head[4096];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(head, sizeof(head), format, arguments);
    va_end(arguments);
    return http_case_ask(c, head);
}

bool http_case_has(const struct http_case *c, const char *text)
{
    return strstr(c->answer, text) != NULL;
}

uint64_t http_case_metric(struct http_case *c, const char *name)
{
    char line[128];
    const char *at;

    assert_int_equal(http_case_askf(c, "GET /metrics\r\nAuthorization: Bearer %s\r\n", c->reader),
                     200);
    snprintf(line, sizeof(line), "\nkvrail_%s ", name);
    at = strstr(c->answer, line);
    if (at == NULL)
        fail_msg("there is no metric %s", name);
    return strtoull(at + strlen(line), NULL, 10);
}
