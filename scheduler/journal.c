#include "scheduler/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/entropy.h"
#include "base/file_sync.h"
#include "base/log.h"

#define PATH_BYTES   (PATH_MAX + 64)
#define JOURNAL_FILE "kvrail.journal"

struct journal {
    char path[PATH_BYTES];
    int fd;
    uint64_t id, number;
    uint64_t end;  /* of the frames that the database has not */
    uint64_t size; /* of the file */
};

/* ---- open ---- */

static kvr_status cannot(const struct journal *journal, const char *what, struct kvr_error *error)
{
    return kvr_error_system(error, "journal", errno, "cannot %s the journal %s", what,
                            journal->path);
}

/* why: "is damaged at its beginning"; suffix: of the name that the file gets. */
static kvr_status set_aside(const struct journal *journal, const char *why, const char *suffix,
                            struct kvr_error *error)
{
    char to[PATH_BYTES + 64], day[40];
    time_t now = time(NULL);
    struct tm utc;

    gmtime_r(&now, &utc);
    strftime(day, sizeof(day), "%Y%m%dT%H%M%SZ", &utc);
    snprintf(to, sizeof(to), "%s.%s-%s", journal->path, suffix, day);
    if (rename(journal->path, to) != 0)
        return cannot(journal, "set aside", error);
    kvr_log_error("the journal %s %s: it is kept as %s, and a new one begins; acknowledged reports "
                  "that the database had not committed are not there",
                  journal->path, why, to);
    return KVR_OK;
}

static kvr_status write_header(struct journal *journal, struct kvr_error *error)
{
    uint8_t header[JOURNAL_HEADER_BYTES];

    journal->id = kvr_random_u64() >> 1 | 1; /* the database has signed integers */
    journal->number = 1;
    journal->size = journal->end = JOURNAL_HEADER_BYTES;
    journal_write_header(journal->id, header);
    if (pwrite(journal->fd, header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
        ftruncate(journal->fd, JOURNAL_HEADER_BYTES) != 0 || fdatasync(journal->fd) != 0)
        return cannot(journal, "write", error);
    return KVR_OK;
}

static kvr_status make(struct journal *journal, const char *folder, struct kvr_error *error)
{
    int failed;

    journal->fd = open(journal->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (journal->fd < 0)
        return cannot(journal, "make", error);
    KVR_TRY(write_header(journal, error));
    failed = kvr_file_sync(folder);
    if (failed != 0)
        return kvr_error_system(error, "journal", failed, "cannot write the folder %s", folder);
    return KVR_OK;
}

/* *ret_there false: there is none, or none of use. */
static kvr_status take_over(struct journal *journal, bool *ret_there, struct kvr_error *error)
{
    uint8_t header[JOURNAL_HEADER_BYTES];
    struct stat file;
    ssize_t got;

    *ret_there = false;
    journal->fd = open(journal->path, O_RDWR | O_CLOEXEC);
    if (journal->fd < 0)
        return errno == ENOENT ? KVR_OK : cannot(journal, "open", error);
    if (fstat(journal->fd, &file) != 0)
        return cannot(journal, "read", error);
    got = pread(journal->fd, header, sizeof(header), 0);
    if (got < 0) /* a disk that fails is no damage of the file */
        return cannot(journal, "read", error);
    *ret_there =
        got == (ssize_t)sizeof(header) && journal_read_header(header, sizeof(header), &journal->id);
    journal->size = (uint64_t)file.st_size;
    journal->end = JOURNAL_HEADER_BYTES;
    if (*ret_there)
        return KVR_OK;
    close(journal->fd);
    journal->fd = -1;
    /* An empty one was cut off while it was made. */
    return file.st_size >= JOURNAL_HEADER_BYTES
               ? set_aside(journal, "is damaged at its beginning", "damaged", error)
               : KVR_OK;
}

kvr_status journal_open(const char *folder, struct journal **ret_journal, struct kvr_error *error)
{
    struct journal *journal = calloc(1, sizeof(*journal));
    kvr_status status;
    bool there;

    if (journal == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "journal", "no memory for the journal");
    journal->fd = -1;
    snprintf(journal->path, sizeof(journal->path), "%s/" JOURNAL_FILE, folder);
    status = take_over(journal, &there, error);
    if (status == KVR_OK && !there)
        status = make(journal, folder, error);
    if (status != KVR_OK) {
        journal_close(journal);
        return status;
    }
    *ret_journal = journal;
    return KVR_OK;
}

/* Its reports were acknowledged, and perhaps are nowhere else: the file stays under another name.
 */
kvr_status journal_begin_anew(struct journal *journal, struct kvr_error *error)
{
    char folder[PATH_BYTES];

    if (journal->size <= JOURNAL_HEADER_BYTES)
        return write_header(journal, error);
    close(journal->fd);
    journal->fd = -1;
    KVR_TRY(set_aside(journal, "is of another database than the one beside it", "other", error));
    snprintf(folder, sizeof(folder), "%s", journal->path);
    *strrchr(folder, '/') = '\0';
    return make(journal, folder, error);
}

struct journal *journal_close(struct journal *journal)
{
    if (journal != NULL && journal->fd >= 0)
        close(journal->fd);
    free(journal);
    return NULL;
}

bool journal_was_left(const char *folder)
{
    char path[PATH_BYTES];
    struct stat file;

    snprintf(path, sizeof(path), "%s/" JOURNAL_FILE, folder);
    return stat(path, &file) == 0 && file.st_size > JOURNAL_HEADER_BYTES;
}

uint64_t journal_id(const struct journal *journal)
{
    return journal->id;
}

uint64_t journal_number(const struct journal *journal)
{
    return journal->number;
}

uint64_t journal_bytes(const struct journal *journal)
{
    return journal->end - JOURNAL_HEADER_BYTES;
}

/* ---- write ---- */

static bool write_frame(const struct journal *journal, const uint8_t header[JOURNAL_FRAME_BYTES],
                        const struct journal_report *reports, uint32_t count, uint64_t *ret_bytes)
{
    uint32_t lengths[JOURNAL_REPORTS_MAX];
    struct iovec parts[1 + 2 * JOURNAL_REPORTS_MAX];
    int part = 0;

    parts[part++] = (struct iovec){(void *)(uintptr_t)header, JOURNAL_FRAME_BYTES};
    *ret_bytes = JOURNAL_FRAME_BYTES;
    for (uint32_t i = 0; i < count; i++) {
        lengths[i] = (uint32_t)reports[i].count;
        parts[part++] = (struct iovec){&lengths[i], sizeof(lengths[i])};
        parts[part++] = (struct iovec){(void *)(uintptr_t)reports[i].bytes, reports[i].count};
        *ret_bytes += sizeof(lengths[i]) + reports[i].count;
    }
    errno = ENOSPC; /* of a write that is cut short */
    return pwritev(journal->fd, parts, part, (off_t)journal->end) == (ssize_t)*ret_bytes &&
           fdatasync(journal->fd) == 0;
}

kvr_status journal_append(struct journal *journal, int64_t arrived_ns,
                          const struct journal_report *reports, uint32_t count,
                          struct kvr_error *error)
{
    struct journal_frame frame = {
        .number = journal->number + 1, .arrived_ns = arrived_ns, .report_count = count};
    uint8_t header[JOURNAL_FRAME_BYTES];
    kvr_status status;
    uint64_t bytes;

    if (count > JOURNAL_REPORTS_MAX || !journal_frame_header(journal->id, &frame, reports, header))
        return kvr_error_set(error, KVR_TOO_LARGE, "journal",
                             "%u reports are more than one frame of the journal can hold", count);
    status = write_frame(journal, header, reports, count, &bytes) ? KVR_OK
                                                                  : cannot(journal, "write", error);
    if (journal->end + bytes > journal->size) /* also of a part that was written */
        journal->size = journal->end + bytes;
    if (status == KVR_OK) {
        journal->number++;
        journal->end += bytes;
    }
    return status;
}

void journal_skip(struct journal *journal)
{
    journal->number++;
}

void journal_clear(struct journal *journal)
{
    journal->end = JOURNAL_HEADER_BYTES;
}

void journal_trim(struct journal *journal)
{
    if (journal->end == JOURNAL_HEADER_BYTES && journal->size > JOURNAL_HEADER_BYTES &&
        ftruncate(journal->fd, JOURNAL_HEADER_BYTES) == 0)
        journal->size = JOURNAL_HEADER_BYTES;
}

/* ---- read ---- */

static kvr_status read_file(const struct journal *journal, uint8_t **ret_bytes, size_t *ret_count,
                            struct kvr_error *error)
{
    struct stat file;
    uint8_t *bytes;
    size_t count = 0;
    ssize_t got = 1;

    if (fstat(journal->fd, &file) != 0)
        return cannot(journal, "read", error);
    bytes = malloc((size_t)file.st_size + 1);
    if (bytes == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "journal",
                             "no memory for the journal's %" PRIu64 " bytes",
                             (uint64_t)file.st_size);
    while (got > 0 && count < (size_t)file.st_size) {
        got = pread(journal->fd, bytes + count, (size_t)file.st_size - count, (off_t)count);
        count += got > 0 ? (size_t)got : 0;
    }
    if (got < 0) {
        free(bytes);
        return cannot(journal, "read", error);
    }
    *ret_bytes = bytes;
    *ret_count = count;
    return KVR_OK;
}

kvr_status journal_replay(struct journal *journal, uint64_t after, journal_visit *visit, void *self,
                          struct kvr_error *error)
{
    struct journal_scan scan = {.id = journal->id, .after = after};
    uint8_t *bytes = NULL;
    struct journal_frame frame;
    struct journal_report report;
    kvr_status status = KVR_OK;

    KVR_TRY(read_file(journal, &bytes, &scan.count, error));
    scan.bytes = bytes;
    journal->end = JOURNAL_HEADER_BYTES;
    while (journal_scan_next(&scan, &frame)) {
        journal->end = scan.offset;
        while (status == KVR_OK && journal_frame_next(&frame, &report))
            status = visit(self, frame.arrived_ns, &report, error);
    }
    free(bytes);
    journal->number = scan.after;
    if (scan.lost > 0 && status == KVR_OK)
        kvr_log_error("the journal %s is damaged: %" PRIu64 " rounds of reports are lost that were "
                      "acknowledged and that the database had not committed",
                      journal->path, scan.lost);
    return status;
}
