/* The page tables of one transfer at one of its agents, as runs of neighbouring pages.
 *
 * An agent packs them with the end of a transfer, only when it is asked for them: by its option
 * --pages-every, or by an order of the scheduler for some time. The event ENDED carries the bytes.
 *
 * Packed bytes begin with a version (bits 0 to 3) and the role (bit 4). Then follow the number of
 * KV groups that have pages. For each come its number (growing) and the number of its runs, which
 * are in logical order. A run is a folded difference and its number of pages less one. The
 * difference is that of its first page to the page that would have continued the run before; at
 * first that is 0. All are numbers of
 * base/varint.h. A run ends where the next page is not its neighbour, so that one table has one
 * form.
 *
 * The bytes come from another host, or from a database that may be damaged: the reader believes
 * nothing. Pure. */
#ifndef KVR_TRACE_PAGE_RUNS_H
#define KVR_TRACE_PAGE_RUNS_H

#include <stddef.h>

#include "trace/spans.h"

/* Packed. A table of more runs than fit is not sent, and is counted (event.h). Of 16 tokens a page,
 * this is a request of at least 200,000 tokens without two neighbouring pages. */
#define KVR_PAGE_RUNS_BYTES_MAX 65536

/* Which transfers are sent. */
struct kvr_pages_wish {
    uint64_t every; /* one of so many, and all that failed or were slow; 0: none at all */
    kvr_ns until;   /* before that time, all: a recorder asks for them */
};

/* The longest time for which a recorder can ask at once. */
#define KVR_PAGES_ASKED_MAX_NS (3600 * KVR_S)

/* A recorder asks for the next `length`. Two recorders: the later end counts. */
void kvr_pages_ask(struct kvr_pages_wish *wish, kvr_ns now, kvr_ns length);
/* book: NULL where there was none; then no transfer was slow. */
bool kvr_pages_wanted(const struct kvr_pages_wish *wish, const struct kvr_spans_choice *spans,
                      const struct kvr_span_book *book, const struct kvr_event *ended);

/* A KV group's physical pages in logical order; count 0: it has none. */
struct kvr_page_ids {
    const uint32_t *ids;
    uint32_t count;
};

/* Returns the number of bytes; 0: there are too many runs, and none are packed. */
size_t kvr_page_runs_pack(const struct kvr_page_ids groups[KVR_GROUPS_MAX], kvr_role role,
                          uint8_t bytes[KVR_PAGE_RUNS_BYTES_MAX]);

/* Each run, group after group, in logical order. */
typedef void kvr_page_runs_visit(void *self, uint32_t group, struct kvr_page_run run);

/* Checks all of them, then visits each. KVR_UNSUPPORTED: of a newer version. KVR_MALFORMED: these
 * are no page tables, and none was visited. */
KVR_MUST_CHECK kvr_status kvr_page_runs_unpack(const uint8_t *bytes, size_t count,
                                               kvr_role *ret_role, kvr_page_runs_visit *visit,
                                               void *self);

#endif
