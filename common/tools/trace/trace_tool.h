/* The subcommands of `kvrail trace`, and what they share. Each returns the exit status. */
#ifndef KVR_TOOLS_TRACE_TOOL_H
#define KVR_TOOLS_TRACE_TOOL_H

#include "base/options.h"
#include "trace/kvtrace_book.h"

int trace_cut_main(int argc, char **argv);
int trace_anonymise_main(int argc, char **argv);
int trace_export_main(int argc, char **argv);
int trace_head_main(int argc, char **argv);
int trace_import_main(int argc, char **argv);
int trace_info_main(int argc, char **argv);
int trace_merge_main(int argc, char **argv);
int trace_record_main(int argc, char **argv);
int trace_synth_main(int argc, char **argv);
int trace_validate_main(int argc, char **argv);

#define TRACE_PATH_BYTES 4096

/* In the struct's `char output[TRACE_PATH_BYTES]`. */
#define TRACE_OUTPUT_OPTION(type_)                                                                 \
    {                                                                                              \
        .name = "output", .section = "output", .value = "FILE", .required = true,                  \
        KVR_OPTION_STRING(type_, output),                                                          \
        .help = "Where to write the trace, compressed where the name ends in .zst; -: standard "   \
                "output."                                                                          \
    }

/* The one argument of a command, in the struct's `struct kvr_option_list files`. */
#define TRACE_ARGUMENT(type_)                                                                      \
    .arguments = "FILE", .arguments_offset = offsetof(type_, files), .arguments_min = 1,           \
    .arguments_max = 1

/* A trace being read record by record; wrong lines are said on stderr and counted. */
struct trace_walk {
    const char *command; /* begins the sentences: "kvrail trace info" */
    struct kvtrace_reader *reader;
    struct kvtrace_book book;
    uint64_t wrong; /* lines that cannot be read, or do not fit the others */
    uint64_t said;  /* of them, on stderr */
    uint64_t say;   /* at most so many */
};

/* False after a sentence on stderr. */
bool trace_walk_open(struct trace_walk *walk, const char *command, const char *path);
/* NULL: the end, or an error that was said; *ret_good says which. */
const struct kvtrace_record *trace_walk_next(struct trace_walk *walk, bool *ret_good);
/* After the last record: says what is wrong with the ending. True: all was right. */
bool trace_walk_close(struct trace_walk *walk, struct kvtrace_ending *ret_ending);

/* The record to write in place of this one, or NULL for none; *ret_stop true ends the copy after
 * it. */
typedef const struct kvtrace_record *trace_choose(void *self, const struct kvtrace_book *book,
                                                  const struct kvtrace_record *record,
                                                  bool *ret_stop);

/* What is chosen of one trace, as another. */
struct trace_copy {
    const char *command, *path, *output;
    trace_choose *choose;
    void *self;
    void (*change)(void *self, struct kvtrace_header *header); /* or NULL */
};
int trace_copy(const struct trace_copy *copy);

/* Prints "COMMAND: SENTENCE" on stderr; returns 1. */
int trace_fail(const char *command, const char *sentence);

#endif
