/* Goal: a target that checks the revocation word after its copy sees each revocation, through every
 * mapping, also when another transfer has the word by then. Only the page of the named boot is
 * opened. Method: this process as the agent, the engine and the target, each with its own mapping.
 */
#include "tests/support/check.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "wire/revocation_words.h"

#define BOOT 77

static struct kvr_revocation_words *ours, *engines;
static const struct kvr_revocation_words *targets;
static int fd;

static int pages_open(void **state)
{
    struct kvr_error error;

    (void)state;
    return kvr_revocation_words_create(BOOT, &fd, &ours, &error) != KVR_OK ||
           kvr_revocation_words_map(fd, &engines, &error) != KVR_OK ||
           kvr_revocation_words_open((uint32_t)getpid(), (uint32_t)fd, BOOT, &targets, &error) !=
               KVR_OK;
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

/* A peer may name any descriptor of any process. */
static void only_the_page_that_was_meant_is_opened(void **state)
{
    const struct kvr_revocation_words *other = NULL;
    struct kvr_error error;
    int memory = memfd_create("kvrail", MFD_ALLOW_SEALING);
    int same_name = memfd_create("kvrail-revocation", MFD_ALLOW_SEALING);
    uint32_t pid = (uint32_t)getpid();

    (void)state;
    assert_int_equal(kvr_revocation_words_open(pid, (uint32_t)fd, BOOT + 1, &other, &error),
                     KVR_STALE);
    assert_int_equal(kvr_revocation_words_open(pid, 0, BOOT, &other, &error), KVR_NOT_FOUND);
    assert_int_equal(kvr_revocation_words_open(0, 0, BOOT, &other, &error), KVR_NOT_FOUND);
    assert_int_equal(ftruncate(memory, sizeof(struct kvr_revocation_words)), 0);
    assert_int_equal(kvr_revocation_words_open(pid, (uint32_t)memory, BOOT, &other, &error),
                     KVR_NOT_FOUND);
    assert_int_equal(ftruncate(same_name, sizeof(struct kvr_revocation_words)),
                     0); /* without its seal the file may shrink again */
    assert_int_equal(kvr_revocation_words_open(pid, (uint32_t)same_name, BOOT, &other, &error),
                     KVR_MALFORMED);
    assert_null(other);
    close(memory);
    close(same_name);
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
        cmocka_unit_test_setup_teardown(only_the_page_that_was_meant_is_opened, pages_open,
                                        pages_close),
        cmocka_unit_test(a_file_that_could_be_cut_short_is_not_mapped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
