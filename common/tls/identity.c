#include "tls/identity.h"

#include <stdio.h>
#include <string.h>

static const char *const role_names[] = {KVR_IDENTITY_ROLE_LIST(KVR_NAME)};

typedef enum part_kind { PART_FLEET, PART_ROLE, PART_NAME, PART_END } part_kind;

static const char *const placeholders[] = {"{fleet}", "{role}", "{name}"};
static const char *const part_names[] = {"fleet", "role", "name"};

const char *kvr_identity_role_name(kvr_identity_role role)
{
    return role < KVR_IDENTITY_ROLE_END ? role_names[role] : "?";
}

/* Which placeholder begins there; PART_END: none. */
static part_kind placeholder_at(const char *pattern)
{
    for (int kind = 0; kind < PART_END; kind++)
        if (strncmp(pattern, placeholders[kind], strlen(placeholders[kind])) == 0)
            return (part_kind)kind;
    return PART_END;
}

kvr_status kvr_identity_pattern_check(const char *pattern, struct kvr_error *error)
{
    unsigned counts[PART_END] = {0};

    for (const char *at = pattern; *at != '\0';) {
        part_kind kind = placeholder_at(at);

        if (kind == PART_END && *at != '{' && *at != '}') {
            at++;
            continue;
        }
        /* A whole part: anything beside it would make it ambiguous. */
        if (kind == PART_END || at == pattern || at[-1] != '/' ||
            (at[strlen(placeholders[kind])] != '\0' && at[strlen(placeholders[kind])] != '/'))
            return kvr_error_set(error, KVR_INVALID, "tls",
                                 "'%s': {fleet}, {role} and {name} each stand for one part between "
                                 "slashes, and no other brace is known",
                                 pattern);
        counts[kind]++;
        at += strlen(placeholders[kind]);
    }
    if (counts[PART_ROLE] != 1 || counts[PART_NAME] != 1 || counts[PART_FLEET] > 1)
        return kvr_error_set(error, KVR_INVALID, "tls",
                             "'%s' must have {role} and {name} once each, and {fleet} at most once",
                             pattern);
    return KVR_OK;
}

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("-._~", c) != NULL);
}

static kvr_status part_take(part_kind kind, const char *text, size_t bytes,
                            char ret_part[KVR_NAME_BYTES], struct kvr_error *error)
{
    if (bytes == 0 || bytes >= KVR_NAME_BYTES)
        return kvr_error_set(error, KVR_INVALID, "tls",
                             "the %s in the certificate has %zu bytes: 1 to %d are allowed",
                             part_names[kind], bytes, KVR_NAME_BYTES - 1);
    for (size_t i = 0; i < bytes; i++)
        if (!is_plain(text[i]))
            return kvr_error_set(error, KVR_INVALID, "tls",
                                 "the %s in the certificate has a byte 0x%02x: letters, digits and "
                                 "-._~ are allowed",
                                 part_names[kind], (unsigned char)text[i]);
    memcpy(ret_part, text, bytes);
    ret_part[bytes] = '\0';
    return KVR_OK;
}

/* Between "://" and the next slash. */
static void authority_of(const char *pattern, char ret_fleet[KVR_NAME_BYTES])
{
    const char *begin = strstr(pattern, "://");

    begin = begin != NULL ? begin + 3 : pattern;
    snprintf(ret_fleet, KVR_NAME_BYTES, "%.*s", (int)strcspn(begin, "/"), begin);
}

kvr_status kvr_identity_parse(const char *pattern, const char *uri, size_t bytes,
                              struct kvr_identity *ret_identity, struct kvr_error *error)
{
    char parts[PART_END][KVR_NAME_BYTES] = {"", "", ""};
    size_t at = 0;
    int role;

    authority_of(pattern, parts[PART_FLEET]); /* unless {fleet} says otherwise */
    if (bytes > KVR_IDENTITY_URI_BYTES)
        return kvr_error_set(error, KVR_NOT_FOUND, "tls", "a URI of %zu bytes", bytes);
    while (*pattern != '\0') {
        part_kind kind = placeholder_at(pattern);
        const char *end;

        if (kind == PART_END) {
            if (at == bytes || uri[at] != *pattern)
                return kvr_error_set(error, KVR_NOT_FOUND, "tls", "a URI of another form");
            at++;
            pattern++;
            continue;
        }
        end = memchr(uri + at, '/', bytes - at);
        if (end == NULL)
            end = uri + bytes;
        KVR_TRY(part_take(kind, uri + at, (size_t)(end - (uri + at)), parts[kind], error));
        at = (size_t)(end - uri);
        pattern += strlen(placeholders[kind]);
    }
    if (at != bytes)
        return kvr_error_set(error, KVR_NOT_FOUND, "tls", "a URI of another form");
    role = kvr_name_find(role_names, KVR_IDENTITY_ROLE_END, parts[PART_ROLE]);
    if (role == KVR_IDENTITY_ROLE_END)
        return kvr_error_set(error, KVR_INVALID, "tls",
                             "the role in the certificate is '%s': prefill, decode, scheduler and "
                             "client are known",
                             parts[PART_ROLE]);
    ret_identity->tenants.count = 0;
    memcpy(ret_identity->fleet, parts[PART_FLEET], KVR_NAME_BYTES);
    memcpy(ret_identity->name, parts[PART_NAME], KVR_NAME_BYTES);
    ret_identity->role = (kvr_identity_role)role;
    return KVR_OK;
}

static bool has_tenant(const struct kvr_identity_tenants *tenants, const char *name, size_t bytes)
{
    for (uint32_t i = 0; i < tenants->count; i++)
        if (strlen(tenants->names[i]) == bytes && memcmp(tenants->names[i], name, bytes) == 0)
            return true;
    return false;
}

kvr_status kvr_identity_tenant_add(struct kvr_identity_tenants *tenants, const char *name,
                                   size_t bytes, struct kvr_error *error)
{
    char text[KVR_NAME_BYTES] = "";

    if (!kvr_plain_name(name, bytes)) {
        for (size_t i = 0; i < bytes && i < sizeof(text) - 1; i++)
            text[i] = name[i] >= ' ' && name[i] <= '~' ? name[i] : '?';
        return kvr_error_set(error, KVR_INVALID, "tls",
                             "the certificate's subject has the organizational unit '%s', which "
                             "names a tenant: it must have " KVR_PLAIN_NAME_FORM,
                             text);
    }
    if (has_tenant(tenants, name, bytes))
        return KVR_OK;
    if (tenants->count == KVR_TENANTS_MAX)
        return kvr_error_set(error, KVR_INVALID, "tls",
                             "the certificate's subject has more than %d organizational units, "
                             "which name its tenants",
                             KVR_TENANTS_MAX);
    memset(tenants->names[tenants->count], 0, KVR_NAME_BYTES);
    memcpy(tenants->names[tenants->count++], name, bytes);
    return KVR_OK;
}

bool kvr_identity_serves(const struct kvr_identity *identity, const char *tenant)
{
    if (identity->tenants.count == 0)
        return strcmp(tenant, KVR_TENANT_DEFAULT) == 0;
    return has_tenant(&identity->tenants, tenant, strlen(tenant));
}

bool kvr_identity_same(const struct kvr_identity *a, const struct kvr_identity *b)
{
    return a->role == b->role && strcmp(a->fleet, b->fleet) == 0 && strcmp(a->name, b->name) == 0;
}
