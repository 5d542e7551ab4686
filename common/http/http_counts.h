/* What the HTTP port refused and how many connections it has, for /metrics. Any thread. */
#ifndef KVR_HTTP_COUNTS_H
#define KVR_HTTP_COUNTS_H

#include <stdatomic.h>

#include "http/exposition.h"
#include "http/http_limits.h"
#include "http/refusal.h"

/* Zeroed at first. */
struct http_counts {
    _Atomic uint64_t refusals[REFUSAL_END];   /* requests, before they were looked at */
    _Atomic uint64_t refused[HTTP_LIMIT_END]; /* connections */
    _Atomic int64_t refused_ns;               /* wall, of the last one; 0: none yet */
    _Atomic uint64_t connections;             /* as they were last looked at */
    _Atomic uint64_t silent;                  /* connections that ended without a request */
    _Atomic uint64_t signed_in;               /* browsers */
};

void http_counts_refuse(struct http_counts *counts, http_limit limit, int64_t wall_ns);
uint64_t http_counts_refused(const struct http_counts *counts); /* connections, by any limit */
void http_counts_write(const struct http_counts *counts, struct exposition *out);

#endif
