#include "fabric/device_path.h"

#include <stdio.h>

const char *kvr_path_why_text(kvr_path_why why)
{
    static const char *const texts[KVR_WHY_END] = {KVR_PATH_WHY_LIST(KVR_NAME)};

    return texts[why];
}

/* Limits of the card come first: no other region would change them. */
static kvr_path_why against_dmabuf(const struct kvr_rail_device_facts *rail,
                                   const struct kvr_path_form *form)
{
    if (rail->dmabuf != KVR_WHY_NOTHING)
        return rail->dmabuf;
    if (!form->dmabuf)
        return KVR_WHY_NO_DMABUF;
    if (form->hashed)
        return KVR_WHY_DIGEST;
    return form->refused_dmabuf ? KVR_WHY_REFUSED : KVR_WHY_NOTHING;
}

static kvr_path_why against_hmem(const struct kvr_rail_device_facts *rail,
                                 const struct kvr_path_form *form)
{
    if (rail->hmem != KVR_WHY_NOTHING)
        return rail->hmem;
    if (!form->address)
        return KVR_WHY_NO_ADDRESS;
    if (form->hashed)
        return KVR_WHY_DIGEST;
    return form->refused_hmem ? KVR_WHY_REFUSED : KVR_WHY_NOTHING;
}

static kvr_path_why against_local(bool same_host, bool direct_copy,
                                  const struct kvr_path_form *form)
{
    if (!direct_copy)
        return same_host ? KVR_WHY_HOST_ONLY : KVR_WHY_NETWORK;
    if (!form->copies)
        return KVR_WHY_NO_COPIES;
    return form->hashed ? KVR_WHY_DIGEST : KVR_WHY_NOTHING;
}

void kvr_path_choose(const struct kvr_rail_device_facts *rail, bool same_host, bool direct_copy,
                     const struct kvr_path_form *form, struct kvr_path_choice *ret_choice)
{
    static const kvr_path order[] = {KVR_PATH_DMABUF, KVR_PATH_HMEM, KVR_PATH_LOCAL,
                                     KVR_PATH_STAGED};
    struct kvr_path_choice choice = {.path = KVR_PATH_NONE};

    choice.why[KVR_PATH_DMABUF] = against_dmabuf(rail, form);
    choice.why[KVR_PATH_HMEM] = against_hmem(rail, form);
    choice.why[KVR_PATH_LOCAL] = against_local(same_host, direct_copy, form);
    choice.why[KVR_PATH_STAGED] = form->copies ? KVR_WHY_NOTHING : KVR_WHY_NO_COPIES;
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        kvr_path_why *why = &choice.why[order[i]];

        if (*why != KVR_WHY_NOTHING)
            continue;
        if (choice.path == KVR_PATH_NONE)
            choice.path = order[i];
        else
            *why = KVR_WHY_BETTER;
    }
    *ret_choice = choice;
}

void kvr_path_reasons(const struct kvr_path_choice *choice, char *text, size_t capacity)
{
    kvr_path_why dmabuf = choice->why[KVR_PATH_DMABUF], hmem = choice->why[KVR_PATH_HMEM];

    text[0] = '\0';
    if (kvr_path_direct(choice->path))
        return;
    if (dmabuf == hmem)
        snprintf(text, capacity, "dmabuf, hmem: %s", kvr_path_why_text(dmabuf));
    else
        snprintf(text, capacity, "dmabuf: %s; hmem: %s", kvr_path_why_text(dmabuf),
                 kvr_path_why_text(hmem));
}
