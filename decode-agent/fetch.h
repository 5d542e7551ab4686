/* A fetch: what a target engine asks for, and its page tables. The table of the states is in
 * fetch.c. */
#ifndef DECODE_AGENT_FETCH_H
#define DECODE_AGENT_FETCH_H

#include "agent/core/page_tables.h"
#include "base/state.h"
#include "decode-agent/inbound.h"
#include "decode-agent/slots.h"

struct transfer;

struct landed_word {
    bool watched;
    uint32_t number; /* of the words of the engine's page */
    uint64_t base;   /* its value before the first layer */
};

/* The engine watches a word of its page. */
void fetch_watch(struct inbound *inbound, struct fetch *fetch, const struct kvr_req_watch *watch);
/* A layer has come, or the fetch has ended. */
void landed_word_update(struct inbound *inbound, const struct fetch *fetch);

enum fetch_state { F_OPENED, F_WANTED, F_ACCEPTED, F_FAILING, F_ENDED, F_STATES };

enum fetch_event {
    F_ON_WANT_SENT, /* one of its sources was sent what is skipped: that is fixed */
    F_ON_MATCHED,   /* a source has a publish for it */
    F_ON_FAILED,
    F_ON_SETTLED, /* every transfer of it has settled */
    F_EVENTS
};

/* What the terminal notice reports. */
struct fetch_result {
    uint64_t token_end;   /* smallest that a source published */
    uint64_t salvage_end; /* [skip_tokens, salvage_end) is right in every settled transfer */
    uint64_t bytes;
    uint32_t writes, retries;
    kvr_status status; /* why it fails; KVR_OK */
    char detail[KVR_DETAIL_BYTES];
};

struct fetch {
    uint64_t id, handle;
    enum fetch_state state;
    uint64_t serial;         /* larger for every later fetch */
    uint32_t engine, tenant; /* tenant: its number in engines.tenants */
    bool engine_gone;
    bool held; /* its WANT goes out before the skips are known */
    char request[KVR_REQUEST_BYTES];
    uint32_t attempt;
    int32_t priority;
    kvr_digest_mode digest;                    /* that its engine asks for */
    uint64_t tokens, skip_tokens, skip_opened; /* skip_opened: as the engine opened it */
    kvr_ns deadline;
    struct kvr_region_set *set;
    struct kvr_page_tables pages;
    uint64_t skips[KVR_GROUPS_MAX]; /* tokens of each KV group that are not fetched */
    struct fetch_layers *layers;    /* from the first PLAN on */
    struct slot_demand slots;
    struct landed_word word;
    struct fetch_result result;
    uint32_t transfer_count, settled_count, closed_count;
    uint64_t transfers[KVR_SOURCES_MAX];
};

KVR_STATE_MACHINE(fetch);

void fetch_open(struct inbound *inbound, uint32_t engine, uint64_t handle,
                const struct kvr_req_target_open *open);
void fetch_pages(struct inbound *inbound, struct fetch *fetch, const struct kvr_req_pages *pages);
void fetch_skip(struct inbound *inbound, struct fetch *fetch, const struct kvr_req_skip *skip);
/* Sends WANT before the fetch has pages, so that each source holds its publish meanwhile. */
void fetch_hold(struct inbound *inbound, struct fetch *fetch);
/* It has a page, or needs none: what is skipped changes no more. */
bool fetch_skips_known(const struct fetch *fetch);
/* Sends every WANT and SKIP that can go. */
void fetch_advance(struct inbound *inbound, struct fetch *fetch);
/* The deadline has passed. */
void fetch_expire(struct inbound *inbound, struct fetch *fetch);
/* Frees the fetch once its end was sent and every landing came back. */
void fetch_check_freed(struct inbound *inbound, struct fetch *fetch);
/* A fetch outlives its transfers. */
struct fetch *fetch_of(const struct inbound *inbound, const struct transfer *transfer);
/* NULL: the engine has no such fetch. */
struct fetch *fetch_find(const struct inbound *inbound, uint32_t engine, uint64_t handle);

#endif
