#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_BYTES 1024
#define SENTENCES  64 /* with counted repeats; two that share a place restart each other */

enum form { FORM_UNKNOWN, FORM_TERMINAL, FORM_JOURNAL, FORM_FILE };

struct sentence {
    const char *key;
    kvr_log_level level;
    kvr_ns window_start;
    uint32_t written, held_back;
};

static _Atomic int least_important = KVR_LOG_INFO;

/* Guarded by lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static enum form form;
static struct sentence sentences[SENTENCES];
static int descriptor = STDERR_FILENO;
static char file_path[4096]; /* "": stderr */
static int patient = -1;     /* of the pipe that `descriptor` is, without blocking */
static dev_t patient_device;
static ino_t patient_inode;
static uint64_t unread; /* lines that found no room */

void kvr_log_set_level(kvr_log_level level)
{
    atomic_store_explicit(&least_important, (int)level, memory_order_relaxed);
}

bool kvr_log_enabled(kvr_log_level level)
{
    return (int)level <= atomic_load_explicit(&least_important, memory_order_relaxed);
}

static const char *name_of(kvr_log_level level)
{
    switch (level) {
    case KVR_LOG_ERROR:
        return "error";
    case KVR_LOG_WARNING:
        return "warning";
    case KVR_LOG_INFO:
        return "info";
    case KVR_LOG_DEBUG:
        break;
    }
    return "debug";
}

bool kvr_log_level_from_name(const char *name, kvr_log_level *ret_level)
{
    static const kvr_log_level levels[] = {KVR_LOG_ERROR, KVR_LOG_WARNING, KVR_LOG_INFO,
                                           KVR_LOG_DEBUG};

    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        if (strcmp(name, name_of(levels[i])) == 0) {
            *ret_level = levels[i];
            return true;
        }
    }
    return false;
}

kvr_status kvr_log_open(const char *path, struct kvr_error *error)
{
    int opened = STDERR_FILENO;

    if (strlen(path) >= sizeof(file_path))
        return kvr_error_set(error, KVR_TOO_LARGE, "log", "the log file's path is too long");
    if (path[0] != '\0')
        opened = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0640);
    if (opened < 0)
        return kvr_error_system(error, "log", errno, "cannot write the log file %s", path);
    pthread_mutex_lock(&lock);
    if (descriptor != STDERR_FILENO)
        close(descriptor);
    descriptor = opened;
    form = FORM_UNKNOWN;
    memmove(file_path, path, strlen(path) + 1); /* reopening, it is the same */
    pthread_mutex_unlock(&lock);
    return KVR_OK;
}

kvr_status kvr_log_reopen(struct kvr_error *error)
{
    return kvr_log_open(file_path, error);
}

/* systemd says in JOURNAL_STREAM which device and inode its journal's stream has. */
static enum form find_form(void)
{
    const char *journal = getenv("JOURNAL_STREAM");
    unsigned long long device, inode;
    struct stat state;

    if (isatty(descriptor))
        return FORM_TERMINAL;
    if (journal != NULL && sscanf(journal, "%llu:%llu", &device, &inode) == 2 &&
        fstat(descriptor, &state) == 0 && state.st_dev == device && state.st_ino == inode)
        return FORM_JOURNAL;
    return FORM_FILE;
}

static size_t begin_line(kvr_log_level level, char line[LINE_BYTES])
{
    char time[KVR_RFC3339_BYTES];

    if (form == FORM_UNKNOWN)
        form = find_form();
    if (form == FORM_JOURNAL)
        return (size_t)snprintf(line, LINE_BYTES, "<%d>", (int)level);
    kvr_clock_rfc3339(kvr_clock_wall(), time);
    if (form == FORM_TERMINAL)
        return (size_t)snprintf(line, LINE_BYTES, "%s %s ", time, name_of(level));
    return (size_t)snprintf(line, LINE_BYTES, "<%d>%s ", (int)level, time);
}

/* A pipe is opened a second time, so that it does not block us, and blocks others as before: its
 * flags belong to the process that gave it to us. -1: it is none, or it cannot be. */
static int pipe_of(int fd)
{
    char path[32];
    struct stat state;

    if (fstat(fd, &state) != 0 || !S_ISFIFO(state.st_mode)) {
        if (patient >= 0)
            close(patient);
        patient = -1;
        return -1;
    }
    if (patient >= 0 && patient_device == state.st_dev && patient_inode == state.st_ino)
        return patient;
    if (patient >= 0)
        close(patient);
    patient_device = state.st_dev;
    patient_inode = state.st_ino;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    patient = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    return patient;
}

/* False: there was no room. */
static bool try_put(const char *line, size_t bytes)
{
    int pipe = pipe_of(descriptor);
    ssize_t written;

    do {
        /* systemd's journal reads a socket. */
        written = pipe >= 0 ? write(pipe, line, bytes)
                            : send(descriptor, line, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (written < 0 && pipe < 0 && errno == ENOTSOCK)
            written = write(descriptor, line, bytes);
    } while (written < 0 && errno == EINTR);
    return written >= 0 || errno != EAGAIN;
}

/* Where no process reads, lines are lost: the loop and the rail threads cannot wait for a reader.
 */
static void put(const char *line, size_t bytes)
{
    char lost[LINE_BYTES];

    if (unread > 0) {
        size_t used = begin_line(KVR_LOG_WARNING, lost);
        int more = snprintf(lost + used, sizeof(lost) - used,
                            "%" PRIu64 " lines of this log were lost: they were not read in time\n",
                            unread);

        if (!try_put(lost, used + (size_t)more)) {
            unread++;
            return;
        }
        unread = 0;
    }
    unread += !try_put(line, bytes);
}

/* One write() a line, so that lines of several processes on one stream do not mix. */
static void end_line(char line[LINE_BYTES], size_t used, uint32_t held_back)
{
    char *newline;

    if (held_back > 0 && used < LINE_BYTES)
        snprintf(line + used, LINE_BYTES - used, " (and %u more like it before)", held_back);
    used = strlen(line);
    if (used > LINE_BYTES - 2)
        used = LINE_BYTES - 2;
    line[used] = '\0';
    while ((newline = strchr(line, '\n')) != NULL)
        *newline = ' ';
    line[used] = '\n';
    put(line, used + 1);
}

static void say_total(struct sentence *s)
{
    char line[LINE_BYTES];
    size_t used;

    if (s->held_back == 0)
        return;
    used = begin_line(s->level, line);
    snprintf(line + used, sizeof(line) - used, "held back: %u more lines like \"%s\"", s->held_back,
             s->key);
    end_line(line, strlen(line), 0);
    s->held_back = 0;
}

/* Counts this line; false when it is one too many. *ret_held_back: lines not written before it. */
static bool may_write(kvr_log_level level, const char *key, kvr_ns now, uint32_t *ret_held_back)
{
    struct sentence *s = &sentences[((uintptr_t)key >> 2) % SENTENCES];

    *ret_held_back = 0;
    if (s->key != key || now - s->window_start >= KVR_LOG_WINDOW) {
        if (s->key == key)
            *ret_held_back = s->held_back;
        else
            say_total(s);
        *s = (struct sentence){.key = key, .level = level, .window_start = now};
    }
    if (s->written >= KVR_LOG_BURST) {
        s->held_back++;
        return false;
    }
    s->written++;
    return true;
}

/* key: what repeats of this sentence are known by. */
static void write_line(kvr_log_level level, const char *key, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));

static void write_line(kvr_log_level level, const char *key, const char *format, va_list arguments)
{
    int saved_errno = errno;
    char line[LINE_BYTES];
    uint32_t held_back;
    size_t used;

    pthread_mutex_lock(&lock);
    if (may_write(level, key, kvr_clock_now(), &held_back)) {
        used = begin_line(level, line);
        vsnprintf(line + used, sizeof(line) - used, format, arguments);
        end_line(line, strlen(line), held_back);
    }
    pthread_mutex_unlock(&lock);
    errno = saved_errno;
}

/* Of sentences held back since `since` or longer. */
static void say_totals(kvr_ns since)
{
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < SENTENCES; i++)
        if (sentences[i].window_start <= since)
            say_total(&sentences[i]);
    pthread_mutex_unlock(&lock);
}

void kvr_log_tick(void)
{
    kvr_ns now = kvr_clock_now();

    if (now >= KVR_LOG_WINDOW)
        say_totals(now - KVR_LOG_WINDOW);
}

void kvr_log_flush(void)
{
    say_totals(KVR_NEVER);
}

void kvr_log(kvr_log_level level, const char *format, ...)
{
    va_list arguments;

    if (!kvr_log_enabled(level))
        return;
    va_start(arguments, format);
    write_line(level, format, format, arguments);
    va_end(arguments);
}

static void write_keyed(kvr_log_level level, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void write_keyed(kvr_log_level level, const char *key, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    write_line(level, key, format, arguments);
    va_end(arguments);
}

void kvr_log_failure(kvr_log_level level, const char *what, const struct kvr_error *error)
{
    if (!kvr_log_enabled(level))
        return;
    write_keyed(level, what, "%s: %s (%s, %s)", what, error->detail,
                error->where != NULL ? error->where : "?", kvr_status_name(error->status));
}
