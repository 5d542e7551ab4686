/* Transfers and their events as JSON, without a tree of it: a list has up to 500 of them. Any
 * thread.
 */
#ifndef KVR_SCHEDULER_API_ROWS_H
#define KVR_SCHEDULER_API_ROWS_H

#include <jansson.h>

#include "scheduler/json_writer.h"
#include "scheduler/store.h"

/* key: as json_writer.h has it. */
void api_write_time(struct json_writer *out, const char *key, int64_t wall_ns); /* null for 0 */
void api_write_id(struct json_writer *out, const char *key, uint64_t id);       /* 16 hex digits */
void api_write_uuid(struct json_writer *out, const char *key, const struct kvr_uuid *uuid);
/* What there is as a tree. */
void api_write_tree(struct json_writer *out, const char *key, const json_t *tree);

void api_write_transfer(struct json_writer *out, const char *key, const struct transfer *transfer,
                        int64_t now_ns);
/* The same, within an object that has other members, too. */
void api_write_transfer_members(struct json_writer *out, const struct transfer *transfer,
                                int64_t now_ns);
/* An element of an array. tenant: of its transfer, which began at from_ns. */
void api_write_event(struct json_writer *out, const struct stored_event *event, const char *tenant,
                     int64_t from_ns);

#endif
