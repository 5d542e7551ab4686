/* Goal: an answer that is kept can be shared by connections that outlive it, has an ETag of its
 * bytes, and its gzip is the same bytes.
 * Method: the answer alone; gunzip reads it. */
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "http/ready.h"

static struct ready *of(const char *begin, size_t times)
{
    size_t length = strlen(begin);
    char *text = malloc(length * times + 1);

    for (size_t i = 0; i < times; i++)
        memcpy(text + i * length, begin, length);
    return ready_make(text, length * times, "application/json");
}

/* What gunzip makes of it. */
static size_t unzip(const struct ready *ready, char *text, size_t room)
{
    char name[] = "/tmp/ready.XXXXXX", command[64];
    int file = mkstemp(name);
    size_t size;
    FILE *out;

    assert_true(file >= 0);
    assert_int_equal(write(file, ready->zipped, ready->zipped_size), ready->zipped_size);
    close(file);
    snprintf(command, sizeof(command), "gunzip -c <%s", name);
    out = popen(command, "re");
    assert_non_null(out);
    size = fread(text, 1, room, out);
    assert_int_equal(pclose(out), 0);
    unlink(name);
    return size;
}

static void the_zipped_bytes_are_the_same(void **state)
{
    struct ready *ready = of("{\"agents\":[]}", 1000);
    char *text = malloc(ready->size + 1);

    (void)state;
    assert_non_null(ready->zipped);
    assert_true(ready->zipped_size < ready->size / 20);
    assert_int_equal(unzip(ready, text, ready->size + 1), ready->size);
    assert_memory_equal(text, ready->text, ready->size);
    free(text);
    ready_drop(ready);
}

static void what_gains_nothing_is_not_zipped(void **state)
{
    struct ready *ready = of("{}", 1);
    char *noise = malloc(5000);

    (void)state;
    assert_null(ready->zipped);
    ready_drop(ready);
    srand(1);
    for (int i = 0; i < 5000; i++)
        noise[i] = (char)rand();
    ready = ready_make(noise, 5000, "text/plain");
    assert_null(ready->zipped);
    ready_drop(ready);
}

static void a_tag_follows_the_bytes(void **state)
{
    struct ready *one = of("a", 5), *same = of("a", 5), *other = of("a", 6);

    (void)state;
    assert_string_equal(one->etag, same->etag);
    assert_string_not_equal(one->etag, other->etag);
    assert_null(ready_make(NULL, 0, "text/plain"));
    ready_drop(one);
    ready_drop(same);
    ready_drop(other);
}

static void the_last_one_frees_it(void **state)
{
    struct ready *ready = of("abc", 3), *shared = ready_share(ready);

    (void)state;
    ready_drop(ready);
    assert_memory_equal(shared->text, "abcabcabc", 9);
    assert_null(ready_drop(shared));
    assert_null(ready_drop(NULL));
    assert_null(ready_share(NULL));
}

static void gzip_is_for_those_that_ask(void **state)
{
    (void)state;
    assert_false(ready_takes_gzip(NULL));
    assert_false(ready_takes_gzip(""));
    assert_false(ready_takes_gzip("deflate, br"));
    assert_false(ready_takes_gzip("gzip;q=0"));
    assert_false(ready_takes_gzip("gzipped"));
    assert_true(ready_takes_gzip("gzip"));
    assert_true(ready_takes_gzip("br, gzip;q=0.5, *"));
    assert_true(ready_takes_gzip("deflate,GZIP"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_zipped_bytes_are_the_same),
        cmocka_unit_test(what_gains_nothing_is_not_zipped),
        cmocka_unit_test(a_tag_follows_the_bytes),
        cmocka_unit_test(the_last_one_frees_it),
        cmocka_unit_test(gzip_is_for_those_that_ask),
    };

    return cmocka_run_group_tests_name("ready", tests, NULL, NULL);
}
