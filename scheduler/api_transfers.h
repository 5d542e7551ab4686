/* /api/v1/transfers and below, /api/v1/engines and /api/v1/errors. Each is false when the database
 * failed; then *ret_answer is unchanged. The reading store's thread. */
#ifndef KVR_SCHEDULER_API_TRANSFERS_H
#define KVR_SCHEDULER_API_TRANSFERS_H

#include "scheduler/api.h"

#define API_EVENTS_MAX 2000       /* of one transfer, in one answer */
#define API_PAGE_BYTES (8u << 20) /* the row that passes it is the last of its page */

KVR_MUST_CHECK bool api_get_transfers(struct store *store, const struct api_query *query,
                                      struct api_answer *ret_answer);
KVR_MUST_CHECK bool api_get_transfer(struct store *store, const char *path,
                                     struct api_answer *ret_answer);

/* 16 hexadecimal digits; a path may go on behind them. */
KVR_MUST_CHECK bool api_transfer_id(const char *text, uint64_t *ret_id);
/* The transfer that the path names; false: the answer says why there is none, or *ret_read is
 * false: the database failed. */
KVR_MUST_CHECK bool api_find_transfer(struct store *store, const char *path,
                                      struct transfer *ret_transfer, bool *ret_read,
                                      struct api_answer *ret_answer);
/* api_timeline.c */
KVR_MUST_CHECK bool api_get_timeline(struct store *store, const char *path,
                                     struct api_answer *ret_answer);
/* api_engines.c */
KVR_MUST_CHECK bool api_get_engines(struct store *store, const struct api_query *query,
                                    struct api_answer *ret_answer);
/* api_errors.c */
KVR_MUST_CHECK bool api_get_errors(struct store *store, const struct api_query *query,
                                   struct api_answer *ret_answer);

#endif
