/* A hostile source engine: it writes all over the revocation words that its agent gave it.
 *
 *   word_writer SOCKET
 *
 * On the public library, which maps the words at attach; they are found in /proc/self/maps. Prints
 * "written" and stays attached until standard input ends. Exit 1: there are no words. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/small_engine.h"

/* Every memory of words that this process can write; how many there are. */
static unsigned write_all_over(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    uintptr_t first, end;
    unsigned written = 0;
    char line[512];

    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
        if (strstr(line, "memfd:kvrail-revocation") == NULL ||
            sscanf(line, "%" SCNxPTR "-%" SCNxPTR " rw", &first, &end) != 2)
            continue;
        memset((void *)first, 0xa5, end - first); /* NOLINT(performance-no-int-to-ptr) */
        written++;
    }
    if (maps != NULL)
        fclose(maps);
    return written;
}

int main(int argc, char **argv)
{
    struct engine_shape shape = {.model = "pair",
                                 .generation = engine_start_time(),
                                 .layers = 3,
                                 .page_tokens = 16,
                                 .pages = 16};
    struct engine engine = {0};

    if (argc != 2) {
        printf("usage: word_writer SOCKET\n");
        return 2;
    }
    if (engine_attach(&engine, argv[1], 9, &shape) != 0)
        return 1;
    if (write_all_over() == 0) {
        printf("the agent gave no revocation words\n");
        return 1;
    }
    printf("written\n");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    kvrail_close(engine.agent);
    return 0;
}
