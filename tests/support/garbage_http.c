/* Malformed sessions of the scheduler's HTTP port, and of a provider's own listening port, where
 * the only thing known about the protocol is that this is not it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/garbage.h"

#define REPORT_BYTES_MAX (4u << 20)

static const char *const paths[] = {"/",
                                    "/metrics",
                                    "/healthz",
                                    "/api/v1/summary",
                                    "/api/v1/transfers",
                                    "/api/v1/agents",
                                    "/api/v1/session",
                                    "/api/v1/rails/matrix",
                                    "/api/v1/rails/matrix?source=x&target=%41",
                                    "/api/v1/pairs",
                                    "/api/v1/pairs?tokens=1&limit=500&model=%ff",
                                    "/api/v1/audit",
                                    "/api/v1/errors?from=2026",
                                    "/api/v1/openapi.json",
                                    "/api/v1/transfers/0000000000000001/timeline",
                                    "/api/v1/requests/x/abandon",
                                    "/ingest/v1/events",
                                    "/../../etc/passwd",
                                    "/api/v1/transfers/%00%ff",
                                    "//%2e%2e/",
                                    "*"};

static const char *some_path(struct garbage *garbage)
{
    return paths[kvr_rng_below(&garbage->rng, sizeof(paths) / sizeof(paths[0]))];
}

static size_t good_request(struct garbage *garbage, char *text, size_t capacity)
{
    return (size_t)snprintf(text, capacity,
                            "GET %s HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n",
                            some_path(garbage));
}

/* ---- wrong bytes ---- */

static void shape_truncated(struct garbage *garbage)
{
    char text[512];
    size_t count = good_request(garbage, text, sizeof(text));

    (void)garbage_send(garbage, text, (size_t)kvr_rng_between(&garbage->rng, 1, count - 1));
}

static void shape_mutated(struct garbage *garbage)
{
    char text[512];
    size_t count = good_request(garbage, text, sizeof(text));

    garbage_mutate(garbage, (uint8_t *)text, count);
    (void)garbage_send(garbage, text, count);
}

static void shape_slow(struct garbage *garbage)
{
    char text[512];
    size_t count = good_request(garbage, text, sizeof(text));

    for (size_t i = 0; i < count && garbage_send(garbage, text + i, 1); i++)
        garbage_pause(1);
}

/* ---- wrong requests ---- */

static void shape_method(struct garbage *garbage)
{
    static const char *const lines[] = {
        "BREW %s HTTP/1.1", "DELETE %s HTTP/1.1", "GET %s HTTP/9.9",  "GET %s",
        "PUT %s HTTP/1.0",  "POST %s HTTP/1.1",   "HEAD %s HTTP/1.1", "GET  %s  HTTP/1.1"};
    char text[512];
    int used;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    used = snprintf(text, sizeof(text), lines[kvr_rng_below(&garbage->rng, 8)], some_path(garbage));
#pragma GCC diagnostic pop
    (void)snprintf(text + used, sizeof(text) - (size_t)used, "\r\nHost: localhost\r\n\r\n");
    (void)garbage_send(garbage, text, strlen(text));
    garbage_pause(2);
}

static void shape_long_line(struct garbage *garbage)
{
    static char line[65536];

    memset(line, 'a', sizeof(line));
    if (garbage_send(garbage, "GET /", 5))
        (void)garbage_send(garbage, line, sizeof(line));
}

static void shape_headers(struct garbage *garbage)
{
    char header[64];

    if (!garbage_send(garbage, "GET / HTTP/1.1\r\n", 16))
        return;
    for (unsigned i = 0; i < 2000; i++) {
        (void)snprintf(header, sizeof(header), "X-%u: %u\r\n", i, i);
        if (!garbage_send(garbage, header, strlen(header)))
            return;
    }
}

/* Headers that name the asker: too long, doubled, of no scheme, or made of bytes. */
static void shape_credentials(struct garbage *garbage)
{
    static const char *const names[] = {"Authorization", "Cookie",         "Origin",
                                        "Host",          "Sec-Fetch-Site", "X-Kvrail-Request"};
    static const char *const values[] = {"Bearer ",
                                         "Bearer kvrail_",
                                         "bearer\t",
                                         "Basic Og==",
                                         "kvrail_9470=; kvrail_9470=",
                                         "kvrail_9470=kvrail_0123",
                                         "http://",
                                         "[::1",
                                         ":1",
                                         "\xff\xfe"};
    static const char *const methods[] = {"GET", "POST", "DELETE"};
    char text[8192];
    int used = snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\nHost: localhost\r\n",
                        methods[kvr_rng_below(&garbage->rng, 3)], some_path(garbage));

    for (uint64_t i = kvr_rng_between(&garbage->rng, 1, 6); i > 0; i--) {
        int filler = (int)kvr_rng_below(&garbage->rng, 600);

        used += snprintf(text + used, sizeof(text) - (size_t)used, "%s: %s%0*d\r\n",
                         names[kvr_rng_below(&garbage->rng, sizeof(names) / sizeof(names[0]))],
                         values[kvr_rng_below(&garbage->rng, sizeof(values) / sizeof(values[0]))],
                         filler, 7);
    }
    (void)snprintf(text + used, sizeof(text) - (size_t)used, "\r\n");
    (void)garbage_send(garbage, text, strlen(text));
    garbage_pause(2);
}

static void shape_parameters(struct garbage *garbage)
{
    static const char *const names[] = {"limit", "after",        "state", "request", "tenant",
                                        "agent", "rail",         "path",  "engine",  "from",
                                        "until", "min_duration", "reason"};
    char text[1024];
    int used = snprintf(text, sizeof(text), "GET /api/v1/transfers?");
    uint64_t count = kvr_rng_between(&garbage->rng, 1, 20); /* more than 16 are too many */

    for (uint64_t i = 0; i < count; i++)
        used += snprintf(text + used, sizeof(text) - (size_t)used, "%s=%lld&",
                         names[kvr_rng_below(&garbage->rng, sizeof(names) / sizeof(names[0]))],
                         (long long)garbage_number(garbage, 5));
    (void)snprintf(text + used, sizeof(text) - (size_t)used,
                   " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    (void)garbage_send(garbage, text, strlen(text));
    garbage_pause(2);
}

/* ---- wrong reports ---- */

/* A body of `count` bytes under a head that promises `promised`. */
static void post(struct garbage *garbage, uint64_t promised, const uint8_t *body, size_t count)
{
    char head[256];

    (void)snprintf(head, sizeof(head),
                   "POST /ingest/v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                   "application/x-protobuf\r\nContent-Length: %llu\r\n\r\n",
                   (unsigned long long)promised);
    if (garbage_send(garbage, head, strlen(head)) && garbage_send(garbage, body, count))
        garbage_pause(2);
}

static void shape_report_noise(struct garbage *garbage)
{
    static uint8_t body[8192];
    size_t count = (size_t)kvr_rng_below(&garbage->rng, sizeof(body));

    garbage_random(garbage, body, count);
    post(garbage, count, body, count);
}

/* Fields 1 to 8 as strings, numbers and lists within lists: it parses, and means nothing. */
static void shape_report_fields(struct garbage *garbage)
{
    uint8_t body[600];
    size_t count = 0;

    while (count < sizeof(body) - 20) {
        uint8_t length = (uint8_t)kvr_rng_below(&garbage->rng, 12);

        body[count++] = (uint8_t)(kvr_rng_between(&garbage->rng, 1, 8) << 3 | (length % 2 ? 2 : 0));
        body[count++] = length;
        if (length % 2 == 0)
            continue;
        garbage_random(garbage, body + count, length);
        count += length;
    }
    post(garbage, count, body, count);
}

static void shape_report_length(struct garbage *garbage)
{
    static uint8_t body[REPORT_BYTES_MAX / 4];

    post(garbage, garbage_number(garbage, REPORT_BYTES_MAX), body,
         (size_t)kvr_rng_below(&garbage->rng, sizeof(body)));
}

static void shape_report_chunked(struct garbage *garbage)
{
    static const char head[] =
        "POST /ingest/v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
        "application/x-protobuf\r\nTransfer-Encoding: chunked\r\n\r\n";
    static const char *const chunks[] = {"ffffffffffffffff\r\nabc", "-1\r\n",
                                         "5\r\nab\r\n0\r\n\r\n", "zz\r\n", "0\r\n\r\n"};
    const char *chunk = chunks[kvr_rng_below(&garbage->rng, 5)];

    if (garbage_send(garbage, head, sizeof(head) - 1))
        (void)garbage_send(garbage, chunk, strlen(chunk));
    garbage_pause(2);
}

/* Many requests at once, and no answer is read. */
static void shape_deaf(struct garbage *garbage)
{
    char text[512];

    garbage->reads = false;
    for (unsigned i = 0; i < 500; i++)
        if (!garbage_send(garbage, text, good_request(garbage, text, sizeof(text))))
            return;
}

static const struct garbage_shape http_shapes[] = {
    {"truncated", shape_truncated},
    {"mutated", shape_mutated},
    {"slow", shape_slow},
    {"method", shape_method},
    {"long-line", shape_long_line},
    {"headers", shape_headers},
    {"credentials", shape_credentials},
    {"parameters", shape_parameters},
    {"report-noise", shape_report_noise},
    {"report-fields", shape_report_fields},
    {"report-length", shape_report_length},
    {"report-chunked", shape_report_chunked},
    {"deaf", shape_deaf},
};

const struct garbage_kind garbage_http = {"http", http_shapes,
                                          sizeof(http_shapes) / sizeof(http_shapes[0])};

/* ---- a provider's own port ---- */

static void shape_zeros(struct garbage *garbage)
{
    static const uint8_t zeros[4096];

    (void)garbage_send(garbage, zeros, (size_t)kvr_rng_between(&garbage->rng, 1, sizeof(zeros)));
    garbage_pause(2);
}

static void shape_ones(struct garbage *garbage)
{
    uint8_t ones[4096];

    memset(ones, 0xff, sizeof(ones));
    (void)garbage_send(garbage, ones, (size_t)kvr_rng_between(&garbage->rng, 1, sizeof(ones)));
    garbage_pause(2);
}

/* Small numbers in few bytes, as headers are made of. */
static void shape_header(struct garbage *garbage)
{
    uint8_t header[64];
    size_t count = (size_t)kvr_rng_between(&garbage->rng, 1, sizeof(header));

    for (size_t i = 0; i < count; i++)
        header[i] = (uint8_t)kvr_rng_below(&garbage->rng, 9);
    if (garbage_send(garbage, header, count))
        garbage_pause((unsigned)kvr_rng_below(&garbage->rng, 20));
}

static void shape_text(struct garbage *garbage)
{
    static const char text[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

    (void)garbage_send(garbage, text, sizeof(text) - 1);
    garbage_pause(5);
}

static const struct garbage_shape rail_shapes[] = {
    {"zeros", shape_zeros}, {"ones", shape_ones}, {"header", shape_header}, {"text", shape_text}};

const struct garbage_kind garbage_rail = {"rail", rail_shapes,
                                          sizeof(rail_shapes) / sizeof(rail_shapes[0])};
