/* Inside the recorder: what its files share. */
#ifndef KVR_TOOLS_TRACE_RECORDER_STATE_H
#define KVR_TOOLS_TRACE_RECORDER_STATE_H

#include "tools/trace/trace_recorder.h"
#include "trace/kvtrace_order.h"

struct trace_recorder {
    struct kvtrace_writer *writer;
    struct kvtrace_book book;
    struct kvtrace_order *order;  /* of records that have a time */
    struct kvtrace_record record; /* what is written next */
    int64_t start_us;
    bool plain;
    uint8_t key[TRACE_KEY_BYTES];
    struct live *live;
    uint64_t transfers;
    int64_t rows[2][2 * KVR_LAYERS_MAX + 4 * KVR_RAILS_MAX]; /* of the record, by role */
    struct kvtrace_pages_room {                              /* of its page tables */
        int64_t *numbers;
        size_t count, capacity;
    } pages;
};

/* "" where the member is null, or no text. */
const char *recorder_text(const json_t *object, const char *key);
int64_t recorder_number(const json_t *object, const char *key);
/* The record that is filled, to the file: at once, or by its time. */
KVR_MUST_CHECK kvr_status recorder_put(struct trace_recorder *recorder, struct kvr_error *error);

/* ---- trace_recorder_agents.c ---- */

/* By its name, whatever its role; KVTRACE_NONE: it is not recorded. */
int64_t recorder_agent(const struct trace_recorder *recorder, const char *name);
/* The agent and the engine of one side of a transfer; both are added where no record has them. */
KVR_MUST_CHECK kvr_status recorder_side(struct trace_recorder *recorder, const json_t *side,
                                        kvr_role role, int64_t *ret_agent, int64_t *ret_engine,
                                        struct kvr_error *error);

#endif
