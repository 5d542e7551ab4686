/* The kinds of malformed sessions that tests/support/garbage.c plays. A shape is one way of being
 * wrong; it sends what it likes over the connection it is given and returns within a second or so.
 */
#ifndef KVR_TESTS_GARBAGE_H
#define KVR_TESTS_GARBAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "wire/secret.h"

struct garbage {
    int socket;
    bool reads;       /* answers, at all */
    int patience_ms;  /* how long an agent may take no bytes, or not answer HELLO */
    void *tls;        /* garbage_tls.h; NULL: plain */
    const char *name; /* of the certificate, for crowd and hello. NULL: each session has its own */
    struct kvr_rng rng;
};

struct garbage_shape {
    const char *name;
    void (*play)(struct garbage *garbage);
};

struct garbage_kind {
    const char *name;
    const struct garbage_shape *shapes;
    size_t shape_count;
};

extern const struct garbage_kind garbage_engine, garbage_control, garbage_http, garbage_rail;
/* One shape each, of the control port: not mixed with the shapes of all ports. */
extern const struct garbage_kind garbage_crowd, garbage_hello;
/* Listens instead. */
extern const struct garbage_kind garbage_source;

/* Of the requests of malformed engines, which malformed peers ask for. */
extern const struct kvr_secret garbage_secret;

/* False: the other side has closed, or takes nothing more. */
bool garbage_send(struct garbage *garbage, const void *bytes, size_t count);
/* Bytes that came within ms; 0: none. */
size_t garbage_receive(struct garbage *garbage, void *bytes, size_t capacity, int ms);
void garbage_pause(unsigned ms);
void garbage_random(struct garbage *garbage, uint8_t *bytes, size_t count);
/* Changes a few bytes or bits. */
void garbage_mutate(struct garbage *garbage, uint8_t *bytes, size_t count);
/* Usually good, else beside it or a limit. */
uint64_t garbage_number(struct garbage *garbage, uint64_t good);

#endif
