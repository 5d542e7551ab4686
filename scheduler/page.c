#include "scheduler/page.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "scheduler/embedded.h"

#define FILE_BYTES_MAX ((size_t)4 << 20)
#define HASH_DIGITS    8 /* "/app-0A1B2C3D.js": as the bundler writes them, of the file's contents */

static bool read_file(const char *web_root, const char *name, struct page *page)
{
    char path[PATH_MAX];
    FILE *file;
    char *bytes;

    if (snprintf(path, sizeof(path), "%s/%s", web_root, name) >= (int)sizeof(path))
        return false;
    file = fopen(path, "rbe");
    if (file == NULL)
        return false;
    bytes = malloc(FILE_BYTES_MAX);
    if (bytes != NULL)
        page->size = fread(bytes, 1, FILE_BYTES_MAX, file);
    fclose(file);
    page->begin = bytes;
    page->owned = true;
    return bytes != NULL;
}

static bool has_hash(const char *path)
{
    static const char begin[] = "/app-";
    size_t digits;

    if (strncmp(path, begin, strlen(begin)) != 0)
        return false;
    path += strlen(begin);
    digits = strspn(path, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    path += digits;
    return digits == HASH_DIGITS && (strcmp(path, ".js") == 0 || strcmp(path, ".css") == 0);
}

static const char *type_of(const char *path)
{
    const char *dot = strrchr(path, '.');

    if (dot == NULL)
        return "text/html; charset=utf-8";
    return strcmp(dot, ".js") == 0    ? "text/javascript; charset=utf-8"
           : strcmp(dot, ".css") == 0 ? "text/css; charset=utf-8"
                                      : "text/plain; charset=utf-8";
}

bool page_is(const char *path)
{
    return strcmp(path, "/") == 0 || strcmp(path, "/LICENSES.txt") == 0 || has_hash(path);
}

static bool find(const char *path, struct page *page)
{
    for (size_t i = 0; i < embedded_page_count; i++) {
        const struct embedded_file *file = &embedded_pages[i];

        if (strcmp(file->name, path) != 0)
            continue;
        page->begin = file->begin;
        page->size = (size_t)(file->end - file->begin);
        return true;
    }
    return false;
}

bool page_get(const char *web_root, const char *path, struct page *ret_page)
{
    struct page page = {.type = type_of(path), .kept_for_ever = has_hash(path)};

    if (!page_is(path) ||
        !(web_root != NULL ? read_file(web_root, path[1] == '\0' ? "index.html" : path + 1, &page)
                           : find(path, &page)))
        return false;
    snprintf(page.etag, sizeof(page.etag), "\"%016llx\"",
             (unsigned long long)XXH64(page.begin, page.size, 0));
    *ret_page = page;
    return true;
}

void page_done(struct page *page)
{
    if (page->owned)
        free((char *)page->begin);
}
