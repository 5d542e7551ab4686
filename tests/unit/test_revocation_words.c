/* Goal: a target that checks the revocation word after its copy sees each revocation, through every
 * mapping, also when another transfer has the word by then. An engine reaches no other engine's
 * words. Method: this process as the agent, the engine and the target, each with its own mapping.
 */
#include "tests/support/check.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wire/revocation_words.h"

static struct kvr_revocation_words *ours, *engines;
static const struct kvr_revocation_words *targets;
static int fd;

static int pages_open(void **state)
{
    struct kvr_error error;

    (void)state;
    return kvr_revocation_words_create(&fd, &ours, &error) != KVR_OK ||
           kvr_revocation_words_map(fd, &engines, &error) != KVR_OK ||
           kvr_revocation_words_view(fd, &targets, &error) != KVR_OK;
}

static int pages_close(void **state)
{
    (void)state;
    kvr_revocation_words_close(ours);
    kvr_revocation_words_close(engines);
    kvr_revocation_words_close(targets);
    return close(fd);
}

static void a_word_holds_until_it_is_revoked(void **state)
{
    (void)state;
    assert_false(kvr_revocation_word_holds(&targets->words[3], 42));
    kvr_revocation_word_lend(&ours->words[3], 42);
    assert_true(kvr_revocation_word_holds(&targets->words[3], 42));
    assert_false(kvr_revocation_word_holds(&targets->words[4], 42));
    kvr_revocation_word_revoke(&ours->words[3]);
    assert_false(kvr_revocation_word_holds(&targets->words[3], 42));
}

static void a_word_that_is_used_again_is_of_another_transfer(void **state)
{
    (void)state;
    kvr_revocation_word_lend(&ours->words[0], 1);
    kvr_revocation_word_revoke(&ours->words[0]);
    kvr_revocation_word_lend(&ours->words[0], 2);
    assert_false(kvr_revocation_word_holds(&targets->words[0], 1));
    assert_true(kvr_revocation_word_holds(&targets->words[0], 2));
}

static void an_engine_ends_them_all(void **state)
{
    (void)state;
    kvr_revocation_word_lend(&ours->words[0], 1);
    kvr_revocation_word_lend(&ours->words[KVR_TRANSFERS_MAX - 1], 2);
    kvr_revocation_words_revoke(engines);
    assert_false(kvr_revocation_word_holds(&targets->words[0], 1));
    assert_false(kvr_revocation_word_holds(&targets->words[KVR_TRANSFERS_MAX - 1], 2));
}

/* What one engine may write is no other engine's. */
static void another_engines_words_are_other_memory(void **state)
{
    struct kvr_revocation_words *others;
    struct kvr_error error;
    int other_fd;

    (void)state;
    assert_int_equal(kvr_revocation_words_create(&other_fd, &others, &error), KVR_OK);
    kvr_revocation_word_lend(&ours->words[3], 42);
    memset(others, 0xa5, sizeof(*others));
    assert_true(kvr_revocation_word_holds(&targets->words[3], 42));
    kvr_revocation_words_close(others);
    close(other_fd);
}

/* 64 engines attach, and most use a few words. */
static void only_the_pages_in_use_take_memory(void **state)
{
    struct stat file;

    (void)state;
    assert_int_equal(fstat(fd, &file), 0);
    assert_int_equal(file.st_size, KVR_TRANSFERS_MAX * sizeof(uint64_t));
    assert_int_equal(file.st_blocks, 0);
    kvr_revocation_word_lend(&ours->words[0], 1);
    assert_int_equal(fstat(fd, &file), 0);
    assert_int_equal(file.st_blocks * 512, getpagesize());
}

/* Most kinds of file have no seals. */
static void a_file_that_could_be_cut_short_is_not_mapped(void **state)
{
    char path[] = "unit.revocation_words.XXXXXX";
    struct kvr_revocation_words *mapped = NULL;
    struct kvr_error error;
    int file = mkstemp(path);

    (void)state;
    assert_true(file >= 0 && unlink(path) == 0);
    assert_int_equal(ftruncate(file, sizeof(struct kvr_revocation_words)), 0);
    assert_int_equal(kvr_revocation_words_map(file, &mapped, &error), KVR_MALFORMED);
    assert_null(mapped);
    close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_word_holds_until_it_is_revoked, pages_open, pages_close),
        cmocka_unit_test_setup_teardown(a_word_that_is_used_again_is_of_another_transfer,
                                        pages_open, pages_close),
        cmocka_unit_test_setup_teardown(an_engine_ends_them_all, pages_open, pages_close),
        cmocka_unit_test_setup_teardown(another_engines_words_are_other_memory, pages_open,
                                        pages_close),
        cmocka_unit_test_setup_teardown(only_the_pages_in_use_take_memory, pages_open, pages_close),
        cmocka_unit_test(a_file_that_could_be_cut_short_is_not_mapped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
