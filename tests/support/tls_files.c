/* Certificates for tests of programs. A CA's key lies beside it, so that later calls add to it.
 *
 *   tls_files FOLDER ca NAME
 *   tls_files FOLDER certificate CA NAME URI|- [SECONDS]   ends in so many seconds; prints its
 * serial tls_files FOLDER crl CA NAME SERIAL… */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/certificates.h"

int main(int argc, char **argv)
{
    struct authority authority;
    unsigned serials[16], count = 0;

    if (argc == 4 && strcmp(argv[2], "ca") == 0) {
        authority_make(&authority, argv[1], argv[3]);
    } else if (argc >= 6 && strcmp(argv[2], "certificate") == 0) {
        struct certificate_shape shape = {.uri = strcmp(argv[5], "-") != 0 ? argv[5] : NULL,
                                          .ends = argc > 6 ? atol(argv[6]) : 0,
                                          .loopback = true};

        authority_open(&authority, argv[1], argv[3]);
        printf("%u\n", certificate_make(&authority, argv[4], &shape));
    } else if (argc >= 5 && strcmp(argv[2], "crl") == 0) {
        authority_open(&authority, argv[1], argv[3]);
        for (int i = 5; i < argc && count < 16; i++)
            serials[count++] = (unsigned)atol(argv[i]);
        crl_make(&authority, argv[4], serials, count);
    } else {
        fprintf(stderr, "usage: see the head of tls_files.c\n");
        return 2;
    }
    authority_done(&authority);
    return 0;
}
