#include "http/http_counts.h"

void http_counts_refuse(struct http_counts *counts, http_limit limit, int64_t wall_ns)
{
    atomic_fetch_add(&counts->refused[limit], 1);
    atomic_store(&counts->refused_ns, wall_ns);
}

uint64_t http_counts_refused(const struct http_counts *counts)
{
    uint64_t count = 0;

    for (int limit = 0; limit < HTTP_LIMIT_END; limit++)
        count += atomic_load(&counts->refused[limit]);
    return count;
}

void http_counts_write(const struct http_counts *counts, struct exposition *out)
{
    exposition_counter(out, "kvrail_http_refusals_total",
                       "Requests over HTTP that were refused before they were looked at.");
    for (int why = 0; why < REFUSAL_END; why++) {
        const struct exposition_label labels[] = {{"reason", refusal_facts((refusal)why)->name},
                                                  {NULL, NULL}};

        exposition_count(out, labels, atomic_load(&counts->refusals[why]));
    }
    exposition_counter(out, "kvrail_http_connections_refused_total",
                       "Connections over HTTP beyond the limit in all, or of one host.");
    for (int limit = 0; limit < HTTP_LIMIT_END; limit++) {
        const struct exposition_label labels[] = {{"limit", http_limit_label((http_limit)limit)},
                                                  {NULL, NULL}};

        exposition_count(out, labels, atomic_load(&counts->refused[limit]));
    }
    exposition_one(out, false, "kvrail_http_connections",
                   "Connections over HTTP, within the last second.",
                   (double)atomic_load(&counts->connections));
    exposition_one(out, true, "kvrail_http_silent_connections_total",
                   "Connections over HTTP that ended without a request.",
                   (double)atomic_load(&counts->silent));
    exposition_one(out, true, "kvrail_http_sign_ins_total", "Sessions of browsers that began.",
                   (double)atomic_load(&counts->signed_in));
}
