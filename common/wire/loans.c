#include "wire/loans.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memfd.h"

#define WHERE "loans"
#define NAME  "kvrail-loans"

static kvr_status map(int fd, int protection, struct kvr_loans **ret_loans, struct kvr_error *error)
{
    void *memory;

    if (!kvr_memfd_holds(fd, sizeof(struct kvr_loans)))
        return kvr_error_set(error, KVR_MALFORMED, WHERE,
                             "the agent's page of loans is short or not sealed");
    memory = mmap(NULL, sizeof(struct kvr_loans), protection, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return kvr_error_system(error, WHERE, errno, "cannot map the agent's page of loans");
    *ret_loans = memory;
    return KVR_OK;
}

kvr_status kvr_loans_create(uint64_t boot, int *ret_fd, struct kvr_loans **ret_loans,
                            struct kvr_error *error)
{
    int fd = -1;
    kvr_status status = kvr_memfd_create(NAME, sizeof(struct kvr_loans), WHERE, &fd, error);

    if (status != KVR_OK)
        return status;
    status = map(fd, PROT_READ | PROT_WRITE, ret_loans, error);
    if (status != KVR_OK) {
        close(fd);
        return status;
    }
    (*ret_loans)->boot = boot;
    *ret_fd = fd;
    return KVR_OK;
}

kvr_status kvr_loans_map(int fd, struct kvr_loans **ret_loans, struct kvr_error *error)
{
    return map(fd, PROT_READ | PROT_WRITE, ret_loans, error);
}

/* A peer may name whatever it likes: nothing but a memfd of this name is opened at all. */
static bool is_ours(const char *path)
{
    static const char prefix[] = "/memfd:" NAME;
    char target[64];
    ssize_t bytes = readlink(path, target, sizeof(target));

    return bytes >= (ssize_t)sizeof(prefix) - 1 && memcmp(target, prefix, sizeof(prefix) - 1) == 0;
}

kvr_status kvr_loans_open(uint32_t pid, uint32_t fd, uint64_t boot,
                          const struct kvr_loans **ret_loans, struct kvr_error *error)
{
    struct kvr_loans *loans = NULL;
    kvr_status status;
    char path[48];
    int opened;

    snprintf(path, sizeof(path), "/proc/%u/fd/%u", pid, fd);
    opened = is_ours(path) ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (opened < 0)
        return kvr_error_set(error, KVR_NOT_FOUND, WHERE,
                             "%s is no page of loans that this process may open: agents that share "
                             "memory need one user and one pid namespace",
                             path);
    status = map(opened, PROT_READ, &loans, error);
    close(opened);
    if (status == KVR_OK && loans->boot != boot) {
        kvr_loans_close(loans);
        return kvr_error_set(error, KVR_STALE, WHERE, "%s is not of the boot that named it", path);
    }
    if (status == KVR_OK)
        *ret_loans = loans;
    return status;
}

void kvr_loans_close(const struct kvr_loans *loans)
{
    if (loans != NULL)
        munmap((void *)loans, sizeof(*loans));
}

void kvr_loans_end_all(struct kvr_loans *loans)
{
    for (uint32_t i = 0; i < KVR_TRANSFERS_MAX; i++)
        kvr_loan_end(&loans->words[i]);
}
