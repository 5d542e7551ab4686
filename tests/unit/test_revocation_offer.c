/* Goal: a decode-agent hears the offers that were made before it looks, in their order, and nothing
 * else: what another process of the user sends there is left out and leaves no descriptor behind.
 * Method: this process as both agents, and packets that no prefill-agent sends. */
#include "tests/support/check.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memfd.h"
#include "base/rng.h"
#include "tests/support/descriptors.h"
#include "wire/abstract_socket.h"
#include "wire/packet_socket.h"
#include "wire/revocation_offer.h"

static uint64_t target_boot; /* unlike that of another run at the same time */
static int socket_fd;

static int listens(void **state)
{
    struct kvr_error error;

    (void)state;
    target_boot = 0x4b56520000000000u + (uint64_t)getpid();
    return kvr_revocation_listen(target_boot, &socket_fd, &error) != KVR_OK;
}

static int closes(void **state)
{
    (void)state;
    return close(socket_fd);
}

/* A prefill-agent of that boot offers an engine's words; the first is lent to `nonce`. */
static struct kvr_revocation_words *offers(uint64_t boot, uint64_t nonce)
{
    const struct kvr_revocation_name name = {boot, nonce + 1};
    struct kvr_revocation_words *words;
    struct kvr_error error;
    int fd;

    assert_int_equal(kvr_revocation_words_create(&fd, &words, &error), KVR_OK);
    kvr_revocation_word_lend(&words->words[0], nonce);
    assert_true(kvr_revocation_offer(target_boot, &name, fd));
    close(fd);
    return words;
}

static void offers_are_heard_in_their_order(void **state)
{
    struct kvr_revocation_words *of[] = {offers(1, 10), offers(2, 20), offers(1, 30)};
    const struct kvr_revocation_words *heard;
    struct kvr_revocation_name name;

    (void)state;
    for (int i = 0; i < 3; i++) {
        memset(of[i]->words + 1, 0x11, 64); /* whatever the memory holds, the packet names it */
        assert_int_equal(kvr_revocation_hear(socket_fd, &name, &heard), KVR_OK);
        assert_int_equal(name.boot, i == 1 ? 2 : 1);
        assert_int_equal(name.number, (i + 1) * 10 + 1);
        assert_true(kvr_revocation_word_holds(&heard->words[0], (uint64_t)(i + 1) * 10));
        kvr_revocation_word_revoke(&of[i]->words[0]); /* the same memory */
        assert_false(kvr_revocation_word_holds(&heard->words[0], (uint64_t)(i + 1) * 10));
        kvr_revocation_words_close(heard);
        kvr_revocation_words_close(of[i]);
    }
    assert_int_equal(kvr_revocation_hear(socket_fd, &name, &heard), KVR_AGAIN);
}

static void nobody_listens_elsewhere(void **state)
{
    const struct kvr_revocation_name name = {1, 1};

    (void)state;
    assert_false(kvr_revocation_offer(target_boot + 1, &name, socket_fd));
}

static int dial(void)
{
    char name[64];
    int fd;

    snprintf(name, sizeof(name), "kvrail-words-%016" PRIx64, target_boot);
    fd = kvr_abstract_connect(name);
    assert_true(fd >= 0);
    return fd;
}

/* One descriptor of some kind: of a file, not sealed, too short, or this socket. */
static int some_descriptor(struct kvr_rng *rng)
{
    int fd = -1;

    switch (kvr_rng_below(rng, 4)) {
    case 0:
        return open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    case 1:
        fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        assert_int_equal(ftruncate(fd, sizeof(struct kvr_revocation_words)), 0);
        return fd;
    case 2:
        assert_int_equal(kvr_memfd_create("short", 4096, "test", &fd, NULL), KVR_OK);
        return fd;
    default:
        return dup(socket_fd);
    }
}

/* A packet of another length, or without a number, names no engine. */
static void words_of_nobody_are_left_out(void **state)
{
    const struct kvr_revocation_words *heard;
    struct kvr_revocation_words *words;
    struct kvr_revocation_name name = {7, 7};
    struct kvr_error error;
    int fd;

    (void)state;
    assert_int_equal(kvr_revocation_words_create(&fd, &words, &error), KVR_OK);
    for (size_t bytes = 0; bytes <= sizeof(name); bytes++) {
        struct kvr_packet_fds fds = {.count = 1, .fds = {fd}};
        int connection = dial();

        name.number = bytes == sizeof(name) ? 0 : 7;
        assert_int_equal(kvr_packet_send(connection, (const uint8_t *)&name, bytes, &fds), KVR_OK);
        close(connection);
        assert_int_equal(kvr_revocation_hear(socket_fd, &name, &heard), KVR_AGAIN);
    }
    kvr_revocation_words_close(words);
    close(fd);
}

static void garbage_is_left_out(void **state)
{
    const struct kvr_revocation_words *heard;
    struct kvr_revocation_name name;
    uint8_t packet[256] = {0};
    struct kvr_rng rng;
    uint32_t before;

    (void)state;
    kvr_rng_init(&rng, 1);
    before = descriptors();
    for (int round = 0; round < 200; round++) {
        struct kvr_revocation_words *good = NULL;

        for (uint64_t i = kvr_rng_below(&rng, 8); i > 0; i--) {
            struct kvr_packet_fds fds = {0};
            int fd = dial();

            for (uint64_t left = kvr_rng_below(&rng, 4); left > 0; left--)
                fds.fds[fds.count++] = some_descriptor(&rng);
            if (fds.count > 0 || kvr_rng_percent(&rng, 80)) /* else it only comes and goes */
                assert_int_equal(
                    kvr_packet_send(fd, packet, kvr_rng_below(&rng, sizeof(packet)), &fds), KVR_OK);
            kvr_packet_fds_close(&fds);
            close(fd);
        }
        good = offers(7, 70);
        assert_int_equal(kvr_revocation_hear(socket_fd, &name, &heard), KVR_OK);
        assert_int_equal(name.boot, 7);
        kvr_revocation_words_close(heard);
        kvr_revocation_words_close(good);
        assert_int_equal(kvr_revocation_hear(socket_fd, &name, &heard), KVR_AGAIN);
    }
    assert_int_equal(descriptors(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(offers_are_heard_in_their_order, listens, closes),
        cmocka_unit_test_setup_teardown(nobody_listens_elsewhere, listens, closes),
        cmocka_unit_test_setup_teardown(words_of_nobody_are_left_out, listens, closes),
        cmocka_unit_test_setup_teardown(garbage_is_left_out, listens, closes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
