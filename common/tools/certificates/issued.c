#include "tools/certificates/issued.h"

#include <stdio.h>
#include <string.h>

#include "base/hex.h"
#include "tools/certificates/certificate_name.h"

#define FILE_NAME  "issued.txt"
#define LINE_BYTES (2 * ISSUED_SERIAL_BYTES + 24 + KVR_NAME_BYTES)

static kvr_status read_file(const struct certificate_folder *folder, gnutls_datum_t *ret_text,
                            struct kvr_error *error)
{
    if (certificate_folder_has(folder, FILE_NAME))
        return certificate_folder_read(folder, FILE_NAME, ret_text, error);
    *ret_text = (gnutls_datum_t){0};
    return KVR_OK;
}

static kvr_status write_with(const struct certificate_folder *folder, const gnutls_datum_t *before,
                             const char *line, struct kvr_error *error)
{
    size_t bytes = strlen(line);
    gnutls_datum_t text = {.size = before->size + (unsigned)bytes};
    kvr_status status;

    text.data = gnutls_malloc(text.size + 1);
    if (text.data == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "certificates", "no memory for " FILE_NAME);
    if (before->size > 0)
        memcpy(text.data, before->data, before->size);
    memcpy(text.data + before->size, line, bytes);
    status = certificate_folder_write(folder, FILE_NAME, &text, CERTIFICATE_MODE_PUBLIC, error);
    gnutls_free(text.data);
    return status;
}

kvr_status issued_add(const struct certificate_folder *folder, const struct issued *issued,
                      struct kvr_error *error)
{
    char line[LINE_BYTES];
    gnutls_datum_t before;
    kvr_status status;
    char serial[2 * ISSUED_SERIAL_BYTES + 1];

    kvr_hex_print(issued->serial, issued->serial_bytes, serial);
    snprintf(line, sizeof(line), "%s %lld %s\n", serial, (long long)issued->end, issued->name);
    KVR_TRY(read_file(folder, &before, error));
    status = write_with(folder, &before, line, error);
    gnutls_free(before.data);
    return status;
}

kvr_status issued_clear(const struct certificate_folder *folder, struct kvr_error *error)
{
    const gnutls_datum_t nothing = {0};

    return write_with(folder, &nothing, "", error);
}

/* Pairs of hexadecimal digits. */
static bool take_serial(const char *text, struct issued *issued)
{
    size_t digits = strlen(text);

    issued->serial_bytes = digits / 2;
    return digits > 0 && issued->serial_bytes <= sizeof(issued->serial) &&
           kvr_hex_parse(text, issued->serial_bytes, issued->serial);
}

static bool take_line(const char *line, struct issued *issued)
{
    char serial[2 * ISSUED_SERIAL_BYTES + 2], name[KVR_NAME_BYTES + 1], more;
    long long end;

    _Static_assert(sizeof(serial) == 42 && sizeof(name) == 65, "the widths below");
    *issued = (struct issued){0};
    if (sscanf(line, "%41s %lld %64s %c", serial, &end, name, &more) != 3 || end < 0 ||
        certificate_subject_check(name, NULL) != KVR_OK)
        return false;
    issued->end = (time_t)end;
    memcpy(issued->name, name, strlen(name) + 1);
    return take_serial(serial, issued);
}

kvr_status issued_read(const struct certificate_folder *folder, issued_each *each, void *self,
                       struct kvr_error *error)
{
    kvr_status status = KVR_OK;
    char *rest = NULL, *line;
    gnutls_datum_t text;
    struct issued issued;

    KVR_TRY(read_file(folder, &text, error));
    if (text.data != NULL) {
        for (line = strtok_r((char *)text.data, "\n", &rest); line != NULL && status == KVR_OK;
             line = strtok_r(NULL, "\n", &rest)) {
            if (take_line(line, &issued))
                status = each(self, &issued, error);
            else
                status = kvr_error_set(error, KVR_MALFORMED, "certificates",
                                       "%s/" FILE_NAME " has a line that is not SERIAL END NAME: "
                                       "'%.64s'",
                                       folder->path, line);
        }
    }
    gnutls_free(text.data);
    return status;
}
