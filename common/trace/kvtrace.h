/* The format *.kvtrace: what transfers of KV caches did, one JSON object a line.
 *
 * A file is UTF-8, and compressed with Zstandard when its name ends in ".zst". The first line is
 * the header, the last one the footer. Each line between them is a record. The one key of the
 * line's object is the kind, its value the record:
 *
 *     {"kvtrace":{"version":1,"made_by":"kvrail 0.1.0","start_us":1795773600000000}}
 *     {"agent":{"number":0,"name":"prefill-0","role":"source"}}
 *     {"transfer":{"id":"9f…","at_us":1200,"tokens":6758,"bytes":13340672,"outcome":"done",…}}
 *     {"end":{"lines":3,"transfers":1,"digest":"c81f…"}}
 *
 * kvtrace_fields.c has the keys of each kind, in the order in which a writer writes them. The same
 * keys, with their meaning, are in kvtrace.schema.json (JSON Schema).
 *
 * A reader takes keys in any order. A missing key means 0, an empty text or an empty list, except
 * where the schema names another default. A reader skips a kind or a key that it does not know: a
 * newer writer may add some without a new version. The version is raised when an older reader would
 * misunderstand the file; that reader refuses it.
 *
 * Of JSON only this is used: objects, arrays, texts, true, false, and whole numbers of at most
 * 64 bits with a sign. There is no null and no fraction.
 *
 * Times: `at_us` of a record is microseconds since the header's `start_us`, by the scheduler's view
 * of the wall clock. Times inside a transfer are microseconds since the transfer's own `at_us`. A
 * file of a simulation has `virtual` true, and its start is the epoch. `start_us`, `layers_us` and
 * `cancelled_us` lie within 2^53 µs, either way, and other times within 2^60.
 *
 * Agents, geometries and engines have numbers, and other records name them by these. The first
 * agent has number 0, each further one the next; so have geometries and engines. The line that
 * gives a number comes before the first line that names it.
 *
 * Nothing here holds prompts, tokens or bytes of a cache. A request's id is the recorder's keyed
 * hash of the engine's id, unless the header says that ids are plain.
 *
 * The footer counts lines and transfers before it and has the XXH3 digest (64 bits) of all bytes
 * before its own line. A file without a footer was cut short. It is read up to the cut, and the
 * reader says so. */
#ifndef KVR_TRACE_KVTRACE_H
#define KVR_TRACE_KVTRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/data_path.h"
#include "base/limits.h"
#include "base/names.h"
#include "base/status.h"
#include "trace/event.h"

#define KVTRACE_VERSION        1
#define KVTRACE_LINE_BYTES_MAX (64u << 20)
#define KVTRACE_TIME_MAX       ((int64_t)1 << 53) /* µs, some 285 years: nanoseconds fit, too */
#define KVTRACE_NEVER          (-1)               /* a time that never came */
#define KVTRACE_NONE           (-1)               /* no agent, engine, geometry or rail */
#define KVTRACE_ID_BYTES       24                 /* of a transfer: 16 digits */
#define KVTRACE_TEXT_BYTES     256
#define KVTRACE_OPTIONS_BYTES  1024

/* X(symbol, key, what a line of this kind says) */
#define KVTRACE_KIND_LIST(X)                                                                       \
    X(KVTRACE_HEADER, "kvtrace", "the first line: version, origin, start")                         \
    X(KVTRACE_AGENT, "agent", "an agent and its rails")                                            \
    X(KVTRACE_GEOMETRY, "geometry", "how the pages of a cache are made")                           \
    X(KVTRACE_ENGINE, "engine", "a rank of an inference engine, and its agent")                    \
    X(KVTRACE_REQUEST, "request", "a request: its tokens and the prefix that it shares")           \
    X(KVTRACE_TRANSFER, "transfer", "one source rank to one target rank")                          \
    X(KVTRACE_FAULT, "fault", "something that broke, or that a replay is to break")                \
    X(KVTRACE_MARK, "mark", "an agent started or ended, or an option of it changed")               \
    X(KVTRACE_DROPPED, "dropped", "records that were lost before they reached the file")           \
    X(KVTRACE_END, "end", "the footer: counts and digest")

typedef enum kvtrace_kind { KVTRACE_KIND_LIST(KVR_SYMBOL) KVTRACE_KIND_END } kvtrace_kind;

const char *kvtrace_kind_name(kvtrace_kind kind);

/* X(symbol, name, meaning) */
#define KVTRACE_OUTCOME_LIST(X)                                                                    \
    X(KVTRACE_LIVE, "live", "the transfer had not ended when it was recorded")                     \
    X(KVTRACE_DONE, "done", "every byte is in place")                                              \
    X(KVTRACE_FAILED, "failed", "it failed; reason has why")                                       \
    X(KVTRACE_CANCELLED, "cancelled", "an engine or an operator ended it")                         \
    X(KVTRACE_EXPIRED, "expired", "its deadline came first")                                       \
    X(KVTRACE_LOST, "lost", "its agents fell silent before they reported its end")

typedef enum kvtrace_outcome {
    KVTRACE_OUTCOME_LIST(KVR_SYMBOL) KVTRACE_OUTCOME_END
} kvtrace_outcome;

const char *kvtrace_outcome_name(kvtrace_outcome outcome);

/* Whole numbers, row after row. Of a reader they are valid until the next record is read. */
struct kvtrace_rows {
    const int64_t *numbers;
    size_t count; /* of numbers: rows times their width */
};

struct kvtrace_header {
    int64_t version;
    char made_by[KVTRACE_TEXT_BYTES]; /* program and version */
    char start[32];                   /* RFC 3339, UTC; for people */
    int64_t start_us;                 /* the same, since 1970; 0: not known, or virtual */
    bool virtual_time;
    bool plain_ids; /* ids are those of the engines, not hashes */
    char note[KVTRACE_TEXT_BYTES];
};

struct kvtrace_rail {
    char name[KVR_NAME_BYTES], provider[32], plane[KVR_NAME_BYTES];
    int64_t speed_bps; /* of the link; 0: not known */
    int64_t group;     /* rail group */
};

struct kvtrace_agent {
    int64_t number;
    char name[KVR_NAME_BYTES], host[KVR_NAME_BYTES], version[48];
    kvr_role role;
    char options[KVTRACE_OPTIONS_BYTES];
    struct kvtrace_rail rails[KVR_RAILS_MAX];
    size_t rail_count;
};

/* Layers that share one page table. */
struct kvtrace_kv_group {
    char kind[16]; /* full, window, state */
    int64_t layers, page_tokens;
    int64_t page_bytes; /* of one layer, of one rank */
};

struct kvtrace_geometry {
    int64_t number;
    char model[KVR_NAME_BYTES], dtype[16];
    char pattern[KVR_LAYERS_MAX]; /* of kinds by layer: f, w, s, repeated; empty: all are full */
    int64_t layers;
    struct kvtrace_kv_group groups[KVR_GROUPS_MAX];
    size_t group_count;
};

struct kvtrace_engine {
    int64_t number;
    int64_t agent, geometry; /* KVTRACE_NONE: not known */
    char name[KVR_NAME_BYTES];
    int64_t tp, tp_size, pp, pp_size; /* its rank, and of how many; sizes 0: not known */
};

struct kvtrace_request {
    char id[KVR_REQUEST_BYTES], tenant[KVR_NAME_BYTES];
    int64_t at_us; /* arrival */
    int64_t input_tokens, output_tokens;
    int64_t source, target; /* agents that served it, or KVTRACE_NONE */
    int64_t priority;
    /* Ids of its blocks of 512 tokens, not negative: equal ids at equal places, equal tokens so
     * far. */
    struct kvtrace_rows blocks;
};

/* Physical pages of one KV group in logical order, as runs. */
struct kvtrace_pages {
    int64_t group;
    struct kvtrace_rows runs; /* [first page, count] */
};

/* One end of a transfer. */
struct kvtrace_side {
    int64_t agent, engine; /* KVTRACE_NONE: not known */
    kvr_path path;
    int64_t stages_us[KVR_EVENT_KIND_END]; /* by kvr_event_kind; KVTRACE_NEVER */
    int64_t layer_first;
    /* A row a layer: source: ready, posted; target: landed, announced. KVTRACE_NEVER. */
    struct kvtrace_rows layers_us;
    struct kvtrace_rows rails; /* [rail, writes, bytes, retries] */
    struct kvtrace_pages pages[KVR_GROUPS_MAX];
    size_t pages_count;
};

struct kvtrace_transfer {
    char id[KVTRACE_ID_BYTES];
    char request[KVR_REQUEST_BYTES], tenant[KVR_NAME_BYTES];
    int64_t attempt, at_us;
    int64_t tokens, skip_tokens; /* of them, what the target had */
    int64_t bytes, layers, chunks, retries;
    int64_t pieces; /* runs of bytes that are contiguous at both ends */
    int64_t priority;
    int64_t deadline_us;  /* of the fetch, from at_us; 0: not known */
    int64_t cancelled_us; /* when an engine or operator asked for the end; KVTRACE_NEVER */
    kvtrace_outcome outcome;
    char reason[24]; /* a kvr_status's name; empty unless it ended badly */
    char detail[KVR_DETAIL_BYTES];
    struct kvtrace_side sides[2]; /* by kvr_role */
};

struct kvtrace_fault {
    int64_t at_us, for_us; /* for_us 0: for ever, or not known */
    int64_t agent, rail;   /* KVTRACE_NONE: of no single one */
    char kind[32];         /* of a scheduler: trace/faults.h */
    int64_t amount;        /* of what, the kind says */
    char text[KVTRACE_TEXT_BYTES];
};

struct kvtrace_mark {
    int64_t at_us, agent;
    char kind[32]; /* started, ended, option … */
    char before[KVTRACE_TEXT_BYTES], after[KVTRACE_TEXT_BYTES];
};

struct kvtrace_dropped {
    int64_t agent, count; /* agent KVTRACE_NONE: the recorder's own */
    char what[KVTRACE_TEXT_BYTES];
};

struct kvtrace_end {
    int64_t lines;               /* before this one */
    int64_t transfers, requests; /* lines of that kind */
    int64_t dropped;             /* sum of all `dropped` */
    char digest[20];             /* 16 digits */
};

/* About 40 KiB: keep it static, or on the heap. */
struct kvtrace_record {
    kvtrace_kind kind;
    union {
        struct kvtrace_header header;
        struct kvtrace_agent agent;
        struct kvtrace_geometry geometry;
        struct kvtrace_engine engine;
        struct kvtrace_request request;
        struct kvtrace_transfer transfer;
        struct kvtrace_fault fault;
        struct kvtrace_mark mark;
        struct kvtrace_dropped dropped;
        struct kvtrace_end end;
    };
};

/* Sets kind, and every member of that kind to its default. */
void kvtrace_clear(struct kvtrace_record *record, kvtrace_kind kind);
/* The same record; rows stay where they are. */
void kvtrace_copy(struct kvtrace_record *record, const struct kvtrace_record *from);

/* ---- reading --------------------------------------------------------------------------------- */

struct kvtrace_reader;

/* Opens PATH and reads its header; "-" is standard input. KVR_SYSTEM: it cannot be read.
 * KVR_MALFORMED: this is no trace. KVR_VERSION: a newer version. */
KVR_MUST_CHECK kvr_status kvtrace_open(const char *path, struct kvtrace_reader **ret_reader,
                                       struct kvr_error *error);
struct kvtrace_reader *kvtrace_close(struct kvtrace_reader *reader); /* returns NULL */

const struct kvtrace_header *kvtrace_header(const struct kvtrace_reader *reader);
/* The line of the last record, from 1. */
uint64_t kvtrace_line(const struct kvtrace_reader *reader);

/* The next record, valid until the next call. KVR_NOT_FOUND: there is none any more;
 * kvtrace_ending() says how the file ends. KVR_MALFORMED: this line is none, with file and line in
 * the sentence; the next call goes on with the next line. KVR_SYSTEM, KVR_NO_MEMORY. */
KVR_MUST_CHECK kvr_status kvtrace_next(struct kvtrace_reader *reader,
                                       const struct kvtrace_record **ret_record,
                                       struct kvr_error *error);

/* How a file ends. After KVR_NOT_FOUND. */
struct kvtrace_ending {
    bool complete; /* the footer is there, and right */
    uint64_t lines, transfers, requests, dropped, malformed;
    uint64_t unknown;               /* records of kinds that only a newer version knows */
    char problem[KVR_DETAIL_BYTES]; /* a sentence where it is not complete */
};
void kvtrace_ending(const struct kvtrace_reader *reader, struct kvtrace_ending *ret_ending);

/* The requests of a trace of transfers, for a replay: its `request` records; where it has none, one
 * for each request that its transfers name. At most `limit`; 0: all. Into an initialised, empty
 * trace. KVR_MALFORMED: a record is wrong. */
struct kvr_trace;
KVR_MUST_CHECK kvr_status kvtrace_requests(const char *path, uint32_t limit,
                                           struct kvr_trace *trace, struct kvr_error *error);
/* The same, and nothing on standard error: trace->problem says how a file was cut, unless `limit`
 * requests came before. kvtrace_requests() writes that as a note. */
KVR_MUST_CHECK kvr_status kvtrace_requests_quietly(const char *path, uint32_t limit,
                                                   struct kvr_trace *trace,
                                                   struct kvr_error *error);

/* ---- writing --------------------------------------------------------------------------------- */

struct kvtrace_writer;

/* Opens PATH, which ends in ".zst" for compression; "-" is standard output, never compressed.
 * Until kvtrace_finish() the file is PATH.part, and another one of that name stays as it is.
 * Writes the header: version, and made_by where it is empty, are filled in. */
KVR_MUST_CHECK kvr_status kvtrace_create(const char *path, const struct kvtrace_header *header,
                                         struct kvtrace_writer **ret_writer,
                                         struct kvr_error *error);
/* Any kind but header and footer. KVR_INVALID: a member that no line can hold. After a write that
 * failed, each later call fails, too. */
KVR_MUST_CHECK kvr_status kvtrace_write(struct kvtrace_writer *writer,
                                        const struct kvtrace_record *record,
                                        struct kvr_error *error);
/* All records so far are in the file, and a reader finds them there. For a recorder, once a second:
 * more often costs compression. */
KVR_MUST_CHECK kvr_status kvtrace_flush(struct kvtrace_writer *writer, struct kvr_error *error);
/* Writes the footer and closes the file. */
KVR_MUST_CHECK kvr_status kvtrace_finish(struct kvtrace_writer *writer, struct kvr_error *error);
/* Closes the file without a footer, as after a crash: it stays as PATH.part. NULL is fine. Returns
 * NULL. */
struct kvtrace_writer *kvtrace_abandon(struct kvtrace_writer *writer);

#endif
