/* Goal: a trace is read as it was written, plain and compressed. A cut file is read up to the cut,
 * and damage is found. A wrong line is named, and the next one is read.
 * Method: records of random members out and in; a file cut at many bytes, and with many of its
 * bytes changed. */
#include "tests/support/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/kvtrace_case.h"
#include "trace/kvtrace_scan.h"

static char folder[] = "/tmp/kvrail-kvtrace-XXXXXX";
static char path[128];
static struct kvtrace_record record;

static int setup(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return rmdir(folder);
}

static const char *path_of(const char *name)
{
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

/* ---- files ----------------------------------------------------------------------------------- */

static const struct kvtrace_header header = {.start = "2026-11-27T10:00:00.000Z", .note = "a test"};

static void write_file(const char *to, int records, bool foot)
{
    struct kvtrace_writer *writer;
    struct kvr_error error = {0};
    struct kvr_rng rng;

    kvr_rng_init(&rng, 7);
    assert_int_equal(kvtrace_create(to, &header, &writer, &error), KVR_OK);
    for (int i = 0; i < records; i++) {
        kvtrace_random(&rng, (kvtrace_kind)(1 + i % (KVTRACE_END - 1)), &record);
        if (record.kind == KVTRACE_DROPPED)
            record.dropped.count = 3;
        assert_int_equal(kvtrace_write(writer, &record, &error), KVR_OK);
    }
    if (!foot)
        assert_int_equal(kvtrace_flush(writer, &error), KVR_OK);
    if (foot)
        assert_int_equal(kvtrace_finish(writer, &error), KVR_OK);
    else
        kvtrace_abandon(writer);
}

/* Reads all, and compares with the records that write_file() made. Returns their number. */
static int read_file(const char *from, struct kvtrace_ending *ret_ending)
{
    struct kvtrace_text wanted = {0}, got = {0};
    struct kvtrace_reader *reader;
    const struct kvtrace_record *one;
    struct kvr_error error = {0};
    struct kvr_rng rng;
    int count = 0;

    kvr_rng_init(&rng, 7);
    assert_int_equal(kvtrace_open(from, &reader, &error), KVR_OK);
    assert_string_equal(kvtrace_header(reader)->start, header.start);
    while (kvtrace_next(reader, &one, &error) == KVR_OK) {
        kvtrace_random(&rng, (kvtrace_kind)(1 + count % (KVTRACE_END - 1)), &record);
        if (record.kind == KVTRACE_DROPPED)
            record.dropped.count = 3;
        wanted.count = got.count = 0;
        assert_null(kvtrace_print(&wanted, &record));
        assert_null(kvtrace_print(&got, one));
        assert_int_equal(got.count, wanted.count);
        assert_memory_equal(got.at, wanted.at, got.count);
        count++;
        assert_int_equal(kvtrace_line(reader), count + 1);
    }
    assert_int_equal(kvtrace_next(reader, &one, &error), KVR_NOT_FOUND);
    kvtrace_ending(reader, ret_ending);
    kvtrace_close(reader);
    free(wanted.at);
    free(got.at);
    return count;
}

static void files_come_back_as_they_were(void **state)
{
    static const char *const names[] = {"plain.kvtrace", "small.kvtrace.zst"};
    struct kvtrace_ending ending;

    (void)state;
    for (int i = 0; i < 2; i++) {
        write_file(path_of(names[i]), 1000, true);
        assert_int_equal(read_file(path, &ending), 1000);
        assert_true(ending.complete);
        assert_string_equal(ending.problem, "");
        assert_int_equal(ending.lines, 1002);
        assert_int_equal(ending.transfers, 125);
        assert_int_equal(ending.dropped, 3 * 125);
        unlink(path);
    }
}

/* As after a crash of the recorder that had flushed. */
static void files_without_a_footer_are_read(void **state)
{
    static const char *const names[] = {"cut.kvtrace", "cut.kvtrace.zst"};
    struct kvtrace_ending ending;

    (void)state;
    for (int i = 0; i < 2; i++) {
        write_file(path_of(names[i]), 100, false);
        strcat(path, ".part");
        assert_int_equal(read_file(path, &ending), 100);
        assert_false(ending.complete);
        assert_non_null(strstr(ending.problem, "cut"));
        unlink(path);
    }
}

static size_t load(const char *from, char **ret_bytes)
{
    FILE *file = fopen(from, "re");
    size_t count;

    assert_non_null(file);
    *ret_bytes = malloc(1 << 20);
    assert_non_null(*ret_bytes);
    count = fread(*ret_bytes, 1, 1 << 20, file);
    fclose(file);
    return count;
}

static void store(const char *to, const char *bytes, size_t count)
{
    FILE *file = fopen(to, "we");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

/* Returns whether the header could be read. */
static bool read_any(const char *from, struct kvtrace_ending *ret_ending, int *ret_records)
{
    struct kvtrace_reader *reader;
    const struct kvtrace_record *one;
    struct kvr_error error = {0};
    kvr_status status = kvtrace_open(from, &reader, &error);

    *ret_records = 0;
    if (status != KVR_OK) {
        assert_true(status == KVR_MALFORMED || status == KVR_VERSION);
        assert_string_not_equal(error.detail, "");
        return false;
    }
    while ((status = kvtrace_next(reader, &one, &error)) != KVR_NOT_FOUND) {
        assert_true(status == KVR_OK || status == KVR_MALFORMED);
        *ret_records += status == KVR_OK;
    }
    kvtrace_ending(reader, ret_ending);
    kvtrace_close(reader);
    return true;
}

/* So that a long file is cut and changed at some 300 places. */
static size_t stride(size_t count)
{
    return 1 + count / check_cases(300, 100000);
}

static int lines_before(const char *bytes, size_t count)
{
    int lines = 0;

    for (size_t i = 0; i < count; i++)
        lines += bytes[i] == '\n';
    return lines;
}

static void each_cut_is_said(void **state)
{
    static const char *const names[] = {"each.kvtrace", "each.kvtrace.zst"};
    struct kvtrace_ending ending;
    int records;

    (void)state;
    for (int i = 0; i < 2; i++) {
        char *bytes;
        size_t count;

        write_file(path_of(names[i]), 8, true);
        count = load(path, &bytes);
        for (size_t cut = 0; cut < count; cut += stride(count)) {
            store(path, bytes, cut);
            if (!read_any(path, &ending, &records))
                continue;
            assert_false(ending.complete);
            assert_string_not_equal(ending.problem, "");
            if (i == 0)
                assert_int_equal(records, lines_before(bytes, cut) - 1);
        }
        free(bytes);
        unlink(path);
    }
}

static void each_changed_byte_is_found(void **state)
{
    static const char *const names[] = {"changed.kvtrace", "changed.kvtrace.zst"};
    struct kvtrace_ending ending;
    int records;

    (void)state;
    for (int i = 0; i < 2; i++) {
        char *bytes;
        size_t count;

        write_file(path_of(names[i]), 8, true);
        count = load(path, &bytes);
        for (size_t at = 0; at + 1 < count; at += stride(count)) {
            bytes[at] ^= 0x11;
            store(path, bytes, count);
            bytes[at] ^= 0x11;
            /* A flag of Zstandard's frame may change without a change of the content. */
            if (read_any(path, &ending, &records) && i == 0)
                assert_false(ending.complete);
        }
        free(bytes);
        unlink(path);
    }
}

static void a_wrong_line_is_named_and_the_next_is_read(void **state)
{
    static const char text[] = "{\"kvtrace\":{\"version\":1}}\n"
                               "{\"fault\":{\"at_us\":1}}\n"
                               "{\"fault\":{\"at_us\":x}}\n"
                               "{\"news\":{}}\n"
                               "{\"fault\":{\"at_us\":2}}\n";
    struct kvtrace_reader *reader;
    const struct kvtrace_record *one;
    struct kvtrace_ending ending;
    struct kvr_error error = {0};

    (void)state;
    store(path_of("wrong.kvtrace"), text, sizeof(text) - 1);
    assert_int_equal(kvtrace_open(path, &reader, &error), KVR_OK);
    assert_int_equal(kvtrace_next(reader, &one, &error), KVR_OK);
    assert_int_equal(kvtrace_next(reader, &one, &error), KVR_MALFORMED);
    assert_non_null(strstr(error.detail, "wrong.kvtrace, line 3, byte 19, at or behind the key "
                                         "\"at_us\": a whole number is expected"));
    assert_int_equal(kvtrace_next(reader, &one, &error), KVR_OK);
    assert_int_equal(one->fault.at_us, 2);
    assert_int_equal(kvtrace_line(reader), 5);
    assert_int_equal(kvtrace_next(reader, &one, &error), KVR_NOT_FOUND);
    kvtrace_ending(reader, &ending);
    assert_int_equal(ending.malformed, 1);
    assert_int_equal(ending.unknown, 1);
    kvtrace_close(reader);
    unlink(path);
}

/* Also where a tool reads the file that it writes. */
static void a_file_stays_until_the_new_one_is_whole(void **state)
{
    struct kvtrace_ending ending;
    struct kvtrace_writer *writer;
    struct kvr_error error = {0};

    (void)state;
    write_file(path_of("same.kvtrace"), 300, true);
    assert_int_equal(kvtrace_create(path, &header, &writer, &error), KVR_OK);
    assert_int_equal(read_file(path, &ending), 300);
    assert_true(ending.complete);
    assert_int_equal(kvtrace_finish(writer, &error), KVR_OK);
    assert_int_equal(read_file(path, &ending), 0);
    assert_true(ending.complete);
    unlink(path);
}

static void what_is_no_trace_is_refused(void **state)
{
    struct kvtrace_reader *reader;
    struct kvr_error error = {0};

    (void)state;
    assert_int_equal(kvtrace_open(path_of("none"), &reader, &error), KVR_SYSTEM);
    store(path_of("other"), "TIMESTAMP,ContextTokens\n1,2\n", 28);
    assert_int_equal(kvtrace_open(path, &reader, &error), KVR_MALFORMED);
    store(path, "{\"kvtrace\":{\"version\":2}}\n", 26);
    assert_int_equal(kvtrace_open(path, &reader, &error), KVR_VERSION);
    store(path, "{\"fault\":{}}\n", 13);
    assert_int_equal(kvtrace_open(path, &reader, &error), KVR_MALFORMED);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_come_back_as_they_were),
        cmocka_unit_test(files_without_a_footer_are_read),
        cmocka_unit_test(each_cut_is_said),
        cmocka_unit_test(each_changed_byte_is_found),
        cmocka_unit_test(a_wrong_line_is_named_and_the_next_is_read),
        cmocka_unit_test(a_file_stays_until_the_new_one_is_whole),
        cmocka_unit_test(what_is_no_trace_is_refused),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
