#include "agent/report/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/file_sync.h"
#include "trace/report.h"

#define SEGMENTS_MAX     64 /* found at start, or kept */
#define SEGMENTS_KEPT    8  /* the bound's parts: dropping the oldest frees room */
#define RECORD_BYTES_MAX (64u << 20)

struct record_header {
    char magic[4];
    uint32_t bytes, checksum, event_count;
    uint64_t boot, sequence_first;
};
_Static_assert(sizeof(struct record_header) == 32, "the spool's format");

/* A count or number that is wrong would never be acknowledged. */
static uint32_t checksum(const struct record_header *header, const uint8_t *report)
{
    size_t from = offsetof(struct record_header, event_count);
    uint32_t seed = XXH32((const char *)header + from, sizeof(*header) - from, 0);

    return XXH32(report, header->bytes, seed);
}

struct segment {
    uint64_t number;
    int fd;
    uint64_t bytes;       /* of whole records */
    uint64_t taken;       /* offset of the oldest record that was not taken */
    uint64_t event_count; /* of the records that were not taken */
};

struct kvr_spool {
    char folder[PATH_MAX];
    size_t bytes_max, bytes;
    struct kvr_spool_loss loss; /* since the last kvr_spool_take_loss */
    bool appended, named;       /* not on the disk yet: bytes of the newest segment; its name */
    int segment_count;
    struct segment segments[SEGMENTS_MAX]; /* oldest first */
};

#define SEGMENT_NAME "events-%020llu.spool"

static void segment_path(const struct kvr_spool *spool, uint64_t number, char path[PATH_MAX + 40])
{
    snprintf(path, PATH_MAX + 40, "%s/" SEGMENT_NAME, spool->folder, (unsigned long long)number);
}

static void lose(struct kvr_spool *spool, const struct segment *segment, uint64_t events)
{
    spool->loss.events += events;
    snprintf(spool->loss.file, sizeof(spool->loss.file), SEGMENT_NAME,
             (unsigned long long)segment->number);
}

static bool read_header(const struct segment *segment, uint64_t offset,
                        struct record_header *header)
{
    return pread(segment->fd, header, sizeof(*header), (off_t)offset) == (ssize_t)sizeof(*header) &&
           memcmp(header->magic, "KVRS", 4) == 0 && header->bytes <= RECORD_BYTES_MAX;
}

/* Counts the whole records. Bytes of a record that a crash cut off are removed, and bytes after a
 * damaged header. */
static bool measure(struct kvr_spool *spool, struct segment *segment)
{
    struct record_header header;
    struct stat status;
    bool whole = true;

    if (fstat(segment->fd, &status) != 0)
        return false;
    while (whole && read_header(segment, segment->bytes, &header)) {
        whole = segment->bytes + sizeof(header) + header.bytes <= (uint64_t)status.st_size;
        segment->bytes += whole ? sizeof(header) + header.bytes : 0;
        segment->event_count += whole ? header.event_count : 0;
    }
    if (whole && segment->bytes + sizeof(header) <= (uint64_t)status.st_size)
        lose(spool, segment, 1);
    return ftruncate(segment->fd, (off_t)segment->bytes) == 0;
}

static void remove_oldest(struct kvr_spool *spool)
{
    struct segment *oldest = &spool->segments[0];
    char path[PATH_MAX + 40];

    segment_path(spool, oldest->number, path);
    (void)unlink(path);
    close(oldest->fd);
    spool->bytes -= oldest->bytes;
    spool->segment_count--;
    memmove(oldest, oldest + 1, (size_t)spool->segment_count * sizeof(*oldest));
}

static kvr_status add_segment(struct kvr_spool *spool, uint64_t number, struct kvr_error *error)
{
    struct segment segment = {.number = number};
    char path[PATH_MAX + 40];

    segment_path(spool, number, path);
    segment.fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (segment.fd < 0 || !measure(spool, &segment)) {
        kvr_error_system(error, "spool", errno, "cannot use the spool %s", path);
        if (segment.fd >= 0)
            close(segment.fd);
        return KVR_SYSTEM;
    }
    spool->bytes += segment.bytes;
    spool->segments[spool->segment_count++] = segment;
    return KVR_OK;
}

static bool segment_number(const char *name, uint64_t *ret_number)
{
    unsigned long long number;
    int end = 0;

    if (sscanf(name, "events-%20llu.spool%n", &number, &end) != 1 || end == 0 || name[end] != '\0')
        return false;
    *ret_number = number;
    return true;
}

static kvr_status adopt(struct kvr_spool *spool, struct kvr_error *error)
{
    struct dirent **names;
    int count = scandir(spool->folder, &names, NULL, alphasort); /* by number: they are padded */
    kvr_status status = KVR_OK;
    uint64_t number;

    if (count < 0)
        return kvr_error_system(error, "spool", errno, "cannot read the folder %s", spool->folder);
    for (int i = 0; i < count; i++) {
        if (status == KVR_OK && segment_number(names[i]->d_name, &number)) {
            if (spool->segment_count == SEGMENTS_MAX)
                remove_oldest(spool); /* more than this program ever leaves: a bound was lowered */
            status = add_segment(spool, number, error);
        }
        free(names[i]);
    }
    free(names);
    return status;
}

kvr_status kvr_spool_open(const char *folder, size_t bytes_max, struct kvr_spool **ret_spool,
                          struct kvr_error *error)
{
    struct kvr_spool *spool = calloc(1, sizeof(*spool));
    kvr_status status;

    if (spool == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "spool", "no memory for a spool");
    spool->bytes_max = bytes_max;
    if ((size_t)snprintf(spool->folder, sizeof(spool->folder), "%s", folder) >=
        sizeof(spool->folder)) {
        free(spool);
        return kvr_error_set(error, KVR_TOO_LARGE, "spool",
                             "the path of the state folder is too long");
    }
    status = adopt(spool, error);
    if (status != KVR_OK) {
        kvr_spool_close(spool);
        return status;
    }
    *ret_spool = spool;
    return KVR_OK;
}

struct kvr_spool *kvr_spool_close(struct kvr_spool *spool)
{
    struct kvr_spool_record record;

    if (spool == NULL)
        return NULL;
    (void)kvr_spool_front(spool, &record); /* removes segments that are used up */
    for (int i = 0; i < spool->segment_count; i++)
        close(spool->segments[i].fd);
    free(spool);
    return NULL;
}

/* The segment to append to: a new one when the newest has its share of the bound. */
static struct segment *newest_segment(struct kvr_spool *spool)
{
    uint64_t number = 1;

    if (spool->segment_count > 0) {
        struct segment *newest = &spool->segments[spool->segment_count - 1];

        if (newest->bytes < spool->bytes_max / SEGMENTS_KEPT)
            return newest;
        number = newest->number + 1;
    }
    kvr_spool_sync(spool); /* the one that was the newest */
    if (spool->segment_count == SEGMENTS_MAX)
        remove_oldest(spool);
    if (add_segment(spool, number, NULL) != KVR_OK)
        return NULL;
    spool->named = true;
    return &spool->segments[spool->segment_count - 1];
}

kvr_status kvr_spool_append(struct kvr_spool *spool, const struct kvr_spool_record *record,
                            const uint8_t *report, uint64_t *dropped)
{
    struct record_header header = {.magic = {'K', 'V', 'R', 'S'},
                                   .bytes = record->bytes,
                                   .event_count = record->event_count,
                                   .boot = record->boot,
                                   .sequence_first = record->sequence_first};
    size_t whole = sizeof(header) + record->bytes;
    struct segment *segment;

    header.checksum = checksum(&header, report);
    while (spool->segment_count > 0 && spool->bytes + whole > spool->bytes_max) {
        *dropped += spool->segments[0].event_count;
        remove_oldest(spool);
    }
    segment = whole <= spool->bytes_max ? newest_segment(spool) : NULL;
    if (segment == NULL)
        return KVR_TOO_LARGE;
    if (pwrite(segment->fd, &header, sizeof(header), (off_t)segment->bytes) !=
            (ssize_t)sizeof(header) ||
        pwrite(segment->fd, report, record->bytes, (off_t)(segment->bytes + sizeof(header))) !=
            (ssize_t)record->bytes) {
        (void)ftruncate(segment->fd, (off_t)segment->bytes);
        return KVR_SYSTEM;
    }
    segment->bytes += whole;
    segment->event_count += record->event_count;
    spool->bytes += whole;
    spool->appended = true;
    return KVR_OK;
}

void kvr_spool_sync(struct kvr_spool *spool)
{
    if (spool->appended && spool->segment_count > 0)
        (void)fdatasync(spool->segments[spool->segment_count - 1].fd);
    if (spool->named)
        (void)kvr_file_sync(spool->folder);
    spool->appended = spool->named = false;
}

bool kvr_spool_front(struct kvr_spool *spool, struct kvr_spool_record *ret_record)
{
    struct record_header header;

    while (spool->segment_count > 0) {
        struct segment *oldest = &spool->segments[0];

        if (oldest->taken < oldest->bytes && read_header(oldest, oldest->taken, &header)) {
            *ret_record = (struct kvr_spool_record){header.boot, header.sequence_first,
                                                    header.event_count, header.bytes};
            return true;
        }
        if (oldest->taken < oldest->bytes)
            lose(spool, oldest, oldest->event_count);
        remove_oldest(spool);
    }
    return false;
}

bool kvr_spool_read(struct kvr_spool *spool, const struct kvr_spool_record *record, uint8_t *report)
{
    const struct segment *oldest = &spool->segments[0];
    uint32_t events = record->event_count;
    struct record_header header;

    if (spool->segment_count > 0 && read_header(oldest, oldest->taken, &header) &&
        header.bytes == record->bytes &&
        pread(oldest->fd, report, header.bytes, (off_t)(oldest->taken + sizeof(header))) ==
            (ssize_t)header.bytes &&
        checksum(&header, report) == header.checksum)
        return true;
    if (spool->segment_count > 0) /* its count may be what is wrong */
        lose(spool, oldest, 0 < events && events <= KVR_REPORT_EVENTS_MAX ? events : 1);
    return false;
}

void kvr_spool_drop(struct kvr_spool *spool)
{
    struct record_header header;
    struct segment *oldest = &spool->segments[0];

    if (spool->segment_count == 0 || !read_header(oldest, oldest->taken, &header))
        return;
    oldest->taken += sizeof(header) + header.bytes;
    oldest->event_count -=
        header.event_count < oldest->event_count ? header.event_count : oldest->event_count;
    if (oldest->taken >= oldest->bytes)
        remove_oldest(spool);
}

bool kvr_spool_take_loss(struct kvr_spool *spool, struct kvr_spool_loss *ret_loss)
{
    if (spool->loss.events == 0)
        return false;
    *ret_loss = spool->loss;
    spool->loss = (struct kvr_spool_loss){0};
    return true;
}
