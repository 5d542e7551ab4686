/* Any text: it is refused, or it is a geometry that is written and read as the same one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/geometry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct kvr_geometry geometry, again;
    char *text = malloc(size + 1), written[KVR_GEOMETRY_BYTES];

    check(text != NULL, "no memory");
    memcpy(text, data, size);
    text[size] = '\0';
    if (kvr_geometry_read(text, &geometry)) {
        check(geometry.group_count <= KVR_GROUPS_MAX, "too many groups");
        kvr_geometry_write(&geometry, written);
        check(kvr_geometry_read(written, &again), "what was written must be read");
        check(again.layers == geometry.layers && again.group_count <= geometry.group_count &&
                  memcmp(again.groups, geometry.groups,
                         again.group_count * sizeof(again.groups[0])) == 0,
              "as what it was");
    }
    free(text);
    return 0;
}
