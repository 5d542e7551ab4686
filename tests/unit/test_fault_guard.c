/* Goal: a process that takes memory away which it shared ends no other, and any other bad touch
 * ends the process as before. Method: memfds that are truncated under a mapping; children for the
 * touches that kill. */
#include "tests/support/check.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault_guard.h"
#include "base/memfd.h"

#define PAGES 8

static long page_bytes;

static volatile uint8_t *map_of(int *ret_fd)
{
    uint64_t bytes = (uint64_t)(PAGES * page_bytes);
    void *base;

    *ret_fd = memfd_create("taken-away", MFD_CLOEXEC);
    assert_true(*ret_fd >= 0);
    assert_int_equal(ftruncate(*ret_fd, (off_t)bytes), 0);
    base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *ret_fd, 0);
    assert_true(base != MAP_FAILED);
    memset(base, 'k', bytes);
    return base;
}

static void a_page_that_is_gone_reads_as_zeros(void **state)
{
    uint64_t before = kvr_fault_guard_faults();
    volatile uint8_t *base;
    int fd;

    (void)state;
    kvr_fault_guard_install(); /* cmocka sets a handler of its own before each case */
    base = map_of(&fd);
    kvr_fault_guard_add((const void *)base, (uint64_t)(PAGES * page_bytes));
    assert_null(kvr_fault_guard_broken());
    assert_int_equal(ftruncate(fd, 2 * page_bytes), 0);
    assert_int_equal(base[0], 'k');
    assert_int_equal(base[5 * page_bytes + 17], 0);
    base[6 * page_bytes] = 'w';
    assert_int_equal(base[6 * page_bytes], 'w');
    assert_int_equal(base[2 * page_bytes - 1], 'k'); /* what is there stays */
    assert_int_equal(kvr_fault_guard_faults() - before, 2);
    assert_ptr_equal(kvr_fault_guard_broken(), (const void *)base);
    assert_null(kvr_fault_guard_broken());
    kvr_fault_guard_remove((const void *)base);
    munmap((void *)base, (size_t)(PAGES * page_bytes));
    close(fd);
}

/* The signal that ended a child which touches a page that is gone; 0: none did. */
static int ends_with(bool guarded, bool sent)
{
    volatile uint8_t *base;
    int fd, status;
    pid_t child = fork();

    if (child == 0) {
        base = map_of(&fd);
        if (guarded)
            kvr_fault_guard_add((const void *)base, (uint64_t)page_bytes);
        if (ftruncate(fd, 0) != 0)
            _exit(1);
        if (sent)
            raise(SIGBUS);
        (void)base[page_bytes]; /* behind the guarded part */
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void other_touches_end_the_process(void **state)
{
    (void)state;
    kvr_fault_guard_install();
    assert_int_equal(ends_with(false, false), SIGBUS);
    assert_int_equal(ends_with(true, false), SIGBUS);
    assert_int_equal(ends_with(true, true), SIGBUS);
}

/* Ranges come and go; what is mapped for another process is guarded while it is mapped. */
static void what_is_mapped_is_guarded(void **state)
{
    struct kvr_error error;
    void *base;
    int fd;

    (void)state;
    assert_int_equal(kvr_memfd_create("m", (uint64_t)page_bytes, "test", &fd, &error), KVR_OK);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(kvr_memfd_map(fd, 0, (uint64_t)page_bytes, true, &base, &error), KVR_OK);
        kvr_memfd_unmap(base, (uint64_t)page_bytes);
    }
    close(fd);
    assert_null(kvr_fault_guard_broken());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_that_is_gone_reads_as_zeros),
        cmocka_unit_test(other_touches_end_the_process),
        cmocka_unit_test(what_is_mapped_is_guarded),
    };

    page_bytes = sysconf(_SC_PAGESIZE);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
