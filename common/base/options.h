/* Options of a program, from one table: command line, KVRAIL_* environment, an INI file, defaults.
 *
 * A row names a field of the program's own configuration struct. `--heartbeat 2s`, in the
 * environment KVRAIL_HEARTBEAT=2s, and `heartbeat = 2s` in the file given with --config (or
 * KVRAIL_CONFIG) are the same; the command line wins over the environment, that over the file, that
 * over the default. In the file an option stands in its section, or before any section. Of a list
 * the winning source gives the whole list. Every program also has --config, --log-level,
 * --log-file, --help (--help=man is a page of the manual) and --version.
 *
 *     struct config { char listen[256]; kvr_ns heartbeat; struct kvr_option_list rails; bool drain;
 * };
 *
 *     static const struct kvr_option options[] = {
 *         {.name = "listen", .section = "network", .value = "HOST:PORT", .fallback = "127.0.0.1:0",
 *          KVR_OPTION_ADDRESS(struct config, listen), .help = "Where to listen."},
 *         {.name = "heartbeat", .section = "network", .fallback = "1s", .min = KVR_MS, .max =
 * KVR_S, KVR_OPTION_DURATION(struct config, heartbeat), .help = "How often a peer hears from us."},
 *     };
 *
 * Main thread, at start. */
#ifndef KVR_BASE_OPTIONS_H
#define KVR_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/clock.h"

#define KVR_EXIT_USAGE 2 /* a bad option or argument */

typedef enum kvr_option_type {
    KVR_OPTION_TYPE_STRING,   /* char[bytes] */
    KVR_OPTION_TYPE_ADDRESS,  /* char[bytes], checked as host:port */
    KVR_OPTION_TYPE_CHOICE,   /* char[bytes], one of .choices */
    KVR_OPTION_TYPE_LIST,     /* struct kvr_option_list; repeated or separated by commas */
    KVR_OPTION_TYPE_BOOL,     /* bool; --name, --no-name, --name=yes */
    KVR_OPTION_TYPE_COUNT,    /* uint64_t, min to max */
    KVR_OPTION_TYPE_SIZE,     /* uint64_t bytes, min to max; 64k, 16M, 3G are powers of 1024 */
    KVR_OPTION_TYPE_DURATION, /* kvr_ns, min to max; 20us, 250ms, 1.5s, 10min or 10m, 2h, 7d;
                                 "never" if max allows */
} kvr_option_type;

#define KVR_OPTION_LIST_MAX   64
#define KVR_OPTION_ITEM_BYTES 256

struct kvr_option_list {
    uint32_t count;
    char items[KVR_OPTION_LIST_MAX][KVR_OPTION_ITEM_BYTES];
};

struct kvr_option {
    const char *name;     /* without dashes: "state-dir" */
    const char *section;  /* group in --help and section of the file; NULL: as the row above */
    const char *value;    /* in --help: "HOST:PORT"; NULL for what the type suggests */
    const char *fallback; /* default, as it would be typed; NULL leaves the field as it was */
    const char *alone;    /* value of an option that ends the command line or stands before another
                             option; NULL: it needs one */
    const char *choices;  /* CHOICE: "tcp|local|verbs" */
    const char *(*choices_from)(
        void); /* CHOICE, instead of choices: a list that another file has */
    /* CHOICE: for a value that an earlier version took, a sentence that says what to use instead;
     * NULL for every other value. May be NULL. */
    const char *(*removed)(const char *value);
    const char *choices_hidden; /* CHOICE: also accepted, but not in --help; or NULL */
    const char *help;           /* a sentence or two */
    uint64_t min, max;          /* numbers; max 0 means no upper bound. LIST: how many items */
    /* ADDRESS: the port of an address without one. LIST: its items are addresses, with this port.
     * 0: an address must name its port. */
    uint16_t port;
    bool url;      /* of such addresses: http:// or https:// may stand before each */
    bool seconds;  /* DURATION: a number without a unit counts seconds */
    bool required; /* some source must give it */
    bool live;     /* a reread may change it while the program runs */
    bool hidden;   /* not in --help: benchmarks and tests set it */
    bool reported; /* STRING, LIST: kvr_options_given has it, as all other types; no secret, and no
                      path to one */
    kvr_option_type type;
    size_t offset, bytes; /* of the field: KVR_OPTION_… below fills type, offset and bytes */
};

#define KVR_OPTION_FIELD_(kind, type_, field)                                                      \
    .type = KVR_OPTION_TYPE_##kind, .offset = offsetof(type_, field),                              \
    .bytes = sizeof(((type_ *)0)->field)
#define KVR_OPTION_STRING(type_, field)   KVR_OPTION_FIELD_(STRING, type_, field)
#define KVR_OPTION_ADDRESS(type_, field)  KVR_OPTION_FIELD_(ADDRESS, type_, field)
#define KVR_OPTION_CHOICE(type_, field)   KVR_OPTION_FIELD_(CHOICE, type_, field)
#define KVR_OPTION_LIST(type_, field)     KVR_OPTION_FIELD_(LIST, type_, field)
#define KVR_OPTION_BOOL(type_, field)     KVR_OPTION_FIELD_(BOOL, type_, field)
#define KVR_OPTION_COUNT(type_, field)    KVR_OPTION_FIELD_(COUNT, type_, field)
#define KVR_OPTION_SIZE(type_, field)     KVR_OPTION_FIELD_(SIZE, type_, field)
#define KVR_OPTION_DURATION(type_, field) KVR_OPTION_FIELD_(DURATION, type_, field)

/* Fills .options and .option_count of a command. */
#define KVR_OPTION_ROWS(rows) .options = (rows), .option_count = sizeof(rows) / sizeof((rows)[0])

struct kvr_exit_code {
    int code;
    const char *meaning;
};

/* Rows that several commands have, and that fill a struct of their own. */
struct kvr_option_table {
    const struct kvr_option *rows;
    size_t count;
};

/* The rows' defaults into their struct, zeroed by the caller, of a program that does not read them
 * from a command line. */
void kvr_option_table_defaults(const struct kvr_option_table *table, void *values);

/* Such rows in one command. */
struct kvr_option_part {
    const struct kvr_option_table *table; /* NULL ends a list of parts */
    size_t offset;                        /* of their struct in the command's own */
    bool shows_hidden;                    /* --help has the hidden rows too */
};

/* One command line: a program, or one subcommand of it. */
struct kvr_command {
    const char *name;        /* "prefill-agent", "kvrail replay" */
    const char *description; /* what it does, for a stranger; lines of at most 80 characters */
    const struct kvr_option_part *parts; /* before its own rows; may be NULL */
    const struct kvr_option *options;
    size_t option_count;
    const char *arguments;   /* in the usage line: "[FILE…]"; NULL when it takes none */
    size_t arguments_offset; /* of the struct kvr_option_list that receives them */
    uint32_t arguments_min, arguments_max;
    const struct kvr_exit_code
        *exit_codes;    /* beyond 0, 1 and 2, and of these where they mean something of the
                           command's own; ends with {0, NULL}; may be NULL */
    const char *footer; /* examples; may be NULL */
    bool rereads;       /* SIGHUP makes it call kvr_options_reread */
};

/* Fills *config (zeroed by the caller) from all sources and sets the log level. True: go on. False:
 * leave with *ret_exit, which is 0 after --help and --version and 2 after a bad option, when one
 * sentence on stderr has named it, its value and what is allowed. argv[0] is skipped. The log goes
 * to --log-file from then on. */
bool kvr_options_load(const struct kvr_command *command, int argc, char **argv, void *config,
                      int *ret_exit);
/* The same with other streams for help and errors. */
bool kvr_options_load_to(const struct kvr_command *command, int argc, char **argv, FILE *out,
                         FILE *errors, void *config, int *ret_exit);

/* Reads all sources again, as at start. *config (config_bytes, filled by kvr_options_load from the
 * same argv) gets the new values of .live options and keeps all others; log level and log file are
 * changed. Each difference is one call of tell, with a sentence. False: a source is wrong, nothing
 * was changed, and the sentence says so. */
typedef void kvr_options_tell(void *self, bool problem, const char *sentence);
bool kvr_options_reread(const struct kvr_command *command, int argc, char **argv, void *config,
                        size_t config_bytes, kvr_options_tell *tell, void *self);
/* After SIGHUP: reopens the log file, rereads, and logs each change. */
void kvr_options_hang_up(const struct kvr_command *command, int argc, char **argv, void *config,
                         size_t config_bytes);

/* What *config has beside the defaults, for a report: "name=value name=value", in the order of the
 * rows. Of the rows that are no secret: see `reported`. A space in a value is %20. Where they do
 * not fit the text ends with " ...". */
void kvr_options_given(const struct kvr_command *command, const void *config, char *text,
                       size_t bytes);

/* One sentence "kvrail replay: …" on stderr, for a mistake in the options that only the program
 * itself can find. Returns KVR_EXIT_USAGE. */
int kvr_options_refuse(const struct kvr_command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Shows what a program has, in place of running it: for manuals and completion in shells. */
struct kvr_subcommand;
struct kvr_options_visitor {
    void *self;
    /* A program of subcommands, before each of them; or, without subcommands, of one command. */
    void (*program)(void *self, const char *program, const char *description,
                    const struct kvr_subcommand *subcommands);
    void (*command)(void *self, const struct kvr_command *command);
};
/* While there is one, kvr_options_load and kvr_subcommands_run show it what they would load or run,
 * and do nothing else. NULL: none. */
void kvr_options_visit(const struct kvr_options_visitor *visitor);
const struct kvr_options_visitor *kvr_options_visitor(void);

struct kvr_subcommand {
    const char *name;    /* "replay" */
    const char *summary; /* one line in the list */
    int (*run)(int argc,
               char **argv); /* argv[0] is the subcommand's name; returns the exit status */
};

/* The main of a program that consists of subcommands: finds argv[1] in the table (ended by a NULL
 * name) and runs it; answers --help, --version and what is unknown itself. Returns the exit status.
 */
int kvr_subcommands_run(const char *program, const char *description,
                        const struct kvr_subcommand *subcommands, int argc, char **argv);

#endif
