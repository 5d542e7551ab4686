#include "tools/replay/replay_explain.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define REQUESTS_NEAR 200u /* before and after: their pages may have met this one's */

/* Where a word would be right. */
struct place {
    uint32_t request, layer, part;
    uint64_t token;
};

const char *replay_part_name(uint32_t part)
{
    static const char *const names[] = {"?", "K", "V", "KV", "MLA", "STATE"};

    return part < sizeof(names) / sizeof(names[0]) ? names[part] : names[0];
}

/* One page of one layer of a request: the token in it at which the word would be right. */
static bool search_page(const struct replay_setup *setup, uint32_t request, uint32_t layer,
                        uint32_t page, const struct content_wrong *wrong, struct place *ret_place)
{
    const struct replay_group *group = replay_group(setup, layer);
    uint32_t tokens = replay_request(setup, request)->input_tokens;

    for (uint32_t i = 0; i < group->part_count; i++) {
        uint32_t part = replay_part(setup, layer, i);
        struct content content = replay_content(setup, request, tokens, layer, part, page);
        uint64_t token = content.token_first + wrong->token % group->page_tokens;

        if (group->kind == MODEL_STATE)
            token = content.token_first;
        if (content_word(content.key, token, wrong->word) != wrong->found)
            continue;
        *ret_place = (struct place){request, layer, part, token};
        return true;
    }
    return false;
}

/* The same word of the same token of a page, in any page, layer and part of one request: what a
 * mistake of addresses or page tables brings. */
static bool search_request(const struct replay_setup *setup, uint32_t request,
                           const struct content_wrong *wrong, struct place *ret_place)
{
    uint32_t tokens = replay_request(setup, request)->input_tokens;

    for (uint32_t layer = 0; layer < setup->geometry.layers; layer++) {
        const struct replay_group *group = replay_group(setup, layer);

        for (uint32_t page = replay_first_page(setup, group, tokens);
             page < replay_pages(group, tokens); page++)
            if (search_page(setup, request, layer, page, wrong, ret_place))
                return true;
    }
    return false;
}

/* Of any page of the group. */
static bool is_mark(const struct replay_setup *setup, uint32_t layer,
                    const struct content_wrong *wrong)
{
    const struct replay_group *group = replay_group(setup, layer);
    bool state = group->kind == MODEL_STATE;
    uint64_t token_bytes = state ? group->plane_bytes : group->plane_bytes / group->page_tokens;
    uint64_t offset = wrong->word * sizeof(uint64_t);

    if (!state)
        offset += wrong->token % group->page_tokens * token_bytes;
    if (offset % CONTENT_MARK_BYTES != 0)
        return false;
    for (uint32_t id = 0; id < group->page_count; id++)
        for (uint32_t part = 0; part < group->part_count; part++)
            if (content_mark_word(id, layer, part, offset) == wrong->found)
                return true;
    return false;
}

static void describe_found(const struct replay_setup *setup, uint32_t request, uint32_t layer,
                           uint32_t part, const struct content_wrong *wrong, char *text,
                           size_t text_bytes)
{
    uint32_t first = request > REQUESTS_NEAR ? request - REQUESTS_NEAR : 0;
    struct place place;
    bool known;

    if (wrong->found == 0) {
        snprintf(text, text_bytes, "memory that was never written");
        return;
    }
    known = search_request(setup, request, wrong, &place);
    for (uint32_t i = first;
         i < setup->trace.request_count && i <= request + REQUESTS_NEAR && !known; i++)
        known = search_request(setup, i, wrong, &place);
    if (!known) {
        snprintf(text, text_bytes, "%s",
                 is_mark(setup, layer, wrong)
                     ? "the mark of a free page: nothing was written there"
                     : "nothing that any request has at this place of a page");
        return;
    }
    if (place.request != request)
        snprintf(text, text_bytes, "right for request %u, layer %u, part %s, token %" PRIu64,
                 place.request, place.layer, replay_part_name(place.part), place.token);
    else if (place.layer != layer || place.part != part)
        snprintf(text, text_bytes, "right for layer %u, part %s, token %" PRIu64, place.layer,
                 replay_part_name(place.part), place.token);
    else
        snprintf(text, text_bytes, "right for token %" PRIu64, place.token);
}

void replay_explain(const struct replay_setup *setup, uint32_t request, uint32_t page,
                    uint32_t layer, uint32_t part, const struct content_wrong *wrong, char *text,
                    size_t text_bytes)
{
    char name[REPLAY_REQUEST_BYTES], found[160];

    describe_found(setup, request, layer, part, wrong, found, sizeof(found));
    snprintf(text, text_bytes,
             "request %u (%s), layer %u, part %s, token %" PRIu64 " (page %u of it), word %u: "
             "expected 0x%016" PRIx64 ", found 0x%016" PRIx64 ": %s",
             request, replay_request_name(setup, request, name), layer, replay_part_name(part),
             wrong->token, page, wrong->word, wrong->expected, wrong->found, found);
}
