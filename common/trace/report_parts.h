/* Shared by the files of the report's codec, report*.c; no other file may include it. */
#ifndef KVR_TRACE_REPORT_PARTS_H
#define KVR_TRACE_REPORT_PARTS_H

#include "trace/events.pb-c.h"
#include "trace/report.h"

/* Copies what can be shown. False: it does not fit. */
bool report_copy_text(const char *from, char *to, size_t room);

/* report_packed.c */
/* The bytes of both. What is longer than they can be is of a newer agent: without them the event is
 * good. */
uint32_t report_spans_kept(const Kvrail__Report__Event *in);
uint32_t report_pages_kept(const Kvrail__Report__Event *in);
/* NULL: there are none. *room: where they go; moved behind them. */
const uint8_t *report_keep(const ProtobufCBinaryData *packed, uint32_t count, uint8_t **room);

/* report_traits.c: false where nothing was reported; get returns the field that is wrong, or NULL.
 */
/* What the traits of a host are encoded from; the texts are borrowed. */
struct report_host_space {
    Kvrail__Report__HostTraits traits;
    Kvrail__Report__Gpu gpus[KVR_GPU_TRAITS_MAX], *gpu_list[KVR_GPU_TRAITS_MAX];
};
bool report_host_traits_put(const struct kvr_host_traits *in, struct report_host_space *space);
bool report_rail_traits_put(const struct kvr_rail_traits *in, Kvrail__Report__RailTraits *out);
const char *report_host_traits_get(const Kvrail__Report__HostTraits *in,
                                   struct kvr_host_traits *out);
const char *report_rail_traits_get(const Kvrail__Report__RailTraits *in,
                                   struct kvr_rail_traits *out);

/* report_pairs.c */
/* What the rows of one report are encoded from; the rows are borrowed. */
struct report_pairs_space;
/* KVR_TOO_LARGE, KVR_NO_MEMORY. *ret_space stays until report_pairs_free. */
KVR_MUST_CHECK kvr_status report_pairs_put(const struct kvr_report_pairs *in,
                                           Kvrail__Report__Report *out,
                                           struct report_pairs_space **ret_space);
void report_pairs_free(struct report_pairs_space *space);
/* The field that is wrong, or NULL. `pairs` is empty before. */
const char *report_pairs_get(const Kvrail__Report__Report *in, struct kvr_report_pairs *pairs);

#endif
