#include "wire/revocation_words.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memfd.h"

#define WHERE "revocation words"
#define NAME  "kvrail-revocation"

static kvr_status map(int fd, int protection, struct kvr_revocation_words **ret_words,
                      struct kvr_error *error)
{
    void *memory;

    if (!kvr_memfd_holds(fd, sizeof(struct kvr_revocation_words)))
        return kvr_error_set(error, KVR_MALFORMED, WHERE,
                             "the agent's memory of revocation words is short or not sealed");
    memory = mmap(NULL, sizeof(struct kvr_revocation_words), protection, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return kvr_error_system(error, WHERE, errno, "cannot map the agent's revocation words");
    *ret_words = memory;
    return KVR_OK;
}

kvr_status kvr_revocation_words_create(uint64_t boot, int *ret_fd,
                                       struct kvr_revocation_words **ret_words,
                                       struct kvr_error *error)
{
    int fd = -1;
    kvr_status status;

    KVR_TRY(kvr_memfd_create(NAME, sizeof(struct kvr_revocation_words), WHERE, &fd, error));
    status = map(fd, PROT_READ | PROT_WRITE, ret_words, error);
    if (status != KVR_OK) {
        close(fd);
        return status;
    }
    (*ret_words)->boot = boot;
    *ret_fd = fd;
    return KVR_OK;
}

kvr_status kvr_revocation_words_map(int fd, struct kvr_revocation_words **ret_words,
                                    struct kvr_error *error)
{
    return map(fd, PROT_READ | PROT_WRITE, ret_words, error);
}

kvr_status kvr_revocation_words_view(int fd, const struct kvr_revocation_words **ret_words,
                                     struct kvr_error *error)
{
    struct kvr_revocation_words *words = NULL;

    KVR_TRY(map(fd, PROT_READ, &words, error));
    *ret_words = words;
    return KVR_OK;
}

/* A peer may name whatever it likes: nothing but a memfd of this name is opened at all. */
static bool is_ours(const char *path)
{
    static const char prefix[] = "/memfd:" NAME;
    char target[64];
    ssize_t bytes = readlink(path, target, sizeof(target));

    return bytes >= (ssize_t)sizeof(prefix) - 1 && memcmp(target, prefix, sizeof(prefix) - 1) == 0;
}

kvr_status kvr_revocation_words_open(uint32_t pid, uint32_t fd, uint64_t boot,
                                     const struct kvr_revocation_words **ret_words,
                                     struct kvr_error *error)
{
    const struct kvr_revocation_words *words = NULL;
    kvr_status status;
    char path[48];
    int opened;

    snprintf(path, sizeof(path), "/proc/%u/fd/%u", pid, fd);
    opened = is_ours(path) ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (opened < 0)
        return kvr_error_set(
            error, KVR_NOT_FOUND, WHERE,
            "it offered no revocation words, and %s is none that this process may open: agents "
            "that share memory need one user and one network namespace; one of them may be older",
            path);
    status = kvr_revocation_words_view(opened, &words, error);
    close(opened);
    if (status == KVR_OK && words->boot != boot) {
        kvr_revocation_words_close(words);
        return kvr_error_set(error, KVR_STALE, WHERE, "%s is not of the boot that named it", path);
    }
    if (status == KVR_OK)
        *ret_words = words;
    return status;
}

void kvr_revocation_words_close(const struct kvr_revocation_words *words)
{
    if (words != NULL)
        munmap((void *)words, sizeof(*words));
}

void kvr_revocation_words_revoke(struct kvr_revocation_words *words)
{
    for (uint32_t i = 0; i < KVR_TRANSFERS_MAX; i++)
        kvr_revocation_word_revoke(&words->words[i]);
}
