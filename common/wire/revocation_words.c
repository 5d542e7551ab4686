#include "wire/revocation_words.h"

#include <errno.h>
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

kvr_status kvr_revocation_words_create(int *ret_fd, struct kvr_revocation_words **ret_words,
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
