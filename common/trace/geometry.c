#include "trace/geometry.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CUT " ..."

void kvr_geometry_write(const struct kvr_geometry *geometry, char text[KVR_GEOMETRY_BYTES])
{
    size_t room = KVR_GEOMETRY_BYTES - sizeof(CUT), used;

    used = (size_t)snprintf(text, room, "%s %" PRIu32,
                            geometry->dtype[0] != '\0' ? geometry->dtype : "-", geometry->layers);
    for (uint32_t i = 0; i < geometry->group_count; i++) {
        const struct kvr_geometry_group *group = &geometry->groups[i];
        char word[64];
        size_t bytes =
            (size_t)snprintf(word, sizeof(word), " %" PRIu32 ":%" PRIu32 ":%" PRIu32 ":%" PRIu64,
                             group->group, group->layers, group->page_tokens, group->page_bytes);

        if (used + bytes >= room) {
            memcpy(text + used, CUT, sizeof(CUT));
            return;
        }
        memcpy(text + used, word, bytes + 1);
        used += bytes;
    }
}

static bool take_number(const char **text, char after, uint64_t max, uint64_t *ret_number)
{
    const char *at = *text;
    uint64_t number = 0;

    for (; *at >= '0' && *at <= '9'; at++) {
        if (number > (max - (uint64_t)(*at - '0')) / 10)
            return false;
        number = number * 10 + (uint64_t)(*at - '0');
    }
    if (at == *text || (*at != after && !(after == ' ' && *at == '\0')))
        return false;
    *text = *at == '\0' ? at : at + 1;
    *ret_number = number;
    return true;
}

static bool take_group(const char **text, struct kvr_geometry_group *group)
{
    uint64_t number, layers, page_tokens, page_bytes;

    if (!take_number(text, ':', KVR_GROUPS_MAX - 1, &number) ||
        !take_number(text, ':', KVR_LAYERS_MAX, &layers) ||
        !take_number(text, ':', UINT32_MAX, &page_tokens) ||
        !take_number(text, ' ', INT64_MAX, &page_bytes))
        return false;
    *group = (struct kvr_geometry_group){(uint32_t)number, (uint32_t)layers, (uint32_t)page_tokens,
                                         page_bytes};
    return true;
}

bool kvr_geometry_read(const char *text, struct kvr_geometry *ret_geometry)
{
    size_t dtype = strcspn(text, " ");
    uint64_t layers;

    memset(ret_geometry, 0, sizeof(*ret_geometry));
    if (dtype == 0 || dtype >= sizeof(ret_geometry->dtype) || text[dtype] == '\0')
        return false;
    if (dtype != 1 || text[0] != '-')
        memcpy(ret_geometry->dtype, text, dtype);
    text += dtype + 1;
    if (!take_number(&text, ' ', KVR_LAYERS_MAX, &layers))
        return false;
    ret_geometry->layers = (uint32_t)layers;
    while (*text != '\0' && strcmp(text, "...") != 0)
        if (ret_geometry->group_count == KVR_GROUPS_MAX ||
            !take_group(&text, &ret_geometry->groups[ret_geometry->group_count++]))
            return false;
    return true;
}
