/* Lines for people, on stderr or in a file. Machines read events, never these.
 *
 * Under systemd's journal a line is "<6>text" (the journal adds the time); on a terminal it is
 * "2026-01-31T12:34:56.789Z info text"; in a file or pipe it has both the number and the time. A
 * sentence that repeats (the same format string) is held back after KVR_LOG_BURST lines within
 * KVR_LOG_WINDOW and counted; the count is said with the next one that gets through, or where none
 * comes by kvr_log_tick.
 *
 * A pipe or a journal that is not read blocks no thread: lines without room are lost and counted,
 * and the next line with room says how many.
 *
 * Any thread. A program logs what it decided, once: of common/ only the shell of the agents
 * (agent/agent*.c), the tools and the answer to SIGHUP (options_reread.c) log above debug. */
#ifndef KVR_BASE_LOG_H
#define KVR_BASE_LOG_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/status.h"

#define KVR_LOG_BURST  10
#define KVR_LOG_WINDOW (10 * KVR_S)

/* The numbers are syslog's. */
typedef enum kvr_log_level {
    KVR_LOG_ERROR = 3,   /* something is broken and a person must act */
    KVR_LOG_WARNING = 4, /* something failed and was dealt with */
    KVR_LOG_INFO = 6,    /* starts, stops, peers coming and going */
    KVR_LOG_DEBUG = 7,   /* for a reader of the source */
} kvr_log_level;

/* About once a second: logs how often each sentence that has ceased was held back. */
void kvr_log_tick(void);
/* Before the program ends: logs all such counts. */
void kvr_log_flush(void);

/* Nothing less important than this is written; info at start. */
void kvr_log_set_level(kvr_log_level level);
/* "error", "warning", "info", "debug". */
bool kvr_log_level_from_name(const char *name, kvr_log_level *ret_level);
bool kvr_log_enabled(kvr_log_level level);

/* From here on lines go to the end of this file, which is made with mode 0640 if it is missing; ""
 * goes back to stderr. After a failure they go where they went before. */
KVR_MUST_CHECK kvr_status kvr_log_open(const char *path, struct kvr_error *error);
/* Opens that file again, under its name, after a log rotation moved it away. */
KVR_MUST_CHECK kvr_status kvr_log_reopen(struct kvr_error *error);

/* One line; a newline at the end is added. format: a literal, which is what repeats are known by.
 */
void kvr_log(kvr_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "what: detail (where, status)": a failure as one line. what: a literal. */
void kvr_log_failure(kvr_log_level level, const char *what, const struct kvr_error *error);

#define kvr_log_error(...)   kvr_log(KVR_LOG_ERROR, __VA_ARGS__)
#define kvr_log_warning(...) kvr_log(KVR_LOG_WARNING, __VA_ARGS__)
#define kvr_log_info(...)    kvr_log(KVR_LOG_INFO, __VA_ARGS__)
#define kvr_log_debug(...)   kvr_log(KVR_LOG_DEBUG, __VA_ARGS__)

#endif
