/* Goal: the journal gives back each report of a frame that was on the disk, in order, and nothing
 * else; what damage costs is said, and a crash amid a frame costs nothing. Method: a journal in a
 * fresh folder, read as a later process does; the file changed by hand; writes and syncs that fail.
 */
#include "tests/support/check.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"
#include "scheduler/journal.h"
#include "tests/support/folder.h"

static bool full, unsynced, unreadable;
static char said[1024]; /* the last line of the log */

ssize_t __real_pwritev(int fd, const struct iovec *parts, int count, off_t offset);
ssize_t __wrap_pwritev(int fd, const struct iovec *parts, int count, off_t offset);
ssize_t __real_pread(int fd, void *to, size_t count, off_t offset);
ssize_t __wrap_pread(int fd, void *to, size_t count, off_t offset);
int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
void __wrap_kvr_log(kvr_log_level level, const char *format, ...);

/* A full disk takes a part. */
ssize_t __wrap_pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
    ssize_t written =
        full ? __real_pwritev(fd, parts, 1, offset) : __real_pwritev(fd, parts, count, offset);

    return written;
}

ssize_t __wrap_pread(int fd, void *to, size_t count, off_t offset)
{
    errno = EIO;
    return unreadable ? -1 : __real_pread(fd, to, count, offset);
}

int __wrap_fdatasync(int fd)
{
    errno = EIO;
    return unsynced ? -1 : __real_fdatasync(fd);
}

void __wrap_kvr_log(kvr_log_level level, const char *format, ...)
{
    va_list arguments;

    (void)level;
    va_start(arguments, format);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    vsnprintf(said, sizeof(said), format, arguments);
#pragma GCC diagnostic pop
    va_end(arguments);
}

struct open_journal {
    const char *folder;
    struct journal *journal;
    char read[256]; /* "time:report " for each report */
};

static void open_it(struct open_journal *c, const char *folder)
{
    c->folder = folder;
    assert_int_equal(journal_open(folder, &c->journal, NULL), KVR_OK);
}

static kvr_status keep(void *self, int64_t arrived_ns, const struct journal_report *report,
                       struct kvr_error *error)
{
    struct open_journal *c = self;
    size_t used = strlen(c->read);

    (void)error;
    snprintf(c->read + used, sizeof(c->read) - used, "%d:%.*s ", (int)arrived_ns,
             (int)report->count, (const char *)report->bytes);
    return KVR_OK;
}

/* As a process that comes after a crash. */
static const char *reread(struct open_journal *c, uint64_t after)
{
    c->read[0] = '\0';
    journal_close(c->journal);
    open_it(c, c->folder);
    assert_int_equal(journal_replay(c->journal, after, keep, c, NULL), KVR_OK);
    return c->read;
}

static kvr_status try_append(struct open_journal *c, int64_t arrived_ns, const char *text)
{
    const struct journal_report reports[] = {{(const uint8_t *)text, strlen(text)},
                                             {(const uint8_t *)"+", 1}};

    return journal_append(c->journal, arrived_ns, reports, 2, NULL);
}

static void append(struct open_journal *c, int64_t arrived_ns, const char *text)
{
    assert_int_equal(try_append(c, arrived_ns, text), KVR_OK);
}

static void path_of(const struct open_journal *c, char path[64])
{
    snprintf(path, 64, "%s/kvrail.journal", c->folder);
}

static long size_of(const struct open_journal *c)
{
    struct stat file;
    char path[64];

    path_of(c, path);
    assert_int_equal(stat(path, &file), 0);
    return (long)file.st_size;
}

static void flip(const struct open_journal *c, long at)
{
    char path[64];
    FILE *file;
    int byte;

    path_of(c, path);
    file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    byte = fgetc(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    fputc(byte ^ 1, file);
    fclose(file);
}

static void what_was_written_is_read(void **state)
{
    struct open_journal c = {0};
    uint64_t id;

    open_it(&c, *state);
    id = journal_id(c.journal);
    assert_int_equal(journal_bytes(c.journal), 0);
    append(&c, 5, "one");
    append(&c, 6, "");
    assert_int_equal(journal_number(c.journal), 3);
    assert_true(journal_bytes(c.journal) > 2 * JOURNAL_FRAME_BYTES);
    assert_string_equal(reread(&c, 1), "5:one 5:+ 6: 6:+ ");
    assert_int_equal(journal_number(c.journal), 3);
    assert_true(journal_id(c.journal) == id);
    append(&c, 7, "three"); /* behind them */
    assert_string_equal(reread(&c, 2), "6: 6:+ 7:three 7:+ ");
    journal_close(c.journal);
}

static void frames_of_before_are_not_read_again(void **state)
{
    struct open_journal c = {0};

    open_it(&c, *state);
    append(&c, 1, "one");
    append(&c, 2, "two");
    append(&c, 3, "three");
    journal_clear(c.journal); /* the database has frame 4 */
    assert_int_equal(journal_bytes(c.journal), 0);
    assert_string_equal(reread(&c, 4), "");
    assert_int_equal(journal_number(c.journal), 4);
    append(&c, 4, "4"); /* shorter: a part of "one" and all of the others stand behind it */
    said[0] = '\0';
    assert_string_equal(reread(&c, 4), "4:4 4:+ ");
    assert_true(strstr(said, "damaged") == NULL);
    append(&c, 5, "five");
    assert_string_equal(reread(&c, 4), "4:4 4:+ 5:five 5:+ ");
    journal_clear(c.journal);
    journal_trim(c.journal);
    assert_int_equal(size_of(&c), JOURNAL_HEADER_BYTES);
    append(&c, 6, "six");
    assert_string_equal(reread(&c, 6), "6:six 6:+ ");
    journal_close(c.journal);
}

static void a_torn_tail_is_no_loss(void **state)
{
    struct open_journal c = {0};
    char path[64];
    long whole;

    open_it(&c, *state);
    append(&c, 1, "one");
    whole = size_of(&c);
    append(&c, 2, "two");
    path_of(&c, path);
    for (long size = size_of(&c) - 1; size > whole; size--) {
        assert_int_equal(truncate(path, size), 0);
        said[0] = '\0';
        assert_string_equal(reread(&c, 1), "1:one 1:+ ");
        assert_true(strstr(said, "damaged") == NULL);
    }
    append(&c, 3, "again");
    assert_string_equal(reread(&c, 1), "1:one 1:+ 3:again 3:+ ");
    journal_close(c.journal);
}

static void damage_costs_its_frame_and_is_said(void **state)
{
    struct open_journal c = {0};
    long begin, end;

    open_it(&c, *state);
    append(&c, 1, "one");
    begin = size_of(&c);
    append(&c, 2, "two");
    end = size_of(&c);
    append(&c, 3, "three");
    for (long at = begin; at < end; at++) {
        flip(&c, at);
        said[0] = '\0';
        assert_string_equal(reread(&c, 1), "1:one 1:+ 3:three 3:+ ");
        assert_true(strstr(said, "1 rounds of reports are lost") != NULL);
        flip(&c, at);
    }
    assert_string_equal(reread(&c, 1), "1:one 1:+ 2:two 2:+ 3:three 3:+ ");
    journal_close(c.journal);
}

static void a_damaged_beginning_is_set_aside(void **state)
{
    struct open_journal c = {0};
    uint64_t id;

    open_it(&c, *state);
    id = journal_id(c.journal);
    append(&c, 1, "one");
    flip(&c, 0);
    said[0] = '\0';
    assert_string_equal(reread(&c, 1), "");
    assert_true(strstr(said, "is damaged at its beginning") != NULL);
    assert_true(journal_id(c.journal) != id);
    append(&c, 2, "two");
    assert_string_equal(reread(&c, 1), "2:two 2:+ ");
    journal_close(c.journal);
}

/* The file stays where it is: its reports are read once the disk answers again. */
static void a_disk_that_fails_is_no_damage(void **state)
{
    struct open_journal c = {0};
    struct kvr_error error = {0};

    open_it(&c, *state);
    append(&c, 1, "one");
    journal_close(c.journal);
    unreadable = true;
    assert_int_equal(journal_open(c.folder, &c.journal, &error), KVR_SYSTEM);
    unreadable = false;
    assert_non_null(strstr(error.detail, "cannot read the journal"));
    assert_int_equal(journal_open(c.folder, &c.journal, &error), KVR_OK);
    assert_string_equal(reread(&c, 1), "1:one 1:+ ");
    journal_close(c.journal);
}

static void of_another_database_it_begins_anew(void **state)
{
    struct open_journal c = {0};
    uint64_t id;

    open_it(&c, *state);
    append(&c, 1, "one");
    id = journal_id(c.journal);
    said[0] = '\0';
    assert_int_equal(journal_begin_anew(c.journal, NULL), KVR_OK);
    assert_non_null(strstr(said, "is of another database"));
    assert_true(journal_id(c.journal) != id);
    append(&c, 2, "two");
    assert_string_equal(reread(&c, 1), "2:two 2:+ ");
    journal_close(c.journal);
}

static void a_frame_that_failed_is_none(void **state)
{
    struct open_journal c = {0};

    open_it(&c, *state);
    append(&c, 1, "one");
    full = true;
    assert_int_equal(try_append(&c, 2, "two"), KVR_SYSTEM);
    full = false;
    unsynced = true;
    assert_int_equal(try_append(&c, 3, "three"), KVR_SYSTEM);
    unsynced = false;
    assert_int_equal(journal_number(c.journal), 2);
    append(&c, 4, "four"); /* in their place */
    said[0] = '\0';
    assert_string_equal(reread(&c, 1), "1:one 1:+ 4:four 4:+ ");
    assert_true(strstr(said, "damaged") == NULL);
    journal_close(c.journal);
}

/* The bytes of a report are an agent's: they may look like a frame. */
static void a_report_forges_no_frame(void **state)
{
    struct journal_frame forged = {.number = 9, .arrived_ns = 9, .report_count = 1};
    const struct journal_report inner = {(const uint8_t *)"forged", 6};
    struct open_journal c = {0};
    struct journal_report outer;
    uint8_t body[JOURNAL_FRAME_BYTES + 4 + 6];
    uint32_t length = 6;

    open_it(&c, *state);
    assert_true(journal_frame_header(journal_id(c.journal) + 1, &forged, &inner, body));
    memcpy(body + JOURNAL_FRAME_BYTES, &length, sizeof(length));
    memcpy(body + JOURNAL_FRAME_BYTES + 4, "forged", 6);
    outer = (struct journal_report){body, sizeof(body)};
    assert_int_equal(journal_append(c.journal, 1, &outer, 1, NULL), KVR_OK);
    flip(&c, JOURNAL_HEADER_BYTES + 16); /* so that its inside is looked at */
    assert_string_equal(reread(&c, 1), "");
    journal_close(c.journal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_written_is_read, folder_open, folder_close),
        cmocka_unit_test_setup_teardown(frames_of_before_are_not_read_again, folder_open,
                                        folder_close),
        cmocka_unit_test_setup_teardown(a_torn_tail_is_no_loss, folder_open, folder_close),
        cmocka_unit_test_setup_teardown(damage_costs_its_frame_and_is_said, folder_open,
                                        folder_close),
        cmocka_unit_test_setup_teardown(a_damaged_beginning_is_set_aside, folder_open,
                                        folder_close),
        cmocka_unit_test_setup_teardown(a_disk_that_fails_is_no_damage, folder_open, folder_close),
        cmocka_unit_test_setup_teardown(of_another_database_it_begins_anew, folder_open,
                                        folder_close),
        cmocka_unit_test_setup_teardown(a_frame_that_failed_is_none, folder_open, folder_close),
        cmocka_unit_test_setup_teardown(a_report_forges_no_frame, folder_open, folder_close),
    };

    return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
